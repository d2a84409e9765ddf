//! Traced calls in the terminal: functions with exact times, their flame graph, callers and callees of one of them.

mod rows;

use crate::flame::FlameView;
use crate::prompt::{TextPrompt, Typed};
use crate::sandwich::{Sandwich, SandwichStep};
use crate::style::canvas::Canvas;
use crate::terminal::Screen;
use crate::{Theme, help};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use display::fit::cut;
use perfdata::text::harmless;
use profile::view::flame::Tree;
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use rows::CallOrder;

/// Calls of one function.
#[derive(Clone, Debug, Default)]
pub struct CallRow {
    /// Function.
    pub name: String,
    /// Number of calls.
    pub calls: u64,
    /// Time of all calls with what they called, ns.
    pub total_ns: u64,
    /// Time of all calls without what they called, ns.
    pub self_ns: u64,
    /// Part of the total off the CPU, ns.
    pub off_ns: u64,
    /// Mean of the finished calls, ns; `None` where they weren't timed.
    pub average_ns: Option<u64>,
    /// Median of the finished calls, ns.
    pub p50_ns: Option<u64>,
    /// Duration that 99 % of the finished calls don't exceed, ns.
    pub p99_ns: Option<u64>,
    /// Longest finished call, ns.
    pub max_ns: Option<u64>,
}

/// A recording of calls.
#[derive(Debug)]
pub struct CallTable {
    /// Command and sum of the recording.
    pub title: String,
    /// Functions in any order.
    pub rows: Vec<CallRow>,
    /// Time of calls by path, ns.
    pub tree: Tree,
}

/// Tabs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tab {
    Functions,
    Flame,
}

/// All state of the view.
pub struct CallBrowser {
    table: CallTable,
    theme: Theme,
    tab: Tab,
    order: CallOrder,
    /// Rows shown, as places in the table.
    shown: Vec<usize>,
    /// Place of the cursor in the rows shown, and the first of them on the screen.
    cursor: usize,
    top: usize,
    /// Lines that the last picture had room for.
    height: usize,
    find: String,
    prompt: Option<TextPrompt>,
    flame: FlameView,
    sandwich: Option<Sandwich>,
    /// The help, and its first line on the screen.
    help: Option<usize>,
    quit: bool,
}

/// Lines of the screen above the view: title and tabs.
const ABOVE: u16 = 2;
/// Rows that a turn of the wheel moves.
const WHEEL: usize = 3;
/// Least size of a screen, in columns and rows.
const LEAST: (u16, u16) = (30, 6);

impl CallBrowser {
    /// Shows the functions by total time.
    #[must_use]
    pub fn new(table: CallTable, theme: Theme) -> Self {
        let flame = FlameView::new(&table.tree);
        let mut browser = Self {
            table,
            theme,
            tab: Tab::Functions,
            order: CallOrder::default(),
            shown: Vec::new(),
            cursor: 0,
            top: 0,
            height: 0,
            find: String::new(),
            prompt: None,
            flame,
            sandwich: None,
            help: None,
            quit: false,
        };
        browser.arrange();
        browser
    }

