//! Where Go's runtime keeps the way from a thread's own stack to its goroutine's, read from the code that goes it.
//!
//! The fields' places differ between versions of Go. `morestack` and `systemstack` store and compare them in every
//! version, in stripped programs too.
//
// Source: runtime/asm_amd64.s, Go 1.18 to 1.26

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

use crate::symtab::pclntab::{GoFunction, Pclntab};
use crate::{Machine, ObjectFile, Svma};

/// Instructions of the two functions that are read.
const MOST_INSTRUCTIONS: usize = 80;
/// Bytes of the longest instruction.
const LONGEST: usize = 15;
/// Fields farther in a G or M than this aren't believed.
const MOST_BYTES: u64 = 4096;

/// The function that gives a goroutine labels. Programs that set none don't have it.
const SETTER: &str = "runtime/pprof.runtime_setProfLabel";

/// Offsets of the fields in bytes: of a G (goroutine), and of an M (thread).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GoroutineLayout {
    /// In a G: the M it runs on.
    pub g_m: u32,
    /// In an M: the G of its own stack.
    pub m_g0: u32,
    /// In an M: the goroutine that it runs.
    pub m_curg: u32,
    /// In a G: the stack pointer where it left off.
    pub sched_sp: u32,
    /// In a G: the code address where it left off.
    pub sched_pc: u32,
    /// In a G: the frame pointer where it left off.
    pub sched_bp: u32,
    /// In a G: its labels; `None` in a program that sets none (`runtime/pprof`).
    pub labels: Option<u32>,
}

impl GoroutineLayout {
    /// Layout in a Go program for x86-64; `None` for others, and where the code is not as expected.
    pub fn of_object(object: &ObjectFile) -> Option<Self> {
        if object.machine() != Machine::X86_64 {
            return None;
        }
        let table = Pclntab::of_object(object)?;
        let code = |name: &str| {
            let GoFunction { start, end, .. } = table.functions().find(|of| table.is_named(*of, name))?;
            let len = usize::try_from(end.0.saturating_sub(start.0)).ok()?;
            object.bytes_at(Svma(start.0), len.min(MOST_INSTRUCTIONS * LONGEST))
        };
        let layout = Self::of_code(code("runtime.morestack")?, code("runtime.systemstack")?)?;
        Some(Self { labels: code(SETTER).and_then(labels_of_setter), ..layout })
    }

    fn of_code(morestack: &[u8], systemstack: &[u8]) -> Option<Self> {
        let mut fields = CodeReader::default();
        read_into(&mut fields, morestack);
        let g_m = fields.g_m?;
        let mut comparing = CodeReader { g_m: Some(g_m), ..CodeReader::default() };
        read_into(&mut comparing, systemstack);
        // `systemstack` compares the G with the M's of signals and with its goroutine.
        let [of_signals, m_curg] = comparing.compared[..] else { return None };
        let (sched_sp, sched_pc, sched_bp) = (fields.sched_sp?, fields.sched_pc?, fields.sched_bp?);
        let layout = Self { g_m, m_g0: fields.m_g0?, m_curg, sched_sp, sched_pc, sched_bp, labels: None };
        (of_signals != m_curg).then_some(layout)
    }
}

/// Content of a register.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Held {
    G,
    M,
    /// The address that the function returns to.
    ReturnAddress,
    /// The stack pointer as it is after that.
    StackPointer,
    #[default]
    Other,
}

/// The fields met so far, and what the registers hold.
#[derive(Debug, Default)]
struct CodeReader {
    held: [Held; 16],
    g_m: Option<u32>,
    m_g0: Option<u32>,
    sched_sp: Option<u32>,
    sched_pc: Option<u32>,
    sched_bp: Option<u32>,
    /// Fields of the M compared with the G.
    compared: Vec<u32>,
}

fn read_into(reader: &mut CodeReader, code: &[u8]) {
    for instruction in Decoder::new(64, code, DecoderOptions::NONE).into_iter().take(MOST_INSTRUCTIONS) {
        reader.read(&instruction);
    }
}

impl CodeReader {
    fn read(&mut self, instruction: &Instruction) {
        let is_store = instruction.op0_kind() == OpKind::Memory;
        let to = instruction.op0_register();
        match instruction.mnemonic() {
            Mnemonic::Mov if is_store => self.store(instruction),
            Mnemonic::Mov | Mnemonic::Lea => {
                let held = self.result(instruction);
                self.set(to, held);
            }
            Mnemonic::Cmp if self.holds(to) == Held::G && self.base(instruction) == Held::M => {
                self.compared.extend(displacement(instruction));
            }
            // Writes no register.
            Mnemonic::Cmp | Mnemonic::Push | Mnemonic::Call => {}
            _ => self.set(to, Held::Other),
        }
    }

