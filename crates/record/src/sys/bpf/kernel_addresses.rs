//! Addresses of the kernel's functions, asked of the kernel: its own table of names is sorted.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::super::seccomp::GuardedCall;
use super::{Attach, BpfCode, INSTRUCTION_BYTES, load_program};

const BPF_PROG_TEST_RUN: i32 = 10;

/// `bpf_kallsyms_lookup_name`. Source: include/uapi/linux/bpf.h (`___BPF_FUNC_MAPPER`).
const KALLSYMS_LOOKUP_NAME: i32 = 179;

/// Bytes of a name with the zeros after it.
const NAME_BYTES: usize = 56;

/// Layout: ours, the context that [`program`] gets.
#[repr(C)]
struct Question {
    address: u64,
    name: [u8; NAME_BYTES],
}

/// Layout: `union bpf_attr`, the struct `test` of BPF_PROG_TEST_RUN. Source: include/uapi/linux/bpf.h.
#[repr(C)]
#[derive(Default)]
struct TestRun {
    prog_fd: u32,
    retval: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    ctx_size_in: u32,
    ctx_size_out: u32,
    ctx_in: u64,
    ctx_out: u64,
}

/// A program that answers where a function is.
pub struct KernelAddresses(OwnedFd);

impl KernelAddresses {
    /// Loads it (Linux 5.16).
    ///
    /// # Errors
    /// The kernel's errno.
    pub fn load() -> io::Result<Self> {
        let instructions = program().concat();
        let code = BpfCode { name: "tally_address", instructions: &instructions, types: None };
        Ok(Self(load_program(&code, Attach::Call)?))
    }

    /// Address of a function; `None` if the kernel has none of this name.
    ///
    /// # Errors
    /// The kernel's errno; `EPERM` where it hides addresses, `InvalidInput` if the name is too long.
    pub fn of(&self, name: &str) -> io::Result<Option<u64>> {
        let mut question = Question { address: 0, name: [0; NAME_BYTES] };
        if name.len() >= NAME_BYTES {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        name.bytes().zip(&mut question.name).for_each(|(byte, place)| *place = byte);
        match self.run(&mut question)? {
            0 => Ok(Some(question.address)),
            error if error == -libc::ENOENT => Ok(None),
            error => Err(io::Error::from_raw_os_error(-error)),
        }
    }

    /// The program's answer: 0 or a negative errno.
    fn run(&self, question: &mut Question) -> io::Result<i32> {
        GuardedCall::Bpf.check()?;
        let mut attr = TestRun {
            prog_fd: self.0.as_raw_fd() as u32,
            ctx_size_in: size_of::<Question>() as u32,
            ctx_in: std::ptr::from_mut(question) as u64,
            ..TestRun::default()
        };
        // SAFETY: `attr` is a live, initialized repr(C) value of the size we give, which the kernel writes the answer to.
        // It reads and writes `ctx_size_in` bytes of `question`, which has as many.
        let done = unsafe {
            libc::syscall(
                libc::SYS_bpf,
                BPF_PROG_TEST_RUN,
                std::ptr::from_mut(&mut attr),
                size_of::<TestRun>(),
            )
        };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(attr.retval.cast_signed()) }
    }
}

/// Copies the name to the stack, has it looked up, and copies the address to the context: older kernels let helpers use
/// the stack only.
//
// Source: linux v6.18 include/uapi/linux/bpf_common.h and bpf.h (opcodes, registers)
fn program() -> Vec<[u8; INSTRUCTION_BYTES]> {
    const MOVE: u8 = 0xbf;
    const MOVE_NUMBER: u8 = 0xb7;
    const ADD_NUMBER: u8 = 0x07;
    const LOAD: u8 = 0x79;
    const STORE: u8 = 0x7b;
    const STORE_NUMBER: u8 = 0x7a;
    const CALL: u8 = 0x85;
    const EXIT: u8 = 0x95;
    const CONTEXT: u8 = 6;
    const STACK: u8 = 10;
    const NAME: i16 = -(NAME_BYTES as i16);
    const ADDRESS: i16 = NAME - 8;
    let mut code = vec![instruction(MOVE, CONTEXT, 1, 0, 0)];
    for at in (0..NAME_BYTES as i16).step_by(8) {
        code.push(instruction(LOAD, 0, CONTEXT, 8 + at, 0));
        code.push(instruction(STORE, STACK, 0, NAME + at, 0));
    }
    code.extend([
        instruction(STORE_NUMBER, STACK, 0, ADDRESS, 0),
        instruction(MOVE, 1, STACK, 0, 0),
        instruction(ADD_NUMBER, 1, 0, 0, i32::from(NAME)),
        instruction(MOVE_NUMBER, 2, 0, 0, NAME_BYTES as i32),
        instruction(MOVE_NUMBER, 3, 0, 0, 0),
        instruction(MOVE, 4, STACK, 0, 0),
        instruction(ADD_NUMBER, 4, 0, 0, i32::from(ADDRESS)),
        instruction(CALL, 0, 0, 0, KALLSYMS_LOOKUP_NAME),
        instruction(LOAD, 1, STACK, ADDRESS, 0),
        instruction(STORE, CONTEXT, 1, 0, 0),
        instruction(EXIT, 0, 0, 0, 0),
    ]);
    code
}

/// Layout: `struct bpf_insn`. Source: include/uapi/linux/bpf.h.
fn instruction(code: u8, to: u8, from: u8, offset: i16, number: i32) -> [u8; INSTRUCTION_BYTES] {
    let registers = if cfg!(target_endian = "big") { to << 4 | from } else { from << 4 | to };
    let ([o0, o1], [n0, n1, n2, n3]) = (offset.to_ne_bytes(), number.to_ne_bytes());
    [code, registers, o0, o1, n0, n1, n2, n3]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufRead;

    #[test]
    fn addresses_are_those_of_the_kernels_list() {
        let addresses = match KernelAddresses::load() {
            Ok(addresses) => addresses,
            Err(error) => return println!("skipped: the kernel takes no such program: {error}"),
        };
        let list = io::BufReader::new(dso::system_file::open("/proc/kallsyms").unwrap());
        let line = list.lines().map_while(Result::ok).find(|line| line.ends_with(" vfs_read")).unwrap();
        let listed = u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap();
        assert_eq!(addresses.of("vfs_read").unwrap(), Some(listed));
        assert_eq!(addresses.of("no_such_function_of_tally").unwrap(), None);
        assert!(addresses.of(&"long".repeat(20)).is_err());
    }
}
