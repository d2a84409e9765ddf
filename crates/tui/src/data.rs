//! Data of the views: the recording, the report of the moment, and the stacks as a tree.

use perfdata::text::harmless;
use profile::profile::Profile;
use profile::view::flame::{Tree, TreeOpts, Unit, unit_of};
use profile::view::ranking::RankRows as _;
use profile::view::report::{
    Report, ReportField, ReportOpts, ReportRow, ReportSection, SortKey, SortValue, report,
};
use std::sync::Arc;
use symbols::Recording;

/// A recording with the filters and the event chosen.
pub struct Data {
    recording: Arc<Recording>,
    opts: ReportOpts,
    /// Options before each zoom, with what was zoomed into.
    zooms: Vec<(ReportOpts, String)>,
    report: Report,
    /// Position of the shown section in the report.
    section: usize,
    /// Sort by the own period instead of the one with callees.
    by_own: bool,
    /// The order of the rows, as positions in the section.
    order: Vec<usize>,
    tree: Option<(usize, Tree)>,
    /// The same in fewer frames.
    condensed: Option<(usize, Tree)>,
    /// Flame graphs have those, not all frames.
    folds: bool,
    /// The keys asked for at first, and how often others were taken in their place.
    first_keys: Vec<SortKey>,
    turns: usize,
}

/// Other keys to group by.
const OTHER_KEYS: [&[SortKey]; 4] =
    [&[SortKey::Dso, SortKey::Symbol], &[SortKey::Comm], &[SortKey::Dso], &[SortKey::Pid, SortKey::Tid]];

impl Data {
    /// Shows the first event that has samples.
    pub fn new(recording: Arc<Recording>, opts: ReportOpts) -> Self {
        let first_keys = opts.sort.clone();
        let mut data = Self {
            recording,
            opts,
            first_keys,
            turns: 0,
            zooms: Vec::new(),
            report: Report::default(),
            section: 0,
            by_own: false,
            order: Vec::new(),
            tree: None,
            condensed: None,
            folds: true,
        };
        data.compute();
        data.find_samples();
        data
    }

    /// Goes to the first event with samples, if the shown one has none.
    fn find_samples(&mut self) {
        let has_samples = |section: &ReportSection| section.totals.iter().any(|total| total.count > 0);
        if !self.section().is_some_and(has_samples) {
            self.section = self.report.sections.iter().position(has_samples).unwrap_or(0);
            self.sort();
        }
    }

    /// Shows another recording of the same events, with the filters and the event chosen.
    pub fn replace(&mut self, recording: Arc<Recording>) {
        self.recording = recording;
        (self.tree, self.condensed) = (None, None);
        self.compute();
        self.find_samples();
    }

    /// Groups by other keys: of threads, files, processes; in the end by the first again.
    pub fn next_columns(&mut self) {
        self.turns = (self.turns + 1) % (OTHER_KEYS.len() + 1);
        self.opts.sort = match self.turns.checked_sub(1) {
            Some(at) => OTHER_KEYS[at].to_vec(),
            None => self.first_keys.clone(),
        };
        self.compute();
    }

    fn compute(&mut self) {
        self.report = report(&self.recording.profile, &self.opts);
        self.sort();
    }

    fn sort(&mut self) {
        let Some(section) = self.report.sections.get(self.section) else {
            self.order.clear();
            return;
        };
        self.order = (0..section.rows.len()).collect();
        if self.by_own {
            let own = |at: &usize| std::cmp::Reverse(period(&section.rows[*at].own));
            self.order.rank_by_key(own);
        }
    }

    /// The recording.
    pub fn recording(&self) -> &Recording {
        &self.recording
    }

    /// The recording's profile.
    pub fn profile(&self) -> &Profile {
        &self.recording.profile
    }

    /// The report of the moment.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The event shown; `None` in a report without events.
    pub fn section(&self) -> Option<&ReportSection> {
        self.report.sections.get(self.section)
    }

    /// Rows in the order shown.
    pub fn rows(&self) -> impl Iterator<Item = (usize, &ReportRow)> {
        let rows = self.section().map_or(&[][..], |section| section.rows.as_slice());
        self.order.iter().map(move |&at| (at, &rows[at]))
    }

    /// The row at `at` of the section.
    pub fn row(&self, at: usize) -> Option<&ReportRow> {
        self.section()?.rows.get(at)
    }

    /// Is the table sorted by the own period?
    pub fn is_by_own(&self) -> bool {
        self.by_own || !self.opts.children
    }

    /// Sorts by the other of own period and period with callees.
    pub fn turn_order(&mut self) {
        self.by_own = !self.by_own;
        self.sort();
    }

    /// Shows the next (or previous) event with samples.
    pub fn next_event(&mut self, forward: bool) {
        let count = self.report.sections.len();
        for step in 1..count {
            let at = (self.section + if forward { step } else { count - step }) % count;
            if self.report.sections[at].totals.iter().any(|total| total.count > 0) {
                self.section = at;
                self.sort();
                return;
            }
        }
    }

