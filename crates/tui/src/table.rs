//! The table of functions with their call graphs.

mod tree;

use super::Theme;
use super::data::{Data, period};
use super::style::canvas::Canvas;
use crossterm::event::{KeyCode, KeyEvent};
use display::bar;
use display::fit::cut;
use display::number::brief_ns;
use perfdata::text::harmless;
use profile::view::report::{ReportRow, SortKey};
use ratatui::layout::Rect;
use tree::{OpenPlaces, TreeLine};

/// The table's state: where the cursor is, what is open, what is searched for.
#[derive(Default)]
pub struct TreeTable {
    open: OpenPlaces,
    lines: Vec<TreeLine>,
    cursor: usize,
    /// First line shown.
    top: usize,
    /// Rows without this text are left out; lower case.
    find: String,
    /// Lines the last picture had room for.
    height: usize,
}

/// Widest column of a key but the last.
const KEY_WIDTH: usize = 20;
/// Where keys would have less than this each, the first ones are left out: the last, the function, matters most.
const LEAST_KEY_WIDTH: usize = 18;
/// Rows that are highlighted.
const FIRST: usize = 5;
/// Rows have a bar, and a time if the event has one, where these leave each key so much.
const ROOM_OF_KEY: usize = 17;
/// Columns of a bar, and of a time; each has a blank after it.
const BAR: usize = 6;
const TIME: usize = 8;

impl TreeTable {
    /// Rebuilds the lines, after the data or the search changed. The cursor stays in its place.
    pub fn refresh(&mut self, data: &Data) {
        let find = self.find.clone();
        let keep = |row: &ReportRow| find.is_empty() || contains(data, row, &find);
        self.lines = tree::lines(data, &self.open, &keep);
        self.cursor = self.cursor.min(self.lines.len().saturating_sub(1));
    }

    /// Changes the data for other of the same kind. What was open stays so, and the cursor stays in its line; at
    /// the first line it stays at the first.
    pub fn carry(&mut self, data: &mut Data, change: impl FnOnce(&mut Data)) {
        let line = self.lines.get(self.cursor).filter(|_| self.cursor > 0);
        let line = line.and_then(|line| Some((tree::names_of(data, &line.place)?, line.entry.is_some())));
        let open = self.open.names(data);
        let below_top = self.cursor - self.top.min(self.cursor);
        change(data);
        self.open = OpenPlaces::of_names(data, &open);
        self.refresh(data);
        let Some((names, entry)) = line else { return };
        let at = tree::places_of(data, [&names].into_iter()).pop();
        let same = |line: &TreeLine| Some(&line.place) == at.as_ref() && line.entry.is_some() == entry;
        if let Some(at) = self.lines.iter().position(same) {
            (self.cursor, self.top) = (at, at.saturating_sub(below_top));
        }
    }

    /// Forgets what was open: the rows are others.
    pub fn reset(&mut self, data: &Data) {
        self.open.clear();
        (self.cursor, self.top) = (0, 0);
        self.refresh(data);
    }

    /// Searches for `text`.
    pub fn find(&mut self, text: &str, data: &Data) {
        self.find = text.to_lowercase();
        (self.cursor, self.top) = (0, 0);
        self.refresh(data);
    }

    /// Search text.
    pub fn search(&self) -> &str {
        &self.find
    }

