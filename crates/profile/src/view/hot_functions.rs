//! Where running time goes in a few lines: functions with their own and total shares, and the trunk of all stacks.
//!
//! Inlined functions count separately. Kernel frames are folded into one function per path, named after the system
//! call or event that entered the kernel.

mod folding;
pub(crate) mod program_code;

use crate::grow::{Grow as _, GrownSum as _};
use crate::machine::c_library::{THREAD_STARTS, is_unnamed_part};
use crate::machine::file_name;
use crate::machine::language_runtime::runtime_of;
use crate::profile::Profile;
use crate::table::{CallsiteId, FrameId, InlineFrame, StringId};
use crate::view::ranking::RankRows as _;
use crate::view::wall::{is_kernel, kernel_frames, name_of, place_names};
pub(crate) use folding::call_work;
pub use folding::is_start_code;
use folding::{is_process_wide, kernel_work};
use program_code::{is_program_code, is_script_code};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// Least own share of a row.
const LEAST_OWN: f64 = 0.005;
/// Least total share of a row for a function that calls others.
const LEAST_TOTAL: f64 = 0.1;
/// A function with this share of all samples (`main`) is no answer.
const NEARLY_ALL: f64 = 0.9;

/// Functions computed for a screen, which shows as many as it has room for.
pub const MOST_FUNCTIONS: usize = 8;

/// The event with most samples of running threads; 0 if there is none.
#[must_use]
pub fn main_event(profile: &Profile) -> usize {
    let count = |event: &usize| profile.total(*event).count;
    let runs = |event: &usize| !crate::off_cpu::is_off_cpu(&profile.events[*event].name);
    (0..profile.events.len()).rev().filter(runs).max_by_key(count).unwrap_or(0)
}

/// Functions and hot path of one event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HotFunctions {
    /// Number of samples.
    pub samples: u64,
    /// By own share, largest first.
    pub functions: Vec<HotFunctionRow>,
    /// Functions that at least half of the samples have in common, outermost first. Without start code; frames of a
    /// language runtime are one step with its name in brackets.
    pub trunk: Vec<String>,
    /// The innermost of them that has a symbol, and the share of time in it with what it calls, 0 to 1.
    pub trunk_end: Option<(String, f64)>,
}

impl HotFunctions {
    /// At most so many of the functions: those with most time of their own, then those that are there for what they call,
    /// at most half. Both by own share to a tenth of a percent, then by the whole share.
    #[must_use]
    pub fn best(&self, rows: usize) -> Vec<&HotFunctionRow> {
        let mut callers: Vec<&HotFunctionRow> = self.functions.iter().filter(|row| row.is_caller).collect();
        let order = |row: &HotFunctionRow| (Reverse(row.calls_most), Reverse(row.ends_trunk));
        callers.rank_by(|a, b| order(a).cmp(&order(b)).then(b.total.total_cmp(&a.total)));
        callers.truncate(rows / 2);
        let mut own: Vec<&HotFunctionRow> = self.functions.iter().filter(|row| !row.is_caller).collect();
        let room = rows - callers.len();
        if let Some(end) = own.iter().skip(room).position(|row| row.ends_trunk) {
            own.swap(room.saturating_sub(1), room + end);
        }
        let mut best: Vec<&HotFunctionRow> = own.into_iter().take(room).chain(callers).collect();
        // As rows show it: what reads 0.0 % twice is in the order of the other column.
        let tenths = |row: &HotFunctionRow| (row.own * 1000.0).round();
        let by_share = |a: &HotFunctionRow, b: &HotFunctionRow| {
            tenths(b).total_cmp(&tenths(a)).then(b.total.total_cmp(&a.total))
        };
        best.rank_by(|a, b| a.is_caller.cmp(&b.is_caller).then_with(|| by_share(a, b)));
        best
    }
}

/// One function.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HotFunctionRow {
    /// Name; the file in brackets for code without a name.
    pub name: String,
    /// File that contains it, short; `[kernel]` for work of the kernel.
    pub dso: String,
    /// Its line with most time (its own, or of calls): path and number as the debug information has them.
    pub source: Option<(String, u32)>,
    /// Share of time in it, 0 to 1.
    pub own: f64,
    /// The same with its callees.
    pub total: f64,
    /// It has a row for what it calls, and is not among those with most time of their own.
    pub is_caller: bool,
    /// Of all functions of the program itself, the one below which libraries and the kernel take most time; only for one
    /// that has no row for its own time.
    pub calls_most: bool,
    /// It is the last function of the trunk: a reader of the path looks for its row.
    pub ends_trunk: bool,
}

