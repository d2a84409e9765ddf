//! The branch stack of a sample (LBR and its like).
//
// Layout: u64 nr; [u64 hw_idx;] { u64 from, to, flags; } entries[nr]; [u64 counters[nr];]
// Source: linux v7.2 kernel/events/core.c perf_output_sample(); uapi struct perf_branch_entry.

use crate::abi::{PERF_SAMPLE_BRANCH_COUNTERS, PERF_SAMPLE_BRANCH_HW_INDEX};
use crate::addr::Avma;
use crate::wire::{Endian, Put, U64s, Wire};

/// The last branches before a hit, **newest first**.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BranchStack<'a> {
    /// Which hardware entry is the newest; `None` if not asked for, -1 (all ones) if unknown.
    pub hw_index: Option<u64>,
    /// Three words per branch: from, to, flags (in the file's bit order: read them by [`BranchStack::iter`]).
    words: U64s<'a>,
    /// One word of event occurrences per branch; `None` if not asked for.
    pub counters: Option<U64s<'a>>,
    endian: Endian,
}

/// One taken branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Branch {
    /// Address of the branch instruction.
    pub from: Avma,
    /// Where it went.
    pub to: Avma,
    /// Properties.
    pub flags: BranchFlags,
}

/// `perf_branch_entry`'s bit fields, in little-endian positions whatever the file's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct BranchFlags(pub u64);

/// Widths of the bit fields, first to last.
const WIDTHS: [u32; 10] = [1, 1, 1, 1, 16, 4, 2, 4, 3, 31];

impl BranchFlags {
    fn field(self, shift: u32, width: u32) -> u16 {
        let [a, b, ..] = (self.0 >> shift & ((1 << width) - 1)).to_le_bytes();
        u16::from_le_bytes([a, b])
    }

    /// The target was mispredicted.
    #[must_use]
    pub fn mispredicted(self) -> bool {
        self.field(0, 1) != 0
    }
    /// The target was predicted (neither: unknown to the hardware).
    #[must_use]
    pub fn predicted(self) -> bool {
        self.field(1, 1) != 0
    }
    /// In a transaction.
    #[must_use]
    pub fn in_tx(self) -> bool {
        self.field(2, 1) != 0
    }
    /// A transaction's abort.
    #[must_use]
    pub fn abort(self) -> bool {
        self.field(3, 1) != 0
    }
    /// Cycles since the branch before; 0 = unknown.
    #[must_use]
    pub fn cycles(self) -> u16 {
        self.field(4, 16)
    }
    /// `PERF_BR_*`.
    #[must_use]
    pub fn type_(self) -> u16 {
        self.field(20, 4)
    }
    /// `PERF_BR_SPEC_*`.
    #[must_use]
    pub fn spec(self) -> u16 {
        self.field(24, 2)
    }
    /// `PERF_BR_NEW_*`, if the type is `PERF_BR_EXTEND_ABI`.
    #[must_use]
    pub fn new_type(self) -> u16 {
        self.field(26, 4)
    }
    /// `PERF_BR_PRIV_*`.
    #[must_use]
    pub fn privilege(self) -> u16 {
        self.field(30, 3)
    }

    fn from_wire(word: u64, endian: Endian) -> Self {
        match endian {
            Endian::Little => BranchFlags(word),
            Endian::Big => BranchFlags(mirror_fields(word, true)),
        }
    }

    fn to_wire(self, endian: Endian) -> u64 {
        match endian {
            Endian::Little => self.0,
            Endian::Big => mirror_fields(self.0, false),
        }
    }
}

/// Moves the bit fields between "first at the top" and "first at the bottom", each keeping its value.
fn mirror_fields(word: u64, from_top: bool) -> u64 {
    let (mut out, mut low, mut high) = (0, 0, 64);
    for width in WIDTHS {
        high -= width;
        let (from, to) = if from_top { (high, low) } else { (low, high) };
        out |= (word >> from & ((1 << width) - 1)) << to;
        low += width;
    }
    out
}

impl<'a> BranchStack<'a> {
    /// From words as a little-endian kernel writes them: from, to, flags for each branch, newest first.
    #[must_use]
    pub fn from_words(hw_index: Option<u64>, words: &'a [u64], counters: Option<&'a [u64]>) -> Self {
        BranchStack {
            hw_index,
            words: words.into(),
            counters: counters.map(U64s::from),
            endian: Endian::Little,
        }
    }

    /// Number of branches.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.len() / 3
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The branch at `index`, 0 being the newest.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<Branch> {
        let at = index.checked_mul(3)?;
        Some(Branch {
            from: Avma(self.words.get(at)?),
            to: Avma(self.words.get(at + 1)?),
            flags: BranchFlags::from_wire(self.words.get(at + 2)?, self.endian),
        })
    }

    /// All branches, newest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Branch> + ExactSizeIterator + use<'a> {
        let this = *self;
        (0..this.len()).map(move |i| this.get(i).unwrap_or_default())
    }

    pub(crate) fn parse(w: &mut Wire<'a>, branch_type: u64, hw_index_if_empty: bool) -> Option<Self> {
        let nr = w.u64()?;
        let has_index = branch_type & PERF_SAMPLE_BRANCH_HW_INDEX != 0 && (nr > 0 || hw_index_if_empty);
        let hw_index = if has_index { Some(w.u64()?) } else { None };
        let words = w.u64s(nr.checked_mul(3)?)?;
        let has_counters = branch_type & PERF_SAMPLE_BRANCH_COUNTERS != 0;
        let counters = if has_counters { Some(w.u64s(nr)?) } else { None };
        Some(BranchStack { hw_index, words, counters, endian: w.endian() })
    }

    pub(crate) fn write(&self, p: &mut Put, branch_type: u64) {
        p.count(self.len());
        if branch_type & PERF_SAMPLE_BRANCH_HW_INDEX != 0 {
            p.u64(self.hw_index.unwrap_or(u64::MAX));
        }
        for b in self.iter() {
            p.u64(b.from.0);
            p.u64(b.to.0);
            p.u64(b.flags.to_wire(p.endian));
        }
        if branch_type & PERF_SAMPLE_BRANCH_COUNTERS != 0 {
            for i in 0..self.len() {
                p.u64(self.counters.and_then(|c| c.get(i)).unwrap_or_default());
            }
        }
    }
}
