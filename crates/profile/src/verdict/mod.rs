//! The verdict: at most three findings in words, ranked by the share of thread time they explain.
//!
//! [`Facts`] are numbers (from the wall view, the samples and /proc); [`rules::RULES`] is the table of what they can
//! mean; [`verdict`] asks every rule and ranks. Pure: no I/O, no clock.

use crate::view::ranking::RankRows as _;

mod busy_loops;
mod cause;
mod event_loops;
mod evidence;
mod facts;
mod gil;
mod held_back;
mod holders;
mod hot_code;
mod hot_stacks;
mod locks;
mod path;
mod peers;
mod rule_limit;
mod rules;
mod running;
mod sample_blocks;
mod sample_gaps;
mod script_functions;
mod short_lived;
mod stacks;

pub use crate::off_cpu::known_lock::KnownLock;
pub use cause::WaitCause;
pub use event_loops::BlockedLoop;
pub use evidence::Evidence;
pub use facts::{
    CodeFacts, Facts, OthersRan, QueueFacts, RateFacts, SystemFacts, WaitFacts, running_samples,
};
pub use gil::GilFacts;
pub use held_back::HeldBackWaits;
pub use holders::LockHolders;
pub use hot_code::{HotCode, HotFunction, NamedCaller};
pub use hot_stacks::{HotStacks, PlaceList};
pub use locks::{LockSite, lock_words};
pub(crate) use locks::{NamedLock, futex_words, latched_lock, lock_behind};
pub use path::{PathFacts, PathTop};
pub use peers::PeerWaits;
pub use rule_limit::{RuleLimit, RuleLimitError};
#[cfg(any(test, feature = "examples"))]
pub use rules::examples;
pub use rules::{RULES, Rule};
pub(crate) use running::entry_of;
pub use running::{EntryReason, Running};
pub use short_lived::ShortLived;
pub use stacks::{ShareBase, TopStacks};

/// One thing found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Finding {
    /// The rule's number, as in docs/verdict.md.
    pub rule: u8,
    /// A name for scripts: "lock-contention".
    pub name: &'static str,
    /// Share of thread time explained, 0 to 1; for system-wide findings an estimate of the harm.
    pub share: f64,
    /// The claim: one or two lines of 78 columns, no full stop.
    pub claim: String,
    /// The numbers that make up the claim, in one line; empty if the claim has them all.
    pub detail: String,
    /// Remedy in the imperative; empty if none is known.
    pub fix: String,
    /// Numbers that show it.
    pub evidence: Vec<String>,
    /// Up to three stacks that show it, or why there is none.
    pub stacks: TopStacks,
    /// Checked facts that could have contradicted it.
    pub against: Vec<String>,
    /// The command to run next, in shell syntax; the caller replaces [`INPUT`] and [`TARGET`].
    pub next: String,
    /// Result of that command, and possible remedies.
    pub advice: String,
}

/// In a command: placeholder for the option for the recording, ` -i FILE` or nothing.
pub const INPUT: &str = "{input}";
/// In a command: placeholder for its target, `-p 123 -- sleep 5` or `-- ./app`.
pub const TARGET: &str = "{target}";

/// `arg` as a shell takes it.
#[must_use]
pub fn quoted(arg: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    let is_plain = !arg.is_empty() && arg.chars().all(plain);
    if is_plain { arg.to_owned() } else { format!("'{}'", arg.replace('\'', "'\\''")) }
}

/// A function's name no longer than a line has room for: its last part is what differs.
fn brief(name: &str) -> String {
    const LONGEST: usize = 48;
    let name = started_by(name);
    let Some((cut, _)) = name.char_indices().nth(LONGEST) else { return name.to_owned() };
    // Of Go's `github.com/a/b/cache.(*Map).Get` the package stays, if there is room.
    let is_path = name.contains('/') && !name.contains(' ');
    let of_go = name.rfind('/').filter(|_| is_path).into_iter().chain(name.rfind('.').filter(|_| is_path));
    let of_path = name.match_indices("::").map(|(at, _)| at);
    let mut ends = of_path.chain(of_go).map(|at| &name[at..]);
    // Not from within template arguments.
    let is_whole = |end: &&str| end.matches('<').count() == end.matches('>').count();
    match ends.find(|end| end.chars().count() < LONGEST && is_whole(end)) {
        Some(end) => format!("…{end}"),
        None => format!("{}…", &name[..name[..cut].char_indices().last().map_or(0, |(at, _)| at)]),
    }
}

