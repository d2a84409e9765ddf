//! Labels that Go programs gave their goroutines (`runtime/pprof`): tally's appendix, after the time that is kept.
//!
//! A callchain of a goroutine with labels ends with an address that no process can have, which names the set.
//
// Layout: docs/formats/goroutine-labels.md. In the byte order of the file.

use crate::appendix::kept_window::KeptTime;
use crate::appendix::section::{Section, length, padded_text, read_section};
use crate::wire::{Endian, Put, Wire};
use crate::{ChainEntry, Sample};

const MAGIC: [u8; 4] = *b"tGL1";

/// Name of the mapping that holds the addresses of all sets.
pub const MAPPING_NAME: &str = "[goroutine labels]";
/// Where it begins: above all addresses of user space, below those of the kernel.
pub const MAPPING_START: u64 = 0x4c42_0000_0000_0000;
/// Most sets that have an address.
pub const MOST_SETS: usize = 1 << 20;
/// Bytes of one set's address.
const SET_BYTES: u64 = 16;
/// Bytes of the mapping.
pub const MAPPING_BYTES: u64 = SET_BYTES * MOST_SETS as u64;

/// Keys and values, in the order of the keys.
pub type LabelSet = Vec<(String, String)>;

/// All sets in a recording.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GoroutineLabels {
    /// By the number in their addresses.
    pub sets: Vec<LabelSet>,
    /// Samples and waits whose goroutine had labels.
    pub copies: u64,
    /// Those whose labels couldn't be read.
    pub unreadable: u64,
    /// Those with more labels than are kept, or longer ones.
    pub cut: u64,
}

/// The address that a callchain has for the set of this number; `None` if there are too many.
#[must_use]
pub fn address_of(number: usize) -> Option<u64> {
    (number < MOST_SETS).then_some(MAPPING_START + number as u64 * SET_BYTES)
}

/// Number of the set at an address; `None` outside of the mapping.
#[must_use]
pub fn set_at(address: u64) -> Option<usize> {
    let offset = address.checked_sub(MAPPING_START).filter(|offset| *offset < MAPPING_BYTES)?;
    usize::try_from(offset / SET_BYTES).ok()
}

/// Number of the set of a sample's goroutine.
#[must_use]
pub fn set_of(sample: &Sample<'_>) -> Option<usize> {
    match sample.callchain?.iter().last()? {
        ChainEntry::Address(address) => set_at(address.0),
        ChainEntry::Context(_) => None,
    }
}

impl GoroutineLabels {
    /// Reads them from an appendix ([`crate::PerfData::appendix`]); `None` if it holds none, or damaged ones.
    #[must_use]
    pub fn read(appendix: &[u8], endian: Endian) -> Option<Self> {
        read_section(appendix, endian)
    }

    /// The bytes to write after the time that is kept; none without goroutines that have labels.
    #[must_use]
    pub fn to_bytes(&self, endian: Endian) -> Vec<u8> {
        let mut p = Put::new(endian);
        if self.copies == 0 {
            return p.bytes;
        }
        p.raw(&MAGIC);
        p.u32(length(self.sets.len()));
        for count in [self.copies, self.unreadable, self.cut] {
            p.u64(count);
        }
        for set in &self.sets {
            p.u32(length(set.len()));
            p.u32(0);
            for (key, value) in set {
                p.u32(length(key.len()));
                p.u32(length(value.len()));
                for text in [key, value] {
                    p.raw(text.as_bytes());
                    p.pad(8);
                }
            }
        }
        p.bytes
    }
}

impl Section for GoroutineLabels {
    const MAGIC: [u8; 4] = MAGIC;
    type Before = KeptTime;

    fn read_content(w: &mut Wire<'_>) -> Option<Self> {
        let sets = w.u32()?;
        let (copies, unreadable, cut) = (w.u64()?, w.u64()?, w.u64()?);
        let mut all = Self { sets: Vec::new(), copies, unreadable, cut };
        for _ in 0..sets {
            let (labels, _padding) = (w.u32()?, w.u32()?);
            let mut set = LabelSet::new();
            for _ in 0..labels {
                let (key, value) = (w.u32()?, w.u32()?);
                set.push((padded_text(w, key.into())?, padded_text(w, value.into())?));
            }
            all.sets.push(set);
        }
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Callchain;
    use crate::appendix::open_spans::{OpenSpan, OpenSpans};

    fn labels() -> GoroutineLabels {
        let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let sets =
            vec![vec![label("route", "/pay"), label("user", "7")], vec![label("", "тест")], Vec::new()];
        GoroutineLabels { sets, copies: 9, unreadable: 1, cut: 2 }
    }

    #[test]
    fn labels_are_read_with_and_without_other_parts_before_them() {
        let open = OpenSpan { function: "f".to_owned(), tid: 1, begin_ns: 2 };
        for endian in [Endian::Little, Endian::Big] {
            let bytes = labels().to_bytes(endian);
            assert_eq!(GoroutineLabels::read(&bytes, endian), Some(labels()));
            let spans = OpenSpans { calls: vec![open.clone()] }.to_bytes(endian);
            assert_eq!(GoroutineLabels::read(&[spans, bytes.clone()].concat(), endian), Some(labels()));
            for end in 0..bytes.len() {
                assert_eq!(GoroutineLabels::read(&bytes[..end], endian), None, "{end}");
            }
        }
        assert!(GoroutineLabels::default().to_bytes(Endian::Little).is_empty());
    }

    #[test]
    fn the_last_address_of_a_chain_names_the_set() {
        let of =
            |chain: &[u64]| set_of(&Sample { callchain: Some(Callchain(chain.into())), ..Sample::default() });
        let user = crate::abi::PERF_CONTEXT_USER;
        let last = address_of(MOST_SETS - 1).expect("an address");
        assert_eq!(of(&[user, 0x1000, user, last]), Some(MOST_SETS - 1));
        assert_eq!(of(&[user, last, 0x1000]), None);
        assert_eq!((of(&[]), of(&[user]), address_of(MOST_SETS)), (None, None, None));
        assert_eq!((set_at(MAPPING_START - 1), set_at(MAPPING_START + MAPPING_BYTES)), (None, None));
    }
}
