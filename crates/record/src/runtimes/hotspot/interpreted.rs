//! Methods that HotSpot interprets: all run in the interpreter's code, which alone a callchain has. The method of
//! each such frame is on the stack, and the chain gets an address in its place.
//!
//! The addresses are in no process: the recording has a mapping for them, and the process's map of JIT code names
//! them as it names compiled methods, so that both are one function.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use dso::unwind::Stack;
use dso::{Avma, FileOffset, ObjectFile};
use rustc_hash::FxHashMap;

use super::structs::{JvmOffsets, TableAddresses};
use super::{JvmMemory, methods, read_u64};
use crate::machine::objects::FileMapping;
use crate::pipeline::chain_join::ChainFrame;

/// The first address: above all of user space, below the kernel's and Python's functions.
pub const METHODS_START: Avma = Avma(0x4a56_0000_0000_0000);
/// Bytes of all addresses.
pub const METHODS_BYTES: u64 = 1 << 32;
/// Bytes of one method's: it is found as a return address, too.
const METHOD_BYTES: u64 = 16;
/// Methods that get a name in a process.
const MOST_METHODS: usize = 1 << 18;
/// From the end of a frame, which is its caller's stack pointer, down to the word with its `Method`: the return
/// address, the frame pointer, the caller's stack pointers before and now.
// Source: HotSpot's frame_x86.hpp, `interpreter_frame_method_offset` = -3 words from the frame pointer, JDK 8 to 25
const METHOD_BELOW_END: u64 = 2 * 8 + 3 * 8;
/// How long a method is taken for what it was: its class is unloaded by a collection of garbage, and another one
/// loaded in its place.
const TRUSTED: Duration = Duration::from_millis(50);
/// How often a process is looked at whose interpreter isn't there yet.
const MOST_TRIES: u32 = 10_000;
/// A larger interpreter than HotSpot makes.
const MOST_CODE_BYTES: u64 = 16 << 20;

/// A walked stack, in which frames of the interpreter get the addresses of their methods.
pub struct InterpretedFrames<'w> {
    /// Leaf first.
    pub frames: &'w mut [ChainFrame],
    /// The frames' stack pointers, as far as they are known.
    pub sps: &'w [u64],
    /// The stack as it was.
    pub stack: Stack<'w>,
}

/// The methods of one JVM.
#[derive(Debug)]
pub struct InterpretedMethods {
    tables: TableAddresses,
    bias: u64,
    tries: u32,
    /// Once they were read: the tables have some thousand entries.
    offsets: Option<JvmOffsets>,
    interpreter: Option<Interpreter>,
    known: FxHashMap<u64, KnownMethod>,
    /// Methods are compared with memory once in each round.
    round: u32,
    round_began: Instant,
    by_name: FxHashMap<String, u64>,
    /// Lines for the process's map that were not taken yet.
    names: String,
    /// The recording has the mapping.
    is_mapped: bool,
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
struct Interpreter {
    offsets: JvmOffsets,
    start: u64,
    end: u64,
}

impl InterpretedMethods {
    /// For a process that has mapped HotSpot's library. `None` if that has no tables.
    #[must_use]
    pub fn of_library(object: &ObjectFile, mapping: &FileMapping) -> Option<Self> {
        // The methods' place in a frame is known for this machine only.
        if !cfg!(target_arch = "x86_64") {
            return None;
        }
        let svma = object.svma_of_mapping(FileOffset(mapping.pgoff), mapping.end - mapping.start)?;
        Some(Self {
            tables: TableAddresses::in_library(object)?,
            bias: mapping.start.wrapping_sub(svma.0),
            tries: 0,
            offsets: None,
            interpreter: None,
            known: FxHashMap::default(),
            round: 0,
            round_began: Instant::now(),
            by_name: FxHashMap::default(),
            names: String::new(),
            is_mapped: false,
        })
    }

