//! DWARF bytes with a limit on reading. Hostile DWARF ends in an error; otherwise it would overflow the stack
//! of the libraries that follow its nesting, or keep them busy for hours with bytes that many units share.
//!
//! Honest DWARF is read a few times over. Every unit may have abbreviations and lines of its own, so a file of
//! a megabyte can make all of its bytes be read again for each of fifty thousand units.

use std::borrow::Cow;
use std::cell::Cell;
use std::hint::black_box;
use std::path::{Path, PathBuf};

use gimli::{EndianSlice, Reader, ReaderOffsetId, Result, RunTimeEndian};

use crate::bounds;

/// How much of a thread's stack reading may take. Threads have 2 MiB and more; a level of inlined calls takes 400
/// bytes in an optimized build and 1,600 in another.
const STACK_BYTES: usize = 768 << 10;

thread_local! {
    /// Bytes that this thread's reader may still read.
    static LEFT: Cell<u64> = const { Cell::new(u64::MAX) };
    /// The lowest stack address it may use.
    static FLOOR: Cell<usize> = const { Cell::new(0) };
    /// Whether one of them did not suffice.
    static IS_SPENT: Cell<bool> = const { Cell::new(false) };
}

/// Budget of one reader for some sections.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    left: u64,
    is_spent: bool,
}

impl Meter {
    /// For sections of `bytes` together.
    pub(super) fn of(bytes: u64) -> Self {
        Self { left: bounds::justified_by(bytes), is_spent: false }
    }

    /// Runs `read`, in which all reading of [`Metered`] bytes counts.
    pub(super) fn run<T>(&mut self, read: impl FnOnce() -> T) -> T {
        let _running = Running::start(self);
        read()
    }

    /// Whether reading ever asked for more than it had; what was read then is not all.
    pub(super) fn is_spent(&self) -> bool {
        self.is_spent
    }
}

/// Lets the meter that runs now read sections of `bytes` more: another file has turned up.
pub(super) fn grant(bytes: u64) {
    LEFT.set(LEFT.get().saturating_add(bounds::justified_by(bytes)));
}

/// Counts all reading of [`Metered`] bytes on this thread until it is dropped, by a meter of its own.
pub(super) struct Counted {
    program: Option<PathBuf>,
    before: (u64, usize, bool),
}

impl Counted {
    /// Meter for sections of `bytes` in total, which belong to `program`. A warning is noted if the limit is
    /// reached.
    pub(super) fn reading(bytes: u64, program: Option<&Path>) -> Self {
        let floor = stack_address().saturating_sub(STACK_BYTES);
        let left = bounds::justified_by(bytes);
        let before = (LEFT.replace(left), FLOOR.replace(floor), IS_SPENT.replace(false));
        Self { program: program.map(Path::to_owned), before }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let (left, floor, is_spent) = self.before;
        LEFT.set(left);
        FLOOR.set(floor);
        if IS_SPENT.replace(is_spent) {
            bounds::refuse(self.program.as_deref(), "debug information");
        }
    }
}

/// Gives the meter back, and the thread its earlier one, at the end or at a panic.
struct Running<'m> {
    meter: &'m mut Meter,
    before: (u64, usize, bool),
}

impl<'m> Running<'m> {
    fn start(meter: &'m mut Meter) -> Self {
        let floor = stack_address().saturating_sub(STACK_BYTES);
        let before = (LEFT.replace(meter.left), FLOOR.replace(floor), IS_SPENT.replace(meter.is_spent));
        Self { meter, before }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let (left, floor, is_spent) = self.before;
        self.meter.left = LEFT.replace(left);
        self.meter.is_spent = IS_SPENT.replace(is_spent);
        FLOOR.set(floor);
    }
}

/// About where this thread's stack ends now; it grows down.
#[inline(always)]
fn stack_address() -> usize {
    let here = 0u8;
    std::ptr::from_ref(black_box(&here)).addr()
}

/// Counts `bytes` read.
#[inline]
fn charge(bytes: usize) -> Result<()> {
    let left = LEFT.get();
    match left.checked_sub(bytes as u64) {
        Some(rest) => {
            LEFT.set(rest);
            Ok(())
        }
        None => spent(),
    }
}

#[cold]
fn spent() -> Result<()> {
    Err(refusal())
}

/// The error that ends reading when the limit is reached; the owner of the meter notes the warning.
pub(super) fn refusal() -> gimli::Error {
    IS_SPENT.set(true);
    gimli::Error::Io
}

