//! `--user-regs` and `--intr-regs`: which registers a sample holds.

use anyhow::{Context, bail};
use record::event::nearest;

/// Names by number of the architecture's `perf_regs.h`; empty: not there.
//
// Source: linux v6.18 arch/x86/include/uapi/asm/perf_regs.h, arch/{arm64,arm}/include/uapi/asm/perf_regs.h.
#[cfg(target_arch = "x86_64")]
const NAMES: &[&str] = &[
    "ax", "bx", "cx", "dx", "si", "di", "bp", "sp", "ip", "flags", "cs", "ss", "", "", "", "", "r8", "r9",
    "r10", "r11", "r12", "r13", "r14", "r15",
];
#[cfg(target_arch = "aarch64")]
const NAMES: &[&str] = &[
    "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15",
    "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x29", "lr",
    "sp", "pc",
];
#[cfg(target_arch = "arm")]
const NAMES: &[&str] =
    &["r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "fp", "ip", "sp", "lr", "pc"];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "arm")))]
const NAMES: &[&str] = &[];

/// Those that `list` names, as the kernel's mask; an empty list names all.
///
/// # Errors
/// A name that is none; `?` asks for all names.
pub fn parse(flag: &str, list: &str) -> anyhow::Result<u64> {
    let names = || NAMES.iter().copied().filter(|name| !name.is_empty());
    if list.trim() == "?" {
        bail!("{flag}: {}", names().collect::<Vec<_>>().join(" "));
    }
    let words: Vec<String> = match list {
        "" => names().map(str::to_owned).collect(),
        list => list.split(',').map(|word| word.trim().to_ascii_lowercase()).collect(),
    };
    words.iter().try_fold(0, |mask, word| Ok(mask | 1 << number(flag, word)?))
}

fn number(flag: &str, word: &str) -> anyhow::Result<usize> {
    let at = NAMES.iter().position(|name| !name.is_empty() && *name == word);
    at.with_context(|| {
        let near = nearest(word, NAMES.iter().filter(|name| !name.is_empty()));
        let near = near.first().map_or_else(String::new, |near| format!(", did you mean '{near}'?"));
        format!("{flag}: no register '{word}' here{near} ({flag}=? names them)")
    })
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn registers_are_the_kernels_bits() {
        assert_eq!(parse("-I", "ip,SP").expect("known"), 1 << 8 | 1 << 7);
        assert_eq!(parse("-I", "").expect("all"), 0xff_0fff);
        let error = parse("-I", "ax,r21").expect_err("unknown").to_string();
        assert!(error.starts_with("-I: no register 'r21' here"), "{error}");
        assert!(parse("-I", "?").expect_err("a list").to_string().contains("flags cs ss r8"));
    }
}
