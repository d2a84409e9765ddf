//! Kernel functions by the kernel's own tracers: `function_graph` (entries and exits), else `function` (entries).
//!
//! Limited to the selected processes, read as raw pages, in a [`TracerPlace`] to itself.

mod decode;
mod error;
mod page;
mod place;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::layout::CallEvent;
use super::plan::KernelSelection;
use crate::event::tracefs;
use crate::machine::proc;
use crate::sys::mem;
use decode::FtraceDecoder;
pub use decode::start_of;
use dso::system_file;
pub use error::FtraceError;
pub use page::parse_page;
use place::TracerPlace;

/// The tracer that reports entries only.
pub const FUNCTION: &str = "function";
/// The tracer that reports entries and exits.
pub const FUNCTION_GRAPH: &str = "function_graph";
/// Ring of each CPU.
const RING_KIB: &str = "8192";

/// A running tracer.
pub struct FunctionGraph {
    place: TracerPlace,
    pipes: Vec<File>,
    decoder: FtraceDecoder,
    page: Vec<u8>,
}

impl FunctionGraph {
    /// Starts the tracer for these processes and what they fork.
    ///
    /// # Errors
    /// If the kernel lacks or refuses something.
    pub fn start(
        tracer: &'static str,
        pids: &[u32],
        selection: &KernelSelection,
    ) -> Result<Self, FtraceError> {
        let root = tracefs();
        let offered =
            system_file::read_text(root.join("available_tracers")).map_err(FtraceError::of_file(&root))?;
        if !offered.split_whitespace().any(|name| name == tracer) {
            return Err(FtraceError::NoTracer(tracer));
        }
        place::remove_stale(&root);
        if tracer == FUNCTION {
            return Self::at(TracerPlace::instance(&root)?, &root, tracer, selection)?
                .begin(tracer, pids, selection);
        }
        // Only the top level has filters for functions with their callees and for the depth.
        let busy = match TracerPlace::top_level(&root) {
            Ok(top) => return Self::at(top, &root, tracer, selection)?.begin(tracer, pids, selection),
            Err(busy) => busy,
        };
        if selection.functions.is_empty() {
            return Err(busy);
        }
        let alone =
            Self::at(TracerPlace::instance(&root)?, &root, tracer, selection)?.begin(tracer, pids, selection);
        alone.map_err(|instance| FtraceError::Everywhere {
            top_level: Box::new(busy),
            instance: Box::new(instance),
        })
    }

    fn at(
        place: TracerPlace,
        root: &Path,
        tracer: &str,
        selection: &KernelSelection,
    ) -> Result<Self, FtraceError> {
        let decoder = FtraceDecoder::new(&root.join("events/ftrace"), tracer, selection)?;
        Ok(Self { place, pipes: Vec::new(), decoder, page: vec![0; mem::page_bytes()] })
    }

    fn begin(mut self, tracer: &str, pids: &[u32], selection: &KernelSelection) -> Result<Self, FtraceError> {
        let write = |file: &str, text: &str| self.place.write(file, text);
        write("tracing_on", "0")?;
        write("trace_clock", "mono")?;
        write("buffer_size_kb", RING_KIB)?;
        // The file is about threads.
        let tids = pids.iter().flat_map(|pid| proc::threads(*pid).unwrap_or_else(|| vec![*pid]));
        write("set_ftrace_pid", &tids.map(|tid| tid.to_string()).collect::<Vec<_>>().join(" "))?;
        // Not on every kernel: then what is forked is not traced in the kernel.
        let _ = write("options/function-fork", "1");
        let names =
            selection.functions.iter().map(|function| function.name.as_str()).collect::<Vec<_>>().join(" ");
        if self.place.is_top_level() {
            write("set_graph_function", &names)?;
            write("max_graph_depth", &selection.depth.to_string())?;
        } else {
            // Without a filter every kernel function would be traced.
            write("set_ftrace_filter", &names)?;
        }
        // Before the pipes are opened: a tracer that is read can't be changed (EBUSY).
        write("current_tracer", tracer)?;
        for cpu in proc::online_cpus() {
            let path = self.place.dir().join(format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
            let pipe = system_file::open_without_waiting(&path);
            self.pipes.push(pipe.map_err(FtraceError::of_file(&path))?);
        }
        write("tracing_on", "1")?;
        Ok(self)
    }

    /// Hands out what waits, each CPU's in its order. A thread's process is not known here: it is 0.
    pub fn poll(&mut self, sink: &mut dyn FnMut(CallEvent)) {
        for pipe in &mut self.pipes {
            // Reading an empty pipe fails with EAGAIN.
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
        // If that fails, giving the place back stops it.
        let _ = self.place.write("tracing_on", "0");
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

impl Drop for FunctionGraph {
    fn drop(&mut self) {
        // Before the place is given back: its tracer can't be changed while somebody reads.
        self.pipes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Removed at the end of the test, however it ends.
    struct TestInstance(std::path::PathBuf);

    impl Drop for TestInstance {
        fn drop(&mut self) {
            let _ = fs::remove_dir(&self.0);
        }
    }

    /// The kernel's own count of what its ring holds is the oracle: of any event, function or not.
    #[test]
    fn a_page_of_this_kernel_holds_as_many_events_as_the_kernel_says() {
        let dir = tracefs().join("instances").join(format!("tally-test-{}", std::process::id()));
        if let Err(error) = fs::create_dir(&dir) {
            println!("skipped: no trace instance here: {error}");
            return;
        }
        let _removed_also_after_failure = TestInstance(dir.clone());
        let write = |file: &str, text: &str| fs::write(dir.join(file), text).expect("we made it");
        write("trace_clock", "mono");
        write("events/sched/sched_switch/enable", "1");
        std::thread::sleep(std::time::Duration::from_millis(200));
        write("tracing_on", "0");
        let (mut counted, mut read, mut times) = (0u64, 0u64, Vec::new());
        let mut page = vec![0; mem::page_bytes()];
        for cpu in proc::online_cpus() {
            let cpu = dir.join(format!("per_cpu/cpu{cpu}"));
            let stats = fs::read_to_string(cpu.join("stats")).expect("it is there");
            let entries = stats.lines().find_map(|line| line.strip_prefix("entries: ")).expect("a count");
            counted += entries.trim().parse::<u64>().expect("a number");
            let pipe = system_file::open_without_waiting(cpu.join("trace_pipe_raw"));
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
        assert_eq!(read, counted);
        assert!(
            counted > 10 && times.iter().all(|last| *last < now && now - last < 60_000_000_000),
            "{times:?}"
        );
    }
}
