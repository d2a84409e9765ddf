//! A wall-clock recording in the terminal: an overview, and tabs that all show one selection.

mod blame;
mod draw;
mod keys;
mod mouse;
mod rows;

use super::flame::FlameView;
use super::sandwich::Sandwich;
use profile::profile::Profile;
use profile::view::flame::Tree;
use profile::view::page::{ItemSet, PageData};
use profile::view::selected::{Selected, Selection, StackOrder};
use profile::view::timeline::{Timeline, TimelineOpts, timeline};
use profile::view::wall::WallOpts;
use ratatui::layout::Size;
use rows::Row;
use std::sync::Arc;
use symbols::Recording;

/// Columns of the screen before a strip: the mark and name of its thread.
const STRIP: usize = 21;

/// Rows shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tab {
    Overview,
    Functions,
    Flame,
    Waits,
    Timeline,
}

impl Tab {
    const ALL: [Self; 5] = [Self::Overview, Self::Functions, Self::Flame, Self::Waits, Self::Timeline];

    fn name(self) -> &'static str {
        match self {
            Self::Overview => "Overview",
            Self::Functions => "Functions",
            Self::Flame => "Flame",
            Self::Waits => "Waits",
            Self::Timeline => "Timeline",
        }
    }
}

/// Request to the program after a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExplorerStep {
    /// Nothing.
    Stay,
    /// The user leaves.
    Quit,
    /// Show the table of events.
    Events,
    /// Show the code of this function.
    Annotate(String),
}

/// Text of an explorer.
#[derive(Clone, Debug, Default)]
pub struct ExplorerText {
    /// Threads whose time it is.
    pub title: String,
    /// The most important first.
    pub findings: Vec<ExplorerFinding>,
}

/// A finding about the recording, in words.
#[derive(Clone, Debug, Default)]
pub struct ExplorerFinding {
    /// The rule's name: `lock-contention`.
    pub name: String,
    /// Claim of the finding.
    pub claim: String,
    /// More about it; may be empty.
    pub detail: String,
    /// Remedy; empty where nothing is known.
    pub fix: String,
    /// All evidence as lines of text, the claim included.
    pub evidence: String,
}

/// All state of the view.
pub struct Explorer {
    recording: Arc<Recording>,
    page: PageData,
    text: ExplorerText,
    selection: Selection,
    /// Selections before, and the tab that each was made in.
    history: Vec<(Selection, Tab)>,
    tab: Tab,
    /// By tab: the line under the cursor, and the first line shown.
    places: [(usize, usize); 5],
    /// By size of the screen: the lines of the tab.
    rows: Option<(Size, Vec<Row>)>,
    strips: Option<Timeline>,
    order: StackOrder,
    /// Functions are ordered by time with callees, not by their own.
    by_total: bool,
    folds: bool,
    flame: Option<(Tree, FlameView)>,
    sandwich: Option<(Tree, Sandwich)>,
    /// Text over everything, and the first line of it that is shown.
    page_of_text: Option<(Vec<String>, usize)>,
    /// Text being typed for a search.
    typed: Option<String>,
    find: String,
    /// Begin of a span in the timeline, and the column under the cursor.
    mark: Option<usize>,
    column: usize,
    /// Lines that the last picture had room for.
    height: usize,
}

impl Explorer {
    /// Shows a recording that was read with the times of its samples.
    pub fn new(recording: Arc<Recording>, page: PageData, text: ExplorerText) -> Self {
        Self {
            recording,
            page,
            text,
            selection: Selection::default(),
            history: Vec::new(),
            tab: Tab::Overview,
            places: [(0, 0); 5],
            rows: None,
            strips: None,
            order: StackOrder::default(),
            by_total: false,
            folds: true,
            flame: None,
            sandwich: None,
            page_of_text: None,
            typed: None,
            find: String::new(),
            mark: None,
            column: 0,
            height: 0,
        }
    }

    fn profile(&self) -> &Profile {
        &self.recording.profile
    }

    /// The wall clock; the first event without one.
    fn set(&self) -> &ItemSet {
        &self.page.sets[0]
    }

    fn selected(&self) -> Selected<'_> {
        Selected::of(&self.page, self.set(), &self.selection)
    }

    /// Everything that depends on the selection is computed again.
    fn forget(&mut self) {
        (self.rows, self.strips, self.flame, self.sandwich) = (None, None, None, None);
    }

    /// Looks at something else; Esc comes back.
    fn select(&mut self, change: impl FnOnce(&mut Selection)) {
        let before = self.selection.clone();
        change(&mut self.selection);
        if before != self.selection {
            self.history.push((before, self.tab));
            self.forget();
        }
    }

    fn show(&mut self, tab: Tab) {
        self.tab = tab;
        (self.rows, self.sandwich, self.mark) = (None, None, None);
    }

    /// Selection, in words.
    fn selection_words(&self) -> String {
        let Selection { span, threads, states, with_idle, focus } = &self.selection;
        let mut words = Vec::new();
        let time = |ticks: u64| display::number::duration_ns(ticks.saturating_mul(self.page.tick_ns));
        words.extend(span.map(|(from, to)| format!("{} to {}", time(from), time(to))));
        let named = threads.iter().filter_map(|&at| self.page.threads.get(at as usize));
        words.extend(named.map(|thread| format!("{} {}", thread.comm, thread.tid)));
        words.extend((!states.is_empty()).then(|| states.join(", ")));
        words.extend((!focus.is_empty()).then(|| format!("in {focus}")));
        words.extend((*with_idle && states.is_empty()).then(|| "with idle".to_owned()));
        if words.is_empty() { "all".to_owned() } else { words.join(" · ") }
    }

    /// The strips of all threads in this many columns.
    fn strips(&mut self, columns: usize) -> &Timeline {
        let fits = |view: &Timeline| view.rows.first().is_none_or(|row| row.columns.len() == columns);
        if !self.strips.as_ref().is_some_and(fits) {
            let span = self.selection.span;
            let tick_ns = self.page.tick_ns;
            let opts = TimelineOpts {
                wall: WallOpts { never_empty: true, ..WallOpts::default() },
                columns,
                span_ns: span.map(|(from, to)| (from.saturating_mul(tick_ns), to.saturating_mul(tick_ns))),
            };
            self.strips = Some(timeline(self.profile(), &opts));
        }
        self.strips.as_ref().expect("invariant: made above")
    }

    /// The graph of the selection.
    fn make_flame(&mut self) {
        if self.flame.is_none() {
            let tree = self.selected().tree(self.order, self.folds);
            let mut view = FlameView::new(&tree);
            view.find(&self.find);
            self.flame = Some((tree, view));
        }
    }
}

#[cfg(test)]
mod tests;
