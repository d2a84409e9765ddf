//! The build-id: identifies one build of a file, whatever its path.

use std::fmt;
use std::path::PathBuf;

use smallvec::SmallVec;

/// The bytes of `NT_GNU_BUILD_ID` (mostly 20, Go's converted and lld's may be 8 or 16).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BuildId(SmallVec<[u8; 20]>);

impl BuildId {
    /// From the note's bytes; `None` if there are none, or more than 64.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        (1..=64).contains(&bytes.len()).then(|| Self(bytes.into()))
    }

    /// From hex digits as tools print them.
    pub fn parse(hex: &str) -> Option<Self> {
        let digits = hex.trim().as_bytes();
        if !digits.len().is_multiple_of(2) {
            return None;
        }
        let nibble = |c: u8| (c as char).to_digit(16).map(|d| d as u8);
        let bytes: Option<Vec<u8>> =
            digits.chunks(2).map(|p| Some(nibble(p[0])? << 4 | nibble(p[1])?)).collect();
        Self::from_bytes(&bytes?)
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether `other` names the same build. perf.data stores ids in 20 bytes filled with zeros, so
    /// trailing zeros don't count.
    pub fn same_as(&self, other: &Self) -> bool {
        let cut = |b: &[u8]| b.iter().rposition(|&x| x != 0).map_or(0, |p| p + 1);
        self.0[..cut(&self.0)] == other.0[..cut(&other.0)]
    }

    /// `ab/cdef…`: the layout of /usr/lib/debug/.build-id and of ~/.debug/.build-id. `None` for one byte.
    pub fn split_path(&self) -> Option<PathBuf> {
        let hex = self.to_string();
        (hex.len() > 2).then(|| PathBuf::from(&hex[..2]).join(&hex[2..]))
    }
}

impl fmt::Display for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BuildId({self})")
    }
}

/// Finds the build-id in the bytes of an ELF notes section or segment, as in `/sys/kernel/notes`.
pub fn parse_notes(notes: &[u8]) -> Option<BuildId> {
    // Layout: Elf64_Nhdr { namesz: u32, descsz: u32, type: u32 } name[align 4] desc[align 4]
    // Source: gabi 5 "Note Section"; Linux and binutils use 4-byte alignment for GNU notes on ELF64 too.
    const NT_GNU_BUILD_ID: u32 = 3;
    let word = |at: usize| notes.get(at..at + 4).map(|b| u32::from_ne_bytes([b[0], b[1], b[2], b[3]]));
    let mut at = 0usize;
    while let (Some(namesz), Some(descsz), Some(kind)) = (word(at), word(at + 4), word(at + 8)) {
        let name_end = at.checked_add(12)?.checked_add(namesz as usize)?;
        let desc = name_end.checked_add(3)? & !3;
        let desc_end = desc.checked_add(descsz as usize)?;
        if kind == NT_GNU_BUILD_ID && notes.get(at + 12..name_end)? == b"GNU\0" {
            return BuildId::from_bytes(notes.get(desc..desc_end)?);
        }
        at = desc_end.checked_add(3)? & !3;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_and_path_round_trip() {
        let id = BuildId::parse("ab12cd").unwrap();
        assert_eq!(id.to_string(), "ab12cd");
        assert_eq!(id.split_path().unwrap(), PathBuf::from("ab/12cd"));
        assert!(
            BuildId::parse("abc").is_none() && BuildId::parse("").is_none() && BuildId::parse("zz").is_none()
        );
    }

    #[test]
    fn zero_padding_of_perf_data_does_not_matter() {
        let a = BuildId::from_bytes(&[1, 2, 3, 0, 0]).unwrap();
        assert!(a.same_as(&BuildId::from_bytes(&[1, 2, 3]).unwrap()));
        assert!(!a.same_as(&BuildId::from_bytes(&[1, 2]).unwrap()));
    }
}
