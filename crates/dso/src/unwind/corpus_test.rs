//! Every row of every entry of the system's libraries, against what binutils makes of it.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use gimli::UnwindContext;

use super::arch::{Arch, X86};
use super::cfi::Cfi;
use super::rule::{Cfa, Restore, Row, Rule, Step};
use crate::{Machine, ObjectFile};

const NAMES: [&str; 17] = [
    "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
    "r15", "ra",
];

/// One line of `readelf --debug-dump=frames-interp`: address, CFA, and a column per register of `names`.
struct Expected<'a> {
    svma: u64,
    cfa: &'a str,
    columns: Vec<(&'a str, &'a str)>,
}

/// The rows of the dump; of several at one address the last, which is in force.
fn rows(text: &str) -> Vec<Expected<'_>> {
    let mut names: Vec<&str> = Vec::new();
    let mut rows: Vec<Expected<'_>> = Vec::new();
    let mut is_entry = false;
    for line in text.lines() {
        // A register rule is printed `r5 (rdi)`.
        let mut fields = line.split_whitespace().filter(|f| !f.starts_with('('));
        let Some(first) = fields.next() else { continue };
        if first == "LOC" {
            names = fields.skip(1).collect();
        } else if line.contains(" CIE ") || line.contains(" FDE ") || line.contains("ZERO terminator") {
            is_entry = line.contains(" FDE ");
        } else if let (true, Ok(svma)) = (is_entry, u64::from_str_radix(first, 16)) {
            let Some(cfa) = fields.next() else { continue };
            let row = Expected { svma, cfa, columns: names.iter().copied().zip(fields).collect() };
            match rows.last_mut() {
                Some(last) if last.svma == svma => *last = row,
                _ => rows.push(row),
            }
        }
    }
    rows
}

fn rule_text(rule: &Rule) -> (String, Vec<(&'static str, String)>) {
    let cfa = format!("{}{:+}", NAMES[usize::from(rule.cfa_register)], rule.cfa_offset);
    let name = |slot: usize| NAMES[usize::from(X86::CALLEE_SAVED[slot])];
    (cfa, rule.saved().map(|(slot, words)| (name(slot), format!("c{:+}", i64::from(words) * 8))).collect())
}

fn row_text(row: &Row) -> (String, Vec<(&'static str, String)>) {
    let cfa = match &row.cfa {
        Cfa::Register(r, offset) => format!("{}{offset:+}", NAMES[usize::from(*r)]),
        Cfa::Program(_) => "exp".to_owned(),
    };
    let text = |restore: &Restore| match restore {
        Restore::Undefined => "u".to_owned(),
        Restore::AtCfa(offset) => format!("c{offset:+}"),
        Restore::CfaPlus(offset) => format!("v{offset:+}"),
        Restore::Register(other) => format!("r{other}"),
        Restore::WalkState(_) => "exp".to_owned(),
        Restore::Is(_) => "vexp".to_owned(),
    };
    (cfa, row.registers.iter().map(|(r, restore)| (NAMES[usize::from(*r)], text(restore))).collect())
}

/// `None` if both agree.
fn difference(expected: &Expected<'_>, step: &Step) -> Option<String> {
    let (cfa, saved) = match step {
        Step::Simple(rule) => rule_text(rule),
        Step::General(row) => row_text(row),
        Step::Root => {
            let is_root = expected.columns.contains(&("ra", "u"));
            return (!is_root).then(|| "root".to_owned());
        }
        Step::OtherStack => return Some("another stack".to_owned()),
        Step::Nothing => return Some("nothing".to_owned()),
    };
    let ours = |name: &str| saved.iter().find(|s| s.0 == name).map_or("u", |s| s.1.as_str());
    let differs =
        |c: &&(&str, &str)| NAMES.contains(&c.0) && ours(c.0) != c.1 && !(c.1 == "s" && ours(c.0) == "u");
    match expected.columns.iter().find(differs) {
        _ if cfa != expected.cfa => Some(format!("CFA {cfa}, readelf {}", expected.cfa)),
        Some((name, value)) => Some(format!("{name} {}, readelf {value}", ours(name))),
        None => None,
    }
}

/// Compares all of `path`; the number of rows compared, `None` if it can't be had here.
fn compare(path: &Path) -> Option<usize> {
    let object = ObjectFile::open(path).ok().filter(|o| o.machine() == Machine::X86_64)?;
    let dump =
        Command::new("readelf").args(["--wide", "--debug-dump=frames-interp"]).arg(path).output().ok()?;
    let cfi = Cfi::new(&Arc::new(object));
    let mut context = UnwindContext::new();
    let text = String::from_utf8_lossy(&dump.stdout);
    let rows = rows(&text);
    let mut wrong = Vec::new();
    for row in &rows {
        let step = cfi.step(&mut context, row.svma);
        wrong.extend(difference(row, &step).map(|d| format!("{:#x}: {d}", row.svma)));
    }
    assert!(
        wrong.is_empty(),
        "{}: {} of {} rows differ: {:?}",
        path.display(),
        wrong.len(),
        rows.len(),
        &wrong[..wrong.len().min(8)]
    );
    Some(rows.len())
}

#[test]
fn every_row_of_the_systems_libraries_matches_readelf() {
    if Command::new("readelf").arg("--version").output().is_err() {
        return println!("skipped: readelf is not installed");
    }
    let folders = ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64"];
    for name in ["libc.so.6", "libstdc++.so.6", "libcrypto.so.3", "ld-linux-x86-64.so.2", "libm.so.6"] {
        let found = folders.iter().find_map(|f| compare(&Path::new(f).join(name)));
        match found {
            Some(rows) => println!("{name}: {rows} rows equal"),
            None => println!("skipped: {name} is not here"),
        }
    }
}
