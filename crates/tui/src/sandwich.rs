//! Callers and callees of one function: trees of who calls it above, of what it calls below.

mod branches;

use super::Theme;
use branches::{Branches, Direction};
use crossterm::event::{KeyCode, KeyEvent};
use display::bar::{eighths, of_eighths};
use display::fit::cut;
use perfdata::text::harmless;
use profile::view::flame::Tree;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Columns of a bar.
const BAR: usize = 8;

/// One function with its neighbours.
pub struct Sandwich {
    /// The function.
    name: String,
    callers: Branches,
    callees: Branches,
    own: u64,
    with_callees: u64,
    all: u64,
    /// 0 to the callers' rows − 1, then the callees'.
    cursor: usize,
    /// Functions looked at before.
    before: Vec<String>,
    /// By line of the last picture: the cursor's value there.
    places: Vec<Option<usize>>,
}

/// Effect of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SandwichStep {
    /// Moved, or nothing.
    Stay,
    /// To this function.
    Go(String),
}

impl Sandwich {
    /// Sandwich of the function `name` in `tree`; `None` if it is in no stack.
    pub fn new(tree: &Tree, name: &str) -> Option<Self> {
        let totals = tree.totals();
        let places = branches::places(tree, name);
        let whole = |at: &usize| totals[*at].0;
        // Direct recursion is inside of the outermost calls.
        let with_callees = places.outermost.iter().map(whole).fold(0, u64::saturating_add);
        let own = places.all.iter().map(|&at| tree.node_at(at).own).fold(0, u64::saturating_add);
        (with_callees > 0).then(|| Self {
            name: name.to_owned(),
            callers: Branches::new(tree, Direction::Callers, &places, with_callees),
            callees: Branches::new(tree, Direction::Callees, &places, with_callees),
            own,
            with_callees,
            all: totals[0].0.max(1),
            cursor: 0,
            before: Vec::new(),
            places: Vec::new(),
        })
    }

    /// Goes on to another function; stays if it is in no stack.
    pub fn go(&mut self, tree: &Tree, name: &str) {
        if let Some(mut next) = Self::new(tree, name) {
            next.before = std::mem::take(&mut self.before);
            next.before.push(std::mem::take(&mut self.name));
            *self = next;
        }
    }

    /// Back to the function before; false if there is none.
    pub fn back(&mut self, tree: &Tree) -> bool {
        let Some(name) = self.before.pop() else { return false };
        if let Some(mut last) = Self::new(tree, &name) {
            last.before = std::mem::take(&mut self.before);
            *self = last;
        }
        true
    }

    /// The function in the middle.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The function under the cursor.
    pub fn picked(&self) -> &str {
        let (side, at) = self.side();
        side.name(at).unwrap_or(&self.name)
    }

    /// The side with the cursor, and the row there.
    fn side(&self) -> (&Branches, usize) {
        match self.cursor.checked_sub(self.callers.len()) {
            None => (&self.callers, self.cursor),
            Some(at) => (&self.callees, at),
        }
    }

    fn side_mut(&mut self) -> (&mut Branches, usize) {
        match self.cursor.checked_sub(self.callers.len()) {
            None => (&mut self.callers, self.cursor),
            Some(at) => (&mut self.callees, at),
        }
    }

    /// Takes a key.
    pub fn key(&mut self, key: KeyEvent, tree: &Tree) -> SandwichStep {
        let last = (self.callers.len() + self.callees.len()).saturating_sub(1);
        match key.code {
            KeyCode::Down | KeyCode::Char('j') => self.cursor = (self.cursor + 1).min(last),
            KeyCode::Up | KeyCode::Char('k') => self.cursor = self.cursor.saturating_sub(1),
            KeyCode::Home => self.cursor = 0,
            KeyCode::End => self.cursor = last,
            KeyCode::Right | KeyCode::Char('l' | '+' | ' ') => {
                let (side, at) = self.side_mut();
                side.open(tree, at);
            }
            KeyCode::Left | KeyCode::Char('h' | '-') => {
                let (side, at) = self.side_mut();
                let to = side.close(at);
                self.cursor = self.cursor - at + to;
            }
            KeyCode::Enter => {
                let (side, at) = self.side();
                return side.name(at).map_or(SandwichStep::Stay, |name| SandwichStep::Go(name.to_owned()));
            }
            _ => {}
        }
        SandwichStep::Stay
    }

    /// Draws callers, the function, and callees; each side has as much room as it needs, or half of it.
    pub fn draw(&mut self, buffer: &mut Buffer, area: Rect, theme: Theme) {
        // Two headings and the function.
        let room = usize::from(area.height).saturating_sub(3);
        let (above, below) = (self.callers.len(), self.callees.len());
        let above = above.min((room / 2).max(room.saturating_sub(below))).max(1) as u16;
        let middle = (area.y + 1 + above).min(area.bottom().saturating_sub(2));
        let width = usize::from(area.width);
        buffer.set_stringn(area.x, area.y, "callers", width, theme.heading());
        let share = |value: u64| value as f64 * 100.0 / self.all as f64;
        let text = format!(
            "{:>7.2}% with callees, {:.2}% self   {}",
            share(self.with_callees),
            share(self.own),
            harmless(&self.name)
        );
        let text = format!("{:<width$}", cut(&text, width));
        buffer.set_stringn(area.x, middle, text, width, theme.bar());
        buffer.set_stringn(area.x, middle + 1, "callees", width, theme.heading());
        let count = self.callers.len();
        let upper = Rect { y: area.y + 1, height: middle - area.y - 1, ..area };
        let lower = Rect { y: middle + 2, height: area.bottom().saturating_sub(middle + 2), ..area };
        let first =
            self.list(buffer, upper, theme, (&self.callers, Some(self.cursor).filter(|&at| at < count)));
        let second = self.list(buffer, lower, theme, (&self.callees, self.cursor.checked_sub(count)));
        let row = |at: usize, first: usize, most: usize| Some(first + at).filter(|&at| at < most);
        let callers = (0..usize::from(upper.height)).map(|at| row(at, first, count));
        let callees = (0..usize::from(lower.height)).map(|at| row(at, second, self.callees.len()));
        let callees = callees.map(|at| at.map(|at| at + count));
        self.places = [None].into_iter().chain(callers).chain([None, None]).chain(callees).collect();
    }

