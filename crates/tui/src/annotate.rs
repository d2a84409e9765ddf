//! A function's source and instructions with the share of its samples at each.

mod arrows;

use super::NoListing;
use super::Theme;
use super::data::Data;
use super::style::settings::Settings;
use arrows::{ArrowCell, Arrows};
use crossterm::event::{KeyCode, KeyEvent};
use perfdata::text::harmless;
use profile::table::SymbolId;
use profile::view::annotate::{AnnotateFunction, AnnotateOpts, NameMatch, annotate, function_holding};
use profile::view::call_sites::{CallTime, annotate_calls};
use profile::view::ranking::RankRows as _;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use std::collections::HashMap;
use symbols::listing::{Line as Listed, ListingOpts, Sources, listings};

/// One line: an instruction, or what it was made from.
struct Line {
    percent: f64,
    /// Address or offset of an instruction with what separates it from the text; empty for others.
    label: String,
    text: String,
    /// Address, for instructions.
    address: Option<u64>,
    /// Where a jump within the function goes.
    target: Option<u64>,
}

impl Line {
    /// One row: the share, the jumps next to it, the text.
    fn draw(&self, buffer: &mut Buffer, area: Rect, theme: Theme, arrows: &[ArrowCell]) {
        let width = usize::from(area.width);
        let percent = if self.percent > 0.0 { format!("{:>6.2} ", self.percent) } else { " ".repeat(7) };
        buffer.set_stringn(area.x, area.y, &percent, width, theme.percent(self.percent));
        let mut x = area.x + 7;
        buffer.set_stringn(x, area.y, "│", width.saturating_sub(7), Style::new());
        for cell in arrows {
            x += 1;
            let room = usize::from(area.right().saturating_sub(x));
            buffer.set_stringn(
                x,
                area.y,
                cell.symbol.encode_utf8(&mut [0; 4]),
                room,
                theme.jump(cell.selected),
            );
        }
        let style = if self.address.is_some() || self.percent > 0.0 { Style::new() } else { theme.dim() };
        let room = |x: u16| usize::from(area.right().saturating_sub(x));
        let at = format!(" {}", self.label);
        let (x, _) = buffer.set_stringn(x + 1, area.y, at, room(x + 1), theme.address());
        buffer.set_stringn(x, area.y, &self.text, room(x), style);
    }
}

/// The listing.
pub struct Annotate {
    name: String,
    /// Base of the shares, where they aren't of the samples that end in the function.
    note: Option<CallTime>,
    lines: Vec<Line>,
    with_source: bool,
    cursor: usize,
    top: usize,
    height: usize,
    /// Lines jumped from, to go back to.
    jumps: Vec<usize>,
    /// Made for the lines shown and the room there is.
    arrows: Arrows,
    arrows_for: Option<(bool, usize)>,
}

/// Jumps drawn next to each other: as many as leave the code readable.
fn lanes_for(width: u16) -> usize {
    (usize::from(width) / 12).clamp(2, 12)
}

impl Annotate {
    /// Listing of `symbol` for the event shown.
    ///
    /// # Errors
    /// There is nothing to show.
    pub fn new(data: &Data, symbol: SymbolId) -> Result<Self, NoListing> {
        let profile = data.profile();
        let Some(symbol) = function_holding(profile, symbol) else { return Self::of_calls(data, symbol) };
        let wanted = *profile.symbols.of(symbol);
        let dso = profile.dsos.of(wanted.dso);
        let name = profile.strings.of(wanted.name).to_owned();
        let opts =
            AnnotateOpts { dsos: vec![dso.path.clone()], symbols: vec![name.clone()], names: NameMatch::Own };
        let functions = annotate(profile, &opts);
        let function = functions.iter().find(|f| f.dso == wanted.dso && f.start == wanted.start);
        let function = function.ok_or(NoListing::NoSample)?;
        let opts = ListingOpts { source: true, ..ListingOpts::default() };
        Self::of_function(data, function, &opts, &Sources::new(None))
    }