    /// Result of a load, a copy or the making of an address.
    fn result(&mut self, instruction: &Instruction) -> Held {
        let is_load = instruction.mnemonic() == Mnemonic::Mov && instruction.op1_kind() == OpKind::Memory;
        if is_load && instruction.segment_prefix() == Register::FS {
            return Held::G;
        }
        let is_on_stack = instruction.memory_base() == Register::RSP;
        match (instruction.memory_displacement64(), is_load) {
            (0, true) if is_on_stack => return Held::ReturnAddress,
            (8, false) if is_on_stack => return Held::StackPointer,
            _ if !is_load => return Held::Other,
            _ => {}
        }
        let Some(field) = displacement(instruction) else { return Held::Other };
        match self.base(instruction) {
            // The first field of a G that is needed is its M.
            Held::G if *self.g_m.get_or_insert(field) == field => return Held::M,
            Held::M => drop(self.m_g0.get_or_insert(field)),
            _ => {}
        }
        Held::Other
    }

    fn store(&mut self, instruction: &Instruction) {
        if self.base(instruction) != Held::G || instruction.segment_prefix() == Register::FS {
            return;
        }
        let from = instruction.op1_register();
        let field = match self.holds(from) {
            _ if from == Register::RBP => &mut self.sched_bp,
            Held::StackPointer => &mut self.sched_sp,
            Held::ReturnAddress => &mut self.sched_pc,
            _ => return,
        };
        *field = field.or(displacement(instruction));
    }

    fn holds(&self, register: Register) -> Held {
        let number = register.full_register() as usize;
        let held = number.checked_sub(Register::RAX as usize).and_then(|at| self.held.get(at));
        held.copied().unwrap_or_default()
    }

    fn base(&self, instruction: &Instruction) -> Held {
        self.holds(instruction.memory_base())
    }

    fn set(&mut self, register: Register, held: Held) {
        let number = register.full_register() as usize;
        if let Some(slot) = number.checked_sub(Register::RAX as usize).and_then(|at| self.held.get_mut(at)) {
            *slot = held;
        }
    }
}

/// The field that the function writes: besides the end of the stack, which it compares, the only one of its G.
// Source: runtime/proflabel.go, runtime_setProfLabel(), Go 1.19 to 1.27
fn labels_of_setter(code: &[u8]) -> Option<u32> {
    let fields = Decoder::new(64, code, DecoderOptions::NONE).into_iter().take(MOST_INSTRUCTIONS);
    let fields = fields
        .filter(|of| of.mnemonic() == Mnemonic::Mov && of.memory_base() == Register::R14)
        .map(|of| displacement(&of));
    let mut fields: Vec<Option<u32>> = fields.collect();
    fields.dedup();
    if let [field] = fields[..] { field } else { None }
}

