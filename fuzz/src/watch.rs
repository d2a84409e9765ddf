//! Checks of every input: no panic, bounded memory, bounded time.
//!
//! The current input is written to a file before it runs, so that it is there even when the process is killed.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::memory;

/// CPU time limit of one input; the slowest valid inputs take a tenth of it.
const CPU_LIMIT: Duration = Duration::from_secs(20);
/// Time without a runnable thread after which an input counts as hanging. Runnable threads may wait long on a busy
/// machine, so waiting for a CPU doesn't count.
const IDLE_LIMIT: Duration = Duration::from_secs(180);
/// Memory limit of one input: this, and [`BYTES_PER_BYTE`] for each of its bytes.
const MEMORY_LIMIT: usize = 300 << 20;
const BYTES_PER_BYTE: usize = 20;

/// The current input.
struct InWork {
    bytes: usize,
    memory_before: usize,
    cpu_before: Duration,
    /// Time at which a thread was last seen runnable.
    last_runnable: Instant,
}

/// Watches one process's inputs.
#[derive(Clone)]
pub struct Watch {
    now: Arc<Mutex<Option<InWork>>>,
    input: Arc<File>,
    /// Reason for the end of the process, for the process that started it.
    why: PathBuf,
    /// A thread panicked. That is a fault even if the panic is caught.
    panicked: Arc<AtomicBool>,
}

impl Watch {
    /// Keeps the current input in `keep/NAME.input`, and writes its fault to `keep/NAME.why`.
    ///
    /// # Errors
    /// If the files can't be written.
    pub fn start(name: &str, keep: &Path) -> std::io::Result<Self> {
        let why = keep.join(format!("{name}.why"));
        let _ = std::fs::remove_file(&why);
        let input = Arc::new(File::create(keep.join(format!("{name}.input")))?);
        let watch = Self { now: Arc::default(), input, why, panicked: Arc::default() };
        watch.keep_panics();
        let own = watch.clone();
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(Duration::from_millis(50));
                own.check();
            }
        });
        Ok(watch)
    }

    /// Runs `call` on `input`, within the bounds.
    pub fn run(&self, call: fn(&[u8]), input: &[u8]) {
        // An input that can't be kept can still be run.
        let _ = self.input.set_len(input.len() as u64).and_then(|()| self.input.write_all_at(input, 0));
        *self.lock() = Some(InWork {
            bytes: input.len(),
            memory_before: memory::start(),
            cpu_before: cpu_time(),
            last_runnable: Instant::now(),
        });
        call(input);
        self.check();
        if self.panicked.load(Ordering::Relaxed) {
            std::process::exit(1);
        }
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<InWork>> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the process if the current input has taken too much.
    fn check(&self) {
        let mut now = self.lock();
        let Some(input) = now.as_mut() else { return };
        let took = memory::peak().saturating_sub(input.memory_before);
        let allowed = MEMORY_LIMIT + BYTES_PER_BYTE * input.bytes;
        let cpu = cpu_time().saturating_sub(input.cpu_before);
        if input.last_runnable.elapsed() > Duration::from_secs(1) && is_any_runnable() {
            input.last_runnable = Instant::now();
        }
        if took > allowed {
            self.end(&format!("memory: {} MB for {} bytes of input", took >> 20, input.bytes));
        }
        if cpu > CPU_LIMIT {
            self.end(&format!("slow: more than {} s of CPU time", CPU_LIMIT.as_secs()));
        }
        if input.last_runnable.elapsed() > IDLE_LIMIT {
            self.end(&format!("hangs: no thread was runnable for {} s", IDLE_LIMIT.as_secs()));
        }
    }

    fn end(&self, why: &str) -> ! {
        // Without the file, the exit status still shows the fault.
        let _ = std::fs::write(&self.why, why);
        eprintln!("{why}");
        std::process::exit(1);
    }

    /// Writes the location of a panic before anything else that follows it.
    fn keep_panics(&self) {
        let (why, panicked) = (self.why.clone(), Arc::clone(&self.panicked));
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let place = info.location().map(ToString::to_string).unwrap_or_default();
            let payload = info.payload();
            let text = payload.downcast_ref::<&str>().copied();
            let text =
                text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
            let trace = std::backtrace::Backtrace::force_capture();
            // The first panic causes the later ones.
            if !panicked.swap(true, Ordering::Relaxed) {
                let _ = std::fs::write(&why, format!("panic: {place}\n{text}\n{trace}"));
            }
            usual(info);
        }));
    }
}

/// CPU time of all threads of this process.
fn cpu_time() -> Duration {
    // The sum of two fields in ticks of 10 ms. They follow a name that may contain anything but ends at the last `)`.
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(10 * ticks)
}

/// Whether a thread other than the caller has something to do, on the CPU or waiting for it.
fn is_any_runnable() -> bool {
    let own = std::fs::read_link("/proc/thread-self").unwrap_or_default();
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    threads.filter(|thread| Some(thread.file_name().as_os_str()) != own.file_name()).any(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // The state follows a name that may contain anything but ends at the last `)`.
        stat.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with(['R', 'D']))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_works_is_runnable() {
        let stop = Arc::new(AtomicBool::new(false));
        let worker = std::thread::spawn({
            let stop = Arc::clone(&stop);
            move || while !stop.load(Ordering::Relaxed) {}
        });
        // Waits until the thread has started, which may take long on a busy machine.
        while !is_any_runnable() {}
        stop.store(true, Ordering::Relaxed);
        worker.join().expect("it only counts");
    }
}
