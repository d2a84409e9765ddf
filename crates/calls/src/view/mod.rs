//! From a recording's folder to summed calls: filters, parallel replay, merge.

pub mod call_lines;
pub mod callees;
pub mod limits;
pub mod live_changes;
pub mod page;
pub mod slow_call;
pub mod spans;
pub mod thread_track;

use crate::error::Context;
use crate::error::ensure;
use crate::model::{
    Asked, CallProfile, CallStats, ExtraKind, Filter, FunctionId, RawStep, Replay, ReplayGate, Step,
    TimeWindow,
};
use rayon::prelude::*;
use rustc_hash::FxHashSet;
use std::sync::{Mutex, PoisonError};
use tracer::layout;

use crate::pt::{Indexed, Summed, Trace, TraceOutcome, TraceSelection};
use crate::recording::folder::{Folder, RecordedThread};
use crate::recording::functions::{Functions, ThreadBegin};
use crate::selection::function_filter::FunctionFilter;
use crate::selection::view_filter::ViewFilter;
use crate::selection::view_spec::ViewSpec;
use thread_track::{DecodedThread, Source, ThreadTrack};

/// A recording made ready for any view.
pub struct View<'a> {
    /// The functions by number.
    pub functions: Functions,
    /// The filters.
    pub filter: FunctionFilter,
    /// The threads chosen.
    pub tracks: Vec<ThreadTrack<'a>>,
    window: TimeWindow,
    totals: Vec<(FunctionId, CallStats)>,
    spec: &'a ViewSpec,
    /// Summed up while decoding: then there are no tracks.
    summed: Option<(Mutex<CallProfile>, u64)>,
    /// Lost calls of threads that have no file.
    unfiled: u64,
}

impl<'a> View<'a> {
    /// View of a folder that `tally calls record` wrote: reads the addresses called, names them.
    ///
    /// # Errors
    /// If a filter means no function, or the clock is not known.
    pub fn of_folder(folder: &'a Folder, spec: &'a ViewSpec) -> crate::Result<Self> {
        if let Some(totals) = &folder.totals {
            return Self::of_totals(folder, totals, spec);
        }
        ensure!(!folder.threads.is_empty(), "{}: no call was recorded", folder.path.display());
        let clock = folder.clock()?;
        let threads: Vec<&RecordedThread> =
            folder.threads.iter().filter(|thread| spec.means(thread.tid, Some(thread.pid))).collect();
        let called: Vec<Vec<u64>> = threads.par_iter().map(|thread| addresses(thread)).collect();
        let mut functions = Functions::new();
        let mut tracks = Vec::new();
        for (thread, addresses) in threads.into_iter().zip(called) {
            let file = thread.file().context("invariant: threads were read once")?;
            let begin = ThreadBegin { pid: thread.pid, tsc: file.header.tsc };
            let numbers = addresses.iter().map(|at| (*at, functions.at(folder, begin, *at))).collect();
            let off = folder.off.get(&thread.tid).map_or(&[][..], Vec::as_slice);
            let source = Source::File { file, numbers, clock, off };
            tracks.push(ThreadTrack { tid: thread.tid, pid: Some(thread.pid), name: None, source });
        }
        let all: Vec<String> = folder.threads.iter().map(|thread| thread.tid.to_string()).collect();
        // Nobody knows whose they are.
        let unfiled = if tracks.len() == all.len() { folder.unfiled } else { 0 };
        Ok(Self { unfiled, ..Self::new(functions, tracks, spec, &all)? })
    }

    /// View of sums by function: there are no single calls to show.
    fn of_totals(folder: &'a Folder, totals: &[(u64, CallStats)], spec: &'a ViewSpec) -> crate::Result<Self> {
        ensure!(
            !spec.chooses_calls(),
            "{}: only sums by function were recorded (--counts), which can't be filtered; record without --counts",
            folder.path.display()
        );
        let mut functions = Functions::new();
        let of = |(at, stats): &(u64, CallStats)| {
            (functions.at(folder, ThreadBegin::default(), *at), stats.clone())
        };
        let totals = totals.iter().map(of).collect();
        let filter = FunctionFilter::new(spec, &functions)?;
        Ok(Self {
            functions,
            filter,
            tracks: Vec::new(),
            window: 0..u64::MAX,
            totals,
            summed: None,
            unfiled: 0,
            spec,
        })
    }

    /// View of an Intel PT recording, which is decoded again for every look at its calls.
    ///
    /// # Errors
    /// If a filter means no function.
    pub fn of_trace(
        indexed: &'a Indexed<'a, 'a>,
        functions: Functions,
        spec: &'a ViewSpec,
    ) -> crate::Result<Self> {
        let all: Vec<String> = indexed.tids().map(|tid| tid.to_string()).collect();
        let track = |tid: i32| {
            let (pid, name) = indexed.names(tid);
            let (tid, pid) = (tid.cast_unsigned(), Some(pid.cast_unsigned()));
            ThreadTrack { tid, pid, name, source: Source::Traced(indexed) }
        };
        let tracks = indexed.tids().map(track).filter(|track| spec.means(track.tid, track.pid)).collect();
        Self::new(functions, tracks, spec, &all)
    }

    /// View of threads whose steps are known.
    ///
    /// # Errors
    /// If a filter means no function.
    pub fn of_decoded(
        threads: Vec<DecodedThread>,
        functions: Functions,
        spec: &'a ViewSpec,
    ) -> crate::Result<Self> {
        let all: Vec<String> = threads.iter().map(|thread| thread.tid.to_string()).collect();
        let tracks = threads
            .into_iter()
            .map(|DecodedThread { tid, pid, name, steps, values }| {
                let source = Source::DecodedThread { steps, values };
                ThreadTrack { tid, pid, name, source }
            })
            .filter(|track| spec.means(track.tid, track.pid))
            .collect();
        Self::new(functions, tracks, spec, &all)
    }

