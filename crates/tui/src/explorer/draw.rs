//! The screen: a line about the recording, the tabs, the shown tab, and a line about the cursor.

use super::{Explorer, Tab};
use crate::Theme;
use crate::style::canvas::Canvas;
use display::fit::cut;
use perfdata::text::harmless;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Lines above and below the tab.
const FRAME: u16 = 4;

impl Explorer {
    /// Draws everything.
    pub fn draw(&mut self, buffer: &mut Buffer, area: Rect, theme: Theme) {
        let width = usize::from(area.width);
        let bar = |buffer: &mut Buffer, y: u16, text: &str| {
            let text = format!("{:<width$}", cut(text, width));
            buffer.set_stringn(area.x, y, text, width, theme.bar());
        };
        bar(buffer, area.y, &harmless(&self.text.title));
        let inner = Rect { y: area.y + 2, height: area.height - FRAME, ..area };
        self.height = usize::from(inner.height);
        if let Some((lines, top)) = &self.page_of_text {
            let inner = Rect { y: area.y + 1, height: area.height - 2, ..area };
            for (y, line) in (inner.y..inner.bottom()).zip(lines.iter().skip(*top)) {
                buffer.set_stringn(area.x, y, line, width, Style::new());
            }
            return bar(buffer, area.bottom() - 1, "↑↓:scroll  any other key:back");
        }
        self.tabs(buffer, Rect { y: area.y + 1, height: 1, ..area }, theme);
        let details = self.content(buffer, inner, theme);
        buffer.set_stringn(area.x, area.bottom() - 2, cut(&details, width), width, theme.heading());
        bar(buffer, area.bottom() - 1, &self.foot());
    }

    fn foot(&self) -> String {
        if let Some(typed) = &self.typed {
            return format!("/{}_", harmless(typed));
        }
        let keys = match self.tab {
            _ if self.sandwich.is_some() => {
                "↑↓:move  →←:open, close  Enter:go there  Esc:back  a:code  ?:help  q:quit"
            }
            Tab::Overview => "↑↓:move  Enter:select  w:evidence  S:state  Esc:back  1-6:tabs  ?:help  q:quit",
            Tab::Flame => "↑↓←→:move  Enter:zoom  o:order  F:fold  /:find  n:next  s:callers  ?:help  q",
            Tab::Timeline => "↑↓←→:move  v:mark a span  Enter:select  Esc:back  ?:help  q:quit",
            Tab::Functions => {
                "↑↓:move  Enter:select  o:order  s:callers  a:code  /:find  Esc:back  ?:help  q:quit"
            }
            Tab::Waits => "↑↓:move  Enter:select  s:callers  a:code  /:find  Esc:back  ?:help  q:quit",
        };
        keys.to_owned()
    }

    /// The tabs with what is selected.
    fn tabs(&self, buffer: &mut Buffer, area: Rect, theme: Theme) {
        let mut x = area.x;
        for (name, is_shown) in self.tab_names() {
            let style = if is_shown { theme.selected() } else { Style::new() };
            (x, _) = buffer.set_stringn(x, area.y, name, usize::from(area.right().saturating_sub(x)), style);
            x += 1;
        }
        let room = usize::from(area.right().saturating_sub(x + 1));
        let words = cut(&harmless(&self.selection_words()), room);
        if room >= 6 {
            let at = area.right().saturating_sub(words.chars().count() as u16);
            buffer.set_stringn(at, area.y, words, room, theme.heading());
        }
    }

    fn tab_names(&self) -> Vec<(String, bool)> {
        let name = |(at, tab): (usize, &Tab)| (format!(" {} {} ", at + 1, tab.name()), *tab == self.tab);
        let mut names: Vec<_> = Tab::ALL.iter().enumerate().map(name).collect();
        names.push((" 6 Events ".to_owned(), false));
        names
    }

    /// Position of the tab at a column of the line of tabs; the last one is the table of events.
    pub(super) fn tab_at(&self, x: u16) -> Option<usize> {
        let mut end = 0;
        self.tab_names().iter().position(|(name, _)| {
            end += name.chars().count() + 1;
            usize::from(x) < end
        })
    }

    /// Draws the tab; the text is about what is under the cursor.
    fn content(&mut self, buffer: &mut Buffer, area: Rect, theme: Theme) -> String {
        if let Some((_, sandwich)) = &mut self.sandwich {
            sandwich.draw(buffer, area, theme);
            return String::new();
        }
        if self.tab == Tab::Flame {
            self.make_flame();
            let order = self.order.name();
            let (tree, view) = self.flame.as_mut().expect("invariant: made above");
            view.draw(&mut Canvas { buffer, area, theme }, tree);
            return format!("{order}   {}", view.found_share(tree));
        }
        self.make_rows(area.as_size(), theme);
        let Some((_, rows)) = &self.rows else { return String::new() };
        let (cursor, top) = &mut self.places[self.tab as usize];
        let height = usize::from(area.height);
        *top = (*top).min(*cursor).max((*cursor + 1).saturating_sub(height));
        // The headings above the first line are seen with it.
        if rows.iter().take(*cursor).all(|row| row.pick.is_none()) {
            *top = (*cursor + 1).saturating_sub(height);
        }
        for (y, (at, row)) in (area.y..area.bottom()).zip(rows.iter().enumerate().skip(*top)) {
            buffer.set_line(area.x, y, &row.line, area.width);
            if at == *cursor && row.pick.is_some() {
                buffer.set_style(Rect { y, height: 1, ..area }, theme.selected());
            }
        }
        let details = rows.get(*cursor).map_or_else(String::new, |row| row.details.clone());
        if self.tab == Tab::Timeline {
            self.draw_column(buffer, area, theme);
            return format!("{}   {details}", self.column_time());
        }
        details
    }

    /// The time under the cursor of the timeline.
    fn column_time(&self) -> String {
        let Some(view) = &self.strips else { return String::new() };
        let ns = view.span_ns.0.saturating_add(view.column_ns.saturating_mul(self.column as u64));
        format!("+{}", display::number::duration_ns(ns))
    }

    fn draw_column(&mut self, buffer: &mut Buffer, area: Rect, theme: Theme) {
        let columns =
            self.strips.as_ref().and_then(|view| view.rows.first()).map_or(0, |row| row.columns.len());
        self.column = self.column.min(columns.saturating_sub(1));
        let first = self.mark.unwrap_or(self.column).min(self.column);
        let last = self.mark.unwrap_or(self.column).max(self.column);
        let x = area.x + (super::STRIP + first) as u16;
        let width = (last - first + 1) as u16;
        let mark = Rect { x, y: area.y, width: width.min(area.right().saturating_sub(x)), height: 1 };
        buffer.set_style(mark, theme.selected());
    }
}
