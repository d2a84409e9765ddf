//! Begins of functions in code without symbols and unwind tables, by the calls in it (musl's C library, assembly).
//!
//! A function begins where something in the file calls it, takes its address or jumps to it from another function, and
//! after each exported function. All other code counts as a part of the function before it.

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind};

use crate::elf::exported::{exported_ranges, exported_unsized_ranges, relative_addresses};
use crate::{ElfSection, Machine, ObjectFile, Svma};

/// Files with more code than this, in bytes, aren't read: it would take seconds.
const MAX_CODE: u64 = 32 << 20;

/// Programs that aren't position-independent are linked to addresses from 4 MiB on; others begin at 0.
const FIXED_FROM: u64 = 4 << 20;

/// Addresses of code that instructions refer to without calling it.
#[derive(Default)]
struct References {
    /// Jumps that always happen: from where to where.
    jumps: Vec<(u64, u64)>,
    /// Addresses taken, in any order.
    taken: Vec<u64>,
}

/// Begins of functions in one file.
#[derive(Clone, Debug, Default)]
pub struct FunctionStarts {
    /// Ascending.
    starts: Vec<u64>,
    /// Executable sections: first address, past the last.
    sections: Vec<(u64, u64)>,
}

impl FunctionStarts {
    /// Reads all code of the file; none for other machines than x86-64, and for files with very much code.
    #[must_use]
    pub fn of_object(object: &ObjectFile) -> Self {
        let is_code = |section: &&ElfSection| section.executable && !section.name.starts_with(".plt");
        let code: Vec<&ElfSection> = object.sections().iter().filter(is_code).collect();
        let bytes: u64 = code.iter().map(|section| section.svma.end.saturating_sub(section.svma.start)).sum();
        if object.machine() != Machine::X86_64 || bytes > MAX_CODE {
            return Self::default();
        }
        let sections = code.iter().map(|section| (section.svma.start, section.svma.end)).collect();
        let mut found = Self { starts: Vec::new(), sections };
        let mut seen = References::default();
        code.iter().for_each(|section| found.read(object, section, &mut seen));
        found.starts.extend(code_pointers(object));
        let exported = exported_ranges(object).chain(exported_unsized_ranges(object));
        found.starts.extend(exported.flat_map(|range| [range.start, past_padding(object, range.end)]));
        found.starts.push(object.entry().0);
        found.sort();
        let mut taken = found.without_labels(object, seen.taken);
        found.starts.append(&mut taken);
        found.sort();
        let leaves = |&(from, to): &(u64, u64)| {
            found.around(Svma(from)).is_some_and(|(start, end)| !(start.0..end.0).contains(&to))
        };
        seen.jumps.retain(leaves);
        found.starts.extend(seen.jumps.into_iter().map(|(_, to)| to));
        found.sort();
        found
    }

    fn sort(&mut self) {
        self.starts.retain(|start| self.sections.iter().any(|&(from, to)| (from..to).contains(start)));
        self.starts.sort_unstable();
        self.starts.dedup();
    }

    /// The function around `svma`: first address, past the last; `None` before the first one of a section.
    #[must_use]
    pub fn around(&self, svma: Svma) -> Option<(Svma, Svma)> {
        let &(first, end) = self.sections.iter().find(|(from, to)| (*from..*to).contains(&svma.0))?;
        let after = self.starts.partition_point(|start| *start <= svma.0);
        let start = *self.starts.get(after.checked_sub(1)?).filter(|start| **start >= first)?;
        let next = self.starts.get(after).copied().unwrap_or(end).min(end);
        Some((Svma(start), Svma(next)))
    }

    /// The addresses without labels within a function, to which the instruction before goes on. By such ones musl finds out
    /// that a signal interrupted a system call.
    fn without_labels(&self, object: &ObjectFile, mut taken: Vec<u64>) -> Vec<u64> {
        taken.sort_unstable();
        taken.dedup();
        let mut function = Svma(u64::MAX);
        let mut decoder = Decoder::new(64, &[], DecoderOptions::NONE);
        let mut last = Instruction::default();
        taken.retain(|&at| {
            let Some((start, _)) = self.around(Svma(at)) else { return true };
            if start != function {
                function = start;
                decoder = Decoder::with_ip(64, code_at(object, start.0), start.0, DecoderOptions::NONE);
            }
            while decoder.ip() < at && decoder.can_decode() {
                decoder.decode_out(&mut last);
            }
            last.next_ip() != at || !goes_on(&last)
        });
        taken
    }