impl HotFunctionRow {
    /// Line with most time in short, `parse.c:14`.
    #[must_use]
    pub fn line(&self) -> Option<String> {
        self.source.as_ref().map(|(path, line)| format!("{}:{line}", file_name(path)))
    }
}

/// Index of a function in [`Functions::rows`].
type FunctionId = u32;

/// A function on a path, with the file and line of the call or sample in it.
type Step = (FunctionId, Option<(StringId, u32)>);

#[derive(Clone, Default)]
struct FunctionSums {
    name: String,
    dso: String,
    own: u64,
    total: u64,
    /// It is the program's own code, not a library's.
    is_program_code: bool,
    /// Time of paths on which it is the innermost function of the program itself.
    innermost: u64,
    /// Last path that was counted for `total`: recursion counts once.
    seen: usize,
    lines: FxHashMap<(StringId, u32), u64>,
    /// Frame that a trunk shows in its place; `None` for start code and work of the kernel.
    in_trunk: Option<FunctionId>,
}

/// The functions of `event`: those with most time of their own, and those with most time in all except the ones that
/// nearly every sample has. At most `most`.
#[must_use]
pub fn hot_functions(profile: &Profile, event: usize, most: usize) -> HotFunctions {
    let mut paths: FxHashMap<CallsiteId, u64> = FxHashMap::default();
    let mut samples = 0u64;
    for (key, sums) in profile.cells().iter().filter(|(key, _)| key.event as usize == event) {
        paths.entry(key.callsite).or_default().grow(sums.period);
        samples.grow(sums.count);
    }
    let mut paths: Vec<(CallsiteId, u64)> = paths.into_iter().collect();
    paths.sort_unstable();
    let whole: u64 = paths.iter().map(|(_, period)| *period).grown_sum();
    let mut functions = Functions {
        profile,
        rows: Vec::new(),
        by_name: FxHashMap::default(),
        by_frame: FxHashMap::default(),
    };
    let mut trunks = Vec::with_capacity(paths.len());
    for (at, &(callsite, period)) in paths.iter().enumerate() {
        trunks.push((functions.add_path(at + 1, callsite, period), period));
    }
    let mut trunk = trunk(trunks, whole);
    // A path leads to a function, not to a file.
    while trunk.pop_if(|id| functions.rows[*id as usize].name.starts_with('[')).is_some() {}
    let is_named = |name: &str| !dso::is_unnamed_function(name) && !name.starts_with('[');
    let end = trunk.iter().rev().find(|id| is_named(&functions.rows[**id as usize].name));
    let end = end.map(|id| *id as usize);
    let trunk_end = end.map(|id| &functions.rows[id]).map(|row| (row.name.clone(), share(row.total, whole)));
    // A single function is no path.
    let landmarks =
        Landmarks { calls_most: functions.calls_most(whole), ends_trunk: end.filter(|_| trunk.len() > 1) };
    let trunk = trunk.into_iter().map(|id| functions.rows[id as usize].name.clone()).collect();
    HotFunctions { samples, trunk, trunk_end, functions: functions.hottest(whole, most, landmarks) }
}

/// Functions that have a row whatever their share is: indices of [`Functions::rows`].
#[derive(Clone, Copy)]
struct Landmarks {
    calls_most: Option<usize>,
    ends_trunk: Option<usize>,
}

struct Functions<'p> {
    profile: &'p Profile,
    rows: Vec<FunctionSums>,
    by_name: FxHashMap<(String, String), FunctionId>,
    by_frame: FxHashMap<FrameId, Vec<Step>>,
}

