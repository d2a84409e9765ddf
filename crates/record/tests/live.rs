//! Recordings of real commands, read back. Where events may not be opened, the tests print that and pass.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use perfdata::appendix::stack_notes::StackNotes;
use perfdata::{Endian, Order, PerfData, Record};
use record::opts::{CallGraph, FileOpts, KeepFiles, Output, RecordOpts, StackOpts};
use record::sys::{Counter, CounterPlace};
use record::{RunSummary, Target, Whom};

/// One recording at a time: each minds all children and signals of the process.
static ONE: Mutex<()> = Mutex::new(());

fn may_record() -> bool {
    let attr = perfdata::Attr {
        type_: perfdata::abi::PERF_TYPE_SOFTWARE,
        flags: perfdata::AttrFlags::EXCLUDE_KERNEL,
        ..Default::default()
    };
    match Counter::open(&attr.to_bytes(), CounterPlace::task(0)) {
        Ok(_) => true,
        Err(e) => {
            eprintln!("skipped: perf_event_open: {e}");
            false
        }
    }
}

struct Recorded {
    summary: RunSummary,
    bytes: Vec<u8>,
}

fn output(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    dir.join(format!("live-{}-{name}.data", std::process::id()))
}

/// Records `command`; `None` where that is not allowed.
fn recorded(name: &str, command: &[&str], change: impl FnOnce(&mut RecordOpts)) -> Option<Recorded> {
    let _one = ONE.lock().unwrap_or_else(|e| e.into_inner());
    if !may_record() {
        return None;
    }
    let path = output(name);
    let mut opts = RecordOpts {
        target: Target { command: command.iter().map(Into::into).collect(), ..Target::default() },
        stacks: StackOpts { call_graph: CallGraph::Live, ..StackOpts::default() },
        file: FileOpts {
            output: Output::File(path.clone()),
            keep_files: KeepFiles::None,
            ..FileOpts::default()
        },
        summary: true,
        ..RecordOpts::default()
    };
    change(&mut opts);
    let summary = record::record(&opts).expect("recording works");
    let bytes = std::fs::read(&path).expect("the file is there");
    std::fs::remove_file(&path).expect("ours to remove");
    Some(Recorded { summary, bytes })
}

/// Counts the samples whose callchain has at least `frames` entries, and all of them.
fn count_samples(bytes: &[u8], frames: usize) -> (u64, u64) {
    let (mut long, mut all) = (0, 0);
    let file = PerfData::open(bytes).expect("our own file");
    let diagnostics = file.visit(Order::Time, |item| {
        if let Record::Sample(sample) = &item.record {
            all += 1;
            long += u64::from(sample.callchain.is_some_and(|c| c.len() >= frames));
        }
        std::ops::ControlFlow::Continue(())
    });
    drop(diagnostics);
    (long, all)
}

/// A shell that burns about 0.3 s of CPU time.
const BURN: &str = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";

#[test]
#[ignore = "live: records on this machine"]
fn samples_written_are_samples_counted_and_stacks_are_conserved() {
    let Some(Recorded { summary, bytes }) = recorded("burn", &["sh", "-c", BURN], |_| {}) else { return };
    let (long, all) = count_samples(&bytes, 3);
    assert_eq!(all, summary.lost.samples);
    let quality = &summary.quality;
    let stopped: u64 = quality.stopped.iter().map(|s| s.count).sum();
    assert_eq!(quality.stacks, quality.complete + quality.joined + stopped);
    assert!(quality.stacks == 0 || long > 0, "stacks were unwound, but no chain is longer than its leaf");
    let file = PerfData::open(&bytes).expect("our own file");
    if let Some(notes) = file.appendix().and_then(|a| StackNotes::read(a, Endian::NATIVE)) {
        assert_eq!(notes.stacks, quality.stacks);
        assert_eq!(notes.stops.len() as u64, quality.joined + stopped);
    }
}

#[test]
#[ignore = "live: records on this machine"]
fn the_exit_status_is_the_commands() {
    let Some(run) = recorded("exit", &["sh", "-c", "exit 7"], |_| {}) else { return };
    assert_eq!(run.summary.exit.map(|e| e.shell_code()), Some(7));
    let Some(run) = recorded("signal", &["sh", "-c", "kill -15 $$"], |_| {}) else { return };
    assert_eq!(run.summary.exit.map(|e| e.shell_code()), Some(143));
}

