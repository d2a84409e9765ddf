//! Kernel functions by the kernel's own tracers: `function_graph` (entries and exits), else `function` (entries).
//!
//! A trace instance of ours, limited to the processes meant, read as raw pages. It goes when we end; one whose tally
//! was killed is removed by the next.

mod decode;
mod page;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::layout::CallEvent;
use super::plan::KernelWish;
use crate::event::tracefs;
use crate::sys::mem;
use decode::Decoder;
pub use page::parse_page;

/// Instances are named so, with the process id behind.
const PREFIX: &str = "tally-calls-";
/// Ring of each CPU.
const RING_KIB: &str = "8192";

/// A running tracer.
pub struct Graph {
    dir: PathBuf,
    pipes: Vec<File>,
    decoder: Decoder,
    page: Vec<u8>,
}

impl Graph {
    /// Starts the tracer for these processes and what they fork.
    ///
    /// # Errors
    /// What the kernel lacks or refuses, in words.
    pub fn start(tracer: &'static str, pids: &[u32], wish: &KernelWish) -> Result<Self, String> {
        let root = tracefs();
        let offered = fs::read_to_string(root.join("available_tracers")).map_err(|e| said(&root, &e))?;
        if !offered.split_whitespace().any(|name| name == tracer) {
            return Err(format!("no {tracer} tracer"));
        }
        remove_stale(&root.join("instances"));
        let dir = root.join("instances").join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&dir).or_else(already_there).map_err(|error| said(&dir, &error))?;
        let decoder = Decoder::new(&root.join("events/ftrace"), tracer, wish)?;
        let mut graph = Self { dir, pipes: Vec::new(), decoder, page: vec![0; mem::page_bytes()] };
        graph.set_up(tracer, pids, wish)?;
        Ok(graph)
    }

    fn set_up(&mut self, tracer: &str, pids: &[u32], wish: &KernelWish) -> Result<(), String> {
        self.write("tracing_on", "0")?;
        self.write("trace_clock", "mono")?;
        self.write("buffer_size_kb", RING_KIB)?;
        self.write("set_ftrace_pid", &pids.iter().map(u32::to_string).collect::<Vec<_>>().join(" "))?;
        // Not on every kernel: then what is forked is not traced in the kernel.
        let _ = self.write("options/function-fork", "1");
        let names =
            wish.functions.iter().map(|function| function.name.as_str()).collect::<Vec<_>>().join(" ");
        let depth = wish.depth.to_string();
        if tracer == "function" {
            // Without a filter every function of the kernel would be told, one by one.
            self.write("set_ftrace_filter", &names)?;
        } else {
            // Where an instance has no such files, the decoder leaves out what is not meant.
            let _ = self.write("set_graph_function", &names);
            let _ = self.write("max_graph_depth", &depth);
        }
        for cpu in crate::proc::online_cpus() {
            let path = self.dir.join(format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
            let pipe = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path);
            self.pipes.push(pipe.map_err(|error| said(&path, &error))?);
        }
        self.write("current_tracer", tracer)?;
        self.write("tracing_on", "1")
    }

    fn write(&self, file: &str, text: &str) -> Result<(), String> {
        let path = self.dir.join(file);
        fs::write(&path, text).map_err(|error| said(&path, &error))
    }

    /// Hands out what waits, each CPU's in its order. A thread's process is not known here: it is 0.
    pub fn poll(&mut self, sink: &mut dyn FnMut(CallEvent)) {
        for pipe in &mut self.pipes {
            // An empty pipe says EAGAIN.
            while let Ok(bytes) = pipe.read(&mut self.page) {
                if bytes == 0 {
                    break;
                }
                self.decoder.take_page(&self.page[..bytes], sink);
            }
        }
    }

    /// Stops the tracer; what waits can still be read.
    pub fn stop(&mut self) {
        // If that fails, removing the instance stops it.
        let _ = self.write("tracing_on", "0");
        let _ = self.write("current_tracer", "nop");
    }

    /// Addresses of the functions, by the numbers that events bear.
    #[must_use]
    pub fn functions(&self) -> &[u64] {
        self.decoder.functions()
    }

    /// Events lost because the ring was full, and pages that could not be read.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.decoder.lost
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        self.stop();
        self.pipes.clear();
        // A reader elsewhere may hold it; then the next tally removes it.
        let _ = fs::remove_dir(&self.dir);
    }
}

fn already_there(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::AlreadyExists { Ok(()) } else { Err(error) }
}

/// Removes instances of tallies that are gone.
fn remove_stale(instances: &Path) {
    for entry in fs::read_dir(instances).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(pid) = name.strip_prefix(PREFIX) else { continue };
        if !Path::new("/proc").join(pid).exists() {
            // Its tracer is stopped first: an instance in use can't be removed.
            let _ = fs::write(entry.path().join("current_tracer"), "nop");
            let _ = fs::remove_dir(entry.path());
        }
    }
}

fn said(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's own count of what its ring holds is the oracle: of any event, function or not.
    #[test]
    fn a_page_of_this_kernel_holds_as_many_events_as_the_kernel_says() {
        let dir = tracefs().join("instances").join(format!("tally-test-{}", std::process::id()));
        if let Err(error) = fs::create_dir(&dir) {
            println!("skipped: no trace instance here: {error}");
            return;
        }
        let write = |file: &str, text: &str| fs::write(dir.join(file), text).expect("we made it");
        write("trace_clock", "mono");
        write("events/sched/sched_switch/enable", "1");
        std::thread::sleep(std::time::Duration::from_millis(200));
        write("tracing_on", "0");
        let (mut counted, mut read, mut times) = (0u64, 0u64, Vec::new());
        let mut page = vec![0; mem::page_bytes()];
        for cpu in crate::proc::online_cpus() {
            let cpu = dir.join(format!("per_cpu/cpu{cpu}"));
            let stats = fs::read_to_string(cpu.join("stats")).expect("it is there");
            let entries = stats.lines().find_map(|line| line.strip_prefix("entries: ")).expect("a count");
            counted += entries.trim().parse::<u64>().expect("a number");
            let pipe =
                OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(cpu.join("trace_pipe_raw"));
            let mut pipe = pipe.expect("it is there");
            let mut last = 0;
            while let Ok(bytes) = pipe.read(&mut page)
                && bytes > 0
            {
                let lost = parse_page(&page[..bytes], &mut |time, _| {
                    assert!(time >= last, "{time} after {last}");
                    last = time;
                    read += 1;
                });
                assert_eq!(lost, Ok(0));
            }
            times.push(last);
        }
        let now = crate::sys::time::Clock::Monotonic.now_ns();
        fs::remove_dir(&dir).expect("nobody else uses it");
        assert_eq!(read, counted);
        assert!(
            counted > 10 && times.iter().all(|last| *last < now && now - last < 60_000_000_000),
            "{times:?}"
        );
    }
}
