//! From the kernel's records to findings in words. The commands that findings recommend exist.

use super::*;
use crate::{flags, reading::load};
use clap::Parser;
use perfdata::off_cpu::State;
use profile::verdict::{RULES, examples};
use record::summary::CounterValue;
use record::system::SystemCounters;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program that ran for 100 ms and waited for a lock, a timer and a CPU as long each; without the kernel's names,
/// which only the machine that recorded it has.
fn recorded() -> Profile {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/timeline/wait.data");
    let mut opts = crate::reading::wall::load_opts();
    opts.names.search.kernel = Some(dso::KernelNames::Kallsyms(PathBuf::from("/nonexistent")));
    load::load(&file, opts).expect("a recording of ours").profile
}

/// The same, as if it had done nothing but run.
fn computing() -> Profile {
    let mut profile = recorded();
    profile.off_cpu.waits.clear();
    let on = usize::from(State::On.code());
    for totals in &mut profile.off_cpu.totals {
        totals.total_ns = std::array::from_fn(|state| if state == on { totals.total_ns[on] } else { 0 });
    }
    profile
}

/// A folder that looks like /proc, gone with it.
struct Proc(PathBuf);

impl Proc {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("tally-verdict-{name}-{}", std::process::id()));
        for inner in ["self", "net", "pressure", "group/cpu/job"] {
            fs::create_dir_all(folder.join(inner)).expect("a folder");
        }
        let proc = Self(folder);
        let mounts = format!("cgroup {}/group/cpu cgroup rw,relatime,cpu,cpuacct 0 0\n", proc.0.display());
        proc.write(&[
            ("self/cgroup", "5:memory:/\n3:cpu,cpuacct:/job\n"),
            ("self/mounts", &mounts),
            ("group/cpu/job/cpu.cfs_quota_us", "20000\n"),
        ]);
        proc
    }

    fn write(&self, files: &[(&str, &str)]) {
        for (name, text) in files {
            fs::write(self.0.join(name), text).expect("written");
        }
    }

    /// Differences between these files and those.
    fn change(&self, before: &[(&str, &str)], after: &[(&str, &str)]) -> SystemChange {
        self.write(before);
        let first = SystemCounters::read_in(&self.0, None);
        self.write(after);
        first.until(&SystemCounters::read_in(&self.0, None))
    }
}