#[test]
#[ignore = "live: records on this machine"]
fn every_threads_time_on_and_off_is_its_life() {
    let command = ["sh", "-c", "sleep 0.1; i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done"];
    let Some(Recorded { summary, .. }) = recorded("life", &command, |_| {}) else { return };
    assert!(!summary.threads.is_empty());
    for thread in &summary.threads {
        assert_eq!(thread.on_ns + thread.off_ns, thread.life_ns, "{thread:?}");
    }
    let slept =
        summary.threads.iter().find(|t| t.comm == "sleep").expect("a process of 0.1 s keeps its name");
    assert!(slept.off_ns >= 50_000_000, "{slept:?}");
}

#[test]
#[ignore = "live: records on this machine"]
fn a_command_that_cannot_run_leaves_no_file_and_the_shells_status() {
    let _one = ONE.lock().unwrap_or_else(|e| e.into_inner());
    if !may_record() {
        return;
    }
    let path = output("none");
    let opts = RecordOpts {
        target: Target { command: vec!["/no/such/program".into()], ..Target::default() },
        file: FileOpts { output: Output::File(path.clone()), ..FileOpts::default() },
        ..RecordOpts::default()
    };
    let error = record::record(&opts).expect_err("it can't run");
    assert_eq!(error.exit_code(), 127);
    assert!(!path.exists());
}

#[test]
#[ignore = "live: records on this machine"]
fn a_size_limit_ends_the_recording_but_not_the_command() {
    let command = ["sh", "-c", &format!("{BURN}; {BURN}; exit 5")];
    let limit = |opts: &mut RecordOpts| opts.file.max_size_bytes = Some(4096);
    let Some(Recorded { summary, bytes }) = recorded("limit", &command, limit) else { return };
    assert_eq!(summary.exit.map(|e| e.shell_code()), Some(5));
    PerfData::open(&bytes).expect("a whole file");
}

/// The number of executable mappings before the first sample, and of samples.
fn maps_before_samples(bytes: &[u8]) -> (u64, u64) {
    let (mut maps, mut samples) = (0, 0);
    let file = PerfData::open(bytes).expect("our own file");
    let diagnostics = file.visit(Order::Time, |item| {
        maps += u64::from(samples == 0 && matches!(&item.record, Record::Mmap(m) if !m.is_data));
        samples += u64::from(matches!(item.record, Record::Sample(_)));
        std::ops::ControlFlow::Continue(())
    });
    drop(diagnostics);
    (maps, samples)
}

#[test]
#[ignore = "live: records on this machine"]
fn each_of_several_files_begins_with_what_is_mapped_and_together_they_hold_all_samples() {
    let parts = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("parts-{}", std::process::id()));
    std::fs::create_dir_all(&parts).expect("a folder for the files");
    let several = |opts: &mut RecordOpts| {
        let size_bytes = Some(8 << 10);
        opts.file.output = Output::File(parts.join("p.data"));
        opts.file.switch_output = Some(record::opts::SwitchOutput { size_bytes, ..Default::default() });
    };
    let command = ["sh", "-c", &format!("{BURN}; {BURN}")];
    let opts_of = |change: &dyn Fn(&mut RecordOpts)| {
        let mut opts = RecordOpts {
            target: Target { command: command.iter().map(Into::into).collect(), ..Target::default() },
            stacks: StackOpts { call_graph: CallGraph::Live, ..StackOpts::default() },
            file: FileOpts { keep_files: KeepFiles::None, ..FileOpts::default() },
            ..RecordOpts::default()
        };
        change(&mut opts);
        opts
    };
    let _one = ONE.lock().unwrap_or_else(|e| e.into_inner());
    if !may_record() {
        return;
    }
    let summary = record::record(&opts_of(&several)).expect("recording works");
    let mut names: Vec<_> = std::fs::read_dir(&parts).expect("ours").flatten().map(|e| e.path()).collect();
    names.sort();
    assert_eq!(summary.file.as_ref(), names.last());
    let mut all = 0;
    for name in &names {
        let (maps, samples) = maps_before_samples(&std::fs::read(name).expect("readable"));
        assert!(samples == 0 || maps >= 2, "{}: {maps} mappings before {samples} samples", name.display());
        all += samples;
    }
    assert_eq!(all, summary.lost.samples);
    assert!(summary.lost.samples < 200 || names.len() > 1, "{} samples in {names:?}", summary.lost.samples);
    std::fs::remove_dir_all(&parts).expect("ours to remove");
}