/// Function that a thread or a query of Rust runs, for the one that only starts it and that the rest may be inlined
/// into:
/// `jobserver::spawn_helper` of `std::sys::backtrace::__rust_begin_short_backtrace::<jobserver::spawn_helper, ()>`.
fn started_by(name: &str) -> &str {
    const STARTER: &str = "__rust_begin_short_backtrace";
    let Some((before, after)) = name.split_once(STARTER) else { return name };
    let Some(types) = after.strip_prefix("::<") else {
        return before.strip_suffix("::invoke_provider_fn::").unwrap_or(name);
    };
    let mut depth = 0usize;
    let end = types.char_indices().find(|&(at, c)| {
        let is_arrow = types[..at].ends_with('-');
        match c {
            '<' | '(' | '[' => depth += 1,
            '>' if is_arrow => {}
            ',' | '>' if depth == 0 => return true,
            '>' | ')' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        false
    });
    end.map_or(name, |(at, _)| &types[..at])
}

/// Whether a line, `p.py:7`, is in the file that Python's functions have in their names: `hashing (p.py)`.
fn is_python_at(name: &str, line: &str) -> bool {
    let file = line.rsplit_once(':').map_or(line, |(file, _)| file);
    !file.is_empty()
        && name
            .strip_suffix(')')
            .and_then(|name| name.strip_suffix(file))
            .is_some_and(|name| name.ends_with(" ("))
}

/// A function in a sentence with its line, `crunch() (chain.c:48)`; the file of `<listcomp> (p.py)` is that of the line.
fn called_at_line(called: &str, line: Option<&str>) -> String {
    let Some(line) = line else { return called.to_owned() };
    let called = if is_python_at(called, line) {
        called.rsplit_once(" (").map_or(called, |(name, _)| name)
    } else {
        called
    };
    format!("{called} ({line})")
}

/// A function in a sentence: `parse()`, without parameters and without Python's file. Names that aren't those of
/// functions stay as they are: `[libc.so.6]`,
/// `<module>`, `function 0x5d80`.
fn called(name: &str) -> String {
    let name = started_by(name);
    if let Some(function) = dso::v8_function(name) {
        let name = match function.label() {
            "(anonymous)" => "an anonymous function".to_owned(),
            "(module)" => "the code outside functions".to_owned(),
            name => format!("{name}()"),
        };
        return format!("{name} ({}:{})", function.file, function.line);
    }
    let is_place = name.starts_with('[') || name.starts_with('<') && !name.contains(">::");
    if is_place || dso::is_unnamed_function(name) {
        brief(name)
    } else {
        format!("{}()", brief(dso::without_parameters(name)))
    }
}

/// Maximum number of findings.
pub const MOST: usize = 3;

/// Smallest share of a finding; of the running time, for rules about code that runs.
pub const LEAST: f64 = 0.03;

/// Least running time for findings about running code, ns: less is a handful of samples.
pub const LEAST_RUNNING_NS: u64 = 20_000_000;

/// Below this number of samples no shares are shown, and there are no findings about running code.
pub const FEW_SAMPLES: u64 = 20;

/// Rules about code that runs.
const ABOUT_RUNNING: [u8; 6] = [1, 2, 3, 13, 18, 21];

/// Asks all rules. The findings with the largest shares, largest first; empty if there are none.
#[must_use]
pub fn verdict(facts: &Facts) -> Vec<Finding> {
    let mut found: Vec<Finding> = RULES.iter().filter_map(|rule| (rule.ask)(facts)).collect();
    // An idle program runs about a hundredth of the time: other findings about it don't matter.
    if let Some(idle) = found.iter().position(|finding| finding.name == "idle") {
        // Goroutines have no thread while they wait: the threads are idle because of that.
        let of_go = found.iter().position(|finding| finding.name == "goroutines");
        let first = of_go.map(|at| found[at].clone());
        return first.into_iter().chain([found.swap_remove(idle)]).collect();
    }
    let least = |rule: u8| if ABOUT_RUNNING.contains(&rule) { LEAST * facts.on() } else { LEAST };
    let is_short =
        facts.times.on_ns < LEAST_RUNNING_NS || facts.samples.is_some_and(|samples| samples < FEW_SAMPLES);
    found.retain(|finding| !(is_short && ABOUT_RUNNING.contains(&finding.rule)));
    found.retain(|finding| finding.share >= least(finding.rule));
    leave_out_explained(&mut found);
    found.rank_by(|a, b| b.share.total_cmp(&a.share).then(a.rule.cmp(&b.rule)));
    put_own_first(&mut found, facts);
    put_causes_first(&mut found, facts);
    found.truncate(MOST);
    found
}

/// A finding, and those that it explains better: they are left out where it is made.
const EXPLAINED_BY: [(&str, &[&str]); 5] = [
    ("cpu-saturation", &["preemption"]),
    ("convoy", &["lock-contention", "serial-bottleneck"]),
    ("serial-chain", &["waiting-for-others"]),
    ("slow-peer", &["waiting-for-others"]),
    ("delayed-ack", &["waiting-for-others", "slow-peer"]),
];

/// Leaves out findings that another one explains better.
fn leave_out_explained(found: &mut Vec<Finding>) {
    for (better, left_out) in EXPLAINED_BY {
        if found.iter().any(|finding| finding.name == better) {
            found.retain(|finding| !left_out.contains(&finding.name));
        }
    }
}

/// A finding about the program that explains this share of its remaining time comes before other programs' CPU use.
const MOST_OF_OWN: f64 = 0.4;

/// A finding about waits also needs this part of the share of the finding about other programs: those hardly make its
/// waits shorter.
const LEAST_OF_FIRST: f64 = 0.25;

/// Where threads wait for CPUs that others have for more than so many times as long as they run, that comes before advice
/// to use more threads.
const STARVED: f64 = 3.0;
const ASK_FOR_THREADS: [&str; 2] = ["serial-bottleneck", "serial-chain"];

/// Moves findings that explain most of the program's remaining time before the finding that other programs take the
/// CPUs.
fn put_own_first(found: &mut [Finding], facts: &Facts) {
    const OF_OTHERS: [&str; 4] = ["cpu-saturation", "preemption", "short-processes", "steal"];
    let is_own = |finding: &Finding| {
        // That it is CPU bound or sleeps explains nothing.
        !["cpu-bound", "polling"].contains(&finding.name)
            && !OF_OTHERS.contains(&finding.name)
            && facts.undisturbed(finding.share) >= MOST_OF_OWN
    };
    if !facts.others_have_the_cpus() {
        return;
    }
    let saturation = found.iter().position(|finding| finding.name == "cpu-saturation");
    if let Some(at) = saturation.filter(|_| facts.waiting_for_cpu() > STARVED * facts.on())
        && ASK_FOR_THREADS.contains(&found[0].name)
    {
        found[..=at].rotate_right(1);
        return;
    }
    if found.first().is_none_or(|first| !OF_OTHERS.contains(&first.name)) {
        return;
    }
    let least = found[0].share * LEAST_OF_FIRST;
    let is_large = |finding: &Finding| ABOUT_RUNNING.contains(&finding.rule) || finding.share >= least;
    if let Some(own) = found.iter().position(|finding| is_own(finding) && is_large(finding)) {
        found[..=own].rotate_right(1);
    }
}

/// A finding comes before waits for each other if it explains this part of the waits' share.
const MOST_OF_WAITS: f64 = 0.5;

/// Threads that wait for each other wait for what others of them do. Findings about that come first, unless they
/// explain so much less that the waits must have another cause, too. A blocked event loop always comes first.
fn put_causes_first(found: &mut [Finding], facts: &Facts) {
    let waits = found.iter().position(|finding| finding.name == "waiting-for-others");
    let loops = found.iter().position(|finding| finding.name == "head-of-line");
    if let (Some(at), Some(cause)) = (waits, loops)
        && at < cause
    {
        found[at..=cause].rotate_right(1);
        return;
    }
    if let Some(at) = waits.filter(|_| rules::wait_for_each_other(facts)) {
        let least = MOST_OF_WAITS * found[at].share;
        let causes = found[at + 1..].partition_point(|finding| finding.share >= least);
        found[at..=at + causes].rotate_left(1);
    }
}

#[cfg(test)]
mod tests {
    use super::called;

    #[test]
    fn a_function_that_starts_a_thread_of_rust_has_the_name_of_what_it_starts() {
        let thread = "std::sys::backtrace::__rust_begin_short_backtrace::<jobserver::helper<(u8, u8)>::{closure#1}, ()>";
        assert_eq!(called(thread), "jobserver::helper<(u8, u8)>::{closure#1}()");
        let query = "rustc_query_impl::optimized_mir::invoke_provider_fn::__rust_begin_short_backtrace";
        assert_eq!(called(query), "rustc_query_impl::optimized_mir()");
        let pointer = "std::sys::backtrace::__rust_begin_short_backtrace::<fn(&str) -> Vec<u8>, ()>";
        assert_eq!(called(pointer), "fn(&str) -> Vec<u8>()");
        assert_eq!(called("__rust_begin_short_backtrace"), "__rust_begin_short_backtrace()");
    }

    #[test]
    fn a_function_in_a_sentence_has_one_pair_of_brackets() {
        let names = ["parse", "Grid::step(int) const", "crunch (app.py)", "<module> (app.py)", "[libc.so.6]"];
        let sentences = names.map(called);
        assert_eq!(sentences, ["parse()", "Grid::step()", "crunch()", "<module> (app.py)", "[libc.so.6]"]);
    }
}