    /// The row under the cursor, or the one whose graph the cursor is in.
    pub fn row<'d>(&self, data: &'d Data) -> Option<&'d ReportRow> {
        data.row(*self.lines.get(self.cursor)?.place.first()? as usize)
    }

    /// The function under the cursor: the row's, or the graph entry's.
    pub fn function(&self, data: &Data) -> Option<String> {
        let line = self.lines.get(self.cursor)?;
        match line.entry {
            Some(entry) => {
                let symbol = data.report().chain_entries.get(entry as usize)?.symbol?;
                let name = data.profile().symbols.of(symbol).name;
                Some(data.profile().strings.of(name).to_owned())
            }
            None => data.function(self.row(data)?),
        }
    }

    /// Takes a key that moves, opens or closes; false if it is none of these.
    pub fn key(&mut self, key: KeyEvent, data: &Data) -> bool {
        let last = self.lines.len().saturating_sub(1);
        let page = self.height.max(2) - 1;
        match key.code {
            KeyCode::Down | KeyCode::Char('j') => self.cursor = (self.cursor + 1).min(last),
            KeyCode::Up | KeyCode::Char('k') => self.cursor = self.cursor.saturating_sub(1),
            KeyCode::PageDown => self.cursor = (self.cursor + page).min(last),
            KeyCode::PageUp => self.cursor = self.cursor.saturating_sub(page),
            KeyCode::Home | KeyCode::Char('g') => self.cursor = 0,
            KeyCode::End | KeyCode::Char('G') => self.cursor = last,
            KeyCode::Right | KeyCode::Char('+' | ' ' | 'l') => self.open_line(data),
            KeyCode::Left | KeyCode::Char('-' | 'h') => self.close_line(data),
            KeyCode::Char('e') => self.open_row(data),
            KeyCode::Char('E') => self.open_all(data),
            KeyCode::Char('c') => self.close_row(data),
            KeyCode::Char('C') => self.close_all(data),
            _ => return false,
        }
        true
    }

    /// Moves the cursor to a line of the last picture, the heading being line 0; a line that has it is opened or closed.
    pub fn click(&mut self, line: usize, data: &Data) {
        let Some(at) = line.checked_sub(1).map(|line| line + self.top) else { return };
        let Some(target) = self.lines.get(at) else { return };
        match (at == self.cursor, target.open) {
            (true, Some(true)) => self.close_line(data),
            (true, Some(false)) => self.open_line(data),
            _ => self.cursor = at,
        }
    }

    fn open_line(&mut self, data: &Data) {
        let Some(line) = self.lines.get(self.cursor) else { return };
        let open = self.open.contains(&line.place);
        let place = line.place.clone();
        let openable = self.lines.iter().any(|other| other.place == place && other.open.is_some());
        match (openable, open) {
            (true, false) => {
                self.open_single(&place, data);
                self.refresh(data);
            }
            // Once open, the same key goes on down.
            (true, true) => self.cursor = (self.cursor + 1).min(self.lines.len().saturating_sub(1)),
            (false, _) => {}
        }
    }

    /// Opens a place, and below it whatever has a single way on.
    fn open_single(&mut self, place: &[u32], data: &Data) {
        let Some(row) = data.row(place[0] as usize) else { return };
        let mut nodes = row.graph.as_slice();
        for &step in &place[1..] {
            let Some(node) = nodes.get(step as usize) else { return };
            nodes = &node.children;
        }
        let mut place = place.to_vec();
        self.open.open(place.clone());
        while let [only] = nodes {
            place.push(0);
            if only.children.is_empty() {
                break;
            }
            self.open.open(place.clone());
            nodes = &only.children;
        }
    }

    /// Closes what is open under the cursor, else goes to the line above it in the tree.
    fn close_line(&mut self, data: &Data) {
        let Some(line) = self.lines.get(self.cursor) else { return };
        let place = line.place.clone();
        if self.open.contains(&place) {
            self.open.close(&place);
            self.refresh(data);
        }
        let target = if line_is_open(&self.lines, &place) || place.len() == 1 {
            &place[..]
        } else {
            &place[..place.len() - 1]
        };
        if let Some(at) = self.lines.iter().position(|line| line.place == target) {
            self.cursor = at;
        }
    }

    fn open_row(&mut self, data: &Data) {
        let Some(at) = self.lines.get(self.cursor).map(|line| line.place[0] as usize) else { return };
        if let Some(row) = data.row(at) {
            self.open.open_row(at, row);
            self.refresh(data);
        }
    }

    fn open_all(&mut self, data: &Data) {
        for (at, row) in data.rows() {
            self.open.open_row(at, row);
        }
        self.keep_row(data);
    }

    fn close_row(&mut self, data: &Data) {
        let Some(row) = self.lines.get(self.cursor).map(|line| line.place[0]) else { return };
        self.open.close(&[row]);
        self.keep_row(data);
    }

    fn close_all(&mut self, data: &Data) {
        self.open.clear();
        self.keep_row(data);
    }

    /// Rebuilds the lines with the cursor on the row it was in.
    fn keep_row(&mut self, data: &Data) {
        let row = self.lines.get(self.cursor).map(|line| line.place[0]);
        self.refresh(data);
        let at = self.lines.iter().position(|line| line.depth == 0 && Some(line.place[0]) == row);
        self.cursor = at.unwrap_or(self.cursor);
    }

    /// Draws headings and lines.
    pub fn draw(&mut self, canvas: &mut Canvas<'_>, data: &Data) {
        let (area, theme) = (canvas.area, canvas.theme);
        let columns = Columns::new(data, usize::from(area.width));
        canvas.text(0, columns.heading(data), theme.heading());
        let height = usize::from(area.height.saturating_sub(1));
        self.height = height;
        self.top = self.top.max((self.cursor + 1).saturating_sub(height)).min(self.cursor);
        let first: Vec<u32> = data.rows().take(FIRST).map(|(at, _)| at as u32).collect();
        for (i, line) in self.lines.iter().enumerate().skip(self.top).take(height) {
            let place = canvas.row(1 + (i - self.top) as u16);
            let mut row = Canvas { buffer: &mut *canvas.buffer, area: place, theme };
            columns.draw_line(&mut row, data, line, first.contains(&line.place[0]));
            if i == self.cursor {
                canvas.buffer.set_style(place, theme.selected_line());
            }
        }
        if self.lines.is_empty() {
            let text = match (self.find.is_empty(), data.profile().events.is_empty()) {
                (true, true) => "the first samples are on their way",
                (true, false) => "no rows",
                (false, _) => "nothing found (/ changes the search)",
            };
            canvas.text(2, text, theme.dim());
        }
    }
}

