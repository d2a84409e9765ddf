//! Reading and writing integers in a file's byte order, bounds always checked.
//!
//! Knows nothing about records. A read past the end is `None`, and the caller reports what was too short.

use crate::addr::Avma;

/// Byte order of the machine that recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Endian {
    /// Least significant byte first (x86, ARM as Linux runs it).
    #[default]
    Little,
    /// Most significant byte first (s390x, big-endian PowerPC and ARM).
    Big,
}

impl Endian {
    /// The byte order of the machine this runs on.
    pub const NATIVE: Endian = if cfg!(target_endian = "big") { Endian::Big } else { Endian::Little };

    /// Two bytes as an integer.
    #[must_use]
    pub fn u16(self, b: [u8; 2]) -> u16 {
        match self {
            Endian::Little => u16::from_le_bytes(b),
            Endian::Big => u16::from_be_bytes(b),
        }
    }

    /// Four bytes as an integer.
    #[must_use]
    pub fn u32(self, b: [u8; 4]) -> u32 {
        match self {
            Endian::Little => u32::from_le_bytes(b),
            Endian::Big => u32::from_be_bytes(b),
        }
    }

    /// Eight bytes as an integer.
    #[must_use]
    pub fn u64(self, b: [u8; 8]) -> u64 {
        match self {
            Endian::Little => u64::from_le_bytes(b),
            Endian::Big => u64::from_be_bytes(b),
        }
    }

    /// Unsigned integer of 1, 2, 4 or 8 bytes; `None` for another length.
    #[must_use]
    pub fn uint(self, bytes: &[u8]) -> Option<u64> {
        Some(match bytes.len() {
            1 => u64::from(*bytes.first()?),
            2 => u64::from(self.u16(bytes.try_into().ok()?)),
            4 => u64::from(self.u32(bytes.try_into().ok()?)),
            8 => self.u64(bytes.try_into().ok()?),
            _ => return None,
        })
    }
}

/// A cursor over bytes of one byte order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wire<'a> {
    rest: &'a [u8],
    endian: Endian,
}

impl<'a> Wire<'a> {
    pub(crate) fn new(bytes: &'a [u8], endian: Endian) -> Self {
        Wire { rest: bytes, endian }
    }

    pub(crate) fn endian(&self) -> Endian {
        self.endian
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn len(&self) -> usize {
        self.rest.len()
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.rest.split_first_chunk::<N>()?;
        self.rest = tail;
        Some(*head)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        Some(u8::from_le_bytes(self.array()?))
    }

    #[inline]
    pub(crate) fn u16(&mut self) -> Option<u16> {
        Some(self.endian.u16(self.array()?))
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Option<u32> {
        Some(self.endian.u32(self.array()?))
    }

    #[inline]
    pub(crate) fn i32(&mut self) -> Option<i32> {
        Some(self.u32()?.cast_signed())
    }

    #[inline]
    pub(crate) fn u64(&mut self) -> Option<u64> {
        Some(self.endian.u64(self.array()?))
    }

    /// Reads the next integer into `field` if the layout has it; `None` if the bytes end before it.
    #[inline]
    pub(crate) fn u64_if(&mut self, has: bool, field: &mut Option<u64>) -> Option<()> {
        if has {
            *field = Some(self.u64()?);
        }
        Some(())
    }

    /// As [`Self::u64_if`], for an address.
    #[inline]
    pub(crate) fn avma_if(&mut self, has: bool, field: &mut Option<Avma>) -> Option<()> {
        if has {
            *field = Some(Avma(self.u64()?));
        }
        Some(())
    }

    /// As [`Self::u64_if`], for two 32-bit integers in their order in the file.
    #[inline]
    pub(crate) fn pair_if(&mut self, has: bool, field: &mut Option<(u32, u32)>) -> Option<()> {
        if has {
            *field = Some((self.u32()?, self.u32()?));
        }
        Some(())
    }

    /// As [`Self::u64_if`], for a 32-bit integer before 32 reserved bits.
    #[inline]
    pub(crate) fn padded_u32_if(&mut self, has: bool, field: &mut Option<u32>) -> Option<()> {
        let mut pair = None;
        self.pair_if(has, &mut pair)?;
        *field = pair.map(|(value, _reserved)| value);
        Some(())
    }

    /// The next `len` bytes; `None` (and nothing consumed) if there are fewer.
    #[inline]
    pub(crate) fn take(&mut self, len: u64) -> Option<&'a [u8]> {
        let (head, tail) = self.rest.split_at_checked(usize::try_from(len).ok()?)?;
        self.rest = tail;
        Some(head)
    }

    /// The next `count` u64 values, not yet swapped.
    #[inline]
    pub(crate) fn u64s(&mut self, count: u64) -> Option<U64s<'a>> {
        let bytes = self.take(count.checked_mul(8)?)?;
        Some(U64s(Repr::Wire { bytes, endian: self.endian }))
    }