    /// Listing of a function that no sample ends in: the shares are those of its calls.
    fn of_calls(data: &Data, symbol: SymbolId) -> Result<Self, NoListing> {
        let (function, time) = annotate_calls(data.profile(), symbol).ok_or(NoListing::NoStack)?;
        let opts = ListingOpts { source: true, ..ListingOpts::default() };
        let mut this = Self::of_function(data, &function, &opts, &Sources::new(None))?;
        this.note = Some(time);
        Ok(this)
    }

    /// Listing of a function that was hit, for the event shown.
    ///
    /// # Errors
    /// There is nothing to show.
    pub fn of_function(
        data: &Data,
        function: &AnnotateFunction,
        opts: &ListingOpts,
        sources: &Sources,
    ) -> Result<Self, NoListing> {
        let profile = data.profile();
        let dso = profile.dsos.of(function.dso);
        let name = function.name.map_or_else(String::new, |name| profile.strings.of(name).to_owned());
        let listing = listings(profile, &data.recording().files, sources, function, opts).into_iter().next();
        let listing = listing.ok_or(NoListing::Empty)?;
        if let Some(why) = listing.no_code {
            return Err(NoListing::NoCode { file: harmless(&dso.path).into_owned(), why: why.to_string() });
        }
        let event = data.section().and_then(|section| section.events.first()).copied().unwrap_or(0);
        let total = listing.totals.get(event).map_or(0, |sums| sums.period).max(1);
        let addresses: Vec<u64> = listing.lines.iter().filter_map(address_of).collect();
        let settings = Settings::current();
        let base = addresses.iter().min().copied().filter(|_| settings.has_offsets).unwrap_or(0);
        let width = addresses.iter().map(|address| format!("{:x}", address - base).len()).max().unwrap_or(0);
        let of = Of { event, total, addresses: &addresses, base, width };
        let lines = listing.lines.iter().map(|line| of.line(line)).collect();
        let mut this = Self {
            name,
            note: None,
            lines,
            with_source: !settings.hides_source,
            cursor: 0,
            top: 0,
            height: 0,
            jumps: Vec::new(),
            arrows: Arrows::default(),
            arrows_for: None,
        };
        this.jump_to_hottest();
        Ok(this)
    }

    /// To the line with most samples, or if the cursor is there, to the next in order of heat.
    fn jump_to_hottest(&mut self) {
        let mut by_heat: Vec<usize> =
            (0..self.lines.len()).filter(|&i| self.lines[i].percent > 0.0).collect();
        by_heat.rank_by(|&a, &b| self.lines[b].percent.total_cmp(&self.lines[a].percent));
        let at = by_heat.iter().position(|&i| i == self.cursor);
        let next = at.and_then(|at| by_heat.get(at + 1)).or(by_heat.first());
        self.cursor = next.copied().unwrap_or(self.cursor);
    }

    /// The function.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The function, and what the shares are of.
    pub fn title(&self) -> String {
        self.note.map_or_else(|| self.name.clone(), |time| format!("{} · {}", self.name, time.words()))
    }

    /// Takes a key.
    pub fn key(&mut self, key: KeyEvent) {
        let page = self.height.max(2) - 1;
        match key.code {
            KeyCode::Down | KeyCode::Char('j') => self.step(1, true),
            KeyCode::Up | KeyCode::Char('k') => self.step(1, false),
            KeyCode::PageDown => self.step(page, true),
            KeyCode::PageUp => self.step(page, false),
            KeyCode::Home | KeyCode::Char('g') => self.cursor = 0,
            KeyCode::End | KeyCode::Char('G') => self.cursor = self.lines.len().saturating_sub(1),
            KeyCode::Char('h' | 'H') => self.jump_to_hottest(),
            KeyCode::Char('o') => self.with_source = !self.with_source,
            KeyCode::Enter | KeyCode::Right => self.follow(),
            KeyCode::Backspace | KeyCode::Left => self.cursor = self.jumps.pop().unwrap_or(self.cursor),
            _ => {}
        }
    }

    /// The lines that are shown, top first.
    fn visible(&self) -> Vec<usize> {
        (0..self.lines.len()).filter(|&i| self.is_visible(i)).collect()
    }

    /// Moves by `count` visible lines.
    fn step(&mut self, count: usize, down: bool) {
        let visible = self.visible();
        let at = visible.partition_point(|&i| i < self.cursor);
        let to =
            if down { (at + count).min(visible.len().saturating_sub(1)) } else { at.saturating_sub(count) };
        self.cursor = visible.get(to).copied().unwrap_or(0);
    }

