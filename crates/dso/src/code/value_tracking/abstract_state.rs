//! Known contents of registers and the stack while a function's code is read from its start on.

use iced_x86::{Instruction, InstructionInfoFactory, MemorySize, Mnemonic, OpAccess, OpKind, Register};
use std::collections::BTreeMap;

use super::{Copy, Held, MovedArguments};
use crate::dwarf::probe::Incoming;

/// Content of a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Fact {
    /// Not known.
    #[default]
    Unknown,
    /// Low bytes of a register's value at the function's entry, and their number.
    Argument(Incoming, u8),
    /// The address this many bytes above the return address.
    Stack(i64),
    /// This number.
    Constant(u64),
}

/// x86's numbers of the general registers with arguments, in order.
const ARGUMENTS: [usize; 6] = [7, 6, 2, 1, 8, 9];
/// Those that a call leaves alone: rbx, rsp, rbp, r12 to r15.
const KEPT: [usize; 7] = [3, 4, 5, 12, 13, 14, 15];
const RSP: usize = 4;
const RDI: usize = 7;

/// All that is known at one moment.
#[derive(Clone, Debug)]
pub struct AbstractState {
    general: [Fact; 16],
    vector: [Fact; 16],
    /// By bytes above the return address.
    stack: BTreeMap<i64, Fact>,
    /// Nothing was taken for true that may not be.
    pub is_exact: bool,
}

impl AbstractState {
    /// At a function's first instruction.
    pub fn at_entry() -> Self {
        let mut general = [Fact::Unknown; 16];
        for (number, at) in ARGUMENTS.into_iter().enumerate() {
            general[at] = Fact::Argument(Incoming::General(number as u8), 8);
        }
        general[RSP] = Fact::Stack(0);
        let mut vector = [Fact::Unknown; 16];
        for (number, fact) in vector.iter_mut().take(8).enumerate() {
            *fact = Fact::Argument(Incoming::Vector(number as u8), 16);
        }
        Self { general, vector, stack: BTreeMap::new(), is_exact: true }
    }

    /// The function whose address is passed as first argument just now.
    pub fn reported(&self) -> Option<u64> {
        match self.general[RDI] {
            Fact::Constant(address) => Some(address),
            _ => None,
        }
    }

    /// Where the arguments are now; `None` if that is not sure.
    pub fn moved(&self) -> Option<MovedArguments> {
        let base = |(number, fact): (usize, &Fact)| match fact {
            Fact::Stack(above) => Some((number as u8, i32::try_from(above.checked_neg()?).ok()?)),
            _ => None,
        };
        let return_address = self.general.iter().enumerate().find_map(base).filter(|_| self.is_exact)?;
        let mut moved = MovedArguments { return_address, general: [None; 6], vector: [None; 8] };
        for (place, fact) in self.all() {
            let Fact::Argument(incoming, bytes) = *fact else { continue };
            let to = match incoming {
                Incoming::General(number) => &mut moved.general[usize::from(number)],
                Incoming::Vector(number) => &mut moved.vector[usize::from(number)],
                _ => continue,
            };
            if to.is_none_or(|known: Copy| known.bytes < bytes) {
                *to = Some(Copy { place, bytes });
            }
        }
        Some(moved)
    }

    fn all(&self) -> impl Iterator<Item = (Held, &Fact)> {
        let general = self.general.iter().enumerate().map(|(at, fact)| (Held::General(at as u8), fact));
        let vector = self.vector.iter().enumerate().map(|(at, fact)| (Held::Vector(at as u8), fact));
        let stack =
            self.stack.iter().filter_map(|(at, fact)| Some((Held::Stack(i32::try_from(*at).ok()?), fact)));
        general.chain(vector).chain(stack)
    }

    /// Keeps what `other` knows, too.
    pub fn join(&mut self, other: &Self) {
        let registers = self.general.iter_mut().chain(&mut self.vector);
        registers.zip(other.general.iter().chain(&other.vector)).for_each(|(fact, other)| fact.join(*other));
        self.stack.retain(|at, fact| {
            fact.join(other.stack.get(at).copied().unwrap_or_default());
            *fact != Fact::Unknown
        });
        self.is_exact &= other.is_exact;
    }

