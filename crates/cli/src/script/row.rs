//! A sample with everything a line needs, resolved at its moment.

use super::fields::{Field, FieldSet};
use crate::symbols::{self, ObjectFiles};
use crate::unwind::StackUnwinder;
use perfdata::{Item, Record, Sample};
use profile::machine::Mode;
use profile::session::{Session, UnwindJob, Unwound};
use profile::source::Want;
use profile::table::{FrameId, StringId};

/// A sample and where its addresses lie.
pub struct Row<'a> {
    /// Index of the event; samples without one are no rows.
    pub event: usize,
    /// The sample.
    pub sample: Sample<'a>,
    /// The thread's name at that moment.
    pub comm: StringId,
    /// The sampled address.
    pub leaf: Option<FrameId>,
    /// The call chain, leaf first; `None` without one (or with `-G`).
    pub chain: Option<Vec<FrameId>>,
    /// How many frames of the chain were recorded as such; those behind were unwound from a stored stack.
    pub recorded: usize,
    /// The data address, where it can be one of a symbol.
    pub data: Option<FrameId>,
    /// Ends of the branches, newest first.
    pub branches: Vec<(FrameId, FrameId)>,
}

/// Makes rows of batches.
pub struct RowMaker<'f> {
    /// Fields by event index.
    pub fields: Vec<FieldSet>,
    /// Show call chains.
    pub callchains: bool,
    /// What to ask the object files for.
    pub want: Want,
    /// The object files.
    pub files: &'f ObjectFiles,
    /// Unwinds stored stacks.
    pub unwinder: StackUnwinder<'f>,
    /// Which samples to show.
    pub filter: &'f (dyn Fn(&Sample<'_>, &str) -> bool + Sync),
}

impl RowMaker<'_> {
    /// Applies the records of a batch to the session, and resolves and names its samples.
    pub fn rows<'a>(&self, session: &mut Session, items: &[Item<'a>]) -> Vec<Row<'a>> {
        let (mut rows, mut owners, mut chains) =
            (Vec::with_capacity(items.len()), Vec::new(), Vec::with_capacity(items.len()));
        let make = |session: &mut Session, item: &Item<'a>| {
            let (row, job) = self.row(session, item)?;
            rows.push(row);
            owners.extend(job.is_some().then_some(rows.len() - 1));
            job
        };
        let take = |session: &mut Session, job: UnwindJob<'a>, unwound: &Unwound| {
            chains.push(session.frames_of_unwound(&job, unwound));
        };
        self.unwinder.unwind_along(session, items, make, take);
        for (owner, frames) in owners.into_iter().zip(chains) {
            if let Some(chain) = &mut rows[owner].chain {
                chain.extend(frames);
            }
        }
        symbols::symbolize(session.profile_mut(), self.files, self.want);
        rows
    }

    /// The row of a sample that passes the filter, but for what has to be unwound first.
    fn row<'a>(&self, session: &mut Session, item: &Item<'a>) -> Option<(Row<'a>, Option<UnwindJob<'a>>)> {
        let (Record::Sample(sample), Some(event)) = (&item.record, item.event) else {
            session.push(item);
            return None;
        };
        let single = session.resolve_single(item.event, sample);
        if !(self.filter)(sample, session.profile().strings.of(single.comm)) {
            return None;
        }
        let has_chain = sample.callchain.is_some() || single.job.is_some() || !single.frames.is_empty();
        let mut row = Row {
            event,
            sample: *sample,
            comm: single.comm,
            leaf: single.leaf,
            recorded: single.frames.len(),
            chain: (self.callchains && has_chain).then_some(single.frames),
            data: None,
            branches: Vec::new(),
        };
        self.resolve_rest(session, &mut row);
        Some((row, single.job))
    }

    fn resolve_rest(&self, session: &mut Session, row: &mut Row<'_>) {
        let fields = self.fields[row.event];
        let pid = row.sample.pid_tid.map_or(-1, |(pid, _)| pid.cast_signed());
        if let Some(addr) = row.sample.addr.filter(|_| fields.has(Field::Addr)) {
            row.data = Some(session.frame_at(pid, Mode::of_cpu(row.sample.cpu_mode()), addr.0));
        }
        let wants = [Field::Brstack, Field::Brstacksym, Field::Brstackoff];
        if wants.into_iter().any(|field| fields.has(field)) {
            let branches = row.sample.branches.unwrap_or_default();
            let ends = |b: perfdata::Branch| {
                (session.branch_end_at(pid, b.from.0), session.branch_end_at(pid, b.to.0))
            };
            row.branches = branches.iter().map(ends).collect();
        }
    }
}
