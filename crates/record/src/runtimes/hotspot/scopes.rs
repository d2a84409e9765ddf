//! Methods that were inlined into compiled code: HotSpot keeps them with the code, to find them when an exception is
//! thrown or a thread is stopped.
//!
//! Each `PcDesc` has an address of the code and a scope: a method, the position of its bytecode, and the scope that it
//! was inlined into. It is for the code up to its address, from that of the one before.
// Source: HotSpot's pcDesc.hpp, scopeDesc.cpp, debugInfo.hpp and nmethod.hpp, JDK 17, 21 and 25

use super::Look;
use super::debug_offsets::{InsideTables, OutsideTables, ScopeOffsets, ScopeTables};
use super::number_stream::NumberStream;
use crate::runtimes::memory::{ProcessMemory, read_u64};

/// More methods than HotSpot inlines into one another.
const MOST_INLINED: usize = 64;
/// More than an `nmethod` has.
const MOST_PCS: u64 = 1 << 20;
/// Bytes of a scope that are read: three numbers.
const SCOPE_BYTES: usize = 16;
/// As a scope's place: none.
const NO_SCOPE: u32 = 0;
/// After the last `PcDesc`.
const LAST_OFFSET: i32 = i32::MAX;

/// The tables of an `nmethod` (Avma).
#[derive(Clone, Copy, Debug)]
pub(super) struct ScopesOfCode {
    pcs: u64,
    pc_count: u64,
    scopes: u64,
    scope_bytes: u64,
    metadata: u64,
}

/// Code that is of one scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ScopeRange {
    /// Bytes from the start of the code.
    pub(super) start: u64,
    /// Its end, the same.
    pub(super) end: u64,
    /// In the stream of scopes.
    scope: u32,
}

/// A method in a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ScopeMethod {
    /// Address of the `Method`.
    pub(super) method: u64,
    /// Position of the bytecode.
    pub(super) bci: u16,
}

impl ScopesOfCode {
    /// The tables of the `nmethod` at this address. `None` if there are none.
    pub(super) fn read(nmethod: u64, of: &ScopeOffsets, look: &mut Look<'_, '_>) -> Option<Self> {
        let (found, pcs_end) = match of.tables {
            ScopeTables::Inside(tables) => Self::inside(nmethod, tables, look)?,
            ScopeTables::Outside(tables) => Self::outside(nmethod, tables, look)?,
        };
        let pc_count = pcs_end.checked_sub(found.pcs)? / of.pc_bytes;
        (pc_count <= MOST_PCS).then_some(Self { pc_count, ..found })
    }

    fn inside(nmethod: u64, of: InsideTables, look: &mut Look<'_, '_>) -> Option<(Self, u64)> {
        let scopes = look.u64(nmethod.wrapping_add(of.scopes))?;
        let mut place = |at: u64| {
            look.u32(nmethod.wrapping_add(at)).map(|offset| nmethod.wrapping_add(u64::from(offset)))
        };
        let (pcs, metadata, pcs_end) = (place(of.pcs)?, place(of.metadata)?, place(of.pcs_end)?);
        let scope_bytes = pcs.checked_sub(scopes)?;
        Some((Self { pcs, pc_count: 0, scopes, scope_bytes, metadata }, pcs_end))
    }

    fn outside(nmethod: u64, of: OutsideTables, look: &mut Look<'_, '_>) -> Option<(Self, u64)> {
        let fixed = look.u64(nmethod.wrapping_add(of.fixed))?;
        let changed = look.u64(nmethod.wrapping_add(of.changed))?;
        let mut number = |at: u64| look.u32(nmethod.wrapping_add(at)).map(u64::from);
        let (pcs, scopes) = (number(of.pcs)?, number(of.scopes)?);
        let found = Self {
            pcs: fixed.wrapping_add(pcs),
            pc_count: 0,
            scopes: fixed.wrapping_add(scopes),
            scope_bytes: number(of.fixed_bytes)?.checked_sub(scopes)?,
            metadata: changed.wrapping_add(number(of.relocations)?),
        };
        Some((found, fixed.wrapping_add(scopes)))
    }

    /// The code around `offset`, bytes from the start of the code. `None` where HotSpot keeps nothing.
    pub(super) fn range_at(
        &self,
        offset: u64,
        of: &ScopeOffsets,
        look: &mut Look<'_, '_>,
    ) -> Option<ScopeRange> {
        let wanted = i32::try_from(offset).ok()?;
        let (mut first, mut end) = (0, self.pc_count);
        while first < end {
            let middle = first.midpoint(end);
            if self.pc_offset(middle, of, look)? < wanted {
                first = middle + 1;
            } else {
                end = middle;
            }
        }
        let before = first.checked_sub(1)?;
        let (before, last) = (self.pc_offset(before, of, look)?, self.pc_offset(first, of, look)?);
        let scope = look.u32(self.pc_at(first, of).wrapping_add(of.pc_scope))?;
        let is_of_code = first < self.pc_count && last != LAST_OFFSET && scope != NO_SCOPE;
        let (start, end) = (u64::try_from(before + 1).ok()?, u64::try_from(last).ok()? + 1);
        (is_of_code && (start..end).contains(&offset)).then_some(ScopeRange { start, end, scope })
    }

    fn pc_at(&self, index: u64, of: &ScopeOffsets) -> u64 {
        self.pcs.wrapping_add(index * of.pc_bytes)
    }

