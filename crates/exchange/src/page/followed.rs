//! One thread's time for the page: blame in short, and the critical path as a strip.
//
// Layout: docs/formats/page.md.

use super::harmless_all;
use profile::Profile;
use profile::off_cpu::WaitReason;
use profile::profile::TaskId;
use profile::view::blame::{
    BlameChain, BlameEnd, ChainState, CriticalOpts, CriticalPath, NamedTime, PathStretch, StretchPart, blame,
    blame_chains, critical_strip, end_function, state_words, thread_name,
};
use profile::view::wall::{Part, ThreadRow, Wall};
use serde_json::{Value, json};

/// Causes, and waits of a thread for another, listed.
const CAUSES: usize = 60;
/// Chains of threads listed.
const CHAINS: usize = 20;
/// Stretches of the critical path at most, about.
const STRETCHES: usize = 300;
/// Threads and states of a stretch with names; the others' time is listed by state.
const PARTS: usize = 5;

/// `about.blame` and `about.path`, of the main thread, or of the busiest one if half of that time is polling; both null
/// where that time explains nothing.
#[must_use]
pub fn followed(profile: &Profile, wall: &Wall) -> (Value, Value) {
    // A recording of a whole machine has no main thread: the time of the first one explains nothing.
    if !wall.is_observed() || profile.has_all_processes() {
        return (Value::Null, Value::Null);
    }
    let mut found = blame(profile, None);
    let mut path = critical(profile, None);
    let busiest = busiest_beside(wall, &found.roots)
        .filter(|&(task, _)| found.mostly_polls(None) || path.0.parts.mostly_polls(Some(task)));
    if let Some((_, tid)) = busiest {
        found = blame(profile, Some(&tid));
        path = critical(profile, Some(tid));
    }
    // In a recording of a whole machine, the first thread is one of the kernel's: its time explains nothing.
    let of_kernel = BlameEnd::Waited(Part::Blocked(WaitReason::Other));
    if found.paths.first().is_none_or(|path| path.end.without_name() == of_kernel) {
        return (Value::Null, Value::Null);
    }
    let mut value = crate::rows::blame(profile, &found);
    // The sum of the rows may be less than the whole: only the first ones are listed.
    for list in ["causes", "waits"] {
        value[list].as_array_mut().into_iter().for_each(|rows| rows.truncate(CAUSES));
    }
    let chains = blame_chains(profile, &found, &|task| label(profile, wall, task));
    value["chains"] = chains.iter().take(CHAINS).map(chain_value).collect();
    let mut path = path_value(profile, wall, path);
    harmless_all(&mut value);
    harmless_all(&mut path);
    (value, path)
}

/// A thread's name, or where others have it the function that it began with.
fn label(profile: &Profile, wall: &Wall, task: TaskId) -> String {
    let row = wall.threads.iter().find(|row| row.tasks.contains(&task));
    row.map_or_else(|| thread_name(profile, task).to_owned(), |row| row.short_label())
}

fn chain_value(chain: &BlameChain) -> Value {
    let named = |of: &Option<NamedTime>| of.as_ref().map(|of| json!([of.name, of.ns]));
    let state = |of: &ChainState| {
        json!({
            "state": of.state, "ns": of.ns, "target": named(&of.target), "function": named(&of.function),
            "lacks_evidence": of.lacks_evidence,
        })
    };
    json!({ "names": chain.names, "ns": chain.ns, "states": chain.states.iter().map(state).collect::<Vec<_>>() })
}

/// The thread with most active time besides some, with its id as text; `None` if it has less than half of theirs.
fn busiest_beside(wall: &Wall, roots: &[TaskId]) -> Option<(TaskId, String)> {
    let is_root = |row: &&ThreadRow| row.tasks.iter().any(|task| roots.contains(task));
    let active = |row: &ThreadRow| row.times.active_ns();
    let of_roots: u64 = wall.threads.iter().filter(is_root).map(active).sum();
    let most = wall.threads.iter().filter(|row| !is_root(row)).max_by_key(|row| active(row))?;
    let task = most.tasks.first().filter(|_| active(most) > 0 && active(most) >= of_roots / 2)?;
    Some((*task, most.tid.to_string()))
}

/// The critical path that ends with a thread, or with the main one, and its stretches.
fn critical(profile: &Profile, thread: Option<String>) -> (CriticalPath, Vec<PathStretch>) {
    critical_strip(profile, &CriticalOpts { thread, ..CriticalOpts::default() }, STRETCHES)
}

fn path_value(profile: &Profile, wall: &Wall, path: (CriticalPath, Vec<PathStretch>)) -> Value {
    let (path, strip) = path;
    let (Some(first), Some(last)) = (path.pieces.first(), path.pieces.last()) else { return Value::Null };
    let mut names = NameIndex { names: vec![String::new()] };
    let pieces: Vec<Vec<u64>> = strip.iter().map(|of| stretch_numbers(profile, of, &mut names)).collect();
    let ends = profile.task(last.task);
    json!({
        "begin_ns": first.from_ns.saturating_sub(wall.begin_ns), "end": { "comm": thread_name(profile, last.task), "tid": ends.tid },
        "parallelism": path.parallelism, "all_pieces": path.pieces.len(), "names": names.names, "pieces": pieces,
    })
}

/// Five numbers for each part: thread id plus 1, or 0 for others; state, target and function as names; ns.
fn stretch_numbers(profile: &Profile, stretch: &PathStretch, names: &mut NameIndex) -> Vec<u64> {
    let (shown, others) = stretch.parts.split_at(stretch.parts.len().min(PARTS));
    let mut numbers: Vec<u64> = Vec::new();
    for part in shown {
        let tid = u64::try_from(profile.task(part.task).tid).unwrap_or(0) + 1;
        let (function, _) = end_function(profile, part.callsite, &part.state);
        let state = names.of(&state_of(profile, part));
        let (target, function) = (names.of(part.state.name().unwrap_or_default()), names.of(&function));
        numbers.extend([tid, state, target, function, part.ns]);
    }
    let mut rest: Vec<(u64, u64)> = Vec::new();
    for part in others {
        let state = names.of(&state_of(profile, part));
        match rest.iter_mut().find(|(known, _)| *known == state) {
            Some((_, ns)) => *ns += part.ns,
            None => rest.push((state, part.ns)),
        }
    }
    numbers.extend(rest.iter().flat_map(|&(state, ns)| [0, state, 0, 0, ns]));
    numbers
}

fn state_of(profile: &Profile, part: &StretchPart) -> String {
    state_words(profile, &part.state.without_name())
}

/// Names in the order in which they come; the first is empty.
struct NameIndex {
    names: Vec<String>,
}

impl NameIndex {
    fn of(&mut self, name: &str) -> u64 {
        let known = self.names.iter().position(|known| known == name);
        known.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        }) as u64
    }
}