impl Functions<'_> {
    fn id(&mut self, name: &str, dso: &str) -> FunctionId {
        let next = FunctionId::try_from(self.rows.len()).unwrap_or(FunctionId::MAX);
        let id = *self.by_name.entry((name.to_owned(), dso.to_owned())).or_insert(next);
        if id == next {
            let (name, dso) = (name.to_owned(), dso.to_owned());
            self.rows.push(FunctionSums { name, dso, ..FunctionSums::default() });
            let in_trunk = self.in_trunk(id);
            self.rows[id as usize].in_trunk = in_trunk;
        }
        id
    }

    /// The function itself, or the runtime that it is only a part of.
    fn in_trunk(&mut self, id: FunctionId) -> Option<FunctionId> {
        let row = &self.rows[id as usize];
        if row.dso == "[kernel]" || is_process_wide(&row.name) {
            return None;
        }
        let whole = match runtime_of(&row.dso) {
            Some(runtime) => format!("[{runtime}]"),
            None => return Some(id),
        };
        Some(self.id(&whole, ""))
    }

    /// Counts a path, and returns the steps of it that a trunk shows, outermost first.
    fn add_path(&mut self, path: usize, callsite: CallsiteId, period: u64) -> Vec<FunctionId> {
        let profile = self.profile;
        let kernel: Vec<&str> =
            kernel_frames(profile, callsite).map(|frame| name_of(profile, frame).unwrap_or("")).collect();
        let mut steps = Vec::new();
        if !kernel.is_empty() {
            steps.push((self.id(&kernel_work(&kernel), "[kernel]"), None));
        }
        let user = profile.callsites.leaf_first(callsite).filter(|&frame| !is_kernel(profile, frame));
        for frame in user {
            if let Some(known) = self.by_frame.get(&frame) {
                steps.extend_from_slice(known);
                continue;
            }
            let new = self.steps_of(frame);
            steps.extend_from_slice(&new);
            self.by_frame.insert(frame, new);
        }
        if let Some(&(leaf, _)) = steps.first() {
            self.rows[leaf as usize].own.grow(period);
        }
        if let Some(&(own, _)) = steps.iter().find(|(id, _)| self.rows[*id as usize].is_program_code) {
            self.rows[own as usize].innermost.grow(period);
        }
        for &(id, line) in &steps {
            let row = &mut self.rows[id as usize];
            if row.seen == path {
                continue;
            }
            row.seen = path;
            row.total.grow(period);
            if let Some(line) = line {
                row.lines.entry(line).or_default().grow(period);
            }
        }
        self.trunk_steps(&steps)
    }

    /// The functions of a frame, innermost first.
    fn steps_of(&mut self, frame: FrameId) -> Vec<Step> {
        let profile = self.profile;
        let dso = profile.dsos.of(profile.frames.of(frame).dso);
        let functions = profile.frame_names(frame);
        let names: Vec<&str> = place_names(profile, frame).collect();
        if names.is_empty() {
            return vec![(self.id(&dso.bracketed_name(), &dso.short_name), None)];
        }
        let shown = &functions[functions.len().saturating_sub(names.len())..];
        let step = |(name, inline): (&&str, &InlineFrame)| {
            let line = inline.file.filter(|_| inline.line != 0).map(|file| (file, inline.line));
            let id = self.id(name, &dso.short_name);
            let source = line.map(|(file, _)| profile.strings.of(file));
            let is_runtime = runtime_of(&dso.short_name).is_some();
            self.rows[id as usize].is_program_code |=
                is_program_code(&dso.path, source, name) && !is_runtime || is_script_code(name);
            (id, line)
        };
        names.iter().zip(shown).map(step).collect()
    }

    /// The steps that a trunk shows, outermost first.
    fn trunk_steps(&self, steps: &[Step]) -> Vec<FunctionId> {
        let mut trunk: Vec<FunctionId> = Vec::with_capacity(steps.len());
        let program = &steps[..self.inside_of_start(steps)];
        trunk.extend(program.iter().rev().filter_map(|(id, _)| self.rows[*id as usize].in_trunk));
        trunk.dedup();
        trunk
    }

    /// Number of steps inside of libc's start code. In a stripped program neither `_start` nor `main` has a name, but
    /// they are the functions next to libc's.
    fn inside_of_start(&self, steps: &[Step]) -> usize {
        let row = |at: usize| &self.rows[steps[at].0 as usize];
        let is_libc_start = |(id, _): &Step| self.rows[*id as usize].name.starts_with("__libc_start");
        let is_unnamed = |at: usize| dso::is_unnamed_function(&row(at).name);
        let is_in_libc = |at: usize| is_unnamed_part(&row(at).name, &row(at).dso);
        let Some(mut start) = steps.iter().position(is_libc_start) else {
            let outer = (0..steps.len()).rev().take_while(|&at| is_in_libc(at)).take(THREAD_STARTS).count();
            return steps.len() - outer;
        };
        // A stripped C library has another function without a name between.
        if start > 0 && is_in_libc(start - 1) {
            start -= 1;
        }
        if start > 0 && is_unnamed(start - 1) { start - 1 } else { start }
    }

    /// The rows of [`Self::chosen`].
    fn hottest(&self, whole: u64, most: usize, landmarks: Landmarks) -> Vec<HotFunctionRow> {
        let row = |(id, is_caller): (usize, bool)| {
            let row = &self.rows[id];
            HotFunctionRow {
                name: row.name.clone(),
                dso: row.dso.clone(),
                source: self.line(row).map(|(file, line)| (file.to_owned(), line)),
                own: share(row.own, whole),
                total: share(row.total, whole),
                is_caller,
                calls_most: is_caller && landmarks.calls_most == Some(id),
                ends_trunk: landmarks.ends_trunk == Some(id),
            }
        };
        self.chosen(whole, most, landmarks).into_iter().map(row).collect()
    }

    /// Half of the rows for functions with most own time, the others for those with most time in all, as far as there
    /// are such, and whether that is why. By own time. The landmarks are among them.
    fn chosen(&self, whole: u64, most: usize, landmarks: Landmarks) -> Vec<(usize, bool)> {
        let half = most.div_ceil(2);
        let mut by_own: Vec<usize> = (0..self.rows.len()).collect();
        by_own.rank_by_key(|&id| (Reverse(self.rows[id].own), id));
        by_own.retain(|&id| share(self.rows[id].own, whole) >= LEAST_OWN);
        let mut by_total: Vec<usize> =
            (0..self.rows.len()).filter(|&id| self.rows[id].is_worth_a_row(whole)).collect();
        by_total.rank_by_key(|&id| (Reverse(self.rows[id].total), id));
        for landmark in [landmarks.ends_trunk, landmarks.calls_most].into_iter().flatten() {
            by_total.retain(|&id| id != landmark);
            by_total.insert(0, landmark);
        }
        let mut chosen: Vec<usize> = by_own.iter().copied().take(half).collect();
        by_total.retain(|id| !chosen.contains(id));
        by_total.truncate(most - half);
        chosen.extend(&by_total);
        for id in by_own.into_iter().skip(half) {
            if chosen.len() < most && !chosen.contains(&id) {
                chosen.push(id);
            }
        }
        chosen.rank_by_key(|&id| (Reverse(self.rows[id].own), Reverse(self.rows[id].total), id));
        chosen.into_iter().map(|id| (id, by_total.contains(&id))).collect()
    }

    /// The program's own function on whose behalf most time passes elsewhere, if it is a good part of all: where a reader
    /// can change something. `main` is only one with a line.
    fn calls_most(&self, whole: u64) -> Option<usize> {
        let is_answer = |row: &FunctionSums| {
            row.is_program_code
                && share(row.innermost.saturating_sub(row.own), whole) >= LEAST_TOTAL
                && (!is_process_wide(&row.name) || row.name == "main" && !row.lines.is_empty())
                && runtime_of(&row.dso).is_none()
                && !dso::is_unnamed_function(&row.name)
        };
        let answers = (0..self.rows.len()).filter(|&id| is_answer(&self.rows[id]));
        answers.max_by_key(|&id| (self.rows[id].innermost.saturating_sub(self.rows[id].own), Reverse(id)))
    }

    /// The line with most time; of equal ones the first.
    fn line(&self, row: &FunctionSums) -> Option<(&str, u32)> {
        let (&(file, line), _) = row.lines.iter().max_by_key(|&(at, period)| (*period, Reverse(*at)))?;
        Some((self.profile.strings.of(file), line))
    }
}

