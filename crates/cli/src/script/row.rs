//! A sample with everything a line needs, resolved at its moment.

use super::clock::TimeZero;
use super::fields::{FieldSet, ScriptField};
use super::note::Shown;
use super::pick::Picks;
use exchange::rows::RowSample;
use perfdata::{Item, Record, Sample};
use profile::machine::Mode;
use profile::session::{EventSwitch, Session, UnwindJob, UnwoundStack};
use profile::source::Want;
use profile::table::{FrameId, StringId};
use symbols::{ObjectFiles, StackUnwinder};

/// A sample and where its addresses are; or another record that is shown.
pub struct Row<'a> {
    /// Index of the event; samples without one are no rows.
    pub event: usize,
    /// The sample.
    pub sample: RowSample<'a>,
    /// The thread's name at that moment.
    pub comm: StringId,
    /// The sampled address.
    pub leaf: Option<FrameId>,
    /// The call chain, leaf first; `None` without one (or with `-G`).
    pub chain: Option<Vec<FrameId>>,
    /// How many frames of the chain were recorded as such; those after were unwound from a stored stack.
    pub recorded: usize,
    /// The data address, where it can be one of a symbol.
    pub data: Option<FrameId>,
    /// Ends of the branches, newest first.
    pub branches: Vec<(FrameId, FrameId)>,
    /// Labels of its goroutine: a key of the profile's label sets.
    pub labels: Option<StringId>,
    /// The text of a record that is no sample; of such a row only the beginning is that of a sample.
    pub note: Option<String>,
}

/// Makes rows of batches.
pub struct RowMaker<'f> {
    /// Fields by event index.
    pub fields: Vec<FieldSet>,
    /// Show call chains.
    pub callchains: bool,
    /// Kind of names to look up in the object files.
    pub want: Want,
    /// The object files.
    pub files: &'f ObjectFiles,
    /// Unwinds stored stacks.
    pub unwinder: StackUnwinder<'f>,
    /// Which other records to show.
    pub shown: Shown,
    /// Which samples to show.
    pub filter: &'f (dyn Fn(&Sample<'_>, &str) -> bool + Sync),
    /// Events between which samples are shown.
    pub switch: EventSwitch,
    /// Selection by name.
    pub picks: Picks,
    /// Zero point of times.
    pub clock: TimeZero,
    /// Frames that have their names.
    pub named: usize,
}

impl RowMaker<'_> {
    /// Applies the records of a batch to the session, and resolves and names its samples.
    pub fn rows<'a>(&mut self, session: &mut Session, items: &'a [Item<'a>]) -> Vec<Row<'a>> {
        let (mut rows, mut owners) = (Vec::with_capacity(items.len()), Vec::new());
        // The unwound parts of all chains, one after the other, and where each ends.
        let (mut frames, mut ends) = (Vec::new(), Vec::new());
        let switch = &mut self.switch;
        let maker = Maker {
            fields: &self.fields,
            callchains: self.callchains,
            shown: self.shown,
            filter: self.filter,
        };
        let make = |session: &mut Session, item: &'a Item<'a>| {
            let (row, job) = maker.row(session, switch, item)?;
            rows.push(row);
            owners.extend(job.is_some().then_some(rows.len() - 1));
            job
        };
        let take = |session: &mut Session, job: UnwindJob<'a>, unwound: &UnwoundStack<'_>| {
            session.frames_of_unwound(&job, unwound, &mut frames);
            ends.push(frames.len());
        };
        self.unwinder.unwind_along(session, items, make, take);
        let mut start = 0;
        for (owner, end) in owners.into_iter().zip(ends) {
            if let Some(chain) = &mut rows[owner].chain {
                chain.extend_from_slice(&frames[start..end]);
            }
            start = end;
        }
        symbols::symbolize_from(session.profile_mut(), self.named, self.files, self.want);
        self.named = session.profile().frames.len();
        self.picks.apply(session.profile(), &mut rows);
        rows.iter_mut().for_each(|row| self.clock.apply(&mut row.sample));
        rows
    }
}

