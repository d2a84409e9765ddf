//! Where a thread's wall-clock time went through its waits for other threads, and the critical path: lines of text.

use display::fit::hang;
use display::number::duration_ns;
use perfdata::text::harmless;
use profile::profile::{Profile, TaskId};
use profile::view::blame::{
    BlameChain, ChainState, CriticalOpts, blame, blame_chains, blamed_functions, critical_path, thread_name,
};

/// Chains and functions that are listed.
const MOST: usize = 40;
/// Columns of a line.
const WIDTH: usize = 96;

/// The lines for a thread by its id, without one for the main thread.
pub(super) fn blame_lines(profile: &Profile, thread: Option<i32>) -> Vec<String> {
    if thread.is_none() && profile.has_all_processes() {
        return vec!["select a thread first: Enter on its line in the overview".to_owned()];
    }
    let thread = thread.map(|tid| tid.to_string());
    let found = blame(profile, thread.as_deref());
    let Some(&root) = found.roots.first().filter(|_| found.total_ns > 0) else {
        return vec!["no waits were recorded: tally record --off-cpu".to_owned()];
    };
    let total = Total(found.total_ns);
    let name = thread_name(profile, root);
    let mut lines =
        vec![format!("wall-clock time of {name} {}: {}", tid(profile, root), duration_ns(total.0))];
    heading(&mut lines, "CHAINS       who it waited for, and what the last one did");
    let chains = blame_chains(profile, &found, &|task| thread_name(profile, task).to_owned());
    for chain in chains.iter().take(MOST).filter(|chain| total.is_shown(chain.ns)) {
        total.line(&mut lines, chain.ns, &chain.names.join(" ← "));
        let states = chain.states.iter().take(MOST).filter(|state| total.is_shown(state.ns));
        states.for_each(|state| {
            total.line(&mut lines, state.ns, &format!("    {}", state_words(state, chain)))
        });
    }
    let path = critical_path(profile, &CriticalOpts { thread, ..CriticalOpts::default() });
    heading(&mut lines, "CRITICAL PATH  upper bound: how much shorter it could be without a function");
    for of in blamed_functions(profile, &path.parts).iter().take(MOST).filter(|of| total.is_shown(of.ns)) {
        total.line(&mut lines, of.ns, &format!("{}: {}", of.thread, of.function));
    }
    lines
}

fn tid(profile: &Profile, task: TaskId) -> i32 {
    profile.task(task).tid
}

fn heading(lines: &mut Vec<String>, text: &str) {
    lines.extend([String::new(), text.to_owned()]);
}

/// `preempted by cc1 in parse()`.
fn state_words(state: &ChainState, chain: &BlameChain) -> String {
    let most = |ns: u64| ns.saturating_mul(2) >= chain.ns.min(state.ns);
    let word = if state.state == "preempted" { "by" } else { "for" };
    let target = state.target.as_ref().filter(|target| most(target.ns));
    let target = target.map_or_else(String::new, |target| format!(" {word} {}", target.name));
    let function = state.function.as_ref().filter(|function| most(function.ns));
    let function = function.map_or_else(String::new, |function| format!(" in {}", function.name));
    format!("{}{target}{function}", state.state)
}

/// The whole, ns.
#[derive(Clone, Copy)]
struct Total(u64);

impl Total {
    /// At least 0.5 % are shown.
    fn is_shown(self, ns: u64) -> bool {
        ns.saturating_mul(200) >= self.0
    }

    fn line(self, lines: &mut Vec<String>, ns: u64, text: &str) {
        let share = ns as f64 / self.0.max(1) as f64 * 100.0;
        let line = format!("{:>9} {share:>6.1}%  {text}", duration_ns(ns));
        lines.extend(hang(&harmless(&line), 23, WIDTH).lines().map(str::to_owned));
    }
}
