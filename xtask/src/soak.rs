//! Records the whole machine for a long time: the recorder's memory and descriptors must not grow.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::cargo::cargo;
use crate::repo::Repo;
use crate::score::{Score, skip};
use crate::{leftovers, process};

/// After this time the recorder has reached its normal size.
const SETTLED: Duration = Duration::from_secs(60);
/// Allowed growth of its own memory. Ten minutes of this load add about three megabytes; the rest is for stacks that
/// wait to be unwound while other programs use the machine.
const MORE_MEMORY_KIB: u64 = 32 << 10;
/// Allowed growth in descriptors beyond the growth in processes, because it reads the memory of running processes.
const MORE_DESCRIPTORS: u64 = 16;
const BUILD_LIMIT: Duration = Duration::from_secs(40 * 60);
/// Time limit of the end, because a long recording reads build-ids then.
const END_LIMIT: Duration = Duration::from_secs(120);

/// Recorded programs: one that computes, two that start processes all the time, one that waits and is woken.
const LOADS: &[&str] = &[
    "while :; do :; done",
    "while :; do /bin/true; done",
    "while :; do (:) | (:) & wait; sleep 0.01; done",
    "while :; do sleep 0.001; done",
];

/// The recorder's resources at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Footprint {
    /// Resident memory, including object files of recorded programs, which the kernel can drop.
    resident_kib: u64,
    /// Anonymous memory.
    memory_kib: u64,
    descriptors: u64,
    /// Processes of the whole machine.
    processes: u64,
}

impl Footprint {
    /// Reads the footprint of a process; `None` if it has ended.
    fn of_process(pid: u32) -> Option<Self> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let kib = |name: &str| -> Option<u64> {
            let value = status.lines().find_map(|line| line.strip_prefix(name))?;
            value.trim().strip_suffix(" kB")?.parse().ok()
        };
        let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count() as u64;
        let is_process = |name: &std::ffi::OsStr| name.as_encoded_bytes().iter().all(u8::is_ascii_digit);
        let listed = std::fs::read_dir("/proc").ok()?.flatten();
        let processes = listed.filter(|entry| is_process(&entry.file_name())).count() as u64;
        Some(Self { resident_kib: kib("VmRSS:")?, memory_kib: kib("RssAnon:")?, descriptors, processes })
    }

    fn max(self, other: Self) -> Self {
        Self {
            resident_kib: self.resident_kib.max(other.resident_kib),
            memory_kib: self.memory_kib.max(other.memory_kib),
            descriptors: self.descriptors.max(other.descriptors),
            processes: self.processes.max(other.processes),
        }
    }
}

/// Maxima of the first minute, and of the time after it.
#[derive(Debug, Default)]
struct Growth {
    settled: Footprint,
    later: Footprint,
}

impl Growth {
    fn add(&mut self, after: Duration, now: Footprint) {
        let part = if after < SETTLED { &mut self.settled } else { &mut self.later };
        *part = part.max(now);
    }

    fn more_memory_kib(&self) -> u64 {
        self.later.memory_kib.saturating_sub(self.settled.memory_kib)
    }

    fn more_descriptors(&self) -> u64 {
        let processes = self.later.processes.saturating_sub(self.settled.processes);
        self.later.descriptors.saturating_sub(self.settled.descriptors + processes)
    }

    fn is_flat(&self) -> bool {
        self.more_memory_kib() <= MORE_MEMORY_KIB && self.more_descriptors() <= MORE_DESCRIPTORS
    }
}

/// Runs `[--minutes N]`, ten without it.
pub fn run(repo: &Repo, args: &[String]) -> Result<Score> {
    let minutes: f64 = match args {
        [] => 10.0,
        [flag, number] if flag == "--minutes" => {
            number.parse().with_context(|| format!("not a number of minutes: {number}"))?
        }
        _ => bail!("cargo xtask soak [--minutes N]"),
    };
    let duration = Duration::try_from_secs_f64(minutes * 60.0).context("not a time to record for")?;
    if duration <= SETTLED {
        bail!("soak compares with the first minute: record for longer");
    }
    if !process::is_root() {
        return Ok(skip("soak", "only root may record the whole machine"));
    }
    if !process::passed_on(&mut cargo(repo, &["build", "--quiet", "-p", "tally"]), BUILD_LIMIT)? {
        bail!("tally does not build");
    }
    let folder = repo.target().join("soak");
    std::fs::create_dir_all(&folder)?;
    leftovers::note_interrupts();
    let score = record_under_load(&repo.target().join("debug/tally"), &folder, duration);
    // The recording takes some hundred megabytes.
    let _ = std::fs::remove_dir_all(&folder);
    score
}

fn record_under_load(tally: &Path, folder: &Path, duration: Duration) -> Result<Score> {
    let loads = start_loads();
    let (recording, log) = (folder.join("perf.data"), folder.join("log"));
    let mut recorder = Command::new(tally)
        .args(["record", "-a", "--off-cpu", "--no-buildid-cache", "-o"])
        .arg(&recording)
        .stdin(Stdio::null())
        .stdout(File::create(&log)?)
        .stderr(File::options().append(true).open(&log)?)
        .spawn()
        .context("cannot start tally")?;
    let growth = watch(&mut recorder, &recording, duration);
    let ended = end(&mut recorder);
    end_loads(loads?);
    leftovers::end_all();
    let said = std::fs::read_to_string(&log).unwrap_or_default();
    print!("{}", said.lines().map(|line| format!("  tally: {line}\n")).collect::<String>());
    let (growth, ended) = (growth?, ended?);
    Ok(verdict(&growth, ended, &recording))
}