impl Drop for Proc {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn counted(counters: &[(&str, u64)]) -> RunSummary {
    let counter =
        |&(name, value): &(&str, u64)| CounterValue { name: name.to_owned(), value, running_pct: 100.0 };
    RunSummary {
        wall_ns: 400_000_000,
        counters: counters.iter().map(counter).collect(),
        ..RunSummary::default()
    }
}

fn judged(profile: &Profile, summary: &RunSummary, change: SystemChange) -> String {
    let judgement = judge(profile, summary, &MachineChange { change, disks: None }, "-- ./app");
    let value = to_json(&judgement, " -i a.data");
    let findings = value["verdict"].as_array().expect("a list");
    crate::text::findings::draw(findings, 1, 110, false)
}

#[track_caller]
fn tells(text: &str, lines: &[&str]) {
    // Lines are broken where the screen ends.
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for line in lines {
        assert!(flat.contains(line), "no '{line}' in:\n{text}");
    }
}

const STAT: &str = "cpu  1000 0 500 9000 10 0 20 5 0 0\ncpu0 600 0 300 4400 5 0 10 3 0 0\n\
                    cpu1 400 0 200 4600 5 0 10 2 0 0\nintr 1 2\nctxt 99\nbtime 1\n";

#[test]
fn interrupts_as_the_kernel_counts_them_are_a_finding() {
    let softirqs = "                    CPU0       CPU1       \n          HI:          0          1\n       \
                    TIMER:       1000       1000\n      NET_TX:          5          5\n      NET_RX:        100        100\n";
    let later = "                    CPU0       CPU1       \n          HI:          0          1\n       \
                 TIMER:       1010       1010\n      NET_TX:          5          5\n      NET_RX:        200      90100\n";
    let stat = "cpu  1060 0 500 9000 10 5 55 5 0 0\ncpu0 660 0 300 4400 5 0 10 3 0 0\n\
                cpu1 400 0 200 4600 5 5 45 2 0 0\nintr 1 2\nctxt 99\nbtime 1\n";
    let change = Proc::new("irq")
        .change(&[("stat", STAT), ("softirqs", softirqs)], &[("stat", stat), ("softirqs", later)]);
    tells(
        &judged(&computing(), &counted(&[]), change),
        &[
            "Interrupts: 40 % of all CPU time, 100 % of the busiest CPU, mostly for incoming packets (NET_RX)",
            "→ spread them over the CPUs (irqbalance, RPS)",
            "100 % of them on one CPU",
            "no stack: no sample of the target's threads fell into an interrupt",
            "next: watch -d cat /proc/softirqs /proc/interrupts",
        ],
    );
}

#[test]
fn time_the_hypervisor_took_is_a_finding() {
    let stat = "cpu  1075 0 500 9000 10 0 20 30 0 0\ncpu0 635 0 300 4400 5 0 10 23 0 0\n\
                cpu1 440 0 200 4600 5 0 10 7 0 0\nintr 1 2\nctxt 99\nbtime 1\n";
    let change = Proc::new("steal").change(&[("stat", STAT)], &[("stat", stat)]);
    tells(
        &judged(&computing(), &counted(&[]), change),
        &[
            "Hypervisor: it took 25 % of the CPU time, which inflates every other number here",
            "of the CPU with most: 36 %",
            "what ran, slower than it looks, share of running time:",
            "next: vmstat 1 10",
        ],
    );
}

#[test]
fn a_quota_that_stopped_the_cgroup_is_a_finding_with_the_file_it_stands_in() {
    let proc = Proc::new("quota");
    let before = "nr_periods 100\nnr_throttled 4\nthrottled_time 1000000\n";
    let after = "nr_periods 120\nnr_throttled 20\nthrottled_time 1201000000\n";
    let stat = "group/cpu/job/cpu.stat";
    let change = proc.change(&[("stat", STAT), (stat, before)], &[("stat", STAT), (stat, after)]);
    let quota = proc.0.join("group/cpu/job/cpu.cfs_quota_us");
    tells(
        &judged(&recorded(), &counted(&[]), change),
        &[
            "CPU quota: the cgroup used it up in 80 % of its periods; threads wait for a CPU 29 % of their time",
            "stopped for 1.2 s, all CPUs together",
            "where threads were stopped, share of the time waiting for a CPU:",
            &format!("next: cat {}", quota.display()),
        ],
    );
}

#[test]
fn swapping_is_no_finding_about_a_program_that_does_not_wait_for_memory() {
    let pressure = |us: u64| {
        format!(
            "some avg10=0.00 avg60=0.00 avg300=0.00 total={us}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9\n"
        )
    };
    let (before, after) = (pressure(1000), pressure(900_000_000));
    let vmstat =
        |pages: u64| format!("nr_free_pages 1000\npswpin {pages}\npswpout {}\npgmajfault 77\n", 3 * pages);
    let (vm_before, vm_after) = (vmstat(10), vmstat(2010));
    let change = Proc::new("memory").change(
        &[("vmstat", &vm_before), ("pressure/memory", &before)],
        &[("vmstat", &vm_after), ("pressure/memory", &after)],
    );
    assert_eq!(change.swapped_pages, Some(8000));
    let text = judged(&recorded(), &counted(&[("major-faults", 800)]), change);
    assert!(text.contains("CPU saturation") && !text.contains("Memory is short"), "{text}");
}

#[test]
fn few_instructions_per_cycle_are_a_finding_and_many_are_none() {
    let change = || Proc::new("ipc").change(&[("stat", STAT)], &[("stat", STAT)]);
    let text = |instructions| {
        judged(&computing(), &counted(&[("cycles", 1_000_000), ("instructions", instructions)]), change())
    };
    tells(
        &text(310_000),
        &[
            "Memory bound, probably: 0.31 instructions per cycle;",
            "where the program runs, share of running time:",
            "next: tally record -e cache-misses -c 10000 -g -o misses.data -- ./app",
        ],
    );
    assert!(!text(2_000_000).contains("Memory bound"));
}

/// The words of a command line as the shell gives them to a program.
fn words(command: &str) -> Vec<String> {
    let shell =
        Command::new("sh").arg("-c").arg(format!("printf '%s\\n' {command}")).output().expect("a shell");
    assert!(shell.status.success(), "{command}");
    String::from_utf8(shell.stdout).expect("UTF-8").lines().map(str::to_owned).collect()
}

#[test]
fn what_findings_say_to_run_next_can_be_run() {
    let inputs = ["", " -i 'a b.data'"];
    let targets =
        ["-- ./app 'two words'", "-p 123", "-t 7 -- sleep 5", "-a -- sleep 5", "-u root", "-a -C 0 -G /job"];
    for (rule, input) in RULES.iter().flat_map(|rule| inputs.map(|input| (rule, input))) {
        let finding = (rule.ask)(&examples::firing(rule.number)).expect("the example fires its rule");
        for target in targets {
            let next = finding.next.replace(INPUT, input).replace(TARGET, target);
            assert!(!next.contains(['{', '}', '…', '\n']), "{next}");
            let is_shell = Command::new("sh").arg("-nc").arg(&next).status().expect("a shell").success();
            assert!(is_shell, "rule {}: {next}", rule.number);
            for command in next.split(" && ").filter(|command| command.starts_with("tally ")) {
                let args = words(command).into_iter().map(Into::into).collect();
                let args = crate::cmd::stat::spelled_out(crate::cmd::record::spelled_out(args));
                if let Err(error) = flags::Flags::try_parse_from(&args) {
                    panic!("rule {}: {command}\n{error}", rule.number);
                }
            }
        }
    }
}

#[test]
fn numbers_for_scripts_agree_with_each_other() {
    let profile = recorded();
    let machine = MachineChange { change: SystemChange { cpus: 2, ..SystemChange::default() }, disks: None };
    let value = to_json(&judge(&profile, &counted(&[]), &machine, "-p 1"), "");
    let ns = |key: &str| value[key].as_u64().expect("ns");
    let blocked: u64 =
        value["blocked_ns"].as_object().expect("reasons").values().filter_map(Value::as_u64).sum();
    let whole = ns("on_ns") + ns("runnable_ns") + ns("preempted_ns") + blocked + ns("idle_ns");
    let lives: u64 = profile.off_cpu.totals.iter().map(profile::off_cpu::ThreadTotals::life_ns).sum();
    assert!(whole.abs_diff(lives) * 100 <= lives, "{whole} of {lives}");
    let findings = value["verdict"].as_array().expect("findings");
    assert!(!findings.is_empty() && findings.len() <= 3);
    for finding in findings {
        assert!(RULES.iter().any(|rule| finding["rule"] == rule.number && finding["name"] == rule.name));
        assert!((0.0..=1.0).contains(&finding["share"].as_f64().expect("a share")));
        let stacks = finding["stacks"].as_array().expect("stacks");
        assert_eq!(stacks.is_empty(), !finding["no_stacks"].is_null(), "{finding}");
        let shares: Vec<f64> = stacks.iter().filter_map(|stack| stack["share"].as_f64()).collect();
        assert!(shares.is_sorted_by(|a, b| a >= b) && shares.iter().sum::<f64>() <= 1.0 + 1e-9, "{finding}");
    }
}

#[test]
fn a_real_recording_tells_where_its_threads_stood_in_each_state() {
    let change = SystemChange { cpus: 2, ..SystemChange::default() };
    tells(
        &judged(&recorded(), &counted(&[]), change),
        &[
            // The program itself is gone, and its names with it. The name in the vdso depends on the running kernel.
            "goes to the lock taken in a function without a name",
            "where threads are blocked on locks, share of thread time:",
            "23.5 % __GI___lll_lock_wait ← pthread_mutex_lock ← [app]",
            "the code of other programs was not recorded; tally run -a records it",
            "where threads wait for a CPU, share of the time waiting for a CPU:",
            "clock_gettime ← [app]",
        ],
    );
}

#[test]
fn findings_at_the_end_of_a_recording_name_it_wherever_it_is() {
    let machine = MachineChange { change: SystemChange { cpus: 2, ..SystemChange::default() }, disks: None };
    let judgement = judge(&recorded(), &counted(&[]), &machine, "-- ./app");
    let bytes = [b"PERFILE2".as_slice(), &note_bytes(&to_note(&judgement, "./app", &[]))].concat();
    let text = perfdata::appendix::findings_note::read(&bytes).expect("a note");
    let note: Value = serde_json::from_slice(text).expect("JSON");
    assert_eq!(note["command"], "./app");
    let next: Vec<&str> =
        note["findings"].as_array().expect("a list").iter().filter_map(|f| f["next"].as_str()).collect();
    assert!(next.contains(&"tally locks{input}"), "{next:?}");
}
