//! A function's instructions with the share of its samples at each.

use super::Theme;
use super::data::Data;
use crate::out::harmless;
use crossterm::event::{KeyCode, KeyEvent};
use dso::disasm::{self, Syntax};
use dso::{FileOffset, Svma};
use profile::table::{DsoKind, SymbolId};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use std::collections::BTreeMap;

/// One instruction.
struct Line {
    percent: f64,
    text: String,
}

/// The listing.
pub struct Annotate {
    name: String,
    lines: Vec<Line>,
    cursor: usize,
    top: usize,
    height: usize,
}

impl Annotate {
    /// Of `symbol` for the event shown.
    ///
    /// # Errors
    /// Why there is nothing to show, in a few words.
    pub fn new(data: &Data<'_>, symbol: SymbolId) -> Result<Self, String> {
        let profile = data.profile();
        let function = *profile.symbols.of(symbol);
        let dso = profile.dsos.of(function.dso);
        if !matches!(dso.kind, DsoKind::File | DsoKind::Vdso) {
            return Err(format!("the code of {} can't be read", harmless(&dso.short_name)));
        }
        let file = data.recording().files.open(dso);
        let file = file.as_ref().as_ref().map_err(|why| format!("{}: {why}", harmless(&dso.path)))?;
        let object = file.object().ok_or("no object file")?;
        let start = file.svma_of(FileOffset(function.start)).ok_or("the function is outside of the file")?;
        let code = object.bytes_at(start, function.size as usize).ok_or("no code in the file")?;
        let name = |address: Svma| {
            let found = file.symbol(address).ok()?;
            Some(match address.0 - found.start.0 {
                0 => dso::demangle(found.name).into_owned(),
                offset => format!("{}+{offset:#x}", dso::demangle(found.name)),
            })
        };
        let instructions = disasm::disassemble(object.machine(), code, start, Syntax::Att, &name);
        if instructions.is_empty() {
            return Err("no disassembler for this processor".to_owned());
        }
        let hits = hits(data, symbol);
        let total: u64 = hits.values().sum();
        let line = |instruction: &disasm::Instruction| {
            let offset = instruction.start.0 - start.0 + function.start;
            let range = offset..offset + instruction.len as u64;
            let here: u64 = hits.range(range).map(|(_, period)| period).sum();
            let percent = here as f64 * 100.0 / total.max(1) as f64;
            Line { percent, text: format!("{:>8x}:  {}", instruction.start.0, harmless(&instruction.text)) }
        };
        let lines: Vec<Line> = instructions.iter().map(line).collect();
        let title = profile.strings.of(function.name).to_owned();
        let mut this = Self { name: title, lines, cursor: 0, top: 0, height: 0 };
        this.jump_to_hottest();
        Ok(this)
    }

    fn jump_to_hottest(&mut self) {
        let hottest = self.lines.iter().enumerate().max_by(|(_, a), (_, b)| a.percent.total_cmp(&b.percent));
        self.cursor = hottest.map_or(0, |(at, _)| at);
    }

    /// The function.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Takes a key.
    pub fn key(&mut self, key: KeyEvent) {
        let last = self.lines.len().saturating_sub(1);
        let page = self.height.max(2) - 1;
        match key.code {
            KeyCode::Down | KeyCode::Char('j') => self.cursor = (self.cursor + 1).min(last),
            KeyCode::Up | KeyCode::Char('k') => self.cursor = self.cursor.saturating_sub(1),
            KeyCode::PageDown => self.cursor = (self.cursor + page).min(last),
            KeyCode::PageUp => self.cursor = self.cursor.saturating_sub(page),
            KeyCode::Home | KeyCode::Char('g') => self.cursor = 0,
            KeyCode::End | KeyCode::Char('G') => self.cursor = last,
            KeyCode::Char('h' | 'H') => self.jump_to_hottest(),
            _ => {}
        }
    }

    /// Draws the listing.
    pub fn draw(&mut self, buffer: &mut Buffer, area: Rect, theme: Theme) {
        self.height = usize::from(area.height);
        let half = self.height / 2;
        if self.cursor < self.top || self.cursor >= self.top + self.height {
            self.top = self.cursor.saturating_sub(half);
        }
        let width = usize::from(area.width);
        let shown = self.lines.iter().enumerate().skip(self.top);
        for (y, (i, line)) in (area.y..area.bottom()).zip(shown) {
            let percent =
                if line.percent > 0.0 { format!("{:>6.2} ", line.percent) } else { "       ".to_owned() };
            buffer.set_stringn(area.x, y, &percent, width, theme.percent(line.percent));
            let rest = width.saturating_sub(percent.len());
            buffer.set_stringn(
                area.x + percent.len() as u16,
                y,
                format!("│{}", line.text),
                rest,
                Style::new(),
            );
            if i == self.cursor {
                buffer.set_style(Rect { y, height: 1, ..area }, theme.selected());
            }
        }
    }
}

/// Period per address of the leaf, in the space of the DSO's frames, for samples that end in `symbol`.
fn hits(data: &Data<'_>, symbol: SymbolId) -> BTreeMap<u64, u64> {
    let profile = data.profile();
    let event = data.section().and_then(|section| section.events.first()).copied().unwrap_or(0);
    let mut hits = BTreeMap::new();
    for (key, sums) in profile.cells().iter().filter(|(key, _)| key.event as usize == event) {
        let frame = profile.callsites.of(key.callsite).frame;
        // The last name of a frame is the symbol table's.
        if profile.frame_names(frame).last().is_some_and(|name| name.symbol == symbol) {
            *hits.entry(profile.frames.of(frame).addr).or_default() += sums.period;
        }
    }
    hits
}