    /// Names the interpreter's frames that the copy of the stack holds: the thread may have left them since.
    pub fn name_frames(&mut self, walked: InterpretedFrames<'_>, memory: &mut JvmMemory<'_>) {
        let Some(interpreter) = self.interpreter(memory) else { return };
        if self.round_began.elapsed() > TRUSTED {
            (self.round, self.round_began) = (self.round.wrapping_add(1), Instant::now());
        }
        let ends = walked.sps.iter().skip(1);
        for (frame, end) in walked.frames.iter_mut().zip(ends) {
            if !(interpreter.start..interpreter.end).contains(&frame.pc.0) {
                continue;
            }
            let at = end.wrapping_sub(METHOD_BELOW_END);
            let method = walked.stack.read(at);
            let address = method.and_then(|method| self.address_of(&interpreter, method, memory));
            frame.method = address.map(Avma);
        }
    }

    /// Lines of a perf map that name the addresses given since the last call.
    #[must_use]
    pub fn take_names(&mut self) -> String {
        std::mem::take(&mut self.names)
    }

    /// True once: when there are addresses, and the recording has no mapping of them yet.
    pub fn begins(&mut self) -> bool {
        let begins = !self.is_mapped && !self.by_name.is_empty();
        self.is_mapped |= begins;
        begins
    }

    fn interpreter(&mut self, memory: &mut JvmMemory<'_>) -> Option<Interpreter> {
        if self.interpreter.is_none() && self.tries < MOST_TRIES {
            self.tries += 1;
            self.offsets = self.offsets.or_else(|| JvmOffsets::read(self.tables, self.bias, memory));
            self.interpreter = self.offsets.and_then(|offsets| Interpreter::find(offsets, memory));
        }
        self.interpreter
    }

    fn address_of(
        &mut self,
        interpreter: &Interpreter,
        method: u64,
        memory: &mut JvmMemory<'_>,
    ) -> Option<u64> {
        let offsets = &interpreter.offsets;
        let known = self.known.get(&method).copied();
        if let Some(known) = known.filter(|known| known.round == self.round) {
            return known.address;
        }
        let Some(constant) = methods::const_method(offsets, method, memory) else {
            // The process has ended before its last stacks were walked.
            return known?.address;
        };
        let address = match known.filter(|known| known.constant == constant) {
            Some(known) => known.address,
            None if methods::is_pointer(constant) => {
                methods::name_of(offsets, constant, memory).and_then(|name| self.address_of_name(name))
            }
            None => return None,
        };
        if known.is_some() || self.known.len() < MOST_METHODS {
            self.known.insert(method, KnownMethod { constant, address, round: self.round });
        }
        address
    }

    fn address_of_name(&mut self, name: String) -> Option<u64> {
        if let Some(address) = self.by_name.get(&name) {
            return Some(*address);
        }
        let index = self.by_name.len();
        if index >= MOST_METHODS {
            return None;
        }
        let start = METHODS_START.0 + index as u64 * METHOD_BYTES;
        // Writing to a String can't fail.
        let _ = writeln!(self.names, "{start:x} {METHOD_BYTES:x} {name}");
        self.by_name.insert(name, start + METHOD_BYTES / 2);
        Some(start + METHOD_BYTES / 2)
    }
}

impl Interpreter {
    /// `None` as long as the JVM hasn't made it.
    fn find(offsets: JvmOffsets, memory: &mut JvmMemory<'_>) -> Option<Self> {
        let queue = read_u64(memory, offsets.interpreter_code).filter(|queue| *queue != 0)?;
        let start = read_u64(memory, queue.wrapping_add(offsets.code_start)).filter(|start| *start != 0)?;
        // An int.
        let bytes = read_u64(memory, queue.wrapping_add(offsets.code_limit))? & 0xffff_ffff;
        let bytes = Some(bytes).filter(|bytes| (1..=MOST_CODE_BYTES).contains(bytes))?;
        Some(Self { offsets, start, end: start.saturating_add(bytes) })
    }
}
