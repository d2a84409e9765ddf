//! The columns of a line after the time: addresses, names, flags.

use std::fmt::Write as _;

use intelpt::{FlowEvent, FlowKind, branch_word};
use perfdata::text::harmless;

use super::super::image::CodeAt;
use super::{CodeSpot, Lines};

impl<'a> Lines<'a> {
    pub(super) fn address(&mut self, spot: CodeSpot, ip: u64) {
        let _ = write!(self.line, "{ip:>16x}");
        self.names(spot, ip);
    }

    /// Symbol and file, as far as asked for.
    pub(super) fn names(&mut self, spot: CodeSpot, ip: u64) {
        let (space, fields) = (spot.space, &self.wanted.fields);
        if let Some(known) = self.names.get(&(space, ip)) {
            return self.line.push_str(known);
        }
        let at = self.at(spot, ip);
        let mut text = String::new();
        if fields.has("sym") {
            match at.symbol {
                Some((name, offset)) => {
                    text.push(' ');
                    text.push_str(&harmless(&dso::demangle(name)));
                    if fields.has("symoff") {
                        let _ = write!(text, "+{offset:#x}");
                    }
                }
                None => text.push_str(" [unknown]"),
            }
        }
        if fields.has("dso") {
            let _ = write!(text, " ({})", harmless(at.file.unwrap_or("[unknown]")));
        }
        self.line.push_str(&text);
        self.names.insert((space, ip), text.into());
    }

    pub(super) fn at(&self, spot: CodeSpot, ip: u64) -> CodeAt<'a> {
        self.code.at(self.side, spot.moment, ip)
    }

    /// perf's word for what happened.
    pub(super) fn flags(&mut self, spot: CodeSpot, event: &FlowEvent) -> &'static str {
        match event.what {
            FlowKind::Call => "call",
            FlowKind::Return => "return",
            FlowKind::Begin => "tr strt",
            FlowKind::EndAsync => "tr end  async",
            FlowKind::Interrupt => "hw int",
            FlowKind::Abort => "tx abrt",
            FlowKind::Jump | FlowKind::Far => self.word(spot, event),
            FlowKind::End => match self.word(spot, event) {
                "syscall" => "tr end  syscall",
                "int" => "tr end  int",
                "iret" => "tr end  iret",
                "sysret" => "tr end  sysret",
                "call" => "tr end  call",
                "return" => "tr end  return",
                "jcc" => "tr end  jcc",
                "jmp" => "tr end  jmp",
                _ => "tr end",
            },
            FlowKind::Gap(_) => "",
        }
    }

    /// The kind of the event's branch.
    fn word(&mut self, spot: CodeSpot, event: &FlowEvent) -> &'static str {
        let ip = event.from;
        let key = (spot.space, ip);
        if let Some(known) = self.words.get(&key) {
            return known;
        }
        let word = branch_word(self.at(spot, ip).code, event.bits.into()).unwrap_or("");
        self.words.insert(key, word);
        word
    }
}

/// perf's names of the events it makes of branches and instructions in user mode.
pub(super) const BRANCHES: &str = "branches:u";

pub(super) const INSTRUCTIONS: &str = "instructions:u";