    /// An instruction is executed.
    pub fn take(&mut self, instruction: &Instruction, info: &mut InstructionInfoFactory) {
        let result = self.result(instruction);
        let to_memory = instruction.op0_kind() == OpKind::Memory && instruction.mnemonic() != Mnemonic::Push;
        let at = if to_memory { self.address(instruction) } else { None };
        let rsp = self.general[RSP];
        let used = info.info(instruction);
        for register in used.used_registers().iter().filter(|used| writes(used.access())) {
            self.set(register.register(), Fact::Unknown);
        }
        if instruction.is_call_near() || instruction.is_call_near_indirect() {
            self.forget_passing();
            self.general[RSP] = rsp;
        } else if let Fact::Stack(top) = rsp
            && instruction.stack_pointer_increment() != 0
        {
            self.general[RSP] = Fact::Stack(top + i64::from(instruction.stack_pointer_increment()));
        }
        match (instruction.mnemonic(), self.general[RSP], at) {
            (Mnemonic::Push, Fact::Stack(top), _) => self.store(top, result, 8),
            (_, _, Some(at)) if writes(used_access(info, instruction)) => {
                self.store(at, result, instruction.memory_size().size() as u8);
            }
            _ if instruction.op0_kind() == OpKind::Register && result != Fact::Unknown => {
                self.set(instruction.op0_register(), result);
            }
            _ => {}
        }
    }

    /// Value that the instruction puts into its first operand.
    fn result(&self, instruction: &Instruction) -> Fact {
        use Mnemonic as M;
        match instruction.mnemonic() {
            M::Push => self.operand(instruction, 0, 8),
            M::Pop => match self.general[RSP] {
                Fact::Stack(top) => self.load(top, 8),
                _ => Fact::Unknown,
            },
            M::Lea if instruction.is_ip_rel_memory_operand() => {
                Fact::Constant(instruction.memory_displacement64())
            }
            M::Lea => self.address(instruction).map_or(Fact::Unknown, Fact::Stack),
            M::Add | M::Sub => self.moved_by(instruction),
            mnemonic => match copied_bytes(mnemonic, instruction) {
                Some(bytes) if instruction.op_count() == 2 => self.operand(instruction, 1, bytes),
                _ => Fact::Unknown,
            },
        }
    }

    /// An address of the stack with a number added to it.
    fn moved_by(&self, instruction: &Instruction) -> Fact {
        let is_number = matches!(
            instruction.op1_kind(),
            OpKind::Immediate8to64 | OpKind::Immediate32to64 | OpKind::Immediate8 | OpKind::Immediate32
        );
        match self.operand(instruction, 0, 8) {
            Fact::Stack(at) if is_number && instruction.op0_kind() == OpKind::Register => {
                let by = instruction.immediate(1).cast_signed();
                let sum = if instruction.mnemonic() == Mnemonic::Add {
                    at.checked_add(by)
                } else {
                    at.checked_sub(by)
                };
                sum.map_or(Fact::Unknown, Fact::Stack)
            }
            _ => Fact::Unknown,
        }
    }

    /// Value of an operand, of which `bytes` bytes are used.
    fn operand(&self, instruction: &Instruction, number: u32, bytes: u8) -> Fact {
        match instruction.op_kind(number) {
            OpKind::Register => self.register(instruction.op_register(number)).cut(bytes),
            OpKind::Memory => self.address(instruction).map_or(Fact::Unknown, |at| self.load(at, bytes)),
            OpKind::Immediate32 | OpKind::Immediate64 | OpKind::Immediate32to64 => {
                Fact::Constant(instruction.immediate(number))
            }
            _ => Fact::Unknown,
        }
    }

    /// Where on the stack the memory operand is.
    fn address(&self, instruction: &Instruction) -> Option<i64> {
        let has_more = instruction.memory_index() != Register::None
            || instruction.segment_prefix() != Register::None
            || instruction.is_ip_rel_memory_operand();
        match self.register(instruction.memory_base()) {
            Fact::Stack(at) if !has_more => at.checked_add(instruction.memory_displacement64().cast_signed()),
            _ => None,
        }
    }

