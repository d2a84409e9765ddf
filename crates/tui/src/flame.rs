//! The flame graph in the terminal: roots at the top, one line per depth.

use super::style::canvas::Canvas;
use crossterm::event::{KeyCode, KeyEvent};
use display::fit::cut;
use display::number;
use perfdata::text::harmless;
use profile::view::flame::{FlameCell, FrameKind, Layout, LayoutOpts, NodeId, Tree, Unit};
use profile::view::ranking::RankRows as _;
use ratatui::layout::Rect;
use std::borrow::Cow;

/// Lines that a turn of the wheel scrolls.
const WHEEL: u32 = 3;

/// A flame graph with a cursor.
pub struct FlameView {
    /// Frame that fills the width.
    root: NodeId,
    layout: Layout,
    /// Position in the layout's cells.
    cursor: usize,
    /// First depth shown.
    top: u32,
    find: String,
    /// Columns and rows of the last picture.
    size: (u16, u32),
    /// The cursor stays in view; not after the wheel scrolled.
    follows: bool,
    /// Value of all stacks.
    all: u64,
}

impl FlameView {
    /// Flame graph of all stacks of `tree`.
    pub fn new(tree: &Tree) -> Self {
        Self::at(tree, Tree::ROOT, String::new())
    }

    fn at(tree: &Tree, root: NodeId, find: String) -> Self {
        let layout = Layout::new(tree, LayoutOpts { root, min_value: 1 });
        let all = if root == Tree::ROOT { layout.total } else { tree.totals()[0].0 };
        Self { root, layout, cursor: 0, top: 0, find, size: (0, 0), follows: true, all }
    }

    /// Shows all of other stacks.
    pub fn replace(&mut self, tree: &Tree) {
        *self = Self::at(tree, Tree::ROOT, std::mem::take(&mut self.find));
    }

    /// Moves the picture, not the cursor.
    pub fn scroll(&mut self, down: bool) {
        self.follows = false;
        self.top = if down { self.top.saturating_add(WHEEL) } else { self.top.saturating_sub(WHEEL) };
        self.top = self.top.min(self.last_top());
    }

    /// The first depth shown when the deepest is the last.
    fn last_top(&self) -> u32 {
        let depths = self.layout.cells.iter().map(|cell| cell.depth + 1).max().unwrap_or(0);
        depths.saturating_sub(self.size.1)
    }

    /// Marks frames that contain `text`.
    pub fn find(&mut self, text: &str) {
        self.find = text.to_lowercase();
    }

