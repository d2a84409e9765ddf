//! Sections of the appendix in front of the archive: each begins where the one before it ends, or would begin.

use crate::wire::{Endian, Wire};

/// One of them. A recording may lack any.
pub(super) trait Section: Sized {
    /// Its first four bytes.
    const MAGIC: [u8; 4];
    /// The section before it; [`First`] if there is none.
    type Before: Section;

    /// Reads what follows the magic; `None` if that is damaged.
    fn read_content(w: &mut Wire<'_>) -> Option<Self>;

    /// How many bytes of an appendix this section and all before it take.
    fn end(appendix: &[u8], endian: Endian) -> usize {
        let begin = Self::Before::end(appendix, endian);
        let mut w = Wire::new(appendix.get(begin..).unwrap_or_default(), endian);
        if read_at(&mut w, Self::read_content).is_some() { appendix.len() - w.len() } else { begin }
    }
}

/// The appendix's begin.
pub(super) struct First;

impl Section for First {
    const MAGIC: [u8; 4] = [0; 4];
    type Before = Self;

    fn read_content(_: &mut Wire<'_>) -> Option<Self> {
        None
    }

    fn end(_: &[u8], _: Endian) -> usize {
        0
    }
}

/// Reads a section from an appendix ([`crate::PerfData::appendix`]); `None` if it holds none, or a damaged one.
pub(super) fn read_section<S: Section>(appendix: &[u8], endian: Endian) -> Option<S> {
    let begin = S::Before::end(appendix, endian);
    read_at(&mut Wire::new(appendix.get(begin..)?, endian), S::read_content)
}

fn read_at<S: Section>(w: &mut Wire<'_>, content: impl Fn(&mut Wire<'_>) -> Option<S>) -> Option<S> {
    if w.array::<4>()? == S::MAGIC { content(w) } else { None }
}

/// A text of this many bytes, and what pads it to 8 bytes.
pub(super) fn padded_text(w: &mut Wire<'_>, bytes: u64) -> Option<String> {
    let text = w.take(bytes.checked_next_multiple_of(8)?)?.get(..usize::try_from(bytes).ok()?)?;
    Some(String::from_utf8_lossy(text).into_owned())
}

/// A length in 32 bits.
pub(super) fn length(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
