//! The screen: a bar above, the topmost view, a bar below.

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::{App, View};
use crate::style::canvas::Canvas;
use crate::{ReadState, help};
use display::fit::cut;
use perfdata::text::harmless;

/// Lines a message may take.
const MESSAGE_LINES: usize = 3;

/// Smaller than this there is nothing to be read.
const LEAST: (u16, u16) = (30, 6);

impl App {
    /// Draws everything.
    pub fn draw(&mut self, frame: &mut Frame<'_>) {
        let area = frame.area();
        let buffer = frame.buffer_mut();
        if area.width < LEAST.0 || area.height < LEAST.1 {
            let lines = ["terminal too small".to_owned(), format!("{}x{} at least", LEAST.0, LEAST.1)];
            for (y, line) in (area.y..area.bottom()).zip(lines) {
                buffer.set_stringn(area.x, y, line, usize::from(area.width), Style::new());
            }
            return;
        }
        if let (true, Some(explorer)) = (self.is_exploring, &mut self.explorer) {
            return explorer.draw(buffer, area, self.theme);
        }
        let found = match self.views.last() {
            Some(View::Flame(flame)) => flame.found_share(self.data.flame_tree()),
            _ => String::new(),
        };
        self.bars(buffer, area, &found);
        let inner = Rect { y: area.y + 1, height: area.height - 2, ..area };
        let theme = self.theme;
        match self.views.last_mut() {
            None => self.table.draw(&mut Canvas { buffer, area: inner, theme }, &self.data),
            Some(View::Sandwich(sandwich)) => sandwich.draw(buffer, inner, theme),
            Some(View::Flame(flame)) => {
                flame.draw(&mut Canvas { buffer, area: inner, theme }, self.data.flame_tree())
            }
            Some(View::Annotate(annotate)) => annotate.draw(buffer, inner, theme),
            Some(View::Help(scroll)) => help::draw(buffer, inner, theme, *scroll),
        }
    }

    /// The line above (what is shown, and the share that a search in the flame graph found) and the line below (input,
    /// message or keys).
    fn bars(&self, buffer: &mut Buffer, area: Rect, found: &str) {
        let width = usize::from(area.width);
        let mut head = self.source.text() + &self.data.title();
        for label in self.data.zoom_labels() {
            head.push_str(&format!(" › {}", harmless(label)));
        }
        let view = match self.views.last() {
            None if self.table.search().is_empty() => String::new(),
            None => format!("find: {}", self.table.search()),
            Some(View::Sandwich(_)) => "callers and callees".to_owned(),
            Some(View::Flame(_)) if !found.is_empty() => found.to_owned(),
            Some(View::Flame(_)) => "flame graph".to_owned(),
            Some(View::Annotate(annotate)) => annotate.title(),
            Some(View::Help(_)) => "help".to_owned(),
        };
        let view = cut(&harmless(&view), width / 2);
        let room = width.saturating_sub(view.chars().count() + 1);
        let head = format!("{:<room$} {view}", cut(&head, room));
        buffer.set_stringn(area.x, area.y, head, width, self.theme.bar());
        let foot = self.foot();
        let letters: Vec<char> = foot.chars().collect();
        // Only a message is worth more than one line.
        let lines =
            if self.message.is_some() { letters.len().div_ceil(width).clamp(1, MESSAGE_LINES) } else { 1 };
        for line in 0..lines {
            let rest: String = letters.iter().skip(line * width).collect();
            let y = area.bottom() - (lines - line) as u16;
            let text = if line + 1 == lines { cut(&rest, width) } else { rest };
            buffer.set_stringn(area.x, y, format!("{text:<width$}"), width, self.theme.bar());
        }
    }

    fn foot(&self) -> String {
        if let Some(prompt) = &self.prompt {
            return format!("/{}_", harmless(&prompt.text));
        }
        if let Some(message) = &self.message {
            return message.clone();
        }
        match self.views.last() {
            None if self.is_reading_first() => "reading: Esc stops and shows what is there, q leaves",
            None if matches!(self.source, ReadState::Live { .. }) => {
                "?:help →:open /:find a:annotate s:callers f:flame v:columns p:hold q:quit"
            }
            None => "?:help →:open /:find a:annotate s:callers f:flame t,d,z:zoom o:order q:quit",
            Some(View::Sandwich(_)) => "↑↓:move  →←:open, close  Enter:go there  Esc:back  ?:help",
            Some(View::Flame(_)) => {
                "↑↓←→:move  Enter:zoom  u:all  F:fold  s:callers  /:find  Esc:back  ?:help"
            }
            Some(View::Annotate(_)) => {
                "↑↓:move  h:hottest, next  o:source  Enter:jump  Left:back  s:callers  Esc ?"
            }
            Some(View::Help(_)) => "any key:back  ↑↓:scroll",
        }
        .to_owned()
    }
}