impl FunctionSums {
    /// True if its total is an answer: a good part of all time, but not nearly all.
    fn is_worth_a_row(&self, whole: u64) -> bool {
        (LEAST_TOTAL..NEARLY_ALL).contains(&share(self.total, whole))
            && !is_process_wide(&self.name)
            && !self.name.starts_with('[')
            && !dso::is_unnamed_function(&self.name)
            && runtime_of(&self.dso).is_none()
    }
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// The longest path from the outside in that at least half of the time has in common.
fn trunk(mut paths: Vec<(Vec<FunctionId>, u64)>, whole: u64) -> Vec<FunctionId> {
    /// More steps than a line has room for.
    const LONGEST: usize = 64;
    let mut trunk = Vec::new();
    while trunk.len() < LONGEST {
        let depth = trunk.len();
        let mut sums: FxHashMap<FunctionId, u64> = FxHashMap::default();
        for (path, period) in &paths {
            if let Some(&step) = path.get(depth) {
                sums.entry(step).or_default().grow(*period);
            }
        }
        let Some((step, period)) = sums.into_iter().max_by_key(|&(id, period)| (period, Reverse(id))) else {
            break;
        };
        if period == 0 || period < whole.div_ceil(2) {
            break;
        }
        paths.retain(|(path, _)| path.get(depth) == Some(&step));
        trunk.push(step);
    }
    trunk
}

#[cfg(test)]
mod tests;
