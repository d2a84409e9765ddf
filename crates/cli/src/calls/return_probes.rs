//! `--return-probes`: whether a program survives them.
//!
//! The kernel swaps a return address on the stack for one of its own. Who unwinds over it finds no way on: an exception
//! is not caught, clean-ups are not run, a backtrace ends there. Who changes stacks meanwhile returns to the wrong place.

use anyhow::{Context, bail};
use dso::{DebugSearch, Loader, ObjectFile, SymbolTable, Wanted, plt};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::objects;
use crate::out;

/// Who uses these would be ended, or not be cleaned up: names of functions, or their beginnings before a `*`.
const ENDS: &[&str] = &[
    "__cxa_throw",
    "__cxa_rethrow",
    "_Unwind_RaiseException",
    "_ZSt*__throw_*",
    "pthread_exit",
    "pthread_cancel",
    "swapcontext",
    "sigaltstack",
    "_Unwind_ForcedUnwind",
    "_Unwind_Resume",
];
/// The same where nothing is imported: a static C library brings some of those along unused.
const ENDS_IN_STATIC: &[&str] = &["__cxa_throw", "__cxa_rethrow", "rust_panic", "swapcontext"];
/// Who uses these would see less of its own stack.
const LOOKS: &[&str] = &["backtrace", "_Unwind_Backtrace", "unw_step", "_ULx86_64_step", "_ULaarch64_step"];
/// Of a mapping.
const PROT_EXEC: u32 = 4;
/// What to do instead.
const INSTEAD: &str = "leave --return-probes out (return instructions are probed instead)";

/// Looks through the program, or the processes, and all libraries.
///
/// # Errors
/// If return probes would end one of them, with what to do instead.
pub fn check(program: Option<&Path>, pids: &[u32], quiet: bool) -> anyhow::Result<()> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    if kills_in_seccomp(&release) {
        bail!(
            "--return-probes: on Linux {} a return goes through a system call that seccomp may end the program for \
             (6.11 to 6.13); {INSTEAD}",
            release.trim()
        );
    }
    for path in files(program, pids)? {
        // A library that can't be read can't be probed either.
        let Ok(object) = ObjectFile::open(&path) else { continue };
        let (ends, looks) = dangers(&object, &path);
        let shown = path.display();
        if let Some(what) = ends {
            bail!("{shown} uses {what}: return probes could end the program; {INSTEAD}");
        }
        if let Some(what) = looks.filter(|_| !quiet) {
            out::note(&format!(
                "tally calls: {shown} uses {what}: while return probes are in place, what it sees of a stack ends at \
                 the innermost probed function; without --return-probes it sees all"
            ));
        }
    }
    Ok(())
}

/// What in the file does not go together with return probes: what ends the program, what sees less.
fn dangers(object: &ObjectFile, path: &Path) -> (Option<String>, Option<String>) {
    if object.section(".gopclntab").is_some() {
        return (Some("Go's stacks".to_owned()), None);
    }
    let imports = plt::referenced(object);
    let find = |names: &[&str]| {
        let used = |name: &&str| imports.iter().filter(|used| is_meant(name, used)).min().cloned();
        names.iter().find_map(used)
    };
    if object.section(".interp").is_some() || !plt::needed(object).is_empty() || is_library(path) {
        return (find(ENDS), find(LOOKS));
    }
    let wanted = Wanted::File { path, build_id: None };
    let loaded = Loader::new(DebugSearch::from_env()).load(&wanted);
    let Ok(symbols) = loaded.as_ref().map(|loaded| loaded.symbols()) else { return (None, None) };
    if symbols.is_empty() {
        return (Some("who knows what: it is static, and no symbol tells".to_owned()), None);
    }
    (find_symbol(symbols, ENDS_IN_STATIC), None)
}

fn find_symbol(symbols: &SymbolTable, names: &[&str]) -> Option<String> {
    names.iter().find(|name| symbols.by_name(name).next().is_some()).map(|name| (*name).to_owned())
}

fn is_meant(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(rest) = name.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    match parts.next() {
        None => rest.is_empty(),
        Some(middle) => rest.contains(middle),
    }
}

fn is_library(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().contains(".so"))
}

/// The program with all libraries that it is linked to; of processes all that is mapped as code.
fn files(program: Option<&Path>, pids: &[u32]) -> anyhow::Result<BTreeSet<PathBuf>> {
    let mut files = BTreeSet::new();
    if let Some(program) = program {
        let mut new = vec![program.to_owned()];
        while let Some(path) = new.pop() {
            let object = ObjectFile::open(&path).with_context(|| format!("can't read {}", path.display()))?;
            let needed = plt::needed(&object).into_iter();
            let found = needed.filter_map(|name| objects::find_library(&name, program).ok());
            new.extend(found.filter(|found| !files.contains(found)));
            files.insert(path);
        }
    }
    for pid in pids {
        let maps = record::proc::maps(*pid).with_context(|| format!("can't read /proc/{pid}/maps"))?;
        let code = maps.iter().filter(|map| map.prot & PROT_EXEC != 0 && map.name.starts_with(b"/"));
        let path = |name: &[u8]| PathBuf::from(String::from_utf8_lossy(name).into_owned());
        files.extend(code.map(|map| objects::rooted(*pid, &path(&map.name))));
    }
    Ok(files)
}

/// Whether returns go through uretprobe(2) there and seccomp does not know to let it pass.
//
// Source: linux commits ff474a78cef5 (v6.11) and cf6cb56ef244 (v6.14).
fn kills_in_seccomp(release: &str) -> bool {
    let mut numbers = release.split('.').map(|part| part.parse::<u32>().ok());
    numbers.next().flatten() == Some(6) && matches!(numbers.next().flatten(), Some(11..=13))
}

#[cfg(test)]
mod tests {
    use super::{ENDS, is_meant, kills_in_seccomp};

    #[test]
    fn only_three_kernels_end_programs_for_return_probes() {
        assert!(["6.11.0", "6.12.9-amd64", "6.13.1"].iter().all(|release| kills_in_seccomp(release)));
        assert!(
            ["6.1.0-18", "6.14.0", "5.12.1", "7.11.0", "x"].iter().all(|release| !kills_in_seccomp(release))
        );
    }

    #[test]
    fn what_throws_in_the_library_of_c_plus_plus_is_known_by_the_begin_of_its_name() {
        let ends = |name: &str| ENDS.iter().any(|pattern| is_meant(pattern, name));
        assert!(ends("_ZSt24__throw_out_of_range_fmtPKcz") && ends("pthread_exit"));
        assert!(!ends("_ZSt4cout") && !ends("pthread_exit_hook") && !ends("throw"));
    }
}