    fn pc_offset(&self, index: u64, of: &ScopeOffsets, look: &mut Look<'_, '_>) -> Option<i32> {
        look.u32(self.pc_at(index, of).wrapping_add(of.pc_offset)).map(u32::cast_signed)
    }

    /// The methods of this code, innermost first. `None` if that makes no sense.
    pub(super) fn methods(
        &self,
        range: &ScopeRange,
        of: &ScopeOffsets,
        look: &mut Look<'_, '_>,
    ) -> Option<Vec<ScopeMethod>> {
        let mut methods = Vec::new();
        let mut scope = range.scope;
        while scope != NO_SCOPE {
            let (method, outer) = self.method_at(scope, of, look.memory)?;
            methods.push(method);
            scope = Some(outer).filter(|_| methods.len() < MOST_INLINED)?;
        }
        Some(methods)
    }

    /// The method of a scope, and the scope around it.
    fn method_at(
        &self,
        scope: u32,
        of: &ScopeOffsets,
        memory: &mut ProcessMemory<'_>,
    ) -> Option<(ScopeMethod, u32)> {
        let mut bytes = [0; SCOPE_BYTES];
        let left = self.scope_bytes.checked_sub(u64::from(scope))?;
        let got = memory(self.scopes.wrapping_add(u64::from(scope)), &mut bytes).min(SCOPE_BYTES);
        let got = got.min(usize::try_from(left).unwrap_or(usize::MAX));
        let mut numbers = NumberStream::new(&bytes[..got], of.encoding);
        let (outer, method, bci) = (numbers.number()?, numbers.number()?, numbers.number()?);
        // Numbers begin at 1; positions too: 0 is where the method is entered.
        let place = self.metadata.wrapping_add(8 * u64::from(method.checked_sub(1)?));
        let method = read_u64(memory, place)?;
        let bci = u16::try_from(bci.saturating_sub(1)).ok()?;
        Some((ScopeMethod { method, bci }, outer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::hotspot::structs::JvmOffsets;

    /// An `nmethod` at 0x100 whose tables are inside, and the same at 0x800 with tables outside. Code from 8 on is of
    /// `0x1008` (position 0) in `0x1000` (position 9), from 0x21 on of `0x1000` (position 9).
    fn memory() -> Vec<u8> {
        let mut bytes = vec![0; 0x1000];
        let mut put = |at: usize, data: &[u8]| bytes[at..at + data.len()].copy_from_slice(data);
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        let pcs = words(&[u32::MAX, 0, 7, 0, 0x20, 4, 0x30, 1, 0x38, 7, 0x40, 10, 0x7fff_ffff, 0]);
        let methods = words(&[0x1000, 0, 0x1008, 0]);
        // Position 9; the other at its start, in the first; no method; a scope that is around itself.
        let scopes = [0, 0, 1, 10, 1, 2, 1, 0, 0, 9, 10, 1, 1];
        put(0x124, &words(&[0x120, 0x158, 0x100, 0, 0x200, 0]));
        put(0x200, &methods);
        put(0x210, &scopes);
        put(0x220, &pcs);
        put(0x130, &0x210u64.to_le_bytes());
        // Without zeros, each number is one more.
        let shifted = scopes.map(|byte| byte + 1);
        put(0x824, &words(&[0x20, 0x58, 0x58 + 13, 0x900, 0, 0xa00, 0, 8]));
        put(0x920, &pcs);
        put(0x958, &shifted);
        put(0xa08, &methods);
        bytes
    }

    fn scopes_at(nmethod: u64, of: &ScopeOffsets, bytes: &[u8], offset: u64) -> Option<Found> {
        let mut read = |at: u64, into: &mut [u8]| {
            let from = bytes.get(at as usize..).unwrap_or_default();
            let count = from.len().min(into.len());
            into[..count].copy_from_slice(&from[..count]);
            count
        };
        let mut look = Look { offsets: JvmOffsets::MADE_UP, memory: &mut read, round: 0 };
        let scopes = ScopesOfCode::read(nmethod, of, &mut look)?;
        let range = scopes.range_at(offset, of, &mut look)?;
        let methods = scopes.methods(&range, of, &mut look)?;
        Some((range.start, range.end, methods.iter().map(|found| (found.method, found.bci)).collect()))
    }

    type Found = (u64, u64, Vec<(u64, u16)>);

    #[test]
    fn code_is_of_the_scope_up_to_the_next_address_with_one() {
        let bytes = memory();
        for (nmethod, of) in [(0x100, ScopeOffsets::MADE_UP), (0x800, ScopeOffsets::MADE_UP_OUTSIDE)] {
            let at = |offset| scopes_at(nmethod, &of, &bytes, offset);
            let inlined = Some((8, 0x21, vec![(0x1008, 0), (0x1000, 9)]));
            assert_eq!([at(8), at(0x20)], [inlined.clone(), inlined]);
            assert_eq!(at(0x21), Some((0x21, 0x31, vec![(0x1000, 9)])));
            // No scope; no method; around itself; after the last.
            for nothing in [0, 7, 0x38, 0x40, 0x41, 0x1000, u64::MAX] {
                assert_eq!(at(nothing), None, "{nothing:x}");
            }
        }
    }

    #[test]
    fn tables_that_cannot_be_read_have_no_scopes() {
        let of = ScopeOffsets::MADE_UP;
        assert_eq!(scopes_at(0x100, &of, &memory()[..0x210], 8), None);
        assert_eq!(scopes_at(0x100, &of, &[0xff; 0x1000], 8), None);
        assert_eq!(scopes_at(0x100, &of, &[], 8), None);
    }
}
