//! Where a program can be instrumented: compiled-in calls, and sleds (nops) to patch.

use anyhow::Context;
use dso::{ObjectFile, Svma};
use std::path::Path;

use super::pattern::{self, Pattern};

/// What was found in an object file.
#[derive(Debug, Default)]
pub struct Instrumented {
    /// The calls compiled in, such as `__fentry__`.
    pub calls: Vec<&'static str>,
    /// Stated addresses of patchable 5-byte nops.
    pub sleds: Vec<Svma>,
    /// Sleds left alone because no pattern means their function.
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

/// The nops that compilers leave: gcc's `-fpatchable-function-entry=5` and `-mnop-mcount`.
const NOPS: [[u8; 5]; 2] = [[0x90; 5], [0x0f, 0x1f, 0x44, 0, 0]];
/// `endbr64`, which stands before them with `-fcf-protection`.
const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// Looks through an object file; `wanted` chooses among its sleds (none: all).
///
/// # Errors
/// If the file can't be read or is no ELF file.
pub fn look(path: &Path, wanted: &[Pattern]) -> anyhow::Result<Instrumented> {
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
        let Some(sled) = sled_at(&object, symbol.start) else { continue };
        if wanted.is_empty() || pattern::any(wanted, &dso::demangle(symbol.name)) {
            found.sleds.push(sled);
        } else {
            found.left += 1;
        }
    }
    Ok(found)
}

/// The sled of a function that starts here.
fn sled_at(object: &ObjectFile, start: Svma) -> Option<Svma> {
    if !object.is_code(start) {
        return None;
    }
    let code = object.bytes_at(start, 9)?;
    let skip = if code.starts_with(&ENDBR64) { ENDBR64.len() } else { 0 };
    let nop = code.get(skip..skip + 5)?;
    NOPS.iter().any(|known| known == nop).then(|| start.checked_add(skip as u64)).flatten()
}