    /// Adds what is called in this section, and to `seen` what else refers to code.
    fn read(&mut self, object: &ObjectFile, section: &ElfSection, seen: &mut References) {
        let mut decoder = Decoder::with_ip(
            64,
            code_at(object, section.svma.start),
            section.svma.start,
            DecoderOptions::NONE,
        );
        let mut instruction = Instruction::default();
        // Addresses of other files are small numbers, as many constants are.
        let is_fixed = section.svma.start >= FIXED_FROM;
        while decoder.can_decode() && decoder.ip() < section.svma.end {
            decoder.decode_out(&mut instruction);
            // Bytes that aren't an instruction are skipped one by one: data among code.
            if instruction.code() != Code::INVALID {
                seen.jumps.extend(jump_of(&instruction));
                self.starts.extend(called_by(&instruction));
                let constant = if is_fixed { taken_by_constant(&instruction) } else { None };
                seen.taken.extend(taken_relative(&instruction).or(constant));
            }
        }
    }
}

/// Whether the next instruction may be executed after this one; not after a call, which may not return.
fn goes_on(instruction: &Instruction) -> bool {
    match instruction.mnemonic() {
        Mnemonic::Nop | Mnemonic::Int3 | Mnemonic::Hlt | Mnemonic::INVALID => false,
        Mnemonic::Syscall => true,
        _ => matches!(instruction.flow_control(), FlowControl::Next | FlowControl::ConditionalBranch),
    }
}

/// The function that the instruction calls.
fn called_by(instruction: &Instruction) -> Option<u64> {
    let is_call =
        instruction.flow_control() == FlowControl::Call && instruction.op0_kind() == OpKind::NearBranch64;
    is_call.then(|| instruction.near_branch64())
}

/// The address relative to itself that the instruction takes.
fn taken_relative(instruction: &Instruction) -> Option<u64> {
    let is_address = instruction.mnemonic() == Mnemonic::Lea && instruction.is_ip_rel_memory_operand();
    is_address.then(|| instruction.memory_displacement64())
}

/// A jump that always happens: from where to where.
fn jump_of(instruction: &Instruction) -> Option<(u64, u64)> {
    let is_jump = instruction.flow_control() == FlowControl::UnconditionalBranch
        && instruction.op0_kind() == OpKind::NearBranch64;
    is_jump.then(|| (instruction.ip(), instruction.near_branch64()))
}

/// Words of the file's data that may be addresses: the loader's (RELA), and those of programs at fixed addresses.
/// Not those of constants (.rodata): tables of jumps within a function are there.
fn code_pointers(object: &ObjectFile) -> Vec<u64> {
    let data = object.sections().iter().filter(|section| {
        let is_data =
            [".data", ".init_array", ".fini_array"].iter().any(|name| section.name.starts_with(name));
        is_data && section.svma.start >= FIXED_FROM
    });
    let words = data.flat_map(|section| {
        let bytes = usize::try_from(section.svma.end.saturating_sub(section.svma.start)).unwrap_or(0);
        let bytes = object.bytes_at(Svma(section.svma.start), bytes).unwrap_or_default();
        bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word))
    });
    words.chain(relative_addresses(object)).collect()
}

/// The constant that the instruction puts into a register: an address, if there is code.
fn taken_by_constant(instruction: &Instruction) -> Option<u64> {
    let is_constant = matches!(instruction.op1_kind(), OpKind::Immediate32 | OpKind::Immediate32to64);
    (instruction.mnemonic() == Mnemonic::Mov && is_constant).then(|| instruction.immediate(1))
}

/// The first instruction at or after `svma` that is no padding.
fn past_padding(object: &ObjectFile, svma: u64) -> u64 {
    const LONGEST: usize = 64;
    let bytes = code_at(object, svma);
    let bytes = bytes.get(..LONGEST).unwrap_or(bytes);
    let mut decoder = Decoder::with_ip(64, bytes, svma, DecoderOptions::NONE);
    while decoder.can_decode() {
        let at = decoder.ip();
        let instruction = decoder.decode();
        if !matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3) {
            return at;
        }
    }
    svma
}

