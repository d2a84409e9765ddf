//! Machines without a disassembler of ours: the objdump program.

use std::path::Path;
use std::process::{Command, Stdio};

use super::{Instruction, Syntax};
use crate::{Error, Svma};

/// Output of `program` (normally `objdump`) for the code in `[start, end)` of the file. Fails if it isn't
/// installed or refuses the file.
pub fn objdump(
    program: &Path,
    file: &Path,
    start: Svma,
    end: Svma,
    syntax: Syntax,
) -> Result<Vec<Instruction>, Error> {
    let mut command = Command::new(program);
    command.args(["--no-show-raw-insn", "-d", "-C"]);
    if syntax == Syntax::Intel {
        command.args(["-M", "intel"]);
    }
    command.arg(format!("--start-address={start}")).arg(format!("--stop-address={end}"));
    let output = command.arg("--").arg(file).stdin(Stdio::null()).output();
    let output = output.map_err(|source| Error::Io { path: program.into(), source })?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(parse(&text, end))
}

/// Lines of the form `  401136:\tpush   %rbp`.
fn parse(text: &str, end: Svma) -> Vec<Instruction> {
    let line = |line: &str| {
        let (address, text) = line.split_once(":\t")?;
        Some((u64::from_str_radix(address.trim(), 16).ok()?, text.trim_end().to_owned()))
    };
    let lines: Vec<(u64, String)> = text.lines().filter_map(line).collect();
    let ends = lines.iter().skip(1).map(|l| l.0).chain([end.0]);
    let item = |((start, text), end): (&(u64, String), u64)| Instruction {
        start: Svma(*start),
        len: end.saturating_sub(*start) as usize,
        text: text.clone(),
        branch: None,
    };
    lines.iter().zip(ends).map(item).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objdumps_lines_become_instructions() {
        let text = "\na.out:     file format elf32-littlearm\n\n00010000 <f>:\n   10000:\tpush\t{r4, lr}\n   10004:\tbl\t10010 <g>\n";
        let found = parse(text, Svma(0x10008));
        assert_eq!(
            found.iter().map(|i| (i.start.0, i.len, i.text.as_str())).collect::<Vec<_>>(),
            [(0x10000, 4, "push\t{r4, lr}"), (0x10004, 4, "bl\t10010 <g>"),]
        );
    }
}
