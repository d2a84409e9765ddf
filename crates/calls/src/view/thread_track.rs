//! A thread of a recording and where its steps come from.

use crate::model::{Extra, FunctionId, Step, ThreadFile, TscClock};
use rustc_hash::FxHashMap;
use tracer::layout;

use crate::pt::Indexed;
use crate::recording::switches::{Off, WithOff};

/// A thread and what it did.
pub struct ThreadTrack<'a> {
    /// Id.
    pub tid: u32,
    /// Process's id; `None` when the recording doesn't have it.
    pub pid: Option<u32>,
    /// Name; `None` when the recording doesn't have it.
    pub name: Option<String>,
    pub(super) source: Source<'a>,
}

/// Where a thread's steps come from.
pub(super) enum Source<'a> {
    /// Read from the file that the thread wrote itself.
    File { file: ThreadFile<'a>, numbers: FxHashMap<u64, FunctionId>, clock: TscClock, off: &'a [Off] },
    /// Known already.
    DecodedThread { steps: Vec<(u64, Step)>, values: Vec<u8> },
    /// Decoded from a processor's trace whenever asked for.
    Traced(&'a Indexed<'a, 'a>),
}

impl ThreadTrack<'_> {
    /// Steps with their times, ns.
    #[must_use]
    pub fn steps(&self) -> Box<dyn Iterator<Item = (u64, Step)> + '_> {
        match &self.source {
            Source::DecodedThread { steps, .. } => Box::new(steps.iter().copied()),
            Source::Traced(indexed) => Box::new(indexed.steps(self.tid as i32)),
            Source::File { file, numbers, clock, off } => {
                let steps = file.steps().filter_map(|(tsc, raw)| {
                    let step = raw.numbered(|address| numbers[&address])?;
                    Some((clock.ns_at(tsc), step))
                });
                Box::new(WithOff::new(steps, off.to_vec()))
            }
        }
    }

    /// When its first and last steps are, ns; `None` if it took none.
    pub(super) fn span_ns(&self) -> Option<(u64, u64)> {
        if let Source::Traced(indexed) = &self.source {
            return indexed.span_ns(self.tid as i32);
        }
        Some((self.first_ns()?, self.steps().last()?.0))
    }

    /// When its first step is, ns; what it waited for before its first call counts for nothing.
    pub(super) fn first_ns(&self) -> Option<u64> {
        if let Source::Traced(indexed) = &self.source {
            return Some(indexed.span_ns(self.tid as i32)?.0);
        }
        Some(self.steps().find(|(_, step)| !matches!(step, Step::OffCpu(_)))?.0)
    }

    /// The bytes of what was recorded besides times.
    #[must_use]
    pub fn extra(&self, extra: Extra) -> &[u8] {
        match &self.source {
            Source::Traced(_) => &[],
            Source::DecodedThread { values, .. } => {
                let rest = values.get(extra.at as usize..).unwrap_or_default();
                &rest[..rest.len().min(extra.bytes as usize)]
            }
            Source::File { file, .. } => file.extra(extra),
        }
    }

    /// The functions of a backtrace, outermost first.
    #[must_use]
    pub fn backtrace(&self, extra: Extra) -> Vec<FunctionId> {
        let Source::File { file, numbers, .. } = &self.source else { return Vec::new() };
        layout::words(file.extra(extra)).filter_map(|address| numbers.get(&address).copied()).collect()
    }
}

/// A thread whose steps are known already: times in ns.
pub struct DecodedThread {
    /// Id.
    pub tid: u32,
    /// Process's id; `None` when the recording doesn't have it.
    pub pid: Option<u32>,
    /// Name; `None` when the recording doesn't have it.
    pub name: Option<String>,
    /// Steps of the thread.
    pub steps: Vec<(u64, Step)>,
    /// The bytes of what was recorded besides times; [`Extra::at`] counts from their first, in bytes.
    pub values: Vec<u8>,
}
