//! Callers and callees of one function: who calls it above, what it calls below.

use super::Theme;
use crossterm::event::{KeyCode, KeyEvent};
use display::fit::cut;
use perfdata::text::harmless;
use profile::grow::Grow as _;
use profile::view::flame::{NameId, Tree};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use rustc_hash::FxHashMap;

/// A neighbour of the function in the middle.
#[derive(Clone, Debug, PartialEq)]
struct Neighbour {
    name: String,
    value: u64,
}

/// One function with its neighbours.
pub struct Sandwich {
    /// The function.
    name: String,
    callers: Vec<Neighbour>,
    callees: Vec<Neighbour>,
    own: u64,
    with_callees: u64,
    all: u64,
    /// 0 to callers − 1, then the callees.
    cursor: usize,
    /// Functions looked at before.
    before: Vec<String>,
}

/// What a key did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SandwichStep {
    /// Moved, or nothing.
    Stay,
    /// To this function.
    Go(String),
}

impl Sandwich {
    /// Of the function `name` in `tree`; `None` if it is in no stack.
    pub fn new(tree: &Tree, name: &str) -> Option<Self> {
        let mut sums = Sums::default();
        let totals = tree.totals();
        let is_named: Vec<bool> = tree.names().map(|(other, _)| other == name).collect();
        if !is_named.contains(&true) {
            return None;
        }
        // Outermost calls only count for the whole: recursion is inside of them.
        let mut inside = vec![false; tree.len()];
        for (id, parent) in tree.nodes_with_parents() {
            let node = tree.node(id);
            let (value, is_it) = (totals[id.index()].0, is_named[node.name.index()]);
            let parent_name = tree.node(parent).name;
            let under_it = parent != Tree::ROOT && is_named[parent_name.index()];
            inside[id.index()] = inside[parent.index()] || is_it;
            if is_it {
                sums.own.grow(node.own);
                if !inside[parent.index()] {
                    sums.with_callees.grow(value);
                    sums.callers.entry(parent_name).or_default().grow(value);
                }
            }
            if under_it {
                sums.callees.entry(node.name).or_default().grow(value);
            }
        }
        (sums.with_callees > 0).then(|| Self {
            name: name.to_owned(),
            callers: sorted(tree, &sums.callers),
            callees: sorted(tree, &sums.callees),
            own: sums.own,
            with_callees: sums.with_callees,
            all: totals[0].0.max(1),
            cursor: 0,
            before: Vec::new(),
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

    /// Takes a key.
    pub fn key(&mut self, key: KeyEvent) -> SandwichStep {
        let count = self.callers.len() + self.callees.len();
        match key.code {
            KeyCode::Down | KeyCode::Char('j') => {
                self.cursor = (self.cursor + 1).min(count.saturating_sub(1))
            }
            KeyCode::Up | KeyCode::Char('k') => self.cursor = self.cursor.saturating_sub(1),
            KeyCode::Home => self.cursor = 0,
            KeyCode::End => self.cursor = count.saturating_sub(1),
            KeyCode::Enter | KeyCode::Right | KeyCode::Char(' ') => {
                let at = self.callers.iter().chain(&self.callees).nth(self.cursor);
                return at.map_or(SandwichStep::Stay, |neighbour| SandwichStep::Go(neighbour.name.clone()));
            }
            _ => {}
        }
        SandwichStep::Stay
    }

    /// Draws callers, the function, and callees.
    pub fn draw(&self, buffer: &mut Buffer, area: Rect, theme: Theme) {
        let middle = area.y + area.height / 2;
        let above = usize::from(middle.saturating_sub(area.y + 1));
        let below = usize::from(area.bottom().saturating_sub(middle + 2));
        let width = usize::from(area.width);
        buffer.set_stringn(area.x, area.y, "callers", width, theme.heading());
        let share = |value: u64| value as f64 * 100.0 / self.all as f64;
        let text = format!(
            "{:>7.2}% with callees, {:.2}% self   {}",
            share(self.with_callees),
            share(self.own),
            harmless(&self.name)
        );
        buffer.set_stringn(area.x, middle, format!("{text:<width$}"), width, theme.bar());
        buffer.set_stringn(area.x, middle + 1, "callees", width, theme.heading());
        let (callers, callees) = (self.callers.len(), self.callees.len());
        self.list(buffer, Rect { y: area.y + 1, height: above as u16, ..area }, theme, 0..callers);
        let rest = callers..callers + callees;
        self.list(buffer, Rect { y: middle + 2, height: below as u16, ..area }, theme, rest);
    }

    fn list(&self, buffer: &mut Buffer, area: Rect, theme: Theme, range: std::ops::Range<usize>) {
        let height = usize::from(area.height);
        let first = if range.contains(&self.cursor) {
            range.start + (self.cursor + 1 - range.start).saturating_sub(height)
        } else {
            range.start
        };
        let all = self.callers.iter().chain(&self.callees).enumerate();
        for (y, (i, neighbour)) in (area.y..area.bottom()).zip(all.skip(first).take(range.end - first)) {
            let percent = neighbour.value as f64 * 100.0 / self.all as f64;
            let room = usize::from(area.width).saturating_sub(12);
            let text = format!("  {percent:>7.2}%  {}", cut(&harmless(&neighbour.name), room));
            buffer.set_stringn(area.x, y, text, usize::from(area.width), theme.percent(percent));
            if i == self.cursor {
                buffer.set_style(Rect { y, height: 1, ..area }, theme.selected());
            }
        }
    }
}

#[derive(Default)]
struct Sums {
    own: u64,
    with_callees: u64,
    callers: FxHashMap<NameId, u64>,
    callees: FxHashMap<NameId, u64>,
}

/// Biggest first, equal ones by name.
fn sorted(tree: &Tree, sums: &FxHashMap<NameId, u64>) -> Vec<Neighbour> {
    let neighbour = |(&name, &value): (&NameId, &u64)| Neighbour { name: tree.name(name).to_owned(), value };
    let mut list: Vec<Neighbour> = sums.iter().map(neighbour).collect();
    list.sort_by(|a, b| b.value.cmp(&a.value).then_with(|| a.name.cmp(&b.name)));
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recursion_counts_once_and_callers_add_up() {
        let tree =
            exchange::import::folded::read(b"p;main;f;g 3\np;main;f;f;g 4\np;other;f 2\np;main 1\n").tree;
        let sandwich = Sandwich::new(&tree, "f").expect("f is there");
        assert_eq!((sandwich.with_callees, sandwich.own, sandwich.all), (9, 2, 10));
        let list = |list: &[Neighbour]| list.iter().map(|n| (n.name.clone(), n.value)).collect::<Vec<_>>();
        assert_eq!(list(&sandwich.callers), [("main".to_owned(), 7), ("other".to_owned(), 2)]);
        assert_eq!(list(&sandwich.callees), [("g".to_owned(), 7), ("f".to_owned(), 4)]);
        assert!(Sandwich::new(&tree, "nowhere").is_none());
    }
}
