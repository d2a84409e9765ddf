//! Several files in one fuzz input: a recording together with the object files, maps and sources it names.
//!
//! ```text
//! "tally parcel 1\n"   then for each part:  name length (u8)  name  byte count (u32, little-endian)  bytes
//! ```
//!
//! Any bytes are a parcel. Lengths past the end are cut, and bytes without the first line are one part, `perf.data`.

/// The first line.
const MAGIC: &[u8] = b"tally parcel 1\n";
/// Maximum number of parts, more than any recording needs.
const MOST_PARTS: usize = 64;

/// Named files, in the order they are stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parcel {
    /// The files.
    pub parts: Vec<ParcelPart>,
}

/// One file of a parcel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParcelPart {
    /// Path below the folder it is unpacked to.
    pub name: String,
    /// Content.
    pub bytes: Vec<u8>,
}

impl Parcel {
    /// True if `bytes` begin as a parcel does.
    pub fn is_one(bytes: &[u8]) -> bool {
        bytes.starts_with(MAGIC)
    }

    /// The parts of `bytes`.
    pub fn parse(bytes: &[u8]) -> Self {
        let Some(mut rest) = bytes.strip_prefix(MAGIC) else {
            return Self { parts: vec![ParcelPart { name: "perf.data".to_owned(), bytes: bytes.to_vec() }] };
        };
        let mut parts = Vec::new();
        while let Some((&length, after)) = rest.split_first() {
            if parts.len() == MOST_PARTS {
                break;
            }
            let (name, after) = after.split_at(after.len().min(length.into()));
            let Some((size, after)) = after.split_first_chunk() else { break };
            let (bytes, after) = after.split_at(after.len().min(u32::from_le_bytes(*size) as usize));
            parts
                .push(ParcelPart { name: String::from_utf8_lossy(name).into_owned(), bytes: bytes.to_vec() });
            rest = after;
        }
        Self { parts }
    }

    /// The bytes that [`Self::parse`] reads; names and contents too long for their length fields are cut.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        for part in &self.parts {
            let name = &part.name.as_bytes()[..part.name.len().min(usize::from(u8::MAX))];
            let size = u32::try_from(part.bytes.len()).unwrap_or(u32::MAX);
            bytes.push(name.len() as u8);
            bytes.extend(name);
            bytes.extend(size.to_le_bytes());
            bytes.extend(&part.bytes[..size as usize]);
        }
        bytes
    }

    /// The content of the part with this name.
    pub fn part(&self, name: &str) -> Option<&[u8]> {
        self.parts.iter().find(|part| part.name == name).map(|part| part.bytes.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parcel_survives_being_written_and_read() {
        let part = |name: &str, bytes: &[u8]| ParcelPart { name: name.to_owned(), bytes: bytes.to_vec() };
        let parcel = Parcel { parts: vec![part("perf.data", b"PERFILE2"), part("calls/info", b"")] };
        assert_eq!(Parcel::parse(&parcel.to_bytes()), parcel);
        assert_eq!(parcel.part("calls/info"), Some(&b""[..]));
    }

    #[test]
    fn cut_parcels_and_other_bytes_are_parcels_too() {
        let whole =
            Parcel::parse(b"tally parcel 1\n\x01a\x05\0\0\0hello\x01b\xff\xff\xff\xffrest").to_bytes();
        assert_eq!(Parcel::parse(&whole).part("b"), Some(&b"rest"[..]));
        for end in 0..whole.len() {
            assert!(Parcel::parse(&whole[..end]).parts.len() <= 2);
        }
        assert_eq!(Parcel::parse(b"PERFILE2").part("perf.data"), Some(&b"PERFILE2"[..]));
    }
}
