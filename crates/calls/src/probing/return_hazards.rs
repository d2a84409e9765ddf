//! `--return-probes`: whether a program survives them.
//!
//! The kernel swaps a return address on the stack for one of its own. Who unwinds over it finds no way on: an exception
//! is not caught, clean-ups are not run, a backtrace ends there. Who changes stacks meanwhile returns to the wrong
//! place.

use crate::error::{Context, bail};
use dso::elf::plt;
use dso::{DebugSearch, Loader, ObjectFile, SymbolTable, Wanted};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::searched_files::{find_library, maps, rooted};

/// Functions whose callers would be ended, or not be cleaned up: names, or their beginnings before a `*`.
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
/// Functions whose callers would see less of their own stack.
const LOOKS: &[&str] = &["backtrace", "_Unwind_Backtrace", "unw_step", "_ULx86_64_step", "_ULaarch64_step"];
/// Right to run code of a mapping.
const PROT_EXEC: u32 = 4;
/// Remedy shown to the user.
const INSTEAD: &str = "leave --return-probes out (return instructions are probed instead)";

/// Looks through the program, or the processes, and all libraries. Of those that look at their stacks: the file and the
/// function that they use for it.
///
/// # Errors
/// If return probes would end one of them, with what to do instead.
pub fn check(program: Option<&Path>, pids: &[u32]) -> crate::Result<Vec<(PathBuf, String)>> {
    let release = dso::system_file::read_text("/proc/sys/kernel/osrelease").unwrap_or_default();
    if kills_in_seccomp(&release) {
        bail!(
            "--return-probes: on Linux {} a return goes through a system call that seccomp may end the program for \
             (6.11 to 6.13); {INSTEAD}",
            release.trim()
        );
    }
    let files = CodeFiles::find(program, pids)?;
    let programs = Hazard::of_all(&files.programs);
    let libraries = Hazard::of_all(&files.libraries);
    if let Some((path, what)) = refusal(&programs, &libraries) {
        bail!("{} uses {what}: return probes could end the program; {INSTEAD}", path.display());
    }
    let all = programs.into_iter().chain(libraries);
    Ok(all.filter_map(|hazard| Some((hazard.path, hazard.looks?))).collect())
}

/// The reason to name: the program's own, or a library's if the program has none.
///
/// Nearly every program is linked to a library that could unwind (libgcc_s, libstdc++). Among libraries the function
/// listed first in [`ENDS`] is the most specific. Paths only break ties, because they differ from machine to machine.
fn refusal<'a>(programs: &'a [Hazard], libraries: &'a [Hazard]) -> Option<(&'a Path, &'a str)> {
    let worst = |hazards: &'a [Hazard]| {
        let ends = hazards.iter().filter_map(|hazard| Some((hazard.ends.as_ref()?, hazard.path.as_path())));
        ends.min().map(|(ends, path)| (path, ends.what.as_str()))
    };
    worst(programs).or_else(|| worst(libraries))
}

/// A function that does not survive return probes, by its rank in [`ENDS`].
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Ending {
    rank: usize,
    what: String,
}

/// Functions of one file that conflict with return probes.
#[derive(Debug)]
struct Hazard {
    path: PathBuf,
    /// Would end the program.
    ends: Option<Ending>,
    /// Would see less of its own stack.
    looks: Option<String>,
}

impl Hazard {
    /// A file that can't be read is left out: it can't be probed either.
    fn of_all<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Vec<Self> {
        let hazard = |path: &PathBuf| Some(Self::of(&ObjectFile::open(path).ok()?, path));
        paths.into_iter().filter_map(hazard).collect()
    }

    fn of(object: &ObjectFile, path: &Path) -> Self {
        let (ends, looks) = hazards_in(object, path);
        Self { path: path.to_owned(), ends, looks }
    }
}

