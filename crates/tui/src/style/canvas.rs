//! The part of the screen that a view draws on.

use super::Theme;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Cells of an area, and how things look there.
pub struct Canvas<'a> {
    /// The whole screen.
    pub buffer: &'a mut Buffer,
    /// The view's part of it, in columns and rows of the screen.
    pub area: Rect,
    /// How things look.
    pub theme: Theme,
}

impl Canvas<'_> {
    /// Writes text from the left of a row of the area, as much as there is room for. Row 0 is the topmost.
    pub fn text(&mut self, row: u16, text: impl AsRef<str>, style: Style) {
        let Rect { x, y, width, .. } = self.area;
        self.buffer.set_stringn(x, y + row, text, usize::from(width), style);
    }

    /// A row of the area. Row 0 is the topmost.
    pub fn row(&self, row: u16) -> Rect {
        Rect { y: self.area.y + row, height: 1, ..self.area }
    }
}