/// Code from `svma` to the end of its segment; empty outside.
fn code_at(object: &ObjectFile, svma: u64) -> &[u8] {
    object.bytes_at(Svma(svma), MAX_CODE as usize).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::process::Command;

    /// Functions that call, jump to, and take addresses of others; without exported names after `strip`.
    const SOURCE: &str = "
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        static __attribute__((noinline)) int leaf(int n) { return n * 3 + 1; }
        static __attribute__((noinline)) int taken(int n) { return n - 7; }
        int (*pointer)(int);
        int middle(int n) { pointer = taken; return leaf(n) + leaf(n + 1); }
        int compare(const void *a, const void *b) { return *(char *)a - *(char *)b; }
        int main(int argc, char **argv) {
            char *text = strdup(argv[0]);
            qsort(text, strlen(text), 1, compare);
            printf(\"%s %g\", text, strtod(text, 0));
            return middle(argc) + pointer(argc);
        }
    ";

    /// Name, first address and bytes of its symbols; the program itself is stripped.
    fn build(folder: &Path, compiler: &str, flags: &[&str]) -> Option<Vec<(String, u64, u64)>> {
        std::fs::create_dir_all(folder).ok()?;
        std::fs::write(folder.join("t.c"), SOURCE).ok()?;
        let run =
            |program: &str, args: &[&str]| Command::new(program).args(args).current_dir(folder).status();
        let flags = [&["-O1", "-fno-asynchronous-unwind-tables", "-o", "t", "t.c"], flags].concat();
        run(compiler, &flags).ok()?.success().then_some(())?;
        let nm = Command::new("nm").args(["-S", "t"]).current_dir(folder).output().ok()?;
        run("strip", &["-s", "t"]).ok()?.success().then_some(())?;
        let listed = String::from_utf8(nm.stdout).ok()?;
        let row = |line: &str| {
            let [start, size, _, name] = line.split_whitespace().collect::<Vec<_>>()[..] else { return None };
            let number = |text| u64::from_str_radix(text, 16).ok();
            Some((name.to_owned(), number(start)?, number(size)?))
        };
        Some(listed.lines().filter_map(row).collect())
    }

    #[test]
    fn functions_that_are_called_or_whose_address_is_taken_have_their_begin() {
        let folder = std::env::temp_dir().join(format!("tally-starts-{}", std::process::id()));
        let listed = build(&folder, "gcc", &[]);
        let object = ObjectFile::open(&folder.join("t"));
        let _ = std::fs::remove_dir_all(&folder);
        let (Some(listed), Ok(object)) = (listed, object) else {
            return println!("skipped: no gcc, nm and strip");
        };
        if object.machine() != Machine::X86_64 {
            return println!("skipped: not an x86-64 machine");
        }
        let starts = FunctionStarts::of_object(&object);
        for name in ["leaf", "taken", "middle", "main"] {
            let (_, start, size) = listed.iter().find(|(listed, ..)| listed == name).expect("nm lists it");
            let [first, last] =
                [*start, start + size - 1].map(|at| starts.around(Svma(at)).expect("in .text"));
            assert_eq!((first.0.0, last.0.0), (*start, *start), "{name}: {listed:x?}");
        }
        assert_eq!(starts.around(Svma(0x10)), None);
    }

    #[test]
    fn five_of_six_functions_of_a_static_program_of_musl_have_their_begin() {
        let folder = std::env::temp_dir().join(format!("tally-musl-starts-{}", std::process::id()));
        let listed = build(&folder, "musl-gcc", &["-static"]);
        let object = ObjectFile::open(&folder.join("t"));
        let _ = std::fs::remove_dir_all(&folder);
        let (Some(listed), Ok(object)) = (listed, object) else {
            return println!("skipped: no musl-gcc, nm and strip");
        };
        let starts = FunctionStarts::of_object(&object);
        let functions = listed.iter().filter(|(_, start, _)| object.is_code(Svma(*start)));
        let (mut all, mut missed) = (0, Vec::new());
        for (name, start, size) in functions {
            all += 1;
            let found = starts.around(Svma(start + size - 1)).map(|(first, _)| first.0);
            missed.extend((found != Some(*start)).then_some(name));
        }
        println!("{all} functions, missed {missed:?}");
        assert!(all > 60 && missed.len() * 6 <= all, "{} of {all}: {missed:?}", missed.len());
    }
}
