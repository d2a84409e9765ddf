//! Kinds of hook at a function's start: a sled, a compiled-in call, or neither.

use dso::{Machine, ObjectFile, Svma, SymbolTable};
use tracer::layout::sleds::{CallForm, NOPS, XRAY, arm, call_form};

/// `endbr64`, which is before them with `-fcf-protection`.
const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
/// Bytes of a function that are searched for its compiled-in call.
const LOOK_BYTES: usize = 96;

/// Hook at a function's start.
pub enum EntryHook {
    /// A nop or a call of `__fentry__`: can be patched either way.
    Sled(Svma),
    /// A call of `mcount` after the prologue: is traced unless taken out.
    Call(Svma),
}

/// The sled or compiled-in call of a function that starts here.
pub fn start_of(object: &ObjectFile, symbols: &SymbolTable, start: Svma) -> Option<EntryHook> {
    if !object.is_code(start) {
        return None;
    }
    match object.machine() {
        Machine::X86_64 => start_x86_64(object, symbols, start),
        Machine::Aarch64 => start_aarch64(object, symbols, start),
        _ => None,
    }
}

fn start_x86_64(object: &ObjectFile, symbols: &SymbolTable, start: Svma) -> Option<EntryHook> {
    let code = (5..=LOOK_BYTES).rev().find_map(|bytes| object.bytes_at(start, bytes))?;
    let skip = if code.starts_with(&ENDBR64) { ENDBR64.len() } else { 0 };
    let first = code.get(skip..)?;
    let at = |offset: usize| start.checked_add(offset as u64);
    if NOPS.iter().any(|nop| first.starts_with(nop)) || first.starts_with(&XRAY) {
        return at(skip).map(EntryHook::Sled);
    }
    // After instructions that set up the frame and put arguments elsewhere.
    let offset = dso::straight_bytes(code);
    let name = call_target(symbols, at(offset)?, code.get(offset..)?)?;
    match name {
        Target::Named("__fentry__@plt") if offset == skip => at(offset).map(EntryHook::Sled),
        Target::Named("mcount@plt" | "_mcount@plt") => at(offset).map(EntryHook::Call),
        // The table's content is known only when it is loaded: the tracer looks again.
        Target::Table if offset == skip => at(offset).map(EntryHook::Sled),
        Target::Table => at(offset).map(EntryHook::Call),
        Target::Named(_) => None,
    }
}

/// There `_mcount` is called after the prologue, before anything that branches.
fn start_aarch64(object: &ObjectFile, symbols: &SymbolTable, start: Svma) -> Option<EntryHook> {
    let code = (4..=LOOK_BYTES).rev().step_by(4).find_map(|bytes| object.bytes_at(start, bytes))?;
    let words: Vec<u32> = arm::words(code).collect();
    let skip = usize::from(words.first() == Some(&arm::BTI_C));
    let at = |word: usize| start.checked_add(word as u64 * 4);
    // One nop alone is at entries that have no `bti c` for want of `-mbranch-protection`, too.
    if let [arm::NOP | arm::XRAY, arm::NOP, ..] = words.get(skip..)? {
        return at(skip).map(EntryHook::Sled);
    }
    let call = words.iter().position(|word| arm::is_branch(*word))?;
    let target = arm::call_target(words[call], at(call)?.0)?;
    let symbol = symbols.find(Svma(target))?;
    (symbol.name == "_mcount@plt").then(|| at(call).map(EntryHook::Call)).flatten()
}

/// Where a call goes.
enum Target<'a> {
    /// To a function of this name.
    Named(&'a str),
    /// Through the table of imported addresses.
    Table,
}

/// The target of the call that `code`, at `at`, begins with.
fn call_target<'a>(symbols: &'a SymbolTable, at: Svma, code: &[u8]) -> Option<Target<'a>> {
    match call_form(code)? {
        CallForm::Table(_) => Some(Target::Table),
        CallForm::Near(distance) => {
            let target = Svma(at.0.wrapping_add(5).wrapping_add_signed(i64::from(distance)));
            symbols.find(target).map(|symbol| Target::Named(symbol.name))
        }
    }
}
