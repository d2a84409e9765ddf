//! Blame and critical path, term by term, against programs that measure who waited for whom doing what.

use super::{ONE, TALLY, folder, has_bpf, holds_in_one_of_three, output_of, outputs_of, program, truth};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A recording of `chain`, what it measured, and what tally shows of it.
struct Chain {
    truth: BTreeMap<String, u64>,
    blame: Value,
    path: Value,
    /// Stack and ns.
    folded: Vec<(String, u64)>,
}

impl Chain {
    fn of(mode: &str, args: [&str; 3]) -> Option<Self> {
        let folder = folder("blame-terms");
        let chain = program("chain", &folder).filter(|_| has_bpf())?;
        let file = folder.join(format!("{mode}.data"));
        let mut record = Command::new(TALLY);
        record.args(["record", "--off-cpu", "-o"]).arg(&file).arg("--").arg(chain).arg(mode).args(args);
        let (printed, _) = outputs_of(record);
        Some(Self {
            truth: truth(&printed),
            blame: json(&file, &["--blame"]),
            path: json(&file, &["--critical-path"]),
            folded: folded(&file),
        })
    }

    /// Percent of the run, by the program's own clocks.
    fn measured(&self, term: &str) -> f64 {
        percent(self.truth[term], self.truth["wall"])
    }

    /// Percent of the causes that are so.
    fn blamed(&self, is: impl Fn(&Value) -> bool) -> f64 {
        let rows = self.blame["causes"].as_array().expect("causes").iter();
        percent(rows.filter(|row| is(row)).map(ns).sum(), self.total())
    }

    /// Percent of the chains that end in this function, or in what it calls.
    fn drawn(&self, frame: &str) -> f64 {
        let has = |stack: &str| stack.split(';').any(|of| of == frame);
        percent(self.folded.iter().filter(|(stack, _)| has(stack)).map(|(_, ns)| ns).sum(), self.total())
    }

    /// Percent of the critical path in this function of this thread, and in what it calls.
    fn on_path(&self, thread: &str, function: &str) -> f64 {
        let rows = self.path["functions"].as_array().expect("functions").iter();
        let mut found = rows.filter(|row| row["thread"] == thread && row["function"] == function);
        found.next().map_or(0.0, |row| percent(ns(row), self.total()))
    }

    /// Percent of the run that other threads than the feeder wanted a CPU, and main worked for itself. Others may compute
    /// meanwhile, for whom nobody waits.
    fn disturbed(&self) -> f64 {
        let wants_cpu = |row: &Value| row["state"] == "runnable" || row["state"] == "preempted";
        let is_feeder = |row: &Value| row["thread"] == "feeder" || row["thread"] == "low";
        self.blamed(|row| !is_feeder(row) && (row["thread"] == "chain" || wants_cpu(row)))
    }

    /// The sums are the program's wall clock, to the nanosecond.
    fn check_sums(&self, mode: &str) {
        let sum = |rows: &Value| rows.as_array().expect("rows").iter().map(ns).sum::<u64>();
        let drawn: u64 = self.folded.iter().map(|(_, ns)| ns).sum();
        let sums = [sum(&self.blame["causes"]), sum(&self.path["parts"]), self.path_ns(), drawn];
        assert_eq!(sums, [self.total(); 4], "{mode}");
        assert!(self.total().abs_diff(self.truth["wall"]) < self.total() / 30, "{mode}: {:?}", self.truth);
    }

    /// End of the path, whose pieces follow each other without a gap.
    fn path_ns(&self) -> u64 {
        self.path["pieces"].as_array().expect("pieces").iter().fold(0, |now, piece| {
            assert_eq!(piece["from_ns"], now);
            piece["to_ns"].as_u64().expect("ns")
        })
    }

    fn total(&self) -> u64 {
        self.blame["total_ns"].as_u64().expect("ns")
    }