    fn register(&self, register: Register) -> Fact {
        let high = [Register::AH, Register::BH, Register::CH, Register::DH];
        match register {
            _ if high.contains(&register) => Fact::Unknown,
            _ if register.is_gpr() => self.general[register.full_register().number()],
            _ if register.is_vector_register() => {
                self.vector.get(register.number()).copied().unwrap_or_default()
            }
            _ => Fact::Unknown,
        }
    }

    fn set(&mut self, register: Register, fact: Fact) {
        if register.is_gpr() {
            self.general[register.full_register().number()] = fact.cut(register.size() as u8);
        } else if register.is_vector_register()
            && let Some(place) = self.vector.get_mut(register.number())
        {
            *place = fact;
        }
    }

    fn load(&self, at: i64, bytes: u8) -> Fact {
        self.stack.get(&at).map_or(Fact::Unknown, |fact| fact.cut(bytes))
    }

    fn store(&mut self, at: i64, fact: Fact, bytes: u8) {
        const WIDEST: i64 = 64;
        let bytes = bytes.max(1);
        let overlapped = self.stack.range(at - WIDEST..at + i64::from(bytes));
        let gone: Vec<i64> = overlapped
            .filter(|(old, fact)| *old + i64::from(fact.bytes()) > at)
            .map(|(old, _)| *old)
            .collect();
        self.stack.retain(|old, _| !gone.contains(old));
        if fact != Fact::Unknown {
            self.stack.insert(at, fact.cut(bytes));
        }
    }

    /// Forgets everything that a call may change.
    fn forget_passing(&mut self) {
        for (number, fact) in self.general.iter_mut().enumerate() {
            if !KEPT.contains(&number) {
                *fact = Fact::Unknown;
            }
        }
        self.vector = [Fact::Unknown; 16];
    }
}

impl Fact {
    /// The same for its low bytes only.
    fn cut(self, bytes: u8) -> Self {
        match self {
            Self::Argument(incoming, known) => Self::Argument(incoming, known.min(bytes)),
            Self::Stack(_) if bytes < 8 => Self::Unknown,
            other => other,
        }
    }

    fn bytes(self) -> u8 {
        if let Self::Argument(_, bytes) = self { bytes } else { 8 }
    }

    fn join(&mut self, other: Self) {
        *self = match (*self, other) {
            (Self::Argument(a, bytes), Self::Argument(b, others)) if a == b => {
                Self::Argument(a, bytes.min(others))
            }
            (fact, other) if fact == other => fact,
            _ => Self::Unknown,
        };
    }
}

fn writes(access: OpAccess) -> bool {
    matches!(access, OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}

/// How the first operand is used.
fn used_access(info: &mut InstructionInfoFactory, instruction: &Instruction) -> OpAccess {
    info.info(instruction).op0_access()
}

/// How many bytes a move copies; `None` if it is none.
fn copied_bytes(mnemonic: Mnemonic, instruction: &Instruction) -> Option<u8> {
    use Mnemonic as M;
    let of_memory = || match instruction.memory_size() {
        MemorySize::Unknown => None,
        size => Some(size.size() as u8),
    };
    match mnemonic {
        M::Mov | M::Movzx | M::Movsx | M::Movsxd => match instruction.op1_kind() {
            OpKind::Register => Some(instruction.op1_register().size() as u8),
            OpKind::Memory => of_memory(),
            _ => Some(8),
        },
        M::Movss | M::Vmovss | M::Movd | M::Vmovd => Some(4),
        M::Movsd | M::Vmovsd | M::Movq | M::Vmovq | M::Movlps | M::Movlpd => Some(8),
        M::Movaps | M::Movups | M::Movapd | M::Movupd | M::Movdqa | M::Movdqu => Some(16),
        M::Vmovaps | M::Vmovups | M::Vmovapd | M::Vmovupd | M::Vmovdqa | M::Vmovdqu => Some(16),
        _ => None,
    }
}