fn line_is_open(lines: &[TreeLine], place: &[u32]) -> bool {
    lines.iter().any(|line| line.place == place && line.open == Some(true))
}

fn contains(data: &Data, row: &ReportRow, find: &str) -> bool {
    data.keys().iter().filter_map(|key| data.value(row, key)).any(|text| text.to_lowercase().contains(find))
}

fn graph_line(data: &Data, line: &TreeLine, entry: u32, theme: Theme) -> (String, ratatui::style::Style) {
    let mark = match line.open {
        Some(true) => '-',
        Some(false) => '+',
        None => ' ',
    };
    let name = data.profile().chain_entry_text(&data.report().chain_entries[entry as usize]);
    let share = line.period.map(|period| percent(period, data.base()));
    let number = share.map_or(String::new(), |share| format!("{share:.2}% "));
    // Deep graphs would leave the screen to the right: beyond twelve levels the number replaces the blanks.
    let indent = if line.depth <= 12 {
        "  ".repeat(line.depth)
    } else {
        format!("{:<24}", format!("{}:", line.depth))
    };
    let text = format!("      {indent}{mark} {number}{}", harmless(&name));
    (text, share.map_or(theme.dim(), |share| theme.rank(share, false)))
}

/// Where the columns are.
struct Columns {
    keys: Vec<(SortKey, usize)>,
    /// Width of the percentages in front.
    numbers: usize,
    /// Whether a time comes after them, and a bar.
    has_time: bool,
    has_bar: bool,
}

impl Columns {
    /// Draws a line of the table, or of an open call graph, on a canvas of one row.
    fn draw_line(&self, canvas: &mut Canvas<'_>, data: &Data, line: &TreeLine, is_first: bool) {
        let Some(row) = data.row(line.place[0] as usize) else { return };
        if let Some(entry) = line.entry {
            let (text, style) = graph_line(data, line, entry, canvas.theme);
            canvas.text(0, text, style);
            return;
        }
        let percent = percent(tree::main_period(data, row), data.base());
        canvas.text(0, self.row(data, row, line.open), ratatui::style::Style::new());
        let (Rect { x, width, .. }, theme) = (canvas.area, canvas.theme);
        let numbers = Rect { width: width.min((self.before_keys() - self.bar()) as u16), ..canvas.area };
        canvas.buffer.set_style(numbers, theme.rank(percent, is_first));
        let bar = Rect { x: x + numbers.width, width: self.bar() as u16, ..canvas.area };
        canvas.buffer.set_style(bar, theme.rank_bar(is_first));
    }