    #[track_caller]
    fn check(&self, what: &str, found: f64, measured: f64) {
        let apart = (found - measured).abs();
        let most = 3.0 + self.disturbed();
        assert!(apart <= most, "{what}: measured {measured}, found {found}, ± {most}: {:#}", self.blame);
    }
}

fn json(file: &Path, view: &[&str]) -> Value {
    let mut report = Command::new(TALLY);
    report.arg("report").args(view).args(["--json", "--rows", "100000", "-i"]).arg(file);
    serde_json::from_str(&output_of(report)).expect("JSON")
}

fn folded(file: &PathBuf) -> Vec<(String, u64)> {
    let mut flame = Command::new(TALLY);
    flame.args(["flame", "--blame", "--folded", "-i"]).arg(file);
    let text = output_of(flame);
    let stacks = text.lines().filter_map(|line| line.rsplit_once(' '));
    stacks.map(|(stack, ns)| (stack.to_owned(), ns.parse().expect("ns"))).collect()
}

fn ns(row: &Value) -> u64 {
    row["ns"].as_u64().expect("ns")
}

fn percent(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64 * 100.0
}

/// True for `crunch`, and for the functions by which it knows the time.
fn crunches(row: &Value) -> bool {
    ["crunch", "now", "clock_ns"].iter().any(|function| row["function"] == *function)
}

#[test]
#[ignore = "live: records on this machine"]
fn each_term_of_a_chain_is_what_the_program_measured() {
    let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
    for mode in ["threads", "process", "epoll", "pool"] {
        let Some(of) = Chain::of(mode, ["40", "15000", "10000"]) else { return };
        of.check_sums(mode);
        let (crunch, rest) = (of.measured("crunch"), of.measured("sleep"));
        let by_feeder = |row: &Value| row["thread"] == "feeder";
        of.check(&format!("{mode}: crunch"), of.blamed(|row| by_feeder(row) && crunches(row)), crunch);
        of.check(
            &format!("{mode}: sleep"),
            of.blamed(|row| by_feeder(row) && row["function"] == "rest"),
            rest,
        );
        of.check(&format!("{mode}: crunch drawn"), of.drawn("crunch"), crunch);
        of.check(&format!("{mode}: sleep drawn"), of.drawn("rest"), rest);
        of.check(&format!("{mode}: crunch on the path"), of.on_path("feeder", "crunch"), crunch);
        of.check(&format!("{mode}: sleep on the path"), of.on_path("feeder", "rest"), rest);
        let chain = serde_json::json!([format!("chain {mode}"), "worker", "feeder"]);
        let along = of.blamed(|row| crunches(row) && row["chain"] == chain);
        of.check(&format!("{mode}: through the worker"), along, crunch);
    }
}

#[test]
#[ignore = "live: records on this machine"]
fn a_convoy_s_time_is_that_of_the_lock_s_holders() {
    let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
    let Some(of) = Chain::of("convoy", ["40", "6000", "0"]) else { return };
    of.check_sums("convoy");
    let measured = of.measured("crunch");
    // A driver that unlocks loses the CPU to the one that it woke, or to other programs: that isn't a wait for the lock.
    let unlocks = |row: &Value| ["under_lock", "driver"].iter().any(|name| row["function"] == *name);
    let is_queued = |row: &Value| row["state"] == "runnable" || row["state"] == "preempted";
    let queued = of.blamed(|row| unlocks(row) && is_queued(row));
    let blamed = of.blamed(|row| row["thread"] == "driver" && crunches(row));
    let on_path = of.on_path("driver", "crunch");
    for (what, found) in [("blamed", blamed), ("on the path", on_path)] {
        let is_right = found <= measured + 3.0 && found + queued >= measured - 3.0;
        assert!(is_right, "{what}: measured {measured}, found {found} and queued {queued}: {:#}", of.blame);
    }
}

fn may_set_priorities() -> bool {
    let status = Command::new("chrt").args(["-f", "3", "taskset", "-c", "0,1", "true"]).status();
    let may = status.is_ok_and(|status| status.success());
    if !may {
        println!("skipped: no right to set priorities");
    }
    may
}