#[test]
#[ignore = "live: records on this machine"]
fn an_overwritten_recording_holds_its_end() {
    let keeps_the_end = |opts: &mut RecordOpts| {
        opts.file.overwrite = true;
        opts.ring_pages = Some(1);
    };
    let Some(run) = recorded("window", &["sh", "-c", BURN], keeps_the_end) else { return };
    let (maps, samples) = maps_before_samples(&run.bytes);
    assert_eq!(samples, run.summary.lost.samples);
    assert!(samples == 0 || maps >= 2);
}

#[test]
#[ignore = "live: records on this machine"]
fn snapshots_go_to_the_file_in_dwarf_mode() {
    let dwarf = |opts: &mut RecordOpts| opts.stacks.call_graph = CallGraph::Dwarf(4096);
    let Some(Recorded { summary, bytes }) = recorded("dwarf", &["sh", "-c", BURN], dwarf) else { return };
    let mut with_stack = 0;
    let file = PerfData::open(&bytes).expect("our own file");
    let diagnostics = file.visit(Order::File, |item| {
        if let Record::Sample(sample) = &item.record {
            with_stack += u64::from(sample.stack_user.is_some_and(|s| !s.bytes.is_empty()));
        }
        std::ops::ControlFlow::Continue(())
    });
    drop(diagnostics);
    assert!(with_stack > 0 || summary.lost.samples == 0);
    assert_eq!(summary.quality.stacks, 0);
}

/// With the off-CPU engine, events are opened for whole CPUs: an unrelated process must not get into the recording,
/// and other recordings of it must not be spoilt (build-ids requested from the kernel would do that).
#[test]
#[ignore = "live: records on this machine"]
fn with_the_off_cpu_engine_all_samples_and_records_are_the_commands_and_its_childrens() {
    let rival = std::process::Command::new("sh")
        .args(["-c", &format!("while :; do {BURN}; /bin/true; done")])
        .spawn();
    let mut rival = rival.expect("sh runs");
    let inner = format!("{BURN} & {BURN}; wait; sleep 0.05");
    let run = recorded("followed", &["sh", "-c", &inner], |opts| {
        opts.summary = false;
        opts.off_cpu = Some(record::off_cpu::OffCpuOpts::default());
    });
    rival.kill().expect("ours to kill");
    rival.wait().expect("ours to wait for");
    let Some(Recorded { summary, bytes }) = run else { return };
    if summary.notices.iter().any(|n| matches!(n, record::summary::Notice::NoOffCpu(_))) {
        return println!("skipped: no BPF here");
    }
    let command = summary.child_pid.expect("a command ran");
    let mut ours = vec![command];
    let (mut samples, mut strangers) = ([0u64; 2], 0);
    let file = PerfData::open(&bytes).expect("our own file");
    assert!(file.events().iter().all(|event| !event.attr.flags.has(perfdata::AttrFlags::BUILD_ID)));
    file.visit(Order::Time, |item| {
        let pid = match &item.record {
            Record::Fork(task) => {
                ours.extend(ours.contains(&task.ppid).then_some(task.pid));
                task.pid
            }
            Record::Comm(comm) => comm.pid,
            Record::Mmap(mmap) if mmap.pid != u32::MAX => mmap.pid,
            Record::Sample(sample) => {
                let pid = sample.pid_tid.map_or(0, |(pid, _)| pid);
                samples[usize::from(pid == command)] += 1;
                pid
            }
            _ => command,
        };
        strangers += u64::from(!ours.contains(&pid));
        std::ops::ControlFlow::Continue(())
    });
    assert_eq!(strangers, 0, "of {ours:?}");
    assert!(samples[0] > 20 && samples[1] > 20, "{samples:?}");
}

/// A shell that starts a process after another until it is killed.
struct Forking(std::process::Child);

impl Forking {
    fn start() -> Self {
        let script = "while :; do (i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done); done";
        Self(std::process::Command::new("sh").args(["-c", script]).spawn().expect("sh runs"))
    }
}

