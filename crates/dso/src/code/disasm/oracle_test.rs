//! Our text against objdump's, over whole programs.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use super::{Syntax, disassemble};
use crate::{ObjectFile, Svma, SymbolTable};

/// Number of instructions per thousand that may be spelled differently: rare prefixes, see the printed list.
const EXPLAINED_PER_MILLE: usize = 5;

fn compare(path: &Path, syntax: Syntax) -> Option<()> {
    let object = ObjectFile::open(path).ok()?;
    let text = object.section(".text")?.svma.clone();
    let end = Svma(text.end.min(text.start + 200_000));
    let mut command = Command::new("objdump");
    command.args(["-d", "--no-show-raw-insn", "-j", ".text"]).arg(format!("--stop-address={end}"));
    command.args(if syntax == Syntax::Intel { &["-M", "intel"][..] } else { &[] });
    let output = command.arg(path).output().ok()?;
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = output.lines().filter_map(|l| l.split_once(":\t"));
    let theirs: BTreeMap<u64, &str> =
        lines.filter_map(|(a, t)| Some((u64::from_str_radix(a.trim(), 16).ok()?, t.trim_end()))).collect();
    let table = SymbolTable::load(&object, None);
    let name = |at: Svma| {
        let s = table.find(at)?;
        Some(if s.start == at { s.name.to_owned() } else { format!("{}+{:#x}", s.name, at.0 - s.start.0) })
    };
    let code = object.bytes_at(Svma(text.start), (end.0 - text.start) as usize)?;
    let ours = disassemble(object.machine(), code, Svma(text.start), syntax, &name);
    // Symbols are chosen differently among aliases; that is symtab's test.
    let bare = |t: &str| t.split(" <").next().unwrap_or(t).split_whitespace().collect::<Vec<_>>().join(" ");
    let mut kinds: BTreeMap<String, (usize, String)> = BTreeMap::new();
    for i in &ours {
        let theirs = theirs.get(&i.start.0).map_or("(nothing)", |t| *t);
        if bare(theirs) != bare(&i.text) {
            let kind = kinds.entry(bare(&i.text).split(' ').next().unwrap_or("").to_owned()).or_default();
            *kind = (kind.0 + 1, format!("{:#x} ours `{}` theirs `{theirs}`", i.start.0, i.text));
        }
    }
    let wrong: usize = kinds.values().map(|k| k.0).sum();
    println!("{} {syntax:?}: {wrong} of {} differ", path.display(), ours.len());
    let mut kinds: Vec<_> = kinds.into_values().collect();
    kinds.sort_by_key(|k| std::cmp::Reverse(k.0));
    kinds.iter().take(25).for_each(|(n, example)| println!("  {n:6} {example}"));
    assert!(wrong * 1000 <= ours.len() * EXPLAINED_PER_MILLE, "{} of {}", wrong, ours.len());
    Some(())
}

#[test]
fn text_is_objdumps_in_the_common_case() {
    if Command::new("objdump").arg("--version").output().is_err() {
        return println!("skipped: objdump is not installed");
    }
    let folder = Path::new("/usr/lib/x86_64-linux-gnu");
    // Not libcrypto: its .text holds tables, and data has no one reading.
    for name in ["libc.so.6", "libstdc++.so.6"] {
        for syntax in [Syntax::Att, Syntax::Intel] {
            if compare(&folder.join(name), syntax).is_none() {
                println!("skipped: {name} is not here");
            }
        }
    }
}