    /// The next `len` bytes up to their first NUL.
    pub(crate) fn cstr(&mut self, len: u64) -> Option<&'a [u8]> {
        Some(until_nul(self.take(len)?))
    }
}

/// The bytes before the first NUL (all, if there is none).
pub(crate) fn until_nul(bytes: &[u8]) -> &[u8] {
    let end = memchr::memchr(0, bytes).unwrap_or(bytes.len());
    bytes.get(..end).unwrap_or(bytes)
}

/// A list of u64 values, either in a record in its byte order or given by the caller.
#[derive(Clone, Copy)]
pub struct U64s<'a>(Repr<'a>);

#[derive(Clone, Copy)]
enum Repr<'a> {
    Wire { bytes: &'a [u8], endian: Endian },
    Values(&'a [u64]),
}

impl<'a> U64s<'a> {
    /// Number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        match self.0 {
            Repr::Wire { bytes, .. } => bytes.len() / 8,
            Repr::Values(values) => values.len(),
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value at `index`, in this machine's byte order.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<u64> {
        match self.0 {
            Repr::Wire { bytes, endian } => {
                let at = index.checked_mul(8)?;
                Some(endian.u64(bytes.get(at..)?.first_chunk().copied()?))
            }
            Repr::Values(values) => values.get(index).copied(),
        }
    }

    /// All values in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = u64> + ExactSizeIterator + use<'a> {
        let this = *self;
        (0..this.len()).map(move |i| this.get(i).unwrap_or_default())
    }
}

impl<'a> From<&'a [u64]> for U64s<'a> {
    fn from(values: &'a [u64]) -> Self {
        U64s(Repr::Values(values))
    }
}

impl Default for U64s<'_> {
    fn default() -> Self {
        U64s(Repr::Values(&[]))
    }
}

impl std::fmt::Debug for U64s<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl PartialEq for U64s<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl Eq for U64s<'_> {}

/// Appends integers in a chosen byte order.
#[derive(Debug, Default)]
pub(crate) struct Put {
    pub(crate) bytes: Vec<u8>,
    pub(crate) endian: Endian,
}

impl Put {
    pub(crate) fn new(endian: Endian) -> Self {
        Put { bytes: Vec::new(), endian }
    }

    pub(crate) fn u16(&mut self, v: u16) {
        self.bytes.extend(match self.endian {
            Endian::Little => v.to_le_bytes(),
            Endian::Big => v.to_be_bytes(),
        });
    }

    pub(crate) fn u32(&mut self, v: u32) {
        self.bytes.extend(match self.endian {
            Endian::Little => v.to_le_bytes(),
            Endian::Big => v.to_be_bytes(),
        });
    }

    pub(crate) fn u64(&mut self, v: u64) {
        self.bytes.extend(match self.endian {
            Endian::Little => v.to_le_bytes(),
            Endian::Big => v.to_be_bytes(),
        });
    }

    /// The value (0 for `None`) if the layout has it; else nothing.
    pub(crate) fn u64_if(&mut self, has: bool, value: Option<u64>) {
        if has {
            self.u64(value.unwrap_or_default());
        }
    }

    /// The two values in this order (0 for `None`) if the layout has them; else nothing.
    pub(crate) fn pair_if(&mut self, has: bool, pair: Option<(u32, u32)>) {
        if has {
            let (first, second) = pair.unwrap_or_default();
            self.u32(first);
            self.u32(second);
        }
    }

    pub(crate) fn u64s(&mut self, values: &U64s<'_>) {
        for v in values.iter() {
            self.u64(v);
        }
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// A length as u64.
    pub(crate) fn count(&mut self, n: usize) {
        self.u64(n as u64);
    }

    /// A string with its NUL, padded with NULs to a multiple of 8 bytes.
    pub(crate) fn cstr_padded(&mut self, s: &[u8]) {
        self.raw(until_nul(s));
        self.bytes.push(0);
        self.pad(8);
    }

    /// NULs up to a multiple of `to` bytes.
    pub(crate) fn pad(&mut self, to: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(to), 0);
    }
}