/// The place of a field in what the base register points to.
fn displacement(instruction: &Instruction) -> Option<u32> {
    let offset = instruction.memory_displacement64();
    let is_field =
        instruction.memory_index() == Register::None && offset.is_multiple_of(8) && offset < MOST_BYTES;
    u32::try_from(offset).ok().filter(|_| is_field)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        hex.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).expect("hex")).collect()
    }

    /// As Go 1.26.8 and 1.21.13 build them.
    const MORESTACK: [&str; 2] = [
        "64 48 8b 3c 25 f8 ff ff ff 48 8b 5f 30 48 8b 04 24 48 89 47 40 48 8d 44 24 08 48 89 47 38 48 89 6f \
         60 48 89 57 50 48 8b 33 48 39 f7 75 0a e8 4d 3c 00 00 e8 28 18 00 00 48 8b 73 48 48 39 f7 75 0a e8 \
         5a 3c 00 00 e8 15 18 00 00 48 8b 44 24 08 48 89 43 10 48 8d 44 24 10 48 89 43 08 48 89 7b 18 48 8b \
         1b 64 48 89 1c 25 f8 ff ff ff 48 8b 63 38 48 c7 c5 00 00 00 00 e8 43 3d 00 00 e8 de 17 00 00 c3",
        "64 48 8b 1c 25 f8 ff ff ff 48 8b 5b 30 48 8b 33 64 48 39 34 25 f8 ff ff ff 75 0a e8 60 42 00 00 e8 \
         fb 1b 00 00 48 8b 73 50 64 48 39 34 25 f8 ff ff ff 75 0a e8 67 42 00 00 e8 e2 1b 00 00 48 8b 44 24 \
         08 48 89 43 10 48 8d 44 24 10 48 89 43 08 64 48 8b 34 25 f8 ff ff ff 48 89 73 18 48 8b 04 24 48 89 \
         46 40 48 8d 44 24 08 48 89 46 38 48 89 6e 68 48 89 56 50 48 8b 1b 64 48 89 1c 25 f8 ff ff ff 48 8b \
         63 38 48 8b 6b 68 e8 31 43 00 00 e8 8c 1b 00 00 c3",
    ];
    const SYSTEMSTACK: [&str; 2] = [
        "55 48 89 e5 48 8b 7c 24 10 64 48 8b 04 25 f8 ff ff ff 48 8b 58 30 48 3b 43 48 74 65 48 8b 13 48 39 \
         d0 74 5d 48 3b 83 b8 00 00 00 75 5d e8 ae f2 ff ff 64 48 89 14 25 f8 ff ff ff 49 89 d6 48 8b 62 38 \
         48 89 fa 48 8b 3f ff d7 64 48 8b 04 25 f8 ff ff ff 48 8b 58 30 48 8b 83 b8 00 00 00 64 48 89 04 25 \
         f8 ff ff ff 48 8b 60 38 48 8b 68 60 48 c7 40 38 00 00 00 00 48 c7 40 60 00 00 00 00 5d c3 48 89 fa \
         48 8b 3f 5d ff e7 48 8d 05 4f 3e 00 00 ff d0 cd 03",
        "55 48 89 e5 48 8b 7c 24 10 64 48 8b 04 25 f8 ff ff ff 48 8b 58 30 48 3b 43 50 74 65 48 8b 13 48 39 \
         d0 74 5d 48 3b 83 c0 00 00 00 75 5d e8 8e f1 ff ff 64 48 89 14 25 f8 ff ff ff 49 89 d6 48 8b 62 38 \
         48 89 fa 48 8b 3f ff d7 64 48 8b 04 25 f8 ff ff ff 48 8b 58 30 48 8b 83 c0 00 00 00 64 48 89 04 25 \
         f8 ff ff ff 48 8b 60 38 48 8b 68 68 48 c7 40 38 00 00 00 00 48 c7 40 68 00 00 00 00 5d c3 48 89 fa \
         48 8b 3f 5d ff e7 48 8d 05 0f 44 00 00 ff d0 cd 03",
    ];

    #[test]
    fn the_fields_are_those_of_the_version() {
        let layouts =
            [0, 1].map(|at| GoroutineLayout::of_code(&bytes(MORESTACK[at]), &bytes(SYSTEMSTACK[at])));
        let same = GoroutineLayout {
            g_m: 48,
            m_g0: 0,
            m_curg: 0xb8,
            sched_sp: 56,
            sched_pc: 64,
            sched_bp: 96,
            labels: None,
        };
        let older = GoroutineLayout { m_curg: 0xc0, sched_bp: 104, ..same };
        assert_eq!(layouts, [Some(same), Some(older)]);
    }

    /// `runtime_setProfLabel` as Go 1.27.3 and 1.19.8 build it.
    const SETTERS: [&str; 2] = [
        "49 3b 66 10 76 39 55 48 89 e5 48 83 ec 08 4c 89 34 24 83 3d a7 0d 14 00 00 74 13 49 8b 8e 60 01 00 00 \
         e8 b9 4e 00 00 49 89 03 49 89 4b 08 48 8b 0c 24 48 89 81 60 01 00 00 48 83 c4 08 5d c3",
        "49 3b 66 10 76 36 48 83 ec 08 48 89 2c 24 48 8d 2c 24 83 3d 17 cf 11 00 00 75 09 49 89 86 68 01 00 00 \
         eb 0f 4c 89 f7 48 81 c7 68 01 00 00 e8 ed 37 00 00 48 8b 2c 24 48 83 c4 08 c3",
    ];

    #[test]
    fn labels_are_where_the_version_has_them() {
        assert_eq!(SETTERS.map(|code| labels_of_setter(&bytes(code))), [Some(0x160), Some(0x168)]);
        assert_eq!([&bytes(MORESTACK[0])[..], &[]].map(labels_of_setter), [None, None]);
        let two_fields = "49 8b 8e 60 01 00 00 49 8b 8e 68 01 00 00";
        assert_eq!(labels_of_setter(&bytes(two_fields)), None);
    }

    #[test]
    fn other_code_gives_no_layout() {
        let (morestack, systemstack) = (bytes(MORESTACK[0]), bytes(SYSTEMSTACK[0]));
        assert_eq!(GoroutineLayout::of_code(&systemstack, &morestack), None);
        assert_eq!(GoroutineLayout::of_code(&morestack[..30], &systemstack), None);
        assert_eq!(GoroutineLayout::of_code(&morestack, &systemstack[..30]), None);
        assert_eq!(GoroutineLayout::of_code(&[], &[]), None);
    }
}
