//! One JVM: frames in its code get the names of their methods, which its process's map of JIT code has then.
//!
//! Nothing is asked of the JVM: its structures are read in its memory, where and while stacks are walked.

use std::time::{Duration, Instant};

use dso::unwind::MadeFrame;
use dso::{Avma, FileOffset, ObjectFile};

use super::compiled::{CompiledCode, FoundMethods};
use super::interpreted::{InterpretedFrame, Interpreter};
use super::known_methods::KnownMethods;
use super::structs::JvmOffsets;
use super::tables::TableAddresses;
use super::{Look, ProcessMemory};
use crate::machine::objects::FileMapping;
use crate::runtimes::method_addresses::{MethodAddresses, WalkedFrames};

/// How long something is taken for what it was: a collection of garbage unloads classes and code, and others are
/// loaded in their place.
const TRUSTED: Duration = Duration::from_millis(50);
/// How often a process is looked at whose interpreter isn't there yet.
const MOST_TRIES: u32 = 10_000;

/// The JVM of a process.
#[derive(Debug)]
pub struct Jvm {
    tables: TableAddresses,
    bias: u64,
    tries: u32,
    /// Once they were read: the tables have some thousand entries.
    offsets: Option<JvmOffsets>,
    interpreter: Option<Interpreter>,
    round: u32,
    round_began: Instant,
    methods: KnownMethods,
    compiled: CompiledCode,
    names: MethodAddresses,
}

impl Jvm {
    /// For a process that has mapped HotSpot's library. `None` if that has no tables.
    #[must_use]
    pub fn of_library(object: &ObjectFile, mapping: &FileMapping) -> Option<Self> {
        let svma = object.svma_of_mapping(FileOffset(mapping.pgoff), mapping.end - mapping.start)?;
        Some(Self {
            tables: TableAddresses::in_library(object)?,
            bias: mapping.start.wrapping_sub(svma.0),
            tries: 0,
            offsets: None,
            interpreter: None,
            round: 0,
            round_began: Instant::now(),
            methods: KnownMethods::default(),
            compiled: CompiledCode::default(),
            names: MethodAddresses::default(),
        })
    }

    /// Names the code of all frames. The interpreter's methods are on the copied stack: the thread may have left them
    /// since.
    pub fn name_frames(&mut self, walked: WalkedFrames<'_>, memory: &mut ProcessMemory<'_>) {
        let Some((mut look, interpreter)) = self.look(memory) else { return };
        for (at, frame) in walked.frames.iter_mut().enumerate() {
            let pc = frame.pc.0;
            if !(interpreter.start..interpreter.end).contains(&pc) {
                let mut found = FoundMethods { methods: &mut self.methods, names: &mut self.names };
                self.compiled.name(pc, &mut look, &mut found);
                continue;
            }
            let regs = Some(walked.regs).filter(|_| at == 0);
            let end = walked.sps.get(at + 1);
            let read = end.and_then(|end| InterpretedFrame::read(*end, &walked.stack, regs));
            let address = read.and_then(|InterpretedFrame { method, position }| {
                self.methods.line_address(method, position, &mut look, &mut self.names)
            });
            frame.method = address.map(|address| self.names.used(address));
        }
    }

    /// The frames of methods around these addresses that were not found before.
    pub fn find_frames(&mut self, pcs: &[Avma], memory: &mut ProcessMemory<'_>) -> Vec<MadeFrame> {
        let was_known = self.interpreter.is_some();
        let Some((mut look, interpreter)) = self.look(memory) else { return Vec::new() };
        for pc in pcs {
            self.compiled.find(pc.0, &mut look, &mut self.names);
        }
        let mut frames = self.compiled.take_frames();
        if !was_known {
            frames.push(interpreter.frame());
        }
        frames
    }

    /// The names given so far.
    pub fn names(&mut self) -> &mut MethodAddresses {
        &mut self.names
    }

    /// True if its compiled code has got names here: its own map isn't needed.
    #[must_use]
    pub fn names_compiled(&self) -> bool {
        !self.compiled.is_empty()
    }

    /// At its memory now. `None` as long as the JVM hasn't started.
    fn look<'l, 'm>(&mut self, memory: &'l mut ProcessMemory<'m>) -> Option<(Look<'l, 'm>, Interpreter)> {
        let (offsets, interpreter) = self.started(memory)?;
        if self.round_began.elapsed() > TRUSTED {
            (self.round, self.round_began) = (self.round.wrapping_add(1), Instant::now());
        }
        Some((Look { offsets, memory, round: self.round }, interpreter))
    }

    fn started(&mut self, memory: &mut ProcessMemory<'_>) -> Option<(JvmOffsets, Interpreter)> {
        if self.interpreter.is_none() && self.tries < MOST_TRIES {
            self.tries += 1;
            self.offsets = self.offsets.or_else(|| JvmOffsets::read(self.tables, self.bias, memory));
            let offsets = self.offsets?;
            self.interpreter = Interpreter::find(&mut Look { offsets, memory, round: self.round });
        }
        self.offsets.zip(self.interpreter)
    }
}
