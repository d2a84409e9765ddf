//! DWARF expressions as unwind rules use them: a stack machine over registers and the copied stack.
//!
//! Decoded once into [`Op`]s, evaluated at each visit. Evaluation is bounded, and whatever it can't know
//! (memory outside the copied stack, an operation that makes no sense here) ends it with `None`.

use gimli::{Operation, Reader};

use super::arch::REGISTERS;
use super::stack::Stack;

/// More operations than this in one evaluation is a loop.
const STEP_LIMIT: usize = 512;
/// Deeper than this no unwind expression goes.
const DEPTH_LIMIT: usize = 64;
/// Longer expressions are not decoded: compilers write some ten operations, and each address keeps its own.
const OPERATIONS_LIMIT: usize = 256;

/// One operation; jumps are resolved to positions in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Constant(u64),
    Register(u8, i64),
    Deref(u8),
    PlusConstant(u64),
    Pick(u8),
    Jump(usize),
    JumpUnlessZero(usize),
    Drop,
    Swap,
    Rot,
    Unary(Unary),
    Binary(Binary),
    Nop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unary {
    Abs,
    Neg,
    Not,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binary {
    And,
    Div,
    Minus,
    Mod,
    Mul,
    Or,
    Plus,
    Shl,
    Shr,
    Shra,
    Xor,
    Eq,
    Ge,
    Gt,
    Le,
    Lt,
    Ne,
}

/// A decoded expression.
pub(super) type Program = Box<[Op]>;

/// Decodes `expression`; `None` if it holds an operation that has no meaning while unwinding.
pub(super) fn decode<R: Reader<Offset = usize>>(
    expression: gimli::Expression<R>,
    encoding: gimli::Encoding,
) -> Option<Program> {
    let mut operations = expression.clone().operations(encoding);
    let mut ops = Vec::new();
    let mut positions = vec![0];
    while let Some(operation) = operations.next().ok()? {
        let end = operations.offset_from(&expression) as i64;
        if ops.len() == OPERATIONS_LIMIT {
            return None;
        }
        ops.push(decode_one(operation, end)?);
        positions.push(end as usize);
    }
    // Jumps were kept as byte positions.
    for op in &mut ops {
        if let Op::Jump(to) | Op::JumpUnlessZero(to) = op {
            *to = positions.binary_search(to).ok()?;
        }
    }
    Some(ops.into())
}

fn decode_one<R: Reader<Offset = usize>>(operation: Operation<R>, end: i64) -> Option<Op> {
    let target = |offset: i16| usize::try_from(end + i64::from(offset)).ok();
    Some(match operation {
        Operation::UnsignedConstant { value } => Op::Constant(value),
        Operation::SignedConstant { value } => Op::Constant(value as u64),
        Operation::RegisterOffset { register, offset, .. } => Op::Register(register_index(register)?, offset),
        Operation::Deref { size, space: false, .. } => Op::Deref(size),
        Operation::PlusConstant { value } => Op::PlusConstant(value),
        Operation::Pick { index } => Op::Pick(index),
        Operation::Skip { target: offset } => Op::Jump(target(offset)?),
        Operation::Bra { target: offset } => Op::JumpUnlessZero(target(offset)?),
        Operation::Drop => Op::Drop,
        Operation::Swap => Op::Swap,
        Operation::Rot => Op::Rot,
        Operation::Abs => Op::Unary(Unary::Abs),
        Operation::Neg => Op::Unary(Unary::Neg),
        Operation::Not => Op::Unary(Unary::Not),
        Operation::Nop => Op::Nop,
        other => Op::Binary(binary(&other)?),
    })
}

fn binary<R: Reader<Offset = usize>>(operation: &Operation<R>) -> Option<Binary> {
    Some(match operation {
        Operation::And => Binary::And,
        Operation::Div => Binary::Div,
        Operation::Minus => Binary::Minus,
        Operation::Mod => Binary::Mod,
        Operation::Mul => Binary::Mul,
        Operation::Or => Binary::Or,
        Operation::Plus => Binary::Plus,
        Operation::Shl => Binary::Shl,
        Operation::Shr => Binary::Shr,
        Operation::Shra => Binary::Shra,
        Operation::Xor => Binary::Xor,
        Operation::Eq => Binary::Eq,
        Operation::Ge => Binary::Ge,
        Operation::Gt => Binary::Gt,
        Operation::Le => Binary::Le,
        Operation::Lt => Binary::Lt,
        Operation::Ne => Binary::Ne,
        _ => return None,
    })
}

pub(super) fn register_index(register: gimli::Register) -> Option<u8> {
    (usize::from(register.0) < REGISTERS).then_some(register.0 as u8)
}

/// Evaluates with `first` (the CFA) on the stack if the rule wants it there. `Err(address)` names the stack
/// address that could not be read, `Err(None)` any other failure.
pub(super) fn evaluate(
    program: &[Op],
    first: Option<u64>,
    registers: &[u64; REGISTERS],
    memory: Stack<'_>,
) -> Result<u64, Option<u64>> {
    let mut stack: smallvec::SmallVec<[u64; 8]> = first.into_iter().collect();
    let mut at = 0;
    for _ in 0..STEP_LIMIT {
        let Some(op) = program.get(at) else { return stack.pop().ok_or(None) };
        at += 1;
        match *op {
            Op::Jump(to) => at = to,
            Op::JumpUnlessZero(to) => {
                if stack.pop().ok_or(None)? != 0 {
                    at = to;
                }
            }
            Op::Deref(size) => {
                let address = stack.pop().ok_or(None)?;
                stack.push(memory.read_sized(address, size.min(8).into()).ok_or(Some(address))?);
            }
            Op::Register(register, offset) => {
                stack.push(registers[usize::from(register)].wrapping_add_signed(offset))
            }
            other => step(other, &mut stack).ok_or(None)?,
        }
        if stack.len() > DEPTH_LIMIT {
            break;
        }
    }
    Err(None)
}

/// Operations that touch nothing but the stack.
fn step(op: Op, stack: &mut smallvec::SmallVec<[u64; 8]>) -> Option<()> {
    let len = stack.len();
    match op {
        Op::Constant(value) => stack.push(value),
        Op::PlusConstant(value) => *stack.last_mut()? = stack.last()?.wrapping_add(value),
        Op::Pick(index) => stack.push(*stack.get(len.checked_sub(1 + usize::from(index))?)?),
        Op::Drop => drop(stack.pop()?),
        Op::Swap => stack.get_mut(len.checked_sub(2)?..)?.swap(0, 1),
        Op::Rot => stack.get_mut(len.checked_sub(3)?..)?.rotate_right(1),
        Op::Unary(unary) => {
            let top = stack.last_mut()?;
            *top = match unary {
                Unary::Abs => (*top as i64).unsigned_abs(),
                Unary::Neg => top.wrapping_neg(),
                Unary::Not => !*top,
            };
        }
        Op::Binary(binary) => {
            let right = stack.pop()?;
            let left = stack.pop()?;
            stack.push(calculate(binary, left, right)?);
        }
        Op::Nop | Op::Jump(_) | Op::JumpUnlessZero(_) | Op::Deref(_) | Op::Register(..) => {}
    }
    Some(())
}

/// `None` for a division by zero. Comparisons and divisions are signed, as DWARF has it.
fn calculate(binary: Binary, left: u64, right: u64) -> Option<u64> {
    let (a, b) = (left as i64, right as i64);
    let shift = u32::try_from(right).ok();
    Some(match binary {
        Binary::And => left & right,
        Binary::Or => left | right,
        Binary::Xor => left ^ right,
        Binary::Plus => left.wrapping_add(right),
        Binary::Minus => left.wrapping_sub(right),
        Binary::Mul => left.wrapping_mul(right),
        Binary::Div => a.checked_div(b)? as u64,
        Binary::Mod => left.checked_rem(right)?,
        Binary::Shl => shift.and_then(|s| left.checked_shl(s)).unwrap_or(0),
        Binary::Shr => shift.and_then(|s| left.checked_shr(s)).unwrap_or(0),
        Binary::Shra => a.checked_shr(shift.unwrap_or(63)).unwrap_or(a >> 63) as u64,
        Binary::Eq => u64::from(a == b),
        Binary::Ge => u64::from(a >= b),
        Binary::Gt => u64::from(a > b),
        Binary::Le => u64::from(a <= b),
        Binary::Lt => u64::from(a < b),
        Binary::Ne => u64::from(a != b),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Avma;

    fn run(program: &[Op]) -> Result<u64, Option<u64>> {
        let mut registers = [0; REGISTERS];
        registers[7] = 0x1000;
        let bytes: Vec<u8> = (0..64).collect();
        evaluate(program, None, &registers, Stack::new(Avma(0x1000), &bytes))
    }

    #[test]
    fn plt_and_realigned_stacks_are_evaluated() {
        // rsp + 8 + ((rip & 15) >= 11) * 8, as in .plt; rip is 0 here
        let plt = [
            Op::Register(7, 8),
            Op::Register(16, 0),
            Op::Constant(15),
            Op::Binary(Binary::And),
            Op::Constant(11),
            Op::Binary(Binary::Ge),
            Op::Constant(3),
            Op::Binary(Binary::Shl),
            Op::Binary(Binary::Plus),
        ];
        assert_eq!(run(&plt), Ok(0x1008));
        assert_eq!(run(&[Op::Register(7, 8), Op::Deref(8)]), Ok(0x0f0e_0d0c_0b0a_0908));
        assert_eq!(run(&[Op::Register(7, 8), Op::Deref(2)]), Ok(0x0908));
        assert_eq!(run(&[Op::Register(7, 60), Op::Deref(8)]), Err(Some(0x103c)));
    }

    #[test]
    fn loops_underflow_and_division_by_zero_end() {
        assert_eq!(run(&[Op::Jump(0)]), Err(None));
        assert_eq!(run(&[Op::Drop]), Err(None));
        assert_eq!(run(&[Op::Constant(1), Op::Constant(0), Op::Binary(Binary::Div)]), Err(None));
        assert_eq!(run(&[]), Err(None));
        assert_eq!(run(&[Op::Constant(1), Op::Pick(0), Op::Swap, Op::Jump(0)]), Err(None));
    }
}