/// Bytes whose reading counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Metered(EndianSlice<'static, RunTimeEndian>);

impl Metered {
    pub(super) fn new(bytes: &'static [u8], endian: RunTimeEndian) -> Self {
        Self(EndianSlice::new(bytes, endian))
    }

    /// The bytes, not counted.
    pub(super) fn slice(&self) -> &'static [u8] {
        self.0.slice()
    }

    /// As text, not counted.
    pub(super) fn text(&self) -> Cow<'static, str> {
        self.0.to_string_lossy()
    }
}

impl Reader for Metered {
    type Endian = RunTimeEndian;
    type Offset = usize;

    #[inline]
    fn endian(&self) -> RunTimeEndian {
        self.0.endian()
    }

    #[inline]
    fn len(&self) -> usize {
        self.0.slice().len()
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.0.slice().is_empty()
    }

    #[inline]
    fn empty(&mut self) {
        Reader::empty(&mut self.0);
    }

    #[inline]
    fn truncate(&mut self, len: usize) -> Result<()> {
        self.0.truncate(len)
    }

    #[inline]
    fn offset_from(&self, base: &Self) -> usize {
        self.0.offset_from(base.0)
    }

    #[inline]
    fn offset_id(&self) -> ReaderOffsetId {
        self.0.offset_id()
    }

    #[inline]
    fn lookup_offset_id(&self, id: ReaderOffsetId) -> Option<usize> {
        self.0.lookup_offset_id(id)
    }

    #[inline]
    fn find(&self, byte: u8) -> Result<usize> {
        Reader::find(&self.0, byte)
    }

    #[inline]
    fn skip(&mut self, len: usize) -> Result<()> {
        self.0.skip(len)
    }

    /// Counts what is split off: line programs, units, names, expressions.
    #[inline]
    fn split(&mut self, len: usize) -> Result<Self> {
        charge(len)?;
        self.0.split(len).map(Self)
    }

    fn to_slice(&self) -> Result<Cow<'_, [u8]>> {
        charge(self.0.slice().len())?;
        Ok(self.0.slice().into())
    }

    fn to_string(&self) -> Result<Cow<'_, str>> {
        charge(self.0.slice().len())?;
        Reader::to_string(&self.0)
    }

    /// Counts the text: paths of files are put together of parts that many share.
    fn to_string_lossy(&self) -> Result<Cow<'_, str>> {
        charge(self.0.slice().len())?;
        Ok(self.0.to_string_lossy())
    }

    #[inline]
    fn read_slice(&mut self, buf: &mut [u8]) -> Result<()> {
        Reader::read_slice(&mut self.0, buf)
    }

    #[inline]
    fn read_u8(&mut self) -> Result<u8> {
        self.0.read_u8()
    }

    /// Every entry and abbreviation begins with one: what nests asks here whether there is stack left.
    #[inline]
    fn read_uleb128(&mut self) -> Result<u64> {
        charge(1)?;
        if stack_address() < FLOOR.get() {
            spent()?;
        }
        self.0.read_uleb128()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: [u8; 1000] = [1; 1000];

    fn metered() -> Metered {
        Metered::new(&BYTES, RunTimeEndian::Little)
    }

    /// Levels of recursion until reading is refused.
    fn nested(mut bytes: Metered) -> usize {
        let frame = black_box([0u8; 256]);
        match bytes.read_uleb128() {
            Ok(_) => 1 + nested(metered()) + usize::from(black_box(frame[0])),
            Err(_) => 0,
        }
    }

    #[test]
    fn reading_over_and_over_ends_with_a_warning() {
        let mut meter = Meter::of(1000);
        let read = meter.run(|| (0..).take_while(|_| metered().split(1000).is_ok()).count());
        assert_eq!(read as u64, bounds::justified_by(1000) / 1000);
        assert!(meter.is_spent());
        assert!(meter.run(|| metered().split(1000)).is_err(), "it stays spent");
        assert!(metered().split(1000).is_ok(), "outside nothing counts");
        assert!(meter.run(|| {
            grant(1000);
            metered().split(1000).is_ok()
        }));
    }

    #[test]
    fn nesting_ends_before_the_stack_does() {
        let mut meter = Meter::of(1 << 30);
        let depth = meter.run(|| nested(metered()));
        assert!((100..STACK_BYTES / 256).contains(&depth), "{depth}");
        assert!(meter.is_spent());
    }
}