    /// View of an Intel PT recording, summed up while it is decoded: no single call is kept. Notes
    /// besides the numbers comes with it.
    ///
    /// # Errors
    /// If a filter means no function.
    pub fn of_sum(
        trace: Trace<'_>,
        spec: &'a ViewSpec,
        slowest: usize,
    ) -> crate::Result<(Self, TraceOutcome)> {
        let Summed { profile, functions, start_ns, tids, outcome } =
            trace.sum(&TraceSelection { chosen: ViewFilter::new(spec)?, tids: spec.tid.clone(), slowest })?;
        ensure!(!tids.is_empty(), "no thread to show");
        let filter = FunctionFilter::default();
        let view = Self {
            functions,
            filter,
            tracks: Vec::new(),
            window: 0..u64::MAX,
            spec,
            totals: Vec::new(),
            summed: Some((Mutex::new(profile), start_ns)),
            unfiled: 0,
        };
        Ok((view, outcome))
    }

    fn new(
        functions: Functions,
        tracks: Vec<ThreadTrack<'a>>,
        spec: &'a ViewSpec,
        all: &[String],
    ) -> crate::Result<Self> {
        ensure!(!tracks.is_empty(), "no thread to show; recorded were: {}", all.join(", "));
        let filter = FunctionFilter::new(spec, &functions)?;
        let window = 0..u64::MAX;
        Ok(Self { functions, filter, tracks, window, spec, summed: None, totals: Vec::new(), unfiled: 0 })
    }

    /// Whether single calls were recorded, not only sums.
    ///
    /// # Errors
    /// If not, with what to do.
    pub fn check_calls(&self) -> crate::Result<()> {
        ensure!(
            self.totals.is_empty(),
            "only sums by function were recorded (--counts): `tally calls report` shows them; for single calls \
             record without --counts"
        );
        Ok(())
    }

    /// When the first thread's first step was, ns of the recording's clock.
    #[must_use]
    pub fn start_ns(&self) -> u64 {
        match self.summed {
            Some((_, start_ns)) => start_ns,
            None => start_ns(&self.tracks),
        }
    }

    /// The filters and the depth, to be asked call by call of one thread.
    #[must_use]
    pub fn gate(&self) -> ReplayGate<'_> {
        let filter = self.filter.is_any().then_some(&self.filter as &dyn Filter);
        ReplayGate::new(filter, Asked { window: self.window.clone(), ..self.filter.asked.clone() })
    }

    /// Time from the first step to the last one, ns.
    #[must_use]
    pub fn length_ns(&self) -> u64 {
        let start_ns = start_ns(&self.tracks);
        let ends = self.tracks.par_iter().filter_map(|track| Some(track.span_ns()?.1));
        ends.max().unwrap_or(start_ns).saturating_sub(start_ns)
    }

    /// Leaves out calls that don't begin between these times, ns since the first step, both inclusive.
    pub fn show_only(&mut self, from_ns: u64, to_ns: u64) {
        let start_ns = start_ns(&self.tracks);
        self.window = start_ns.saturating_add(from_ns)..start_ns.saturating_add(to_ns).saturating_add(1);
    }

    /// Calls that begin outside are left out.
    #[must_use]
    pub const fn window(&self) -> &TimeWindow {
        &self.window
    }

    /// Shorter calls are left out, ns.
    #[must_use]
    pub fn min_ns(&self) -> u64 {
        self.spec.min_ns.unwrap_or(0)
    }

    /// All threads summed up, the `slowest` slowest calls kept. The same whatever the number of cores. To be
    /// asked once: what was summed up while decoding is handed out.
    #[must_use]
    pub fn sum(&self, slowest: usize) -> CallProfile {
        if let Some((profile, _)) = &self.summed {
            return std::mem::take(&mut *profile.lock().unwrap_or_else(PoisonError::into_inner));
        }
        let sums: Vec<CallProfile> = self
            .tracks
            .par_iter()
            .map(|track| {
                let profile = CallProfile::new(track.tid, slowest);
                let mut replay = Replay::new(profile, self.gate());
                for (time_ns, step) in track.steps() {
                    replay.step(time_ns, step, &mut |_| {});
                    if replay.is_over() {
                        break;
                    }
                }
                replay.finish(&mut |_| {})
            })
            .collect();
        let mut all = CallProfile::new(0, slowest);
        all.lost = self.unfiled;
        sums.iter().for_each(|sum| all.merge(sum));
        self.totals.iter().for_each(|(function, stats)| all.add_function(*function, stats));
        all
    }
}

fn start_ns(tracks: &[ThreadTrack<'_>]) -> u64 {
    tracks.iter().filter_map(ThreadTrack::first_ns).min().unwrap_or(0)
}

/// The distinct addresses a thread called, sorted; those of backtraces among them.
fn addresses(thread: &RecordedThread) -> Vec<u64> {
    let Some(file) = thread.file() else { return Vec::new() };
    let mut distinct = FxHashSet::default();
    let mut last = None;
    for (_, step) in file.steps() {
        match step {
            RawStep::Enter(address) if last != Some(address) => {
                last = Some(address);
                distinct.insert(address);
            }
            RawStep::Other(Step::Extra(extra)) if extra.kind == ExtraKind::Backtrace => {
                distinct.extend(layout::words(file.extra(extra)));
            }
            _ => {}
        }
    }
    let mut sorted: Vec<u64> = distinct.into_iter().collect();
    sorted.sort_unstable();
    sorted
}