impl Drop for Forking {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "live: records on this machine"]
fn of_a_process_attached_to_every_thread_lives_within_the_recording_and_adds_up_to_its_cpu_time() {
    let shell = Forking::start();
    let attach = |opts: &mut RecordOpts| opts.target.whom = Whom::Processes(vec![shell.0.id()]);
    let Some(Recorded { summary, .. }) = recorded("attach", &["sleep", "0.7"], attach) else { return };
    let wall_ns = summary.wall_ns;
    for thread in &summary.threads {
        assert_eq!(thread.on_ns + thread.off_ns, thread.life_ns, "{thread:?}");
        assert!(thread.life_ns <= wall_ns + wall_ns / 20, "{thread:?} of {wall_ns} ns");
    }
    // For a thread that starts as the recording ends, a record with its name may be missing, but then it has hardly
    // any time.
    let is_new = |life_ns: u64| life_ns < wall_ns / 50;
    let other = summary.threads.iter().find(|t| t.comm != "sh" && !(t.comm.is_empty() && is_new(t.life_ns)));
    assert_eq!(other, None);
    let on_ns: u64 = summary.threads.iter().map(|t| t.on_ns).sum();
    let Some(clock) = summary.counter("task-clock") else { return };
    if summary.lost.lost_records == 0 {
        // Within a tenth, for the beginning and end of a busy machine's system calls.
        assert!(on_ns.abs_diff(clock.value) * 10 <= clock.value.max(wall_ns / 10), "{on_ns} {clock:?}");
    }
}

/// A shell with two children that sleep, as long as the test lasts.
struct Server(std::process::Child);

impl Server {
    fn start() -> Self {
        let server = std::process::Command::new("sh").args(["-c", "sleep 600 & sleep 600 & wait"]).spawn();
        let server = Self(server.expect("sh runs"));
        while server.sleepers().len() < 2 {
            std::thread::yield_now();
        }
        server
    }

    fn sleepers(&self) -> Vec<u32> {
        let is_sleep = |pid: &u32| record::proc::status(*pid).is_some_and(|status| status.comm == b"sleep");
        record::process_tree::descendants(&[self.0.id()]).into_iter().filter(is_sleep).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for pid in self.sleepers() {
            let _ = std::process::Command::new("kill").arg(pid.to_string()).status();
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "live: records on this machine"]
fn children_that_live_already_are_recorded_with_their_parent_or_reported_as_left_out() {
    let server = Server::start();
    let (pid, sleepers) = (server.0.id(), server.sleepers());
    for with_off_cpu in [false, true] {
        let recorded_with = |name: &str, whom: Whom| {
            recorded(name, &["true"], |opts| {
                opts.target.whom = whom;
                opts.off_cpu = with_off_cpu.then(record::off_cpu::OffCpuOpts::default);
            })
        };
        let Some(tree) = recorded_with("tree", Whom::Trees(vec![pid])) else { return };
        assert_eq!((tree.summary.attached_processes, tree.summary.children_left_out), (3, 0));
        let mut known = Vec::new();
        let file = PerfData::open(&tree.bytes).expect("our own file");
        let _ = file.visit(Order::Time, |item| {
            if let Record::Comm(comm) = &item.record {
                known.push(comm.pid);
            }
            std::ops::ControlFlow::Continue(())
        });
        assert!(sleepers.iter().all(|pid| known.contains(pid)), "{known:?} without one of {sleepers:?}");
        let Some(alone) = recorded_with("alone", Whom::Processes(vec![pid])) else { return };
        assert_eq!((alone.summary.attached_processes, alone.summary.children_left_out), (1, 2));
        assert!(alone.summary.notices.contains(&record::summary::Notice::ChildrenLeftOut(2)));
    }
}

#[test]
#[ignore = "live: records on this machine"]
fn what_a_command_leaves_running_is_named() {
    let command = ["sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $! > \"$0\""];
    let pid_file = output("left-running");
    let mut command: Vec<&str> = command.to_vec();
    let pid_path = pid_file.display().to_string();
    command.push(&pid_path);
    let run = recorded("leaves", &command, |_| {});
    let pid = std::fs::read_to_string(&pid_file).ok().and_then(|text| text.trim().parse::<u32>().ok());
    let Some(pid) = pid else { return assert!(run.is_none(), "the command wrote it") };
    std::process::Command::new("kill").arg(pid.to_string()).status().expect("kill runs");
    std::fs::remove_file(&pid_file).expect("ours to remove");
    let notices = run.expect("it was recorded").summary.notices;
    let named = notices.iter().find_map(|notice| match notice {
        record::summary::Notice::GoesOn(processes) => Some(processes.iter().map(|(pid, _)| *pid).collect()),
        _ => None,
    });
    assert_eq!(named, Some(vec![pid]), "{notices:?}");
}
