//! The rules: symptom with thresholds → finding. Each has a test that fires it and one that must not.

mod chains;
mod collector;
mod disk;
#[cfg(any(test, feature = "examples"))]
pub mod examples;
mod goroutines;
mod locks;
mod machine;
mod queue;
mod running;
#[cfg(test)]
mod tests;
mod waiting;

pub use chains::may_take_turns;
pub use locks::waits_for_locks;
pub use waiting::waits_for_others;
pub(super) use waiting::{files, locked_files, targets, wait_for_each_other};

use super::{Facts, Finding, TopStacks};

/// One rule.
pub struct Rule {
    /// Number.
    pub number: u8,
    /// A name for scripts.
    pub name: &'static str,
    /// The finding, if its thresholds are passed.
    pub ask: fn(&Facts) -> Option<Finding>,
}

macro_rules! rules {
    ($($number:literal $name:literal $ask:path),+ $(,)?) => {
        /// All rules, by number.
        pub const RULES: &[Rule] = &[$(Rule { number: $number, name: $name, ask: |facts| {
            $ask(facts).map(|finding| Finding { rule: $number, name: $name, ..finding })
        } }),+];
    };
}

rules! {
    1 "cpu-bound" running::cpu_bound,
    2 "serial-bottleneck" running::serial,
    3 "system-calls" running::system_calls,
    4 "interrupts" machine::interrupts,
    5 "steal" machine::steal,
    6 "cpu-saturation" queue::saturation,
    7 "cgroup-throttled" machine::throttled,
    8 "lock-contention" locks::locks,
    9 "preemption" queue::preemption,
    10 "disk" disk::disk,
    11 "disk-saturated" disk::disk_saturated,
    12 "memory-pressure" disk::memory_pressure,
    13 "page-faults" running::page_faults,
    14 "kernel-lock" locks::kernel_lock,
    15 "waiting-for-others" waiting::waiting_for_others,
    16 "polling" waiting::polling,
    17 "network-loss" machine::network,
    18 "memory-bound" running::memory_bound,
    19 "short-processes" machine::short_processes,
    20 "idle" waiting::idle,
    21 "serial-chain" chains::serial_chain,
    22 "convoy" chains::convoy,
    23 "slow-peer" chains::slow_peer,
    24 "head-of-line" chains::head_of_line,
    25 "garbage-collection" collector::garbage,
    26 "file-lock" locks::file_lock,
    27 "delayed-ack" chains::delayed_ack,
    28 "goroutines" goroutines::goroutines,
}

/// A finding with a claim; what shows it follows.
fn claim(share: f64, claim: String) -> Finding {
    Finding { share, claim, ..Finding::default() }
}

impl Finding {
    fn detail(self, detail: String) -> Self {
        Self { detail, ..self }
    }

    fn fix(self, fix: impl Into<String>) -> Self {
        Self { fix: fix.into(), ..self }
    }

    fn evidence(self, evidence: Vec<String>) -> Self {
        Self { evidence, ..self }
    }

    fn stacks(self, stacks: TopStacks) -> Self {
        Self { stacks, ..self }
    }

    fn against(self, against: Vec<String>) -> Self {
        Self { against, ..self }
    }

    /// The last step: the command and its result.
    fn next(self, command: String, advice: &str) -> Option<Self> {
        Some(Self { next: command, advice: advice.to_owned(), ..self })
    }
}

/// `12,345`.
fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.max(0.0));
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn pct(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Shares in whole percent, as everywhere else on the screen, and their sum: the whole of parts that are named.
fn whole_percents<const N: usize>(shares: &[f64; N]) -> ([u64; N], u64) {
    let percents = shares.map(|share| (share.max(0.0) * 100.0).round() as u64);
    (percents, percents.iter().sum())
}

/// Names with their share of `whole_ns`, those that matter: `write 40 %, read 12 %`.
fn list(names: &[(String, u64)], whole_ns: u64) -> String {
    shares(names, whole_ns, |name, share| format!("{name} {share}"))
}

/// The same for names that end in a number: `78 % pipe from cat 16755`.
fn shares_first(names: &[(String, u64)], whole_ns: u64) -> String {
    shares(names, whole_ns, |name, share| format!("{share} {name}"))
}

/// The same with what is left: `19 % /a, 13 % /b, 68 % others`.
fn most_and_others(names: &[(String, u64)], whole_ns: u64) -> String {
    let most_ns: u64 = named_shares(names, whole_ns).map(|(_, ns)| *ns).fold(0, u64::saturating_add);
    let others = whole_ns.saturating_sub(most_ns) as f64 / whole_ns.max(1) as f64;
    let others = if others < 0.01 { String::new() } else { format!(", {} others", pct(others)) };
    shares_first(names, whole_ns) + &others
}

/// Names in a list of shares.
const SHOWN_SHARES: usize = 3;

/// Those that matter.
fn named_shares(names: &[(String, u64)], whole_ns: u64) -> impl Iterator<Item = &(String, u64)> {
    names.iter().filter(move |(_, ns)| ns.saturating_mul(100) >= whole_ns.max(1)).take(SHOWN_SHARES)
}

fn shares(names: &[(String, u64)], whole_ns: u64, text: impl Fn(&str, String) -> String) -> String {
    let share = |ns: u64| ns as f64 / whole_ns.max(1) as f64;
    let texts: Vec<String> =
        named_shares(names, whole_ns).map(|(name, ns)| text(name, pct(share(*ns)))).collect();
    texts.join(", ")
}

/// A length of time in three significant digits: `12.3 ms`.
fn time(ns: u64) -> String {
    /// 999.6 ms are 1.0 s, not 1000 ms.
    const ROUNDS_UP: f64 = 0.9995;
    const UNITS: [(&str, f64); 4] = [("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0)];
    let (unit, size) =
        UNITS.into_iter().find(|&(_, size)| ns as f64 >= size * ROUNDS_UP).unwrap_or(("ns", 1.0));
    match ns as f64 / size {
        value if value < 10.0 && unit != "ns" => format!("{value:.1} {unit}"),
        value => format!("{value:.0} {unit}"),
    }
}
