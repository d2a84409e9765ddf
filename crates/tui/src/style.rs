//! Colours, with a plain form for terminals without.

pub mod canvas;
pub mod settings;

use display::palette::StateClass;
use profile::view::flame::FrameKind;
use ratatui::style::{Color, Modifier, Style};
use settings::{SetColours, Settings};

/// How things look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Theme {
    /// With colours?
    pub colour: bool,
    /// Those that the user has set.
    set: SetColours,
}

impl Theme {
    /// With the colours that the user has set, or without any.
    pub fn new(colour: bool) -> Self {
        let set = if colour { Settings::current().colours } else { SetColours::default() };
        Self { colour, set }
    }

    /// Without colours.
    pub fn plain() -> Self {
        Self { colour: false, set: SetColours::default() }
    }

    /// Headings.
    pub fn heading(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// The line above and the line below: reversed, so that they are visible without colour, too.
    pub fn bar(self) -> Style {
        match self.set.root {
            Some(set) => set,
            None if self.colour => Style::new().fg(Color::Black).bg(Color::Gray),
            None => Style::new().add_modifier(Modifier::REVERSED),
        }
    }

    /// The row under the cursor: its colours, reversed.
    pub fn selected(self) -> Style {
        self.set.selected.unwrap_or(Style::new().add_modifier(Modifier::REVERSED))
    }

    /// A line of text under the cursor, whatever colours its parts have.
    pub fn selected_line(self) -> Style {
        let plain = if self.colour { Style::new().fg(Color::Reset).bg(Color::Reset) } else { Style::new() };
        self.set.selected.unwrap_or(plain.add_modifier(Modifier::REVERSED))
    }

    /// A bar of the table: the rows of most time are brighter.
    pub fn rank_bar(self, is_first: bool) -> Style {
        match (self.colour, is_first) {
            (false, _) => Style::new(),
            (true, true) => Style::new().fg(Color::Indexed(208)),
            (true, false) => Style::new().fg(Color::Indexed(137)),
        }
    }

    /// Numbers of the table.
    pub fn rank(self, percent: f64, is_first: bool) -> Style {
        let plain = if is_first { self.heading() } else { Style::new() };
        self.set.of_share(percent).unwrap_or(plain)
    }

    /// An address.
    pub fn address(self) -> Style {
        self.set.addr.unwrap_or_default()
    }

    /// Style of less important text.
    pub fn dim(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// A jump's line; `selected`: it begins or ends under the cursor.
    pub fn jump(self, selected: bool) -> Style {
        match (self.colour, selected) {
            (true, true) => Style::new().fg(Color::Cyan).add_modifier(Modifier::BOLD),
            (false, true) => Style::new().add_modifier(Modifier::BOLD),
            (_, false) => self.set.jump_arrows.unwrap_or(self.dim()),
        }
    }

    /// Style of a search's hits.
    pub fn hit(self) -> Style {
        let style = Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED);
        if self.colour { style.fg(Color::Magenta) } else { style }
    }

    /// A share of a function's time, next to its code: perf's colours.
    pub fn percent(self, percent: f64) -> Style {
        self.set.of_share(percent).unwrap_or(match percent {
            _ if !self.colour => Style::new(),
            p if p >= 5.0 => Style::new().fg(Color::Red),
            p if p >= 0.5 => Style::new().fg(Color::Green),
            _ => Style::new(),
        })
    }

    /// A word or letter about a state.
    pub fn state(self, class: StateClass) -> Style {
        if self.colour { Style::new().fg(Color::Indexed(class.indexed())) } else { Style::new() }
    }

    /// A piece of a state's bar, with its letter in it.
    pub fn state_block(self, class: StateClass) -> Style {
        if !self.colour {
            return Style::new();
        }
        let ink = if class.has_light_ink() { Color::White } else { Color::Black };
        Style::new().fg(ink).bg(Color::Indexed(class.indexed()))
    }

    /// A block of one state before another.
    pub fn two_states(self, front: StateClass, back: StateClass) -> Style {
        Style::new().fg(Color::Indexed(front.indexed())).bg(Color::Indexed(back.indexed()))
    }

    /// A state's frame of the flame graph; without colour its name and the bar at its left tell it apart.
    pub fn state_frame(self, name: &str) -> Style {
        self.state_block(StateClass::of(name))
    }

    /// A frame of the flame graph; `odd` separates neighbours without colour.
    pub fn frame(self, kind: FrameKind, odd: bool) -> Style {
        if !self.colour {
            return if odd { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        }
        let (even, other) = match kind {
            FrameKind::Task => (252, 250),
            FrameKind::Program => (216, 209),
            FrameKind::Library => (222, 221),
            FrameKind::Kernel => (183, 177),
            FrameKind::Jit => (157, 156),
            FrameKind::Python => (117, 111),
            FrameKind::Inlined => (158, 122),
            FrameKind::Waiting => (153, 117),
            FrameKind::Unknown => (254, 251),
        };
        Style::new().fg(Color::Black).bg(Color::Indexed(if odd { other } else { even }))
    }
}
