//! Runs a program of one thread in qemu's user mode, which reports every block it runs. It is a hundred times as fast
//! as stepping, for traces of large programs. Signals and changing code aren't detected; there must be none.

use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use iced_x86::{Decoder, DecoderOptions};
use rustc_hash::FxHashMap;

use super::kinds::{Kind, decode};
use super::step::{Mapping, Note, Side, Steps, mapping, read_code};

/// One instruction of the program.
#[derive(Clone, Copy)]
struct Instruction {
    next: u64,
    /// A block of qemu's ends after it: a branch, or a repeated string instruction.
    ends: bool,
    /// It is run again and again under one note.
    repeats: bool,
}

/// A program being emulated.
struct Emulated {
    child: Child,
    pid: i32,
    known: FxHashMap<u64, Instruction>,
    steps: Steps,
    /// Instructions run so far, noted or not.
    run: usize,
    /// Mappings of files met, the emulator's own among them.
    mappings: Vec<Mapping>,
}

/// Runs `command`, and notes `most` instructions after the first `skip`.
pub fn run(command: &[String], skip: usize, most: usize) -> io::Result<Steps> {
    let mut qemu = Command::new("qemu-x86_64");
    qemu.args(["-d", "exec,nochain"]).args(command).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = qemu.spawn()?;
    let pid = child.id() as i32;
    let lines = BufReader::with_capacity(1 << 20, child.stderr.take().ok_or(io::ErrorKind::BrokenPipe)?);
    let steps = Steps { pid, ..Steps::default() };
    let mut emulated =
        Emulated { child, pid, known: FxHashMap::default(), steps, run: 0, mappings: Vec::new() };
    let noted = emulated.note_blocks(lines, skip, skip.saturating_add(most));
    // It may have ended by itself, because blocks are reported a little late. Then the mappings of the beginning have
    // to do.
    let _ = emulated.look_at_maps();
    emulated.note_maps();
    let _ = emulated.child.kill();
    emulated.child.wait()?;
    noted?;
    Ok(emulated.steps)
}

/// The address in `Trace 0: HOST [BASE/ADDRESS/FLAGS/FLAGS] SYMBOL`.
fn block_start(line: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(line).ok()?.strip_prefix("Trace ")?;
    u64::from_str_radix(text.split('/').nth(1)?, 16).ok()
}

impl Emulated {
    fn note_blocks(&mut self, mut lines: impl BufRead, skip: usize, end: usize) -> io::Result<()> {
        let (mut line, mut last) = (Vec::new(), None);
        while self.run < end && lines.read_until(b'\n', &mut line)? > 0 {
            if let Some(start) = block_start(&line) {
                if let Some(before) = last.replace(start) {
                    self.note_block(before, start, skip)?;
                }
            } else if line.starts_with(b"Stopped") {
                // The block reported last was not run after all, and will be reported again.
                last = None;
            }
            line.clear();
        }
        Ok(())
    }

    /// The block at `start` was run, then the one at `next`.
    fn note_block(&mut self, start: u64, next: u64, skip: usize) -> io::Result<()> {
        let mut ip = start;
        loop {
            let instruction = self.instruction(ip)?;
            if !(instruction.repeats && next == ip) {
                self.run += 1;
                if self.run > skip {
                    if self.steps.notes.is_empty() {
                        self.look_at_maps()?;
                    }
                    self.steps.notes.push((self.pid, Note::Executed(ip)));
                }
            }
            // A block may also be cut for its length, or where a page ends.
            if instruction.ends || instruction.next == next {
                return Ok(());
            }
            ip = instruction.next;
        }
    }

    fn instruction(&mut self, ip: u64) -> io::Result<Instruction> {
        if let Some(known) = self.known.get(&ip) {
            return Ok(*known);
        }
        let code = read_code(self.pid, ip);
        if code.is_empty() {
            return Err(io::Error::other(format!("no code at {ip:#x}")));
        }
        let decoded = decode(ip, &code);
        let whole = Decoder::with_ip(64, &code, ip, DecoderOptions::NONE).decode();
        let repeats = whole.has_rep_prefix() || whole.has_repne_prefix();
        let repeats = repeats && whole.is_string_instruction();
        let ends = decoded.kind != Kind::Plain || repeats;
        let instruction = Instruction { next: decoded.next, ends, repeats };
        self.steps.code.insert((0, ip), code);
        self.known.insert(ip, instruction);
        Ok(instruction)
    }

    fn look_at_maps(&mut self) -> io::Result<()> {
        let text = std::fs::read_to_string(format!("/proc/{}/maps", self.pid))?;
        for mapping in text.lines().filter_map(mapping) {
            if !self.mappings.contains(&mapping) {
                self.mappings.push(mapping);
            }
        }
        Ok(())
    }

    /// The mappings that contain instructions. The emulator's own are between them, and none is marked as code.
    fn note_maps(&mut self) {
        let mut mappings = std::mem::take(&mut self.mappings);
        mappings.retain(|mapping| self.known.keys().any(|ip| (mapping.start..mapping.end).contains(ip)));
        self.steps.sides.push((0, self.pid, Side::Maps(mappings)));
    }
}
