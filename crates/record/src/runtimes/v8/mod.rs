//! V8, in Node: JavaScript functions of a process that writes no map of its code.
//!
//! A frame of JavaScript has its `JSFunction` on the stack, whichever of V8's interpreter and compilers made its code. V8
//! states the layout of its objects in numbers (`v8dbg_…`), for debuggers of dead processes.
// Source: V8's tools/gen-postmortem-metadata.py and src/execution/frame-constants.h, V8 10.2 to 13.6 (Node 18 to 24)

mod function;
mod layout;
mod own_log;
mod regexp;
mod script;
mod strings;

use std::cell::OnceCell;
use std::ops::Range;
use std::time::{Duration, Instant};

use dso::{Avma, FileOffset, ObjectFile, exported_data, span_of_functions};

use super::ProcessMemory;
use super::method_addresses::{MethodAddresses, WalkedFrames};
use crate::machine::objects::FileMapping;
use function::Functions;
use layout::{Layout, LayoutAddresses};
pub use own_log::OwnLogs;
use regexp::{RegExps, regexp_of_frame};

/// The time for which a function is taken for what it was: a collection of garbage moves them.
const TRUSTED: Duration = Duration::from_millis(50);
/// Names of the programs and libraries with V8 that state its layout.
const PROGRAMS: [&[u8]; 3] = [b"/node", b"/nodejs", b"/libnode.so"];

/// A mapping of a program with V8, by its path.
#[must_use]
pub fn is_program(path: &[u8]) -> bool {
    let name = path.iter().rposition(|byte| *byte == b'/').map_or(path, |at| &path[at..]);
    PROGRAMS[..2].contains(&name) || name.starts_with(PROGRAMS[2])
}

/// The V8 of a process.
#[derive(Debug)]
pub struct V8 {
    addresses: LayoutAddresses,
    bias: u64,
    layout: OnceCell<Option<Layout>>,
    /// The program's own code (Avma).
    program: Range<u64>,
    /// Code in it that runs JavaScript: the interpreter and functions of the language.
    builtins: Range<u64>,
    /// The process writes a map of its code; `None` until that was looked at. It does so before it runs JavaScript.
    writes_map: Option<bool>,
    functions: Functions,
    regexps: RegExps,
    round_began: Instant,
    names: MethodAddresses,
}

impl V8 {
    /// For a process that has mapped this program's code. `None` if the program does not state V8's layout.
    #[must_use]
    pub fn of_program(object: &ObjectFile, mapping: &FileMapping) -> Option<Self> {
        // Frames are known for this machine only.
        if !cfg!(target_arch = "x86_64") {
            return None;
        }
        let svma = object.svma_of_mapping(FileOffset(mapping.pgoff), mapping.end - mapping.start)?;
        let bias = mapping.start.wrapping_sub(svma.0);
        let stated = exported_data(object, "v8dbg_");
        let addresses = LayoutAddresses::of(&stated)?;
        let builtins = span_of_functions(object, "Builtins_");
        let builtins = builtins.map(|span| span.start.0.wrapping_add(bias)..span.end.0.wrapping_add(bias));
        Some(Self {
            addresses,
            bias,
            layout: OnceCell::new(),
            program: mapping.start..mapping.end,
            builtins: builtins.unwrap_or_default(),
            writes_map: None,
            functions: Functions::default(),
            regexps: RegExps::of(&stated, bias),
            round_began: Instant::now(),
            names: MethodAddresses::default(),
        })
    }

    /// True if the process has a map of its code. `look` is asked once, after the first function was met: before, a
    /// process that starts may not have its map yet.
    pub fn writes_map(&mut self, look: impl FnOnce() -> bool) -> bool {
        !self.names.is_empty() && *self.writes_map.get_or_insert_with(look)
    }

    /// Gives all frames of JavaScript functions and regular expressions the addresses of these. The objects are on the
    /// copied stack; what they are is read now.
    pub fn name_frames(&mut self, walked: WalkedFrames<'_>, memory: &mut ProcessMemory<'_>) {
        let layout = *self.layout.get_or_init(|| Layout::read(&self.addresses, self.bias, memory));
        let Some(layout) = layout else { return };
        if self.round_began.elapsed() > TRUSTED {
            self.functions.begin_round();
            self.regexps.begin_round();
            self.round_began = Instant::now();
        }
        let ends = walked.sps.iter().skip(1);
        for (frame, end) in walked.frames.iter_mut().zip(ends) {
            let pc = frame.pc.0;
            if self.program.contains(&pc) && !self.builtins.contains(&pc) {
                continue;
            }
            let stack = |at| walked.stack.read(at);
            let function = layout.function_of_frame(*end, &stack);
            let address = function.and_then(|function| {
                self.functions.address_of(function, &mut layout.look(memory), &mut self.names)
            });
            let regexp = regexp_of_frame(*end, &stack).filter(|_| !self.program.contains(&pc));
            let address = address
                .or_else(|| self.regexps.address_of(regexp?, &mut layout.look(memory), &mut self.names));
            frame.method = address.map(Avma);
        }
    }

    /// The names given so far.
    pub fn names(&mut self) -> &mut MethodAddresses {
        &mut self.names
    }
}

/// Names whatever function this memory has at any address.
pub(crate) fn name_all(bytes: u64, memory: &mut ProcessMemory<'_>) {
    let (mut functions, mut names) = (Functions::default(), MethodAddresses::default());
    let mut regexps = RegExps::of_node_20();
    let mut look = Layout::of_node_20().look(memory);
    for word in 0..bytes {
        let _ = functions.address_of(word, &mut look, &mut names);
        let _ = regexps.address_of(word, &mut look, &mut names);
    }
    std::hint::black_box(names.take_lines());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_with_v8_are_known_by_their_names() {
        let is = |path: &str| is_program(path.as_bytes());
        assert_eq!(["/usr/bin/node", "/opt/nodejs", "/usr/lib/libnode.so.108"].map(is), [true; 3]);
        assert_eq!(["/usr/bin/node-red", "/usr/bin/nodejs2", "node_exporter", ""].map(is), [false; 4]);
    }
}
