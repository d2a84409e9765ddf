//! The program in the terminal: views on top of each other, keys to the topmost.

mod draw;
mod keys;
mod screen;

use super::annotate::Annotate;
use super::data::Data;
use super::explorer::Explorer;
use super::flame::FlameView;
use super::prompt::TextPrompt;
use super::sandwich::{Sandwich, SandwichStep};
use super::table::TreeTable;
use super::{Error, NoListing, ReadState, Theme, ViewUpdate};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use profile::view::annotate::AnnotateFunction;
use profile::view::report::{SortKey, SortValue};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use symbols::Recording;
use symbols::listing::{ListingOpts, Sources};

/// A view that covers the table.
enum View {
    Sandwich(Sandwich),
    Flame(FlameView),
    Annotate(Annotate),
    Help(usize),
}

/// All state.
pub struct App {
    data: Data,
    table: TreeTable,
    /// Topmost last.
    views: Vec<View>,
    prompt: Option<TextPrompt>,
    /// One line that goes with the next key.
    message: Option<String>,
    theme: Theme,
    source: ReadState,
    /// An update that came while a view covered the table; shown when that is left.
    pending: Option<Arc<Recording>>,
    /// The user wants no more of the file.
    stop: Arc<AtomicBool>,
    quit: bool,
    /// Covers all else as long as it is on top.
    explorer: Option<Explorer>,
    is_exploring: bool,
    /// The code of a function was asked for there: Esc goes back there.
    is_visiting: bool,
}

impl App {
    /// Shows `data`, all there is.
    pub fn new(data: Data, theme: Theme) -> Self {
        Self::fed(data, theme, ReadState::Whole)
    }

    /// Shows `data`, and what comes by [`Self::take`].
    pub fn fed(data: Data, theme: Theme, source: ReadState) -> Self {
        let mut table = TreeTable::default();
        table.refresh(&data);
        Self {
            data,
            table,
            views: Vec::new(),
            prompt: None,
            message: None,
            theme,
            source,
            pending: None,
            stop: Arc::default(),
            quit: false,
            explorer: None,
            is_exploring: false,
            is_visiting: false,
        }
    }

    /// Opens the tabs of a wall-clock recording on the table.
    pub fn explore(&mut self, explorer: Explorer) {
        (self.explorer, self.is_exploring) = (Some(explorer), true);
    }

    /// Opens the listing of a function on the table.
    ///
    /// # Errors
    /// There is nothing to show.
    pub fn open_listing(
        &mut self,
        function: &AnnotateFunction,
        opts: &ListingOpts,
        sources: &Sources,
    ) -> Result<(), NoListing> {
        self.views.push(View::Annotate(Annotate::of_function(&self.data, function, opts, sources)?));
        Ok(())
    }

