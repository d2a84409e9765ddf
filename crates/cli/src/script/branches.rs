//! Branch stacks: `brstack`, `brstacksym`, `brstackoff`.

use super::fields::{FieldSet, ScriptField};
use super::frame::{dso_name, own_name};
use super::row::Row;
use crate::terminal::out::harmless;
use perfdata::BranchFlags;
use profile::profile::Profile;
use profile::table::FrameId;
use std::fmt::Write;

/// Appends the branches of a row, newest first.
pub fn write_branches(out: &mut String, fields: FieldSet, profile: &Profile, row: &Row<'_>) {
    let Some(stack) = row.sample.branches else { return };
    for (branch, &(from, to)) in stack.iter().zip(&row.branches) {
        if fields.has(ScriptField::Brstack) {
            let dso = |frame| match fields.has(ScriptField::Dso) {
                true => format!("({})", dso_name(profile, frame)),
                false => String::new(),
            };
            let _ = write!(out, " {:#x}{}/{:#x}{}", branch.from, dso(from), branch.to, dso(to));
            write_branch_flags(out, branch.flags);
        }
        if fields.has(ScriptField::Brstacksym) {
            write_branch_symbol(out, fields, profile, from);
            out.push('/');
            write_branch_symbol(out, fields, profile, to);
            write_branch_flags(out, branch.flags);
        }
        if fields.has(ScriptField::Brstackoff) {
            let at = |frame: FrameId| profile.frames.of(frame).addr;
            let _ = write!(out, " {:#x}/{:#x}", at(from), at(to));
            write_branch_flags(out, branch.flags);
        }
    }
}

fn write_branch_symbol(out: &mut String, fields: FieldSet, profile: &Profile, frame: FrameId) {
    match own_name(profile, frame).map(|n| profile.symbols.of(n.symbol)) {
        Some(symbol) => {
            let offset = profile.frames.of(frame).addr.wrapping_sub(symbol.start);
            let _ = write!(out, "{}+{offset:#x}", harmless(profile.strings.of(symbol.name)));
        }
        None => out.push_str("[unknown]"),
    }
    if fields.has(ScriptField::Dso) {
        let _ = write!(out, "({})", dso_name(profile, frame));
    }
}

const BRANCH_TYPES: [&str; 15] = [
    "",
    "COND",
    "UNCOND",
    "IND",
    "CALL",
    "IND_CALL",
    "RET",
    "SYSCALL",
    "SYSRET",
    "COND_CALL",
    "COND_RET",
    "ERET",
    "IRQ",
    "SERROR",
    "NO_TX",
];

fn write_branch_flags(out: &mut String, flags: BranchFlags) {
    let mark = |on: bool, c: char| if on { c } else { '-' };
    let predicted = match (flags.mispredicted(), flags.predicted()) {
        (true, _) => 'M',
        (false, true) => 'P',
        (false, false) => '-',
    };
    let kind = BRANCH_TYPES.get(usize::from(flags.type_())).copied().unwrap_or("");
    let (in_tx, abort) = (mark(flags.in_tx(), 'X'), mark(flags.abort(), 'A'));
    let _ = write!(out, "/{predicted}/{in_tx}/{abort}/{}/{kind} ", flags.cycles());
}
