//! Findings of `tally run`, kept in its recording: the last bytes of the file, or the last before archived files.
//! No other reader looks there.
//
// Layout: docs/formats/findings.md. The length is little-endian in every file.

/// The last bytes of a file with findings.
const MAGIC: [u8; 8] = *b"TALLYWHY";
/// Findings longer than this are not ours.
const LONGEST: usize = 1 << 20;

/// The bytes to append to a finished recording; none for a text that would not be read again.
#[must_use]
pub fn to_bytes(text: &[u8]) -> Vec<u8> {
    if text.len() > LONGEST {
        return Vec::new();
    }
    [text, &(text.len() as u64).to_le_bytes(), &MAGIC].concat()
}

/// The text at the end of a file, or before its archived files; `None` if there is none.
#[must_use]
pub fn read(file: &[u8]) -> Option<&[u8]> {
    let file = crate::appendix::archive::split(file).0.strip_suffix(&MAGIC)?;
    let (rest, len) = file.split_last_chunk::<8>()?;
    let len = usize::try_from(u64::from_le_bytes(*len)).ok().filter(|&len| len <= LONGEST)?;
    rest.get(rest.len().checked_sub(len)?..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_from_the_end_of_a_file() {
        let file = [b"PERFILE2 and so on".as_slice(), &to_bytes(b"{\"findings\":[]}")].concat();
        assert_eq!(read(&file), Some(b"{\"findings\":[]}".as_slice()));
        for len in 0..file.len() {
            assert_eq!(read(&file[..len]), None, "{len}");
        }
    }

    #[test]
    fn a_length_beyond_the_file_or_the_bound_is_refused() {
        let file = |len: u64| [b"text".as_slice(), &len.to_le_bytes(), &MAGIC].concat();
        assert_eq!([5, u64::MAX, LONGEST as u64 + 1].map(|len| read(&file(len)).is_none()), [true; 3]);
        assert_eq!(read(&file(0)), Some(b"".as_slice()));
        assert!(to_bytes(&vec![0; LONGEST + 1]).is_empty());
    }
}
