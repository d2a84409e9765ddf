//! Colours of frames: the hue shows the kind of code, the shade separates neighbours.

use display::palette::StateClass;
use profile::view::flame::FrameKind;

/// Meaning of colours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Palette {
    /// Where the code comes from: program, library, kernel, run-time code …
    Kind,
    /// Nothing: shades of fire.
    Hot,
    /// Nothing: shades of blue, the custom for time off the CPU.
    Io,
}

impl Palette {
    /// The colour of frame `name` as `#rrggbb`; equal names have equal colours.
    pub fn colour(self, name: &str, kind: FrameKind) -> String {
        if self == Self::Kind && kind == FrameKind::Waiting {
            return StateClass::of(name).light().to_owned();
        }
        let (hue, saturation, lightness) = self.tone(kind);
        let spread = if self == Self::Hot { 34.0 } else { 12.0 };
        let hash = hash(name);
        let unit = |bits: u32| f64::from(bits & 0xff) / 255.0 - 0.5;
        let shift = if name.is_empty() { 0.0 } else { unit(hash) * spread };
        let shade = if name.is_empty() { 0.0 } else { unit(hash >> 8) * 0.08 };
        hex(hue + shift, saturation, lightness + shade)
    }

    fn tone(self, kind: FrameKind) -> (f64, f64, f64) {
        match self {
            Self::Kind => base(kind),
            Self::Hot => (24.0, 0.90, 0.64),
            Self::Io => (207.0, 0.62, 0.70),
        }
    }
}

/// Hue in degrees, saturation and lightness from 0 to 1; those of the page's `KINDS`.
fn base(kind: FrameKind) -> (f64, f64, f64) {
    match kind {
        FrameKind::Task => (220.0, 0.12, 0.80),
        FrameKind::Program => (14.0, 0.78, 0.74),
        FrameKind::Library => (46.0, 0.75, 0.72),
        FrameKind::Kernel => (272.0, 0.50, 0.82),
        FrameKind::Jit => (110.0, 0.42, 0.72),
        FrameKind::Python => (212.0, 0.60, 0.78),
        FrameKind::Inlined => (172.0, 0.40, 0.72),
        FrameKind::Waiting => (207.0, 0.55, 0.76),
        FrameKind::Unknown => (40.0, 0.05, 0.80),
    }
}

/// Changes smaller than this are drawn as none.
pub(super) const LEAST_CHANGE: f64 = 0.005;

/// Blue for less, orange for more, stronger for greater changes: `by` is from -1 (gone) to 1 (new). The page's
/// `diffColour` is the same.
pub(super) fn of_change(by: f64) -> String {
    let size = by.abs().min(1.0);
    if size < LEAST_CHANGE {
        return "#d9dce1".to_owned();
    }
    let lightness = 0.90 - 0.32 * size;
    if by > 0.0 { hex(24.0, 0.85, lightness) } else { hex(212.0, 0.75, lightness) }
}

/// The word for `kind` in the legend.
pub fn word(kind: FrameKind) -> &'static str {
    match kind {
        FrameKind::Task => "process",
        FrameKind::Program => "program",
        FrameKind::Library => "library",
        FrameKind::Kernel => "kernel",
        FrameKind::Jit => "run-time code",
        FrameKind::Python => "Python",
        FrameKind::Inlined => "inlined",
        FrameKind::Waiting => "waiting",
        FrameKind::Unknown => "no name",
    }
}

/// FNV-1a: the same everywhere and always, so that pictures can be compared.
fn hash(name: &str) -> u32 {
    let mixed =
        name.bytes().fold(0x811c_9dc5u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    mixed ^ (mixed >> 15)
}

fn hex(hue: f64, saturation: f64, lightness: f64) -> String {
    let chroma = saturation * lightness.min(1.0 - lightness);
    let channel = |offset: f64| {
        let k = (offset + hue.rem_euclid(360.0) / 30.0) % 12.0;
        let value = lightness - chroma * (k - 3.0).min(9.0 - k).clamp(-1.0, 1.0);
        (value * 255.0).round().clamp(0.0, 255.0) as u8
    };
    format!("#{:02x}{:02x}{:02x}", channel(0.0), channel(8.0), channel(4.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_for_cpu_lock_and_disk_look_different() {
        let of = |state| Palette::Kind.colour(state, FrameKind::Waiting);
        let all = ["[runnable]", "[futex]", "[disk]", "[poll]"].map(of);
        assert!(all.iter().enumerate().all(|(i, a)| all[i + 1..].iter().all(|b| a != b)), "{all:?}");
    }

    #[test]
    fn code_has_the_colours_of_the_page() {
        use FrameKind::{Inlined, Jit, Kernel, Library, Program, Python, Task, Unknown, Waiting};
        let page = include_str!("../../../../web/src/palette.ts");
        for kind in [Task, Program, Library, Kernel, Jit, Python, Inlined, Waiting, Unknown] {
            let (hue, saturation, lightness) = base(kind);
            let tone =
                format!("[Kind.{kind:?}]: [{hue}, {:.0}, {:.0}, ", saturation * 100.0, lightness * 100.0);
            assert!(page.contains(&tone), "{tone} in web/src/palette.ts");
        }
        for part in ["unit(hash >>> 8) : 0", "unit(hash) * 12", "light + shade * 8"] {
            assert!(page.contains(part), "{part} in web/src/palette.ts");
        }
        // What the page's script computes for it.
        assert_eq!(Palette::Kind.colour("main", Program), "#ef917f");
    }

    #[test]
    fn changes_have_the_colours_of_the_page() {
        let page = include_str!("../../../../web/src/palette.ts");
        for part in ["size < 0.005", "90 - 32 * size", "hsl(24 85%", "hsl(212 75%", "\"#d9dce1\""] {
            assert!(page.contains(part), "{part} in web/src/palette.ts");
        }
        assert_eq!([of_change(0.0), of_change(1.0), of_change(-1.0)], ["#d9dce1", "#ef8239", "#448fe4"]);
    }

    #[test]
    fn the_hue_circle_is_right() {
        assert_eq!(
            [hex(0.0, 1.0, 0.5), hex(120.0, 1.0, 0.5), hex(240.0, 1.0, 0.5)],
            ["#ff0000", "#00ff00", "#0000ff"]
        );
        assert_eq!(hex(77.0, 0.0, 1.0), "#ffffff");
    }
}