#[test]
#[ignore = "live: records on this machine"]
fn a_worker_without_a_cpu_while_its_feeder_computes_delays_nobody() {
    let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
    let is_wide = std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1);
    if !is_wide || !may_set_priorities() {
        return;
    }
    let Some(of) = Chain::of("hidden", ["16", "60000", "40000"]) else { return };
    of.check_sums("hidden");
    // mid takes the worker's CPU for two fifths of the run.
    assert!(of.measured("meddle") > 30.0, "{:?}", of.truth);
    let by_mid = of.blamed(|row| row["thread"] == "worker" && row["target"] == "mid");
    assert!(by_mid <= 3.0, "blamed on mid: {by_mid} %: {:#}", of.blame);
    let by_feeder = of.blamed(|row| row["thread"] == "feeder" && crunches(row));
    let apart = (by_feeder - of.measured("crunch")).abs();
    assert!(apart <= 3.0, "crunch: measured {}, found {by_feeder}: {:#}", of.measured("crunch"), of.blame);
}

#[test]
#[ignore = "live: records on this machine"]
fn an_inverted_priority_names_who_has_the_cpu_instead_of_the_holder() {
    let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
    if !may_set_priorities() {
        return;
    }
    let Some(of) = Chain::of("inversion", ["40", "15000", "10000"]) else { return };
    of.check_sums("inversion");
    let by_mid = |row: &Value| row["thread"] == "low" && row["target"] == "mid";
    of.check("meddle", of.blamed(|row| by_mid(row) && row["state"] == "preempted"), of.measured("meddle"));
    of.check("meddle drawn", of.drawn("[preempted by mid]"), of.measured("meddle"));
    let computes = |row: &Value| row["thread"] == "low" && crunches(row) && row["state"] == "on CPU";
    of.check("crunch", of.blamed(computes), of.measured("crunch-cpu"));
}

#[test]
#[ignore = "live: records with BPF"]
fn waits_of_requests_are_for_what_the_other_thread_and_process_did() {
    let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
    let folder = folder("blame-terms");
    let Some(requests) = program("requests", &folder).filter(|_| has_bpf()) else { return };
    // Waits for a lock whose holder computes, and for another process.
    for (kind, function) in [("l", "hold"), ("p", "answers")] {
        let file = folder.join(format!("requests-{kind}.data"));
        let record = || {
            let mut record = Command::new(TALLY);
            record.args(["record", "--span", "handle", "-o"]).arg(&file).arg("--").arg(&requests);
            record.args(["10", kind]);
            let (printed, _) = outputs_of(record);
            let own: Vec<u64> = printed.split_whitespace().filter_map(|number| number.parse().ok()).collect();
            let calls = json(&file, &["--span", "handle"]);
            // All ten are among the slowest ten.
            let slowest = calls["functions"][0]["slowest"].as_array().expect("calls").iter();
            let causes: Vec<Value> =
                slowest.flat_map(|call| call["causes"].as_array().expect("causes").clone()).collect();
            let sum = |is: &dyn Fn(&Value) -> bool| causes.iter().filter(|row| is(row)).map(ns).sum();
            let of_others = |row: &Value| row["chain"].as_array().is_some_and(|chain| chain.len() > 1);
            let is_function =
                |row: &Value| ["compute", "clock_ns", function].iter().any(|name| row["function"] == *name);
            let total: u64 = sum(&|_| true);
            let others = percent(sum(&of_others), total);
            let computed = percent(sum(&|row| is_function(row) && of_others(row)), total);
            let measured = percent(own[3], own[1]);
            let fits = [others, computed].iter().all(|found| (found - measured).abs() <= 3.0);
            (fits, format!("{kind}: {measured}, found {others} and {computed}: {causes:#?}"))
        };
        // The calls take 10 ms each: another program that has the CPU for 4 ms at the wrong moment is 4 points.
        holds_in_one_of_three(record);
    }
}