    /// Becomes true when nothing more shall be read.
    pub fn stop(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Takes an update.
    ///
    /// # Errors
    /// The failure, if the update is one.
    pub fn take(&mut self, update: ViewUpdate) -> Result<(), Error> {
        match (update, self.source) {
            (ViewUpdate::Failed(error), _) => return Err(Error::Source(error)),
            (ViewUpdate::Progress(percent), ReadState::Reading(_)) => {
                self.source = ReadState::Reading(percent)
            }
            (ViewUpdate::Whole, ReadState::Reading(_)) => self.source = ReadState::Whole,
            (ViewUpdate::Whole, ReadState::Live { .. }) => self.quit = true,
            (ViewUpdate::Recording(_), ReadState::Live { held: true })
            | (ViewUpdate::Progress(_) | ViewUpdate::Whole, _) => {}
            (ViewUpdate::Recording(recording), _) => self.pending = Some(recording),
        }
        self.show_pending();
        Ok(())
    }

    /// No more updates will come: without the last one, the sender has failed.
    pub fn end_of_updates(&mut self) {
        self.quit |= matches!(self.source, ReadState::Reading(_) | ReadState::Live { .. });
    }

    /// Shows what came last, unless the user is in the middle of something.
    fn show_pending(&mut self) {
        if self.views.is_empty()
            && self.prompt.is_none()
            && let Some(recording) = self.pending.take()
        {
            self.table.carry(&mut self.data, |data| data.replace(recording));
        }
    }

    /// The user wants no more of the file: what is read is shown.
    fn stop_reading(&mut self, percent: f64) {
        self.stop.store(true, Ordering::Relaxed);
        self.source = ReadState::Stopped(percent);
        self.message = Some("stopped: what was read is shown".to_owned());
    }

    /// Has the user left?
    pub fn wants_to_quit(&self) -> bool {
        self.quit
    }

    /// Takes a key.
    pub fn key(&mut self, key: KeyEvent) {
        self.message = None;
        if self.is_exploring {
            return self.explorer_key(key);
        }
        if self.prompt.is_some() {
            self.prompt_key(key);
        } else {
            self.plain_key(key);
        }
        self.show_pending();
        if self.is_visiting && self.views.is_empty() {
            (self.is_exploring, self.is_visiting) = (true, false);
        }
    }

    /// Takes the mouse: the wheel scrolls a flame graph and elsewhere moves as keys do, a click moves the cursor, another one there opens or goes.
    pub fn mouse(&mut self, event: MouseEvent) {
        if let (true, Some(explorer)) = (self.is_exploring, &mut self.explorer) {
            let step = explorer.mouse(event);
            return self.take_step(step);
        }
        let code = match event.kind {
            MouseEventKind::ScrollDown => KeyCode::Down,
            MouseEventKind::ScrollUp => KeyCode::Up,
            MouseEventKind::Down(MouseButton::Left) => return self.click(event.column, event.row),
            _ => return,
        };
        match self.views.last_mut() {
            Some(View::Flame(flame)) if self.prompt.is_none() => flame.scroll(code == KeyCode::Down),
            _ => self.key(KeyEvent::new(code, KeyModifiers::NONE)),
        }
    }

    fn click(&mut self, x: u16, y: u16) {
        self.message = None;
        // The bar is above.
        let Some(line) = y.checked_sub(1).map(usize::from) else { return };
        match self.views.last_mut() {
            None => self.table.click(line, &self.data),
            Some(View::Flame(flame)) => flame.click(x, line as u32, self.data.flame_tree()),
            Some(View::Sandwich(sandwich)) => {
                if let SandwichStep::Go(name) = sandwich.click(line) {
                    sandwich.go(self.data.tree(), &name);
                }
            }
            Some(View::Annotate(annotate)) => annotate.click(line),
            Some(View::Help(_)) => drop(self.views.pop()),
        }
    }

    /// Shows the code of a function.
    fn visit(&mut self, name: &str) {
        let profile = self.data.profile();
        let is_it = |text: &str| text == name || text.contains(';') && text.replace(';', ":") == name;
        let symbols = profile.symbols.iter().filter(|(_, symbol)| is_it(profile.strings.of(symbol.name)));
        let mut found = Err(NoListing::NotAFunction);
        for (symbol, _) in symbols {
            found = Annotate::new(&self.data, symbol);
            if found.is_ok() {
                break;
            }
        }
        match found {
            Ok(view) => {
                self.views.push(View::Annotate(view));
                (self.is_exploring, self.is_visiting) = (false, true);
            }
            Err(why) => {
                let why = format!("can't show the code of {name}: {why}");
                self.explorer.iter_mut().for_each(|explorer| explorer.show_message(&why));
            }
        }
    }

    /// One step back: out of a function, a view, a search, a zoom, the program.
    fn back(&mut self) {
        match self.views.last_mut() {
            Some(View::Sandwich(sandwich)) => {
                if !sandwich.back(self.data.tree()) {
                    self.views.pop();
                }
            }
            Some(View::Flame(flame)) if flame.is_zoomed() => flame.leave_zoom(self.data.flame_tree()),
            Some(_) => drop(self.views.pop()),
            None if !self.table.search().is_empty() => self.table.find("", &self.data),
            None if self.data.unzoom() => self.table.reset(&self.data),
            None => match self.source {
                ReadState::Reading(percent) => self.stop_reading(percent),
                _ if self.explorer.is_some() => self.is_exploring = true,
                _ => self.quit = true,
            },
        }
    }

    /// The file is still being read, and nothing covers the table.
    fn is_reading_first(&self) -> bool {
        matches!(self.source, ReadState::Reading(_)) && self.views.is_empty()
    }

    /// Keeps the shown moment, or goes on with the next.
    fn turn_hold(&mut self) {
        if let ReadState::Live { held } = self.source {
            self.source = ReadState::Live { held: !held };
        }
    }

    fn next_event(&mut self, forward: bool) {
        self.data.next_event(forward);
        self.table.reset(&self.data);
        self.views.retain(|view| !matches!(view, View::Annotate(_)));
        let function = self.views.iter().find_map(|view| match view {
            View::Sandwich(sandwich) => Some(sandwich.name().to_owned()),
            _ => None,
        });
        if self.views.is_empty() {
            return;
        }
        self.views.retain_mut(|view| match view {
            View::Flame(flame) => {
                *flame = FlameView::new(self.data.flame_tree());
                true
            }
            View::Sandwich(sandwich) => {
                let other = Sandwich::new(self.data.tree(), function.as_deref().unwrap_or_default());
                other.map(|other| *sandwich = other).is_some()
            }
            _ => true,
        });
    }

    /// Only samples with the value of `key` in the row under the cursor.
    fn zoom(&mut self, key: &SortKey) {
        let Some(row) = self.table.row(&self.data) else { return };
        let value = match key {
            SortKey::Symbol => self.data.function(row),
            key => self.data.value(row, key),
        };
        let Some(value) = value else {
            self.message = Some("this row has no such value".to_owned());
            return;
        };
        let key = key.clone();
        self.data.zoom(value.clone(), move |opts| {
            let list = match key {
                SortKey::Comm => &mut opts.filter.comms,
                SortKey::Dso => &mut opts.filter.dsos,
                _ => &mut opts.filter.symbols,
            };
            *list = vec![value];
        });
        self.table.reset(&self.data);
    }

    fn show_flame(&mut self) {
        if !matches!(self.views.last(), Some(View::Flame(_))) {
            self.views.push(View::Flame(FlameView::new(self.data.flame_tree())));
        }
    }

    fn show_sandwich(&mut self) {
        let name = match self.views.last() {
            None => self.table.function(&self.data),
            Some(View::Flame(flame)) => flame.function(self.data.flame_tree()).map(str::to_owned),
            Some(View::Annotate(annotate)) => Some(annotate.name().to_owned()),
            Some(_) => return,
        };
        match name.and_then(|name| Sandwich::new(self.data.tree(), &name)) {
            Some(sandwich) => self.views.push(View::Sandwich(sandwich)),
            None => self.message = Some("this row has no function with a name".to_owned()),
        }
    }

    fn annotate(&mut self) {
        let Some(row) = self.table.row(&self.data) else { return };
        let symbol = row.values.iter().find_map(|value| match value {
            SortValue::Symbol { symbol, .. } => *symbol,
            _ => None,
        });
        let view = symbol.ok_or(NoListing::NoFunction);
        match view.and_then(|symbol| Annotate::new(&self.data, symbol)) {
            Ok(view) => self.views.push(View::Annotate(view)),
            Err(why) => self.message = Some(format!("can't annotate: {why}")),
        }
    }
}
