//! The methods that were met in a JVM: each gets addresses for its lines.

use rustc_hash::FxHashMap;

use super::{Look, lines, methods};
use crate::runtimes::method_addresses::{MethodAddresses, MethodNumber};

/// Methods that are known at a time.
const MOST_METHODS: usize = 1 << 18;
/// Lines that are known at a time.
const MOST_LINES: usize = 1 << 16;

/// The methods of one JVM.
#[derive(Debug, Default)]
pub(super) struct KnownMethods {
    by_address: FxHashMap<u64, KnownMethod>,
    /// By `ConstMethod` and position of the bytecode; 0: none.
    lines: FxHashMap<(u64, u16), u32>,
}

/// A `Method` that was read.
#[derive(Clone, Copy, Debug)]
struct KnownMethod {
    /// Its `ConstMethod` when it was read: another method may take its place.
    constant: u64,
    /// `None` if it has no name.
    number: Option<MethodNumber>,
    /// When it was compared last.
    round: u32,
}

/// Where in a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// The position of the bytecode.
    Bci(u16),
    /// Possible addresses of the bytecode, the likeliest first.
    Bcp([Option<u64>; 2]),
}

impl KnownMethods {
    /// The address of the line in the `Method` at `method`; `None` if it has no name. A new one goes to `names`.
    pub(super) fn line_address(
        &mut self,
        method: u64,
        position: Position,
        look: &mut Look<'_, '_>,
        names: &mut MethodAddresses,
    ) -> Option<u64> {
        let known = self.get(method, look, names)?;
        let line = self.line_of(known.constant, position, look);
        Some(known.number?.line_address(line.unwrap_or(0)))
    }

    fn get(
        &mut self,
        method: u64,
        look: &mut Look<'_, '_>,
        names: &mut MethodAddresses,
    ) -> Option<KnownMethod> {
        let known = self.by_address.get(&method).copied();
        if known.is_some_and(|known| known.round == look.round) {
            return known;
        }
        let offsets = look.offsets;
        let Some(constant) = methods::const_method(&offsets, method, look.memory) else {
            // The process has ended before its last stacks were walked.
            return known;
        };
        let number = match known.filter(|known| known.constant == constant) {
            Some(known) => known.number,
            None if methods::is_pointer(constant) => number_of(constant, look, names),
            None => return None,
        };
        if known.is_some_and(|known| known.constant != constant) {
            self.lines.clear();
        }
        let now = KnownMethod { constant, number, round: look.round };
        if known.is_some() || self.by_address.len() < MOST_METHODS {
            self.by_address.insert(method, now);
        }
        Some(now)
    }

    fn line_of(&mut self, constant: u64, position: Position, look: &mut Look<'_, '_>) -> Option<u32> {
        let offsets = look.offsets.lines?;
        let bci = match position {
            Position::Bci(bci) => bci,
            Position::Bcp(places) => {
                let (start, bytes) = lines::bytecodes(&offsets, constant, look)?;
                let bci_of = |place: u64| place.checked_sub(start).filter(|bci| *bci < u64::from(bytes));
                let bci = places.into_iter().flatten().find_map(bci_of)?;
                u16::try_from(bci).ok()?
            }
        };
        let known = self.lines.get(&(constant, bci)).copied();
        let line = known.unwrap_or_else(|| lines::line_of(&offsets, constant, bci, look).unwrap_or(0));
        if known.is_none() {
            if self.lines.len() >= MOST_LINES {
                self.lines.clear();
            }
            self.lines.insert((constant, bci), line);
        }
        Some(line)
    }
}

fn number_of(constant: u64, look: &mut Look<'_, '_>, names: &mut MethodAddresses) -> Option<MethodNumber> {
    let name = methods::name_of(&look.offsets, constant, look.memory)?;
    let file = look.offsets.lines.and_then(|offsets| lines::file_of(&offsets, constant, look));
    names.number_of(name, file.as_deref())
}
