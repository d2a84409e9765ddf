//! Classes of a thread's states with their colours, letters and words: the same in text, terminal, SVG and page.
//!
//! docs/palette.md describes them; `web/src/palette.ts` has the same for the page, and a test compares both.

/// State of a thread, as far as colours distinguish it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StateClass {
    /// On a CPU.
    On,
    /// Woken, and waiting for a CPU.
    Runnable,
    /// Taken off its CPU; always with stripes or its letter, because its colour is near that of runnable.
    Preempted,
    /// Waiting for a lock.
    Lock,
    /// Waiting for a disk.
    Disk,
    /// Waiting for a page, or for free memory.
    Memory,
    /// Waiting for other threads or programs.
    Poll,
    /// Asleep until a time, or for a signal or child.
    Timer,
    /// Waiting for something else, or not known.
    Other,
    /// Waiting for work.
    Idle,
}

impl StateClass {
    /// All, in the order of legends.
    pub const ALL: [Self; 10] = [
        Self::On,
        Self::Runnable,
        Self::Preempted,
        Self::Lock,
        Self::Disk,
        Self::Memory,
        Self::Poll,
        Self::Timer,
        Self::Other,
        Self::Idle,
    ];

    /// The class of a state by its name, which may be in brackets.
    #[must_use]
    pub fn of(state: &str) -> Self {
        let state = state.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(state);
        match state {
            "on CPU" => Self::On,
            "runnable" | "in the queue" => Self::Runnable,
            "preempted" => Self::Preempted,
            "idle" => Self::Idle,
            "futex" | "GIL" | "kernel lock" | "file lock" => Self::Lock,
            "disk" | "fsync" | "in the device" => Self::Disk,
            "page fault" | "memory" | "GC" => Self::Memory,
            "poll" | "socket" | "pipe" | "aio" => Self::Poll,
            "timer" | "child" | "signal" | "ipc" | "tty" | "stopped" => Self::Timer,
            _ => Self::Other,
        }
    }

    /// Letter, where there is no colour.
    #[must_use]
    pub fn letter(self) -> char {
        match self {
            Self::On => '#',
            Self::Runnable => 'r',
            Self::Preempted => 'p',
            Self::Lock => 'L',
            Self::Disk => 'd',
            Self::Memory => 'm',
            Self::Poll => 'w',
            Self::Timer => 't',
            Self::Other => 'o',
            Self::Idle => '.',
        }
    }

    /// Colour on a light ground.
    #[must_use]
    pub fn light(self) -> &'static str {
        match self {
            Self::On => "#2c9c5c",
            Self::Runnable => "#f0b429",
            Self::Preempted => "#a8500f",
            Self::Lock => "#cd1d78",
            Self::Disk => "#1c595e",
            Self::Memory => "#600c00",
            Self::Poll => "#6fa3e8",
            Self::Timer => "#815bdb",
            Self::Other => "#9ba3b2",
            Self::Idle => "#d6dae1",
        }
    }

    /// Colour on a dark ground, as `#rrggbb`; dark ink is read on it, but for idle time.
    #[must_use]
    pub fn dark(self) -> &'static str {
        match self {
            Self::On => "#3fb873",
            Self::Runnable => "#f2bd3f",
            Self::Preempted => "#c1651c",
            Self::Lock => "#d54e7e",
            Self::Disk => "#2793b2",
            Self::Memory => "#e45448",
            Self::Poll => "#6b9ce0",
            Self::Timer => "#ccb9e3",
            Self::Other => "#91969f",
            Self::Idle => "#3f454f",
        }
    }

    /// The nearest colour of a terminal's 256: of its cube of six steps each, or its greys.
    #[must_use]
    pub fn indexed(self) -> u8 {
        nearest_of_256(rgb(self.light()))
    }

    /// Ink on its light colour is white.
    #[must_use]
    pub fn has_light_ink(self) -> bool {
        matches!(self, Self::Preempted | Self::Lock | Self::Disk | Self::Memory | Self::Timer)
    }

    /// Black or white of a terminal's 256 colours, for text on its colour.
    #[must_use]
    pub fn indexed_ink(self) -> u8 {
        if self.has_light_ink() { 231 } else { 16 }
    }

    /// The words of a legend.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::On => "on CPU",
            Self::Runnable => "runnable",
            Self::Preempted => "preempted",
            Self::Lock => "lock",
            Self::Disk => "disk",
            Self::Memory => "page fault, memory",
            Self::Poll => "other threads, network",
            Self::Timer => "time, signal, child",
            Self::Other => "other waits",
            Self::Idle => "idle",
        }
    }
}

