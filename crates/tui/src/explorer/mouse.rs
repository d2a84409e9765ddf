//! The mouse: clicks, the wheel, and a drag over the timeline.

use super::{Explorer, ExplorerStep, Tab};
use crate::sandwich::SandwichStep;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};

/// Lines that a turn of the wheel moves.
const WHEEL: usize = 3;
/// Line of the tabs, and the first one below them.
const TABS: u16 = 1;
const CONTENT: u16 = 2;

impl Explorer {
    /// Takes the mouse: the wheel scrolls a flame graph, a click moves the cursor, another one there is Enter; a drag over the timeline selects a span.
    pub fn mouse(&mut self, event: MouseEvent) -> ExplorerStep {
        let code = match event.kind {
            MouseEventKind::ScrollDown => KeyCode::Down,
            MouseEventKind::ScrollUp => KeyCode::Up,
            MouseEventKind::Down(MouseButton::Left) => return self.click(event.column, event.row),
            MouseEventKind::Drag(MouseButton::Left) => {
                self.drag(event.column);
                return ExplorerStep::Stay;
            }
            MouseEventKind::Up(MouseButton::Left) if self.mark.is_some_and(|mark| mark != self.column) => {
                self.select_span();
                return ExplorerStep::Stay;
            }
            _ => return ExplorerStep::Stay,
        };
        let is_covered = self.sandwich.is_some() || self.page_of_text.is_some() || self.typed.is_some();
        if let (Tab::Flame, false, Some((_, view))) = (self.tab, is_covered, &mut self.flame) {
            view.scroll(code == KeyCode::Down);
            return ExplorerStep::Stay;
        }
        for _ in 0..WHEEL {
            self.key(KeyEvent::new(code, KeyModifiers::NONE));
        }
        ExplorerStep::Stay
    }

    fn click(&mut self, x: u16, y: u16) -> ExplorerStep {
        self.typed = None;
        if self.page_of_text.take().is_some() {
            return ExplorerStep::Stay;
        }
        if y == TABS {
            let at = self.tab_at(x);
            at.and_then(|at| Tab::ALL.get(at)).into_iter().for_each(|&tab| self.show(tab));
            // The tab after the last one is the table of events.
            return if at == Some(Tab::ALL.len()) { ExplorerStep::Events } else { ExplorerStep::Stay };
        }
        let Some(line) = y.checked_sub(CONTENT).map(usize::from) else { return ExplorerStep::Stay };
        if let Some((tree, sandwich)) = &mut self.sandwich {
            if let SandwichStep::Go(name) = sandwich.click(line) {
                sandwich.go(tree, &name);
            }
        } else if let (Tab::Flame, Some((tree, view))) = (self.tab, &mut self.flame) {
            view.click(x, line as u32, tree);
        } else {
            self.click_row(x, line);
        }
        ExplorerStep::Stay
    }

    fn click_row(&mut self, x: u16, line: usize) {
        let (cursor, top) = self.places[self.tab as usize];
        let at = top + line;
        let rows = self.rows.as_ref().map_or(&[][..], |(_, rows)| rows.as_slice());
        if rows.get(at).is_none_or(|row| row.pick.is_none()) {
            return;
        }
        self.places[self.tab as usize].0 = at;
        match self.strip_column(x) {
            Some(column) => (self.column, self.mark) = (column, None),
            None if cursor == at => self.pick(),
            None => {}
        }
    }

    /// The time under a column of the screen becomes the other end of the span.
    fn drag(&mut self, x: u16) {
        if self.sandwich.is_none()
            && let Some(column) = self.strip_column(x)
        {
            self.mark.get_or_insert(self.column);
            self.column = column;
        }
    }

    /// The column of the timeline's strips under a column of the screen.
    fn strip_column(&self, x: u16) -> Option<usize> {
        let columns = self.strips.as_ref()?.rows.first()?.columns.len();
        let at = usize::from(x).checked_sub(super::STRIP)?;
        (self.tab == Tab::Timeline && at < columns).then_some(at)
    }
}