fn hazards_in(object: &ObjectFile, path: &Path) -> (Option<Ending>, Option<String>) {
    let whole = |what: &str| (Some(Ending { rank: 0, what: what.to_owned() }), None);
    if object.section(".gopclntab").is_some() {
        return whole("Go's stacks");
    }
    if object.section(".interp").is_some() || !plt::needed(object).is_empty() || is_library(path) {
        let imports = plt::referenced(object);
        let find = |names: &[&str]| {
            let used = |name: &str| imports.iter().filter(|used| is_meant(name, used)).min().cloned();
            let mut ranked = names.iter().enumerate();
            ranked.find_map(|(rank, name)| Some(Ending { rank, what: used(name)? }))
        };
        return (find(ENDS), find(LOOKS).map(|looks| looks.what));
    }
    let wanted = Wanted::File { path, build_id: None };
    let loaded = Loader::new(DebugSearch::from_env()).load(&wanted);
    let Ok(symbols) = loaded.as_ref().map(|loaded| loaded.symbols()) else { return (None, None) };
    if symbols.is_empty() {
        return whole("unknown functions (it is static and has no symbols)");
    }
    (find_symbol(symbols, ENDS_IN_STATIC).map(|what| Ending { rank: 0, what }), None)
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

/// Files whose code may run in the program or the processes.
#[derive(Default)]
struct CodeFiles {
    programs: BTreeSet<PathBuf>,
    libraries: BTreeSet<PathBuf>,
}

impl CodeFiles {
    /// The program with all libraries that it is linked to; of processes all that is mapped as code.
    fn find(program: Option<&Path>, pids: &[u32]) -> crate::Result<Self> {
        let mut files = Self::default();
        if let Some(program) = program {
            files.add_program(program)?;
        }
        for pid in pids {
            files.add_process(*pid)?;
        }
        files.libraries = &files.libraries - &files.programs;
        Ok(files)
    }

    fn add_program(&mut self, program: &Path) -> crate::Result<()> {
        self.programs.insert(program.to_owned());
        let mut new = vec![program.to_owned()];
        while let Some(path) = new.pop() {
            let object = ObjectFile::open(&path).with_context(|| format!("can't read {}", path.display()))?;
            let needed = plt::needed(&object).into_iter();
            let found = needed.filter_map(|name| find_library(&name, program).ok());
            new.extend(found.filter(|found| self.libraries.insert(found.clone())));
        }
        Ok(())
    }

    fn add_process(&mut self, pid: u32) -> crate::Result<()> {
        let maps = maps(pid).with_context(|| format!("can't read /proc/{pid}/maps"))?;
        let code = maps.iter().filter(|map| map.prot & PROT_EXEC != 0 && map.name.starts_with(b"/"));
        let path = |name: &[u8]| PathBuf::from(String::from_utf8_lossy(name).into_owned());
        self.libraries.extend(code.map(|map| rooted(pid, &path(&map.name))));
        let program = std::fs::read_link(format!("/proc/{pid}/exe"));
        self.programs.extend(program.map(|program| rooted(pid, &program)));
        Ok(())
    }
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
    use super::{ENDS, Ending, Hazard, is_meant, kills_in_seccomp, refusal};

    fn hazard(path: &str, ends: Option<&str>) -> Hazard {
        let rank = |what: &str| ENDS.iter().position(|name| is_meant(name, what)).expect("it is listed");
        let ends = ends.map(|what| Ending { rank: rank(what), what: what.to_owned() });
        Hazard { path: path.into(), ends, looks: None }
    }

    #[test]
    fn the_program_s_own_reason_is_named_wherever_it_is_installed() {
        let libraries = [
            hazard("/usr/lib/libc.so.6", None),
            hazard("/usr/lib/libgcc_s.so.1", Some("_Unwind_RaiseException")),
            hazard("/usr/lib/libstdc++.so.6", Some("__cxa_throw")),
        ];
        for program in ["/home/shop", "/var/shop"] {
            let own = [hazard(program, Some("pthread_exit"))];
            assert_eq!(refusal(&own, &libraries), Some((program.as_ref(), "pthread_exit")));
            let none = [hazard(program, None)];
            let library = ("/usr/lib/libstdc++.so.6".as_ref(), "__cxa_throw");
            assert_eq!(refusal(&none, &libraries), Some(library));
        }
    }

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
