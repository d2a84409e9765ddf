//! `--user-regs` and `--intr-regs`: which registers a sample holds.

use anyhow::{Context, bail};
use record::event::nearest;
use record::sys::perf_abi::register::NAMES;

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
