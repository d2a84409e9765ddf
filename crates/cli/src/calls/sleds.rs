//! Where a program can be instrumented: compiled-in calls, and sleds (nops) to patch.

use anyhow::Context;
use dso::{ObjectFile, Svma};
use std::path::Path;

use super::pattern::{self, Pattern};
use tracer::layout::{self, CallForm, NOPS, XRAY};

/// What was found in an object file.
#[derive(Debug, Default)]
pub struct Instrumented {
    /// The calls compiled in, such as `__fentry__`.
    pub calls: Vec<&'static str>,
    /// Stated addresses of what can be patched at the starts of the functions wanted, and their rules.
    pub sleds: Vec<(Svma, u64)>,
    /// Of those, with a rule.
    pub ruled: usize,
    /// Stated addresses of the same, and of calls of `mcount`, in functions that are not wanted.
    pub off: Vec<Svma>,
    /// Functions wanted whose call of `mcount` stays as it is.
    pub wanted_calls: usize,
    /// Functions that no pattern means.
    pub left: usize,
    /// Statically linked: nothing can be preloaded.
    pub is_static: bool,
}

/// The functions that compiled-in calls go to, with what the compiler calls the option.
const CALLS: [(&str, &str); 4] = [
    ("__fentry__", "-mfentry"),
    ("mcount", "-pg"),
    ("_mcount", "-pg"),
    ("__cyg_profile_func_enter", "-finstrument-functions"),
];

/// `endbr64`, which stands before them with `-fcf-protection`.
const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
/// Bytes of a function that are searched for its compiled-in call.
const LOOK_BYTES: usize = 64;

/// What stands at a function's start.
enum Start {
    /// A nop or a call of `__fentry__`: can be patched either way.
    Sled(Svma),
    /// A call of `mcount` behind the prologue: is traced unless taken out.
    Call(Svma),
}

/// Which functions are recorded, and what happens at some of them.
#[derive(Debug, Default)]
pub struct Rules {
    /// Only these are patched; none: all.
    pub wanted: Vec<Pattern>,
    /// What is done at a function (`layout::SLED_…`); the first that means it counts.
    pub at: Vec<(Pattern, u64)>,
}

impl Rules {
    /// The rule of a function, 0 without one.
    fn of(&self, name: &str) -> u64 {
        self.at.iter().find(|(pattern, _)| pattern.is(name)).map_or(0, |(_, rule)| *rule)
    }
}

/// Looks through an object file; `rules` choose among its functions.
///
/// # Errors
/// If the file can't be read or is no ELF file.
pub fn look(path: &Path, rules: &Rules) -> anyhow::Result<Instrumented> {
    let object = ObjectFile::open(path).with_context(|| format!("can't read {}", path.display()))?;
    let symbols = dso::SymbolTable::load(&object, None);
    let mut found =
        Instrumented { is_static: object.section(".dynamic").is_none(), ..Instrumented::default() };
    let dynstr = object.section_bytes(".dynstr").ok().flatten();
    let imported = dynstr.as_deref().unwrap_or_default();
    for (name, option) in CALLS {
        let has = imported.split(|byte| *byte == 0).any(|text| text == name.as_bytes());
        if has && !found.calls.contains(&option) {
            found.calls.push(option);
        }
    }
    for symbol in symbols.iter() {
        let Some(start) = start_of(&object, &symbols, symbol.start) else { continue };
        if found.calls.is_empty() && !matches!(start, Start::Sled(_)) {
            continue;
        }
        let name = dso::demangle(symbol.name);
        let rule = rules.of(&name);
        let is_wanted = rule != 0 || rules.wanted.is_empty() || pattern::any(&rules.wanted, &name);
        found.ruled += usize::from(rule != 0 && matches!(start, Start::Sled(_)));
        found.left += usize::from(!is_wanted);
        match start {
            Start::Sled(at) if is_wanted => found.sleds.push((at, rule)),
            // A nop stays one, a call becomes one.
            Start::Sled(at) => found.off.push(at),
            Start::Call(at) if !is_wanted => found.off.push(at),
            Start::Call(_) => found.wanted_calls += 1,
        }
    }
    Ok(found)
}

/// The sled or compiled-in call of a function that starts here.
fn start_of(object: &ObjectFile, symbols: &dso::SymbolTable, start: Svma) -> Option<Start> {
    if !object.is_code(start) {
        return None;
    }
    let code = (5..=LOOK_BYTES).rev().find_map(|bytes| object.bytes_at(start, bytes))?;
    let skip = if code.starts_with(&ENDBR64) { ENDBR64.len() } else { 0 };
    let first = code.get(skip..)?;
    let at = |offset: usize| start.checked_add(offset as u64);
    if NOPS.iter().any(|nop| first.starts_with(nop)) || first.starts_with(&XRAY) {
        return at(skip).map(Start::Sled);
    }
    let offset = prologue_bytes(code);
    let name = call_target(symbols, at(offset)?, code.get(offset..)?)?;
    match name {
        Target::Named("__fentry__@plt") if offset == skip => at(offset).map(Start::Sled),
        Target::Named("mcount@plt" | "_mcount@plt") => at(offset).map(Start::Call),
        // What the table holds is known only when it is loaded: the recorder looks again.
        Target::Table if offset == skip => at(offset).map(Start::Sled),
        Target::Table => at(offset).map(Start::Call),
        Target::Named(_) => None,
    }
}

/// Where a call goes.
enum Target<'a> {
    /// To a function of this name.
    Named(&'a str),
    /// Through the table of imported addresses.
    Table,
}

/// The target of the call that `code`, at `at`, begins with.
fn call_target<'a>(symbols: &'a dso::SymbolTable, at: Svma, code: &[u8]) -> Option<Target<'a>> {
    match layout::call_form(code)? {
        CallForm::Table(_) => Some(Target::Table),
        CallForm::Near(distance) => {
            let target = Svma(at.0.wrapping_add(5).wrapping_add_signed(i64::from(distance)));
            symbols.find(target).map(|symbol| Target::Named(symbol.name))
        }
    }
}

/// Bytes of instructions at a function's start that set up its frame.
fn prologue_bytes(code: &[u8]) -> usize {
    let mut at = 0;
    while let Some(rest) = code.get(at..) {
        at += match rest {
            // endbr64; mov rbp, rsp; sub rsp, imm8; sub rsp, imm32; push r8-r15; push.
            [0xf3, 0x0f, 0x1e, 0xfa, ..] => 4,
            [0x48, 0x89, 0xe5, ..] => 3,
            [0x48, 0x83, 0xec, _, ..] => 4,
            [0x48, 0x81, 0xec, _, _, _, _, ..] => 7,
            [0x41, 0x50..=0x57, ..] => 2,
            [0x50..=0x57, ..] => 1,
            _ => return at,
        };
    }
    at
}