    fn plain_key(&mut self, key: KeyEvent) {
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => self.quit = true,
            KeyCode::Char('q') => self.quit = true,
            KeyCode::Esc => self.back(),
            KeyCode::Char('1') => self.show(Tab::Functions),
            KeyCode::Char('2' | 'f') => self.show(Tab::Flame),
            KeyCode::Tab | KeyCode::BackTab => {
                self.show(if self.tab == Tab::Functions { Tab::Flame } else { Tab::Functions });
            }
            KeyCode::Char('?') | KeyCode::F(1) => self.help = Some(0),
            KeyCode::Char('/') => self.prompt = Some(TextPrompt::default()),
            KeyCode::Char('s') => self.show_sandwich(),
            _ => self.view_key(key),
        }
    }

    fn view_key(&mut self, key: KeyEvent) {
        let tree = &self.table.tree;
        if let Some(sandwich) = &mut self.sandwich {
            if let SandwichStep::Go(name) = sandwich.key(key, tree) {
                sandwich.go(tree, &name);
            }
            return;
        }
        match (self.tab, key.code) {
            (Tab::Flame, _) => self.flame.key(key, tree),
            (Tab::Functions, KeyCode::Char('o')) => {
                self.order = self.order.next();
                self.arrange();
            }
            (Tab::Functions, KeyCode::Enter | KeyCode::Right | KeyCode::Char(' ')) => self.show_sandwich(),
            (Tab::Functions, code) => self.move_key(code),
        }
    }

    fn move_key(&mut self, code: KeyCode) {
        let last = self.shown.len().saturating_sub(1);
        let page = self.height.max(2) - 1;
        self.cursor = match code {
            KeyCode::Down | KeyCode::Char('j') => (self.cursor + 1).min(last),
            KeyCode::Up | KeyCode::Char('k') => self.cursor.saturating_sub(1),
            KeyCode::PageDown => (self.cursor + page).min(last),
            KeyCode::PageUp => self.cursor.saturating_sub(page),
            KeyCode::Home | KeyCode::Char('g') => 0,
            KeyCode::End | KeyCode::Char('G') => last,
            _ => self.cursor,
        };
    }

    fn show(&mut self, tab: Tab) {
        (self.tab, self.sandwich) = (tab, None);
    }

    fn show_sandwich(&mut self) {
        let name = match self.tab {
            _ if self.sandwich.is_some() => None,
            Tab::Functions => self.row().map(|row| row.name.clone()),
            Tab::Flame => self.flame.function(&self.table.tree).map(str::to_owned),
        };
        if let Some(name) = name {
            self.sandwich = Sandwich::new(&self.table.tree, &name);
        }
    }

    /// The function under the cursor of the table.
    fn row(&self) -> Option<&CallRow> {
        self.table.rows.get(*self.shown.get(self.cursor)?)
    }

    /// One step back; from the functions, out of the program.
    fn back(&mut self) {
        if let Some(sandwich) = &mut self.sandwich {
            if !sandwich.back(&self.table.tree) {
                self.sandwich = None;
            }
        } else if self.tab == Tab::Flame && self.flame.is_zoomed() {
            self.flame.leave_zoom(&self.table.tree);
        } else if !self.find.is_empty() {
            self.search("");
        } else if self.tab == Tab::Flame {
            self.show(Tab::Functions);
        } else {
            self.quit = true;
        }
    }

    fn search(&mut self, text: &str) {
        self.find = text.to_lowercase();
        self.flame.find(text);
        (self.cursor, self.top) = (0, 0);
        self.arrange();
    }

    fn prompt_key(&mut self, key: KeyEvent) {
        let Some(prompt) = &mut self.prompt else { return };
        let typed = prompt.key(key);
        let text = if typed == Typed::Cancelled { String::new() } else { prompt.text.clone() };
        if typed != Typed::Going {
            self.prompt = None;
        }
        self.search(&text);
    }

    fn help_key(&mut self, code: KeyCode) {
        let Some(top) = &mut self.help else { return };
        match code {
            KeyCode::Down | KeyCode::Char('j') => {
                *top = (*top + 1).min(help::call_lines().len().saturating_sub(1));
            }
            KeyCode::Up | KeyCode::Char('k') => *top = top.saturating_sub(1),
            _ => self.help = None,
        }
    }

    fn click(&mut self, x: u16, y: u16) {
        if self.help.take().is_some() {
            return;
        }
        if y + 1 == ABOVE {
            let mut end = 0;
            let at = tab_names().iter().position(|(name, _)| {
                end += name.chars().count() + 1;
                usize::from(x) < end
            });
            at.into_iter().for_each(|at| self.show(tab_names()[at].1));
            return;
        }
        let Some(line) = y.checked_sub(ABOVE).map(usize::from) else { return };
        if let Some(sandwich) = &mut self.sandwich {
            if let SandwichStep::Go(name) = sandwich.click(line) {
                sandwich.go(&self.table.tree, &name);
            }
        } else if self.tab == Tab::Flame {
            self.flame.click(x, line as u32, &self.table.tree);
        } else if let Some(at) =
            line.checked_sub(1).map(|line| line + self.top).filter(|&at| at < self.shown.len())
        {
            if at == self.cursor {
                self.show_sandwich();
            }
            self.cursor = at;
        }
    }

    fn foot(&self) -> String {
        if let Some(prompt) = &self.prompt {
            return format!("/{}_", harmless(&prompt.text));
        }
        let keys = match self.tab {
            _ if self.help.is_some() => "↑↓:scroll  any other key:back",
            _ if self.sandwich.is_some() => {
                "↑↓:move  →←:open, close  Enter:go there  Esc:back  ?:help  q:quit"
            }
            Tab::Functions => "↑↓:move  Enter:callers, callees  o:order  /:find  f:flame  ?:help  q:quit",
            Tab::Flame => "↑↓←→:move  Enter:zoom  u:all  s:callers  /:find  n:next  Esc:back  ?:help  q",
        };
        keys.to_owned()
    }

    fn draw_all(&mut self, buffer: &mut Buffer, area: Rect) {
        let (theme, width) = (self.theme, usize::from(area.width));
        let bar = |buffer: &mut Buffer, y: u16, text: &str| {
            let text = format!("{:<width$}", cut(text, width));
            buffer.set_stringn(area.x, y, text, width, theme.bar());
        };
        bar(buffer, area.y, &harmless(&self.table.title));
        bar(buffer, area.bottom() - 1, &self.foot());
        if let Some(top) = self.help {
            for (y, line) in (area.y + 1..area.bottom() - 1).zip(help::call_lines().iter().skip(top)) {
                buffer.set_stringn(area.x, y, line, width, Style::new());
            }
            return;
        }
        let mut x = area.x;
        for (name, tab) in tab_names() {
            let style = if tab == self.tab { theme.selected() } else { Style::new() };
            let room = usize::from(area.right().saturating_sub(x));
            (x, _) = buffer.set_stringn(x, area.y + 1, name, room, style);
            x += 1;
        }
        let inner = Rect { y: area.y + ABOVE, height: area.height - ABOVE - 2, ..area };
        let details = self.draw_view(&mut Canvas { buffer, area: inner, theme });
        buffer.set_stringn(area.x, area.bottom() - 2, cut(&details, width), width, theme.heading());
    }

    /// Draws the tab; the text is about what is under the cursor.
    fn draw_view(&mut self, canvas: &mut Canvas<'_>) -> String {
        if let Some(sandwich) = &mut self.sandwich {
            sandwich.draw(canvas.buffer, canvas.area, canvas.theme);
            let name = sandwich.picked();
            let row = self.table.rows.iter().find(|row| row.name == name);
            return row.map_or_else(String::new, |row| rows::details(row, self.whole()));
        }
        match self.tab {
            Tab::Functions => self.draw_functions(canvas),
            Tab::Flame => {
                self.flame.draw(canvas, &self.table.tree);
                self.flame.found_share(&self.table.tree)
            }
        }
    }
}