/// Maker of single rows.
struct Maker<'m> {
    fields: &'m [FieldSet],
    callchains: bool,
    shown: Shown,
    filter: &'m (dyn Fn(&Sample<'_>, &str) -> bool + Sync),
}

impl Maker<'_> {
    /// The row of a sample that passes the filter, but for what has to be unwound first.
    fn row<'a>(
        &self,
        session: &mut Session,
        switch: &mut EventSwitch,
        item: &'a Item<'a>,
    ) -> Option<(Row<'a>, Option<UnwindJob<'a>>)> {
        let (Record::Sample(sample), Some(event)) = (&item.record, item.event) else {
            return self.note(session, item).map(|row| (row, None));
        };
        if !switch.passes(item.event) {
            return None;
        }
        let single = session.resolve_single(item.event, sample);
        if !(self.filter)(sample, session.profile().strings.of(single.comm)) {
            return None;
        }
        let has_chain = sample.callchain.is_some() || single.job.is_some() || !single.frames.is_empty();
        let mut row = Row {
            event,
            sample: RowSample::Recorded(sample),
            comm: single.comm,
            leaf: single.leaf,
            recorded: single.frames.len(),
            chain: (self.callchains && has_chain).then_some(single.frames),
            data: None,
            branches: Vec::new(),
            labels: session.labels_of(sample),
            note: None,
        };
        self.resolve_rest(session, &mut row);
        Some((row, single.job))
    }

    /// Applies a record that is no sample; its row, if it has one.
    fn note<'a>(&self, session: &mut Session, item: &Item<'a>) -> Option<Row<'a>> {
        let shown = self.shown.text(item);
        let name = |session: &mut Session, (pid, tid): (u32, u32)| {
            session.comm_of_thread(pid.cast_signed(), tid.cast_signed())
        };
        let task = shown.as_ref().map(|(task, _)| *task);
        // A name that goes is that of before, one that comes that of afterwards.
        let before = task.filter(|_| matches!(item.record, Record::Exit(_))).map(|task| name(session, task));
        session.push(item);
        let (task, text) = shown?;
        // Children of the idle task are called after it until they have a name.
        let named = if matches!(&item.record, Record::Fork(fork) if fork.ptid == 0) { (0, 0) } else { task };
        let comm = before.unwrap_or_else(|| name(session, named));
        let id = item.sample_id.unwrap_or_default();
        let sample = Sample {
            pid_tid: id.pid_tid.or(Some(task)),
            cpu: id.cpu.or(Some(0)),
            time_ns: id.time_ns,
            ..Sample::default()
        };
        if !(self.filter)(&sample, session.profile().strings.of(comm)) {
            return None;
        }
        Some(Row {
            event: item.event.unwrap_or(0),
            sample: RowSample::Own(Box::new(sample)),
            comm,
            leaf: None,
            chain: None,
            recorded: 0,
            data: None,
            branches: Vec::new(),
            labels: None,
            note: Some(text),
        })
    }

    fn resolve_rest(&self, session: &mut Session, row: &mut Row<'_>) {
        let Some(fields) = self.fields.get(row.event) else { return };
        let pid = row.sample.pid_tid.map_or(-1, |(pid, _)| pid.cast_signed());
        if let Some(addr) = row.sample.addr.filter(|_| fields.has(ScriptField::Addr)) {
            row.data = Some(session.frame_at(pid, Mode::of_cpu(row.sample.cpu_mode()), addr.0));
        }
        let wants = [ScriptField::Brstack, ScriptField::Brstacksym, ScriptField::Brstackoff];
        if wants.into_iter().any(|field| fields.has(field)) {
            let branches = row.sample.branches.unwrap_or_default();
            let ends = |b: perfdata::Branch| {
                (session.branch_end_at(pid, b.from.0), session.branch_end_at(pid, b.to.0))
            };
            row.branches = branches.iter().map(ends).collect();
        }
    }
}