    /// Moves the cursor to a line of the last picture; a line that has it is gone to.
    pub fn click(&mut self, line: usize) -> SandwichStep {
        let Some(at) = self.places.get(line).copied().flatten() else { return SandwichStep::Stay };
        if at != self.cursor {
            self.cursor = at;
            return SandwichStep::Stay;
        }
        SandwichStep::Go(self.picked().to_owned())
    }

    /// A side with the cursor in it; the result is its first row on the screen.
    fn list(&self, buffer: &mut Buffer, area: Rect, theme: Theme, of: (&Branches, Option<usize>)) -> usize {
        let (side, cursor) = of;
        let first = cursor.map_or(0, |at| (at + 1).saturating_sub(usize::from(area.height)));
        if side.len() == 0 {
            buffer.set_stringn(area.x, area.y, "           none", usize::from(area.width), theme.dim());
        }
        for (y, at) in (area.y..area.bottom()).zip(first..side.len()) {
            let row = side.row(at);
            let percent = row.value as f64 * 100.0 / self.all as f64;
            let bar = of_eighths(eighths(row.value as f64 * 100.0 / self.with_callees as f64, BAR as f64));
            let sign = if row.is_open {
                "▾"
            } else if row.has_more {
                "▸"
            } else {
                " "
            };
            let before = format!("  {percent:>7.2}%  {bar:<BAR$} {:1$}{sign} ", "", row.depth * 2);
            let room = usize::from(area.width).saturating_sub(before.chars().count());
            let text = before + &cut(&harmless(side.name(at).unwrap_or_default()), room);
            buffer.set_stringn(area.x, y, text, usize::from(area.width), Style::new());
            if cursor == Some(at) {
                buffer.set_style(Rect { y, height: 1, ..area }, theme.selected_line());
            }
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossterm::event::KeyModifiers;

    fn sandwich(stacks: &str, name: &str) -> (Tree, Option<Sandwich>) {
        let tree = exchange::import::folded::read(stacks.as_bytes()).tree;
        let sandwich = Sandwich::new(&tree, name);
        (tree, sandwich)
    }

    fn rows(side: &Branches) -> Vec<(usize, &str, u64)> {
        let row = |at| (side.row(at).depth, side.name(at).expect("a row"), side.row(at).value);
        (0..side.len()).map(row).collect()
    }

    const STACKS: &str = "p;main;f;g 3\np;main;f;f;g 4\np;other;f 2\np;main 1\n";

    #[test]
    fn recursion_counts_once_and_both_sides_add_up() {
        let (_, sandwich) = sandwich(STACKS, "f");
        let sandwich = sandwich.expect("f is there");
        assert_eq!((sandwich.with_callees, sandwich.own, sandwich.all), (9, 2, 10));
        assert_eq!(rows(&sandwich.callers), [(0, "main", 7), (1, "p", 7), (0, "other", 2), (1, "p", 2)]);
        assert_eq!(rows(&sandwich.callees), [(0, "g", 7)]);
        assert!(self::sandwich(STACKS, "nowhere").1.is_none());
    }

    #[test]
    fn branches_close_and_open_by_arrows() {
        let (tree, sandwich) = sandwich("p;main;f;g;h;i 5\np;f 1\n", "f");
        let mut sandwich = sandwich.expect("f is there");
        let mut press = |code| sandwich.key(KeyEvent::new(code, KeyModifiers::NONE), &tree);
        press(KeyCode::Left);
        assert_eq!(press(KeyCode::Enter), SandwichStep::Go("main".to_owned()));
        assert_eq!(rows(&sandwich.callers), [(0, "main", 5), (0, "p", 1)]);
        sandwich.key(KeyEvent::new(KeyCode::Right, KeyModifiers::NONE), &tree);
        assert_eq!(rows(&sandwich.callers), [(0, "main", 5), (1, "p", 5), (0, "p", 1)]);
        assert_eq!(rows(&sandwich.callees), [(0, "g", 5), (1, "h", 5), (2, "i", 5)]);
        assert_eq!(sandwich.picked(), "main");
    }

    #[test]
    fn each_side_takes_the_rows_that_the_other_does_not_need() {
        let many: String = (0..30).map(|at| format!("p;f;callee_{at} 2\n")).collect();
        let (_, sandwich) = sandwich(&many, "f");
        let area = Rect::new(0, 0, 60, 20);
        let mut buffer = Buffer::empty(area);
        let mut sandwich = sandwich.expect("f is there");
        sandwich.draw(&mut buffer, area, Theme::plain());
        let line = |y: u16| (0..60).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        assert!(line(1).contains(" p") && line(2).contains("with callees"), "{}", line(2));
        assert!((4..20).all(|y| line(y).contains("callee_")), "{}", line(19));
        assert_eq!(sandwich.click(5), SandwichStep::Stay);
        assert_eq!(sandwich.click(5), SandwichStep::Go(sandwich.picked().to_owned()));
        assert!(line(5).contains(sandwich.picked()), "{}", line(5));
    }
}