    /// Columns of the bar with its blank.
    fn bar(&self) -> usize {
        if self.has_bar { BAR + 1 } else { 0 }
    }

    /// Columns of all that is before the keys.
    fn before_keys(&self) -> usize {
        self.numbers + if self.has_time { TIME + 1 } else { 0 } + self.bar()
    }

    fn new(data: &Data, width: usize) -> Self {
        let numbers = if data.has_children() { 20 } else { 11 };
        let mut keys: Vec<(SortKey, usize)> = data.keys().into_iter().map(|key| (key, 0)).collect();
        let mut left = width.saturating_sub(numbers);
        let room = (left / LEAST_KEY_WIDTH).max(1);
        keys.drain(..keys.len().saturating_sub(room));
        let fits = |columns: usize| left >= columns + keys.len() * ROOM_OF_KEY;
        let (has_bar, has_time) = (fits(BAR + 1), fits(BAR + 1 + TIME + 1) && data.is_time());
        let this = Self { keys: Vec::new(), numbers, has_time, has_bar };
        left = width.saturating_sub(this.before_keys());
        let count = keys.len();
        for (i, (key, room)) in keys.iter_mut().enumerate() {
            let most = if i + 1 == count { left.saturating_sub(1) } else { KEY_WIDTH.min(left / 2) };
            // A look at the first rows is enough: the others are rarely seen.
            let longest = data.rows().take(200).filter_map(|(_, row)| data.value(row, key));
            let longest = longest.map(|text| text.chars().count()).max().unwrap_or(0);
            *room = longest.max(key.heading().trim().chars().count()).min(most);
            left = left.saturating_sub(*room + 2);
        }
        Self { keys, ..this }
    }

    fn heading(&self, data: &Data) -> String {
        let numbers = match (data.has_children(), data.is_by_own()) {
            (true, true) => "  Children    ▼Self ",
            (true, false) => " ▼Children     Self ",
            (false, _) => "     ▼Self ",
        };
        let keys = self.keys.iter().map(|(key, width)| (key.heading().trim().to_owned(), *width));
        let time = if self.has_time { format!("{:>TIME$} ", "Time") } else { String::new() };
        numbers.to_owned() + &time + &" ".repeat(self.bar()) + &joined(keys)
    }

    fn row(&self, data: &Data, row: &ReportRow, open: Option<bool>) -> String {
        let mark = match open {
            Some(true) => "-",
            Some(false) => "+",
            None => " ",
        };
        let own = percent(period(&row.own), data.base());
        let numbers = if data.has_children() {
            let children = percent(period(&row.children), data.base());
            format!("{mark} {children:>7.2}% {own:>7.2}% ")
        } else {
            format!("{mark} {own:>7.2}% ")
        };
        let main = tree::main_period(data, row);
        let time = if self.has_time { format!("{:>TIME$} ", brief_ns(main)) } else { String::new() };
        let bar = bar::of_eighths(bar::eighths(percent(main, data.base()), BAR as f64));
        let bar = format!("{bar:0$}", self.bar());
        let bar = if self.has_bar { bar } else { String::new() };
        let value = |(key, width): &(SortKey, usize)| (data.value(row, key).unwrap_or_default(), *width);
        numbers + &time + &bar + &joined(self.keys.iter().map(value))
    }
}

/// Texts cut and padded to their widths, two blanks between.
fn joined(columns: impl Iterator<Item = (String, usize)>) -> String {
    let mut line = String::new();
    for (text, width) in columns {
        line.push_str(&format!(" {:<width$} ", cut(&text, width)));
    }
    line
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}