fn tab_names() -> [(&'static str, Tab); 2] {
    [(" 1 Functions ", Tab::Functions), (" 2 Flame ", Tab::Flame)]
}

impl Screen for CallBrowser {
    fn key(&mut self, key: KeyEvent) {
        if self.prompt.is_some() {
            self.prompt_key(key);
        } else if self.help.is_some() {
            self.help_key(key.code);
        } else {
            self.plain_key(key);
        }
    }

    fn mouse(&mut self, event: MouseEvent) {
        let code = match event.kind {
            MouseEventKind::ScrollDown => KeyCode::Down,
            MouseEventKind::ScrollUp => KeyCode::Up,
            MouseEventKind::Down(MouseButton::Left) => return self.click(event.column, event.row),
            _ => return,
        };
        if let (Tab::Flame, None, None, None) = (self.tab, &self.sandwich, &self.prompt, &self.help) {
            return self.flame.scroll(code == KeyCode::Down);
        }
        for _ in 0..WHEEL {
            self.key(KeyEvent::new(code, KeyModifiers::NONE));
        }
    }

    fn draw(&mut self, frame: &mut Frame<'_>) {
        let area = frame.area();
        let buffer = frame.buffer_mut();
        if area.width < LEAST.0 || area.height < LEAST.1 {
            buffer.set_stringn(area.x, area.y, "terminal too small", usize::from(area.width), Style::new());
        } else {
            self.draw_all(buffer, area);
        }
    }

    fn wants_to_quit(&self) -> bool {
        self.quit
    }
}

#[cfg(test)]
mod tests;