    /// The function under the cursor.
    pub fn function<'t>(&self, tree: &'t Tree) -> Option<&'t str> {
        let cell = self.layout.cells.get(self.cursor)?;
        Some(tree.name(tree.node(cell.node).name))
    }

    /// Takes a key.
    pub fn key(&mut self, key: KeyEvent, tree: &Tree) {
        self.follows = true;
        match key.code {
            KeyCode::Up | KeyCode::Char('k') => self.move_to_caller(tree),
            KeyCode::Down | KeyCode::Char('j') => self.move_to_callee(tree),
            KeyCode::Right | KeyCode::Char('l') => self.move_to_neighbour(true),
            KeyCode::Left | KeyCode::Char('h') => self.move_to_neighbour(false),
            KeyCode::Home | KeyCode::Char('g') => self.cursor = 0,
            KeyCode::Char('n') => self.go_to_hit(tree, true),
            KeyCode::Char('N') => self.go_to_hit(tree, false),
            KeyCode::Enter => self.zoom(tree),
            KeyCode::Backspace | KeyCode::Char('u') => self.unzoom(tree),
            _ => {}
        }
    }

    fn move_to_caller(&mut self, tree: &Tree) {
        let Some(cell) = self.layout.cells.get(self.cursor) else { return };
        let parent = tree.node(cell.node).parent;
        if let Some(at) = self.layout.cells[..self.cursor].iter().rposition(|cell| cell.node == parent) {
            self.cursor = at;
        }
    }

    /// To the biggest callee.
    fn move_to_callee(&mut self, tree: &Tree) {
        let Some(&from) = self.layout.cells.get(self.cursor) else { return };
        let below = self.layout.cells.iter().enumerate().skip(self.cursor + 1);
        let below = below.take_while(|(_, cell)| cell.depth > from.depth);
        let callees = below.filter(|(_, cell)| tree.node(cell.node).parent == from.node);
        if let Some((at, _)) = callees.max_by_key(|(at, cell)| (cell.value, std::cmp::Reverse(*at))) {
            self.cursor = at;
        }
    }

    /// To the next frame of the same depth.
    fn move_to_neighbour(&mut self, right: bool) {
        let Some(depth) = self.layout.cells.get(self.cursor).map(|cell| cell.depth) else { return };
        let is_neighbour = |cell: &FlameCell| cell.depth == depth;
        let found = if right {
            let after = &self.layout.cells[self.cursor + 1..];
            after.iter().position(is_neighbour).map(|at| at + self.cursor + 1)
        } else {
            self.layout.cells[..self.cursor].iter().rposition(is_neighbour)
        };
        self.cursor = found.unwrap_or(self.cursor);
    }

    fn zoom(&mut self, tree: &Tree) {
        if let Some(cell) = self.layout.cells.get(self.cursor) {
            *self = Self::at(tree, cell.node, std::mem::take(&mut self.find));
        }
    }

    /// Back to everything, with the cursor where it was.
    fn unzoom(&mut self, tree: &Tree) {
        let node = self.layout.cells.get(self.cursor).map(|cell| cell.node);
        *self = Self::at(tree, Tree::ROOT, std::mem::take(&mut self.find));
        self.cursor = self.layout.cells.iter().position(|cell| Some(cell.node) == node).unwrap_or(0);
    }

    fn is_hit(&self, name: &str) -> bool {
        !self.find.is_empty() && name.to_lowercase().contains(&self.find)
    }

    /// To the frame that is found and next in size, or the one before; from elsewhere to the largest.
    fn go_to_hit(&mut self, tree: &Tree, forward: bool) {
        let cells = &self.layout.cells;
        let is_hit = |at: &usize| self.is_hit(tree.name(tree.node(cells[*at].node).name));
        let mut hits: Vec<usize> = (0..cells.len()).filter(is_hit).collect();
        hits.rank_by_key(|&at| std::cmp::Reverse(cells[at].value));
        let count = hits.len();
        let next = match hits.iter().position(|&at| at == self.cursor) {
            Some(now) => (now + if forward { 1 } else { count - 1 }) % count,
            None => 0,
        };
        self.cursor = hits.get(next).copied().unwrap_or(self.cursor);
    }

    /// `found 12.3 % in 4 places`, of all stacks whatever is zoomed into; empty without a search.
    pub fn found_share(&self, tree: &Tree) -> String {
        if self.find.is_empty() {
            return String::new();
        }
        let hits: Vec<bool> = tree.names().map(|(name, _)| self.is_hit(name)).collect();
        let totals = tree.totals();
        let mut inside = vec![false; tree.len()];
        let (mut sum, mut places) = (0u64, 0u64);
        for (node, parent) in tree.nodes_with_parents() {
            let is_hit = hits[tree.node(node).name.index()];
            inside[node.index()] = inside[parent.index()] || is_hit;
            if is_hit && !inside[parent.index()] {
                sum = sum.saturating_add(totals[node.index()].0);
                places += 1;
            }
        }
        let percent = sum as f64 * 100.0 / self.all.max(1) as f64;
        format!("found {percent:.2} % in {}", number::count_of(places, "place", "places"))
    }

    /// Moves the cursor to the frame at a place of the last picture; at the same frame it is zoomed into.
    pub fn click(&mut self, x: u16, line: u32, tree: &Tree) {
        let depth = line + self.top;
        let column = |value: u64| self.column(value, self.size.0);
        let is_there = |cell: &FlameCell| {
            let end = column(cell.start.saturating_add(cell.value));
            cell.depth == depth && column(cell.start) <= x && x < end
        };
        match self.layout.cells.iter().position(is_there) {
            Some(at) if at == self.cursor => self.zoom(tree),
            Some(at) => self.cursor = at,
            None => {}
        }
    }

    fn column(&self, value: u64, width: u16) -> u16 {
        (value as f64 * f64::from(width) / self.layout.total.max(1) as f64).round() as u16
    }

    /// True if less than everything fills the width.
    pub fn is_zoomed(&self) -> bool {
        self.root != Tree::ROOT
    }

    /// Takes the zoom back.
    pub fn leave_zoom(&mut self, tree: &Tree) {
        self.unzoom(tree);
    }

    /// Draws the graph with a line about the frame under the cursor at the foot.
    pub fn draw(&mut self, canvas: &mut Canvas<'_>, tree: &Tree) {
        let area = canvas.area;
        let rows = u32::from(area.height.saturating_sub(1));
        let Some(&at) = self.layout.cells.get(self.cursor) else { return };
        self.size = (area.width, rows);
        self.top = if self.follows {
            self.top.max((at.depth + 1).saturating_sub(rows)).min(at.depth)
        } else {
            self.top.min(self.last_top())
        };
        for (i, cell) in self.layout.cells.iter().enumerate() {
            if cell.depth >= self.top && cell.depth - self.top < rows {
                self.draw_cell(canvas, tree, i);
            }
        }
        canvas.text(area.height - 1, self.details(tree, &at), canvas.theme.heading());
    }

    /// Draws the frame at this place of the layout.
    fn draw_cell(&self, canvas: &mut Canvas<'_>, tree: &Tree, at: usize) {
        let (area, theme, cell) = (canvas.area, canvas.theme, &self.layout.cells[at]);
        let column = |value: u64| self.column(value, area.width);
        let (from, to) = (column(cell.start), column(cell.start.saturating_add(cell.value)));
        // The frame under the cursor is seen even if it is narrower than a column.
        let width = (to - from).max(u16::from(at == self.cursor)).min(area.width - from.min(area.width));
        if width == 0 {
            return;
        }
        let name_id = tree.node(cell.node).name;
        let name = harmless(tree.name(name_id));
        let y = area.y + (cell.depth - self.top) as u16;
        let place = Rect { x: area.x + from, y, width, height: 1 };
        let room = usize::from(width);
        // A bar at the left separates neighbours on any terminal.
        let text = format!("│{}", label(&name, room.saturating_sub(1)));
        let odd = cell.start.count_ones() % 2 == 1;
        let mut style = match tree.kind(name_id) {
            FrameKind::Waiting => theme.state_frame(&name),
            kind => theme.frame(kind, odd && theme.colour),
        };
        if self.is_hit(&name) {
            style = style.patch(theme.hit());
        }
        if at == self.cursor {
            style = style.patch(theme.selected());
        }
        canvas.buffer.set_stringn(place.x, y, format!("{text:<room$}"), room, style);
    }

    fn details(&self, tree: &Tree, cell: &FlameCell) -> String {
        let percent = cell.value as f64 * 100.0 / self.all.max(1) as f64;
        let value = match &tree.unit {
            Unit::Nanoseconds => format!("{}, ", number::duration_ns(cell.value)),
            _ => String::new(),
        };
        let name = harmless(tree.name(tree.node(cell.node).name));
        if let Some(details) = tree.details(cell.node) {
            return format!("{percent:.2}%  {}  {name}", harmless(details));
        }
        let samples = number::count_of(cell.samples, "sample", "samples");
        format!("{percent:.2}%  {value}{samples}  {name}")
    }
}

/// A name in so many columns. Less than an address and fewer than three letters tell nothing: then there is none.
fn label(name: &str, room: usize) -> Cow<'_, str> {
    let columns = name.chars().count();
    match name.strip_prefix("function ").filter(|address| address.starts_with("0x") && columns > room) {
        Some(address) if address.len() <= room => address.into(),
        Some(_) => "".into(),
        None if columns > room && room < 4 => "".into(),
        None => cut(name, room).into(),
    }
}