    fn is_visible(&self, at: usize) -> bool {
        self.with_source || self.lines[at].address.is_some() || self.lines[at].percent > 0.0
    }

    /// Goes where the jump under the cursor goes.
    fn follow(&mut self) {
        let Some(target) = self.lines.get(self.cursor).and_then(|line| line.target) else { return };
        if let Some(at) = self.lines.iter().position(|line| line.address == Some(target)) {
            self.jumps.push(self.cursor);
            self.cursor = at;
        }
    }

    /// Moves the cursor to a line of the last picture.
    pub fn click(&mut self, line: usize) {
        self.cursor = self.visible().get(self.top + line).copied().unwrap_or(self.cursor);
    }

    /// Draws the listing.
    pub fn draw(&mut self, buffer: &mut Buffer, area: Rect, theme: Theme) {
        self.height = usize::from(area.height);
        let visible = self.visible();
        self.place_arrows(&visible, lanes_for(area.width));
        let at = visible.partition_point(|&i| i < self.cursor);
        self.top = self.top.min(visible.len().saturating_sub(self.height));
        if at < self.top || at >= self.top + self.height {
            self.top = at.saturating_sub(self.height / 2);
        }
        for (y, (row, &i)) in (area.y..area.bottom()).zip(visible.iter().enumerate().skip(self.top)) {
            let area = Rect { y, height: 1, ..area };
            self.lines[i].draw(buffer, area, theme, &self.arrows.row(row, at));
            if i == self.cursor {
                buffer.set_style(area, theme.selected_line());
            }
        }
    }

    /// Lays the jumps between the visible lines out, if that was not done yet.
    fn place_arrows(&mut self, visible: &[usize], lanes: usize) {
        if self.arrows_for.replace((self.with_source, lanes)) == Some((self.with_source, lanes)) {
            return;
        }
        let rows = || visible.iter().enumerate().map(|(row, &i)| (row, &self.lines[i]));
        let row_of: HashMap<u64, usize> =
            rows().filter_map(|(row, line)| Some((line.address?, row))).collect();
        let jump = |(row, line): (usize, &Line)| Some((row, *row_of.get(&line.target?)?));
        let hides = Settings::current().hides_arrows;
        self.arrows = Arrows::new(rows().filter(|_| !hides).filter_map(jump), lanes);
    }
}

fn address_of(line: &Listed) -> Option<u64> {
    match line {
        Listed::Code(code) => Some(code.svma.0),
        _ => None,
    }
}

/// Settings for a line's text and numbers.
struct Of<'a> {
    event: usize,
    /// Period of the function.
    total: u64,
    addresses: &'a [u64],
    /// Address that labels count from: 0, or the function's first.
    base: u64,
    /// Digits of the longest label.
    width: usize,
}

impl Of<'_> {
    fn percent(&self, period: u64) -> f64 {
        period as f64 * 100.0 / self.total as f64
    }

    fn line(&self, line: &Listed) -> Line {
        let source = |text: String| Line {
            percent: 0.0,
            label: String::new(),
            text: harmless(&text).into_owned(),
            address: None,
            target: None,
        };
        match line {
            Listed::Function(name) => source(format!("{name}:")),
            Listed::Place { file, line } => source(format!("{file}:{line}")),
            Listed::Source { line, text } => source(format!("{line:>5} {}", text.replace('\t', "    "))),
            Listed::Statement { line: number, text, .. } => Line {
                percent: self.percent(line.period(self.event)),
                ..source(format!("{number:>5} {}", text.replace('\t', "    ")))
            },
            Listed::Code(code) => {
                let jump = code.branch.filter(|branch| !branch.is_call).map(|branch| branch.target.0);
                Line {
                    percent: self.percent(line.period(self.event)),
                    label: format!("{:>width$x}:  ", code.svma.0 - self.base, width = self.width),
                    text: harmless(&code.text).into_owned(),
                    address: Some(code.svma.0),
                    target: jump.filter(|target| self.addresses.contains(target)),
                }
            }
        }
    }
}