/// `#rrggbb` as numbers.
fn rgb(hex: &str) -> [u8; 3] {
    let channel = |at: usize| u8::from_str_radix(hex.get(at..at + 2).unwrap_or("0"), 16).unwrap_or(0);
    [channel(1), channel(3), channel(5)]
}

/// Layout: 16 to 231 is a cube of red, green and blue in six steps, 232 to 255 are greys.
/// Source: xterm 256colres.pl.
fn nearest_of_256(wanted: [u8; 3]) -> u8 {
    const STEPS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    let cube =
        (0..216u8).map(|at| (at + 16, [at / 36, at / 6 % 6, at % 6].map(|step| STEPS[usize::from(step)])));
    let greys = (0..24u8).map(|at| (at + 232, [8 + at * 10; 3]));
    let distance = |(_, of): &(u8, [u8; 3])| -> u32 {
        of.iter().zip(wanted).map(|(&a, b)| u32::from(a.abs_diff(b)).pow(2)).sum()
    };
    cube.chain(greys).min_by_key(distance).map_or(15, |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = include_str!("../../../web/src/palette.ts");

    #[test]
    fn colours_and_letters_of_the_page_are_the_same() {
        for class in StateClass::ALL {
            let key = format!("{class:?}").to_lowercase();
            let colour = format!("{key}: \"{}\"", class.light());
            assert!(SCRIPT.contains(&colour), "{colour} in web/src/palette.ts");
            let dark = format!("{key}: \"{}\"", class.dark());
            assert!(SCRIPT.contains(&dark), "{dark} in web/src/palette.ts");
            let letter = format!("{key}: \"{}\"", class.letter());
            assert!(SCRIPT.contains(&letter), "{letter} in web/src/palette.ts");
        }
    }

    #[test]
    fn the_description_has_every_class() {
        let text = include_str!("../../../docs/palette.md");
        for class in StateClass::ALL {
            let row = format!("| {} | `{}` | {} |", class.word(), class.letter(), class.light());
            assert!(text.contains(&row), "{row} in docs/palette.md");
        }
    }

    #[test]
    fn terminals_have_a_colour_of_its_own_for_each_class_near_the_page_s() {
        let all = StateClass::ALL.map(StateClass::indexed);
        assert!(all.iter().enumerate().all(|(at, index)| !all[at + 1..].contains(index)), "{all:?}");
        assert_eq!([nearest_of_256([255, 0, 0]), nearest_of_256([128, 128, 128])], [196, 244]);
    }

    /// Layout: see `nearest_of_256`.
    fn rgb_of(index: u8) -> [u8; 3] {
        const STEPS: [u8; 6] = [0, 95, 135, 175, 215, 255];
        match index {
            232.. => [8 + (index - 232) * 10; 3],
            _ => [(index - 16) / 36, (index - 16) / 6 % 6, (index - 16) % 6].map(|at| STEPS[usize::from(at)]),
        }
    }

    /// Source: WCAG 2.1, relative luminance.
    fn luminance(colour: [u8; 3]) -> f64 {
        let linear = |channel: u8| match f64::from(channel) / 255.0 {
            c if c <= 0.040_45 => c / 12.92,
            c => ((c + 0.055) / 1.055).powf(2.4),
        };
        let [red, green, blue] = colour.map(linear);
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    }

    #[test]
    fn letters_on_a_terminal_s_colours_can_be_read() {
        for class in StateClass::ALL {
            let [a, b] = [class.indexed(), class.indexed_ink()].map(|index| luminance(rgb_of(index)) + 0.05);
            assert!(a.max(b) / a.min(b) >= 4.5, "{class:?}: {:.1}", a.max(b) / a.min(b));
        }
    }

    #[test]
    fn a_state_has_its_class_with_and_without_brackets() {
        assert_eq!([StateClass::of("[futex]"), StateClass::of("futex")], [StateClass::Lock; 2]);
        assert_eq!(StateClass::of("[woken by main]"), StateClass::Other);
    }
}
