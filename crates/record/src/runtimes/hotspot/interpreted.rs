//! Methods that HotSpot interprets: all run in the interpreter's code, which alone a callchain has. The method of
//! each such frame is on the stack, and the chain gets an address in its place.

use rustc_hash::FxHashMap;

use super::{Look, methods};
use crate::runtimes::method_addresses::MethodAddresses;

/// Methods that are known at a time.
const MOST_METHODS: usize = 1 << 18;
/// From the end of a frame, which is its caller's stack pointer, down to the word with its `Method`: the return
/// address, the frame pointer, the caller's stack pointers before and now. Known for this machine only.
// Source: HotSpot's frame_x86.hpp, `interpreter_frame_method_offset` = -3 words from the frame pointer, JDK 8 to 25
pub(super) const METHOD_BELOW_END: Option<u64> =
    if cfg!(target_arch = "x86_64") { Some(2 * 8 + 3 * 8) } else { None };
/// A larger interpreter than HotSpot makes.
const MOST_CODE_BYTES: u64 = 16 << 20;

/// The methods of one JVM that were met in its interpreter.
#[derive(Debug, Default)]
pub(super) struct InterpretedMethods {
    known: FxHashMap<u64, KnownMethod>,
}

/// A `Method` that was read.
#[derive(Clone, Copy, Debug)]
struct KnownMethod {
    /// Its `ConstMethod` when it was read: another method may take its place.
    constant: u64,
    /// In chains; `None` if it has no name.
    address: Option<u64>,
    /// When it was compared last.
    round: u32,
}

/// The interpreter of a JVM that has started.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interpreter {
    pub(super) start: u64,
    pub(super) end: u64,
}

impl InterpretedMethods {
    /// The address in chains of the `Method` at `method`; `None` if it has no name. A new one goes to `names`.
    pub(super) fn address_of(
        &mut self,
        method: u64,
        look: &mut Look<'_, '_>,
        names: &mut MethodAddresses,
    ) -> Option<u64> {
        let known = self.known.get(&method).copied();
        if let Some(known) = known.filter(|known| known.round == look.round) {
            return known.address;
        }
        let offsets = look.offsets;
        let Some(constant) = methods::const_method(&offsets, method, look.memory) else {
            // The process has ended before its last stacks were walked.
            return known?.address;
        };
        let address = match known.filter(|known| known.constant == constant) {
            Some(known) => known.address,
            None if methods::is_pointer(constant) => {
                methods::name_of(&offsets, constant, look.memory).and_then(|name| names.of_name(name))
            }
            None => return None,
        };
        if known.is_some() || self.known.len() < MOST_METHODS {
            self.known.insert(method, KnownMethod { constant, address, round: look.round });
        }
        address
    }
}

impl Interpreter {
    /// `None` as long as the JVM hasn't made it.
    pub(super) fn find(look: &mut Look<'_, '_>) -> Option<Self> {
        let offsets = look.offsets;
        let queue = look.u64(offsets.interpreter_code).filter(|queue| *queue != 0)?;
        let start = look.u64(queue.wrapping_add(offsets.code_start)).filter(|start| *start != 0)?;
        let bytes = u64::from(look.u32(queue.wrapping_add(offsets.code_limit))?);
        let bytes = Some(bytes).filter(|bytes| (1..=MOST_CODE_BYTES).contains(bytes))?;
        Some(Self { start, end: start.saturating_add(bytes) })
    }
}