/// Starts programs that keep the machine busy.
pub fn start_loads() -> Result<Vec<Child>> {
    let start_load = |load: &&str| Command::new("sh").args(["-c", load]).stdin(Stdio::null()).spawn();
    LOADS.iter().map(start_load).collect::<std::io::Result<Vec<Child>>>().context("cannot start sh")
}

/// Ends them; their children end with them or with this process.
pub fn end_loads(loads: Vec<Child>) {
    for mut load in loads {
        let _ = load.kill();
        let _ = load.wait();
    }
}

/// Samples the recorder every second and prints a line a minute.
fn watch(recorder: &mut Child, recording: &PathBuf, duration: Duration) -> Result<Growth> {
    let (start, mut growth, mut next) = (Instant::now(), Growth::default(), Duration::ZERO);
    while start.elapsed() < duration && !leftovers::is_interrupted() {
        if let Some(status) = recorder.try_wait()? {
            bail!("tally ended after {} s: {status}", start.elapsed().as_secs());
        }
        let after = start.elapsed();
        if let Some(now) = Footprint::of_process(recorder.id()) {
            growth.add(after, now);
            if after >= next {
                next += Duration::from_secs(60);
                let megabytes = std::fs::metadata(recording).map_or(0, |meta| meta.len() >> 20);
                let Footprint { resident_kib, memory_kib, descriptors, processes } = now;
                println!(
                    "{:>5} s  {memory_kib:>8} KiB of {resident_kib:>8} resident  {descriptors:>4} descriptors  \
                     {processes:>4} processes  {megabytes:>5} MiB written",
                    after.as_secs()
                );
            }
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    Ok(growth)
}

/// Ends the recorder as Ctrl-C does. True if it succeeded.
fn end(recorder: &mut Child) -> Result<bool> {
    if recorder.try_wait()?.is_some() {
        return Ok(false);
    }
    Command::new("kill").args(["-INT", &recorder.id().to_string()]).status()?;
    let start = Instant::now();
    while start.elapsed() < END_LIMIT {
        if let Some(status) = recorder.try_wait()? {
            return Ok(status.success());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    recorder.kill()?;
    recorder.wait()?;
    Ok(false)
}

fn verdict(growth: &Growth, ended: bool, recording: &Path) -> Score {
    let Growth { settled, later } = growth;
    for (name, part) in [("first minute", settled), ("afterwards", later)] {
        let Footprint { resident_kib, memory_kib, descriptors, processes } = part;
        println!(
            "{name}: at most {memory_kib} KiB ({resident_kib} resident), {descriptors} descriptors, \
             {processes} processes"
        );
    }
    println!(
        "growth: {} KiB (allowed {MORE_MEMORY_KIB}), {} descriptors (allowed {MORE_DESCRIPTORS})",
        growth.more_memory_kib(),
        growth.more_descriptors()
    );
    if leftovers::is_interrupted() {
        return skip("soak", "interrupted");
    }
    let is_recorded = ended && std::fs::metadata(recording).is_ok_and(|meta| meta.len() > 0);
    if !is_recorded {
        println!("soak: tally did not end well at Ctrl-C");
    }
    Score::of(growth.is_flat() && is_recorded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn growth(later_kib: u64, later_descriptors: u64) -> Growth {
        let mut growth = Growth::default();
        let add = |growth: &mut Growth, seconds, memory_kib, descriptors| {
            let now = Footprint { memory_kib, descriptors, ..Footprint::default() };
            growth.add(Duration::from_secs(seconds), now);
        };
        add(&mut growth, 1, 500, 10);
        add(&mut growth, 59, 1000, 30);
        add(&mut growth, 60, later_kib, 20);
        add(&mut growth, 600, 900, later_descriptors);
        growth
    }

    #[test]
    fn only_growth_after_the_first_minute_is_a_fault() {
        assert!(growth(1000, 30).is_flat());
        assert!(growth(1000 + MORE_MEMORY_KIB, 30 + MORE_DESCRIPTORS).is_flat());
        assert!(!growth(1001 + MORE_MEMORY_KIB, 30).is_flat());
        assert!(!growth(1000, 31 + MORE_DESCRIPTORS).is_flat());
    }

    #[test]
    fn a_machine_with_more_processes_needs_more_descriptors() {
        let mut growth = growth(1000, 90);
        assert!(!growth.is_flat());
        (growth.settled.processes, growth.later.processes) = (100, 150);
        assert!(growth.is_flat());
    }

    #[test]
    fn a_living_process_has_a_footprint() {
        let own = Footprint::of_process(std::process::id()).expect("we live");
        assert!(own.memory_kib > 0 && own.descriptors > 2);
    }
}