    /// Shows only samples for which `change` makes the filter let them through; `label` names them.
    pub fn zoom(&mut self, label: String, change: impl FnOnce(&mut ReportOpts)) {
        let before = self.opts.clone();
        change(&mut self.opts);
        self.zooms.push((before, label));
        self.compute();
    }

    /// Takes the last zoom back; false if there is none.
    pub fn unzoom(&mut self) -> bool {
        let Some((before, _)) = self.zooms.pop() else { return false };
        self.opts = before;
        self.compute();
        true
    }

    /// Zoomed frames, outermost first.
    pub fn zoom_labels(&self) -> impl Iterator<Item = &str> {
        self.zooms.iter().map(|(_, label)| label.as_str())
    }

    /// The period that 100 % represents.
    pub fn base(&self) -> u64 {
        self.section().and_then(|section| section.base_periods.first()).copied().unwrap_or(0)
    }

    /// The value of `key` in a row as text, safe to show; `None` if the table has no such column.
    pub fn value(&self, row: &ReportRow, key: &SortKey) -> Option<String> {
        let at = self.section()?.keys.iter().position(|k| k == key)?;
        let text = self.profile().value_text(key, row.values.get(at)?);
        Some(harmless(&text).into_owned())
    }

    /// The plain name of a row's function.
    pub fn function(&self, row: &ReportRow) -> Option<String> {
        let at = self.section()?.keys.iter().position(|key| *key == SortKey::Symbol)?;
        match row.values.get(at)? {
            SortValue::Symbol { symbol: Some(symbol), .. } => {
                let name = self.profile().symbols.of(*symbol).name;
                Some(self.profile().strings.of(name).to_owned())
            }
            _ => None,
        }
    }

    /// The columns that are keys, in order.
    pub fn keys(&self) -> Vec<SortKey> {
        let columns = self.section().map_or(&[][..], |section| section.columns.as_slice());
        let key = |field: &ReportField| match field {
            ReportField::Key(key) => Some(key.clone()),
            _ => None,
        };
        columns.iter().filter_map(key).collect()
    }

    /// Do rows have a period with callees?
    pub fn has_children(&self) -> bool {
        self.opts.children
    }

    fn event(&self) -> usize {
        self.section().and_then(|section| section.events.first()).copied().unwrap_or(0)
    }

    /// The stacks of the shown event; made at the first call. Zooms don't change them.
    pub fn tree(&mut self) -> &Tree {
        let event = self.event();
        if self.tree.as_ref().is_none_or(|(of, _)| *of != event) {
            let opts = TreeOpts { event, ..TreeOpts::default() };
            self.tree = Some((event, Tree::of_profile(self.profile(), opts)));
        }
        &self.tree.as_ref().expect("invariant: made above").1
    }

    /// The stacks for a flame graph: without start-up code, unless all frames are wanted.
    pub fn flame_tree(&mut self) -> &Tree {
        if !self.folds {
            return self.tree();
        }
        let event = self.event();
        if self.condensed.as_ref().is_none_or(|(of, _)| *of != event) {
            self.condensed = Some((event, self.tree().condensed()));
        }
        &self.condensed.as_ref().expect("invariant: made above").1
    }

    /// Flame graphs get all frames, or fewer again.
    pub fn turn_folds(&mut self) {
        self.folds = !self.folds;
    }

    /// Whether the shown event's periods are nanoseconds.
    pub fn is_time(&self) -> bool {
        let event = self.event();
        self.profile().events.get(event).is_some_and(|event| unit_of(event) == Unit::Nanoseconds)
    }

    /// The headline: samples and event.
    pub fn title(&self) -> String {
        let Some(section) = self.section() else {
            let yet = if self.profile().events.is_empty() { " yet" } else { "" };
            return format!("no samples{yet}");
        };
        let samples = section.totals.iter().map(|total| total.count).sum();
        let name = section.event_names(self.profile());
        let mut title =
            format!("{} of {}", display::number::count_of(samples, "sample", "samples"), harmless(&name));
        if self.is_time() {
            let time = section.totals.first().map_or(0, |total| total.period);
            title.push_str(&format!(", {}", display::number::duration_ns(time)));
        }
        let events = self.report.sections.iter().filter(|s| s.totals.iter().any(|total| total.count > 0));
        let events = events.count();
        if events > 1 {
            title.push_str(&format!(" ({} of {events} events, Tab)", self.place_of_section()));
        }
        title
    }

    fn place_of_section(&self) -> usize {
        let before = &self.report.sections[..=self.section.min(self.report.sections.len() - 1)];
        before.iter().filter(|s| s.totals.iter().any(|total| total.count > 0)).count()
    }
}

/// The period of the section's first event.
pub fn period(sums: &[profile::profile::Sums]) -> u64 {
    sums.first().map_or(0, |sums| sums.period)
}
