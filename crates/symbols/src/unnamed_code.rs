//! Names for code without a symbol: of stripped programs after their unwind tables, of JIT compilers without a map as
//! one row.

use crate::object_files::{Names, ObjectFiles, answer, batches_of, function_around, svma_of};
use dso::unwind::UnwindInfo;
use dso::{Loaded, Missing, Svma};
use profile::profile::Profile;
use profile::source::NamedFrame;
use profile::symbolize::SymbolizeRequest;
use profile::table::{Dso, DsoId, DsoKind, DsoTable};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Name of code without a symbol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnnamedCode {
    /// Addresses, as in perf's text.
    #[default]
    Addresses,
    /// The function that .eh_frame puts around it (`function 0xcb4f00`); code of a JIT compiler is one row.
    Functions,
}

impl UnnamedCode {
    /// For a view of perf's form with these filters: addresses, unless one of them asks for a function by its address.
    pub fn for_filters<'f>(filters: impl IntoIterator<Item = &'f String>) -> Self {
        let asks = filters.into_iter().any(|filter| dso::is_unnamed_function(filter));
        if asks { Self::Functions } else { Self::Addresses }
    }
}

/// Code that a JIT compiler made and no map names.
const JIT_CODE: &str = "[JIT code]";

/// Whether `name` is that of JIT code without names.
pub fn is_unnamed_jit_code(name: &str) -> bool {
    name == JIT_CODE
}

/// Names the frames that have no symbol. Not for output that has to be perf's: perf shows the bare addresses.
pub fn name_unnamed(profile: &mut Profile, files: &ObjectFiles) {
    let batches = batches_of(profile.requests_without_symbol());
    let dsos = &profile.dsos;
    let bounds = bounds_of(&batches, dsos, files);
    let named = |batch: &SymbolizeRequest| {
        let dso = dsos.of(batch.dso);
        if is_jit_code(dso) {
            batch.addrs.iter().map(|_| Ok(vec![jit_code()])).collect()
        } else {
            unnamed(files, dso, bounds.get(&batch.dso), &batch.addrs)
        }
    };
    let answers: Vec<_> = batches.par_iter().map(named).collect();
    answer(profile, &batches, answers);
}

/// The bounds of functions by file. All batches of a file share them: to read all code of a compiler takes a second.
fn bounds_of(
    batches: &[SymbolizeRequest],
    dsos: &DsoTable,
    files: &ObjectFiles,
) -> FxHashMap<DsoId, Arc<UnwindInfo>> {
    let wanted: BTreeSet<DsoId> = batches.iter().map(|batch| batch.dso).collect();
    let bounds = wanted.into_iter().filter(|&id| !is_jit_code(dsos.of(id)));
    bounds.filter_map(|id| Some((id, unwind_info(files, dsos.of(id))?))).collect()
}

fn unwind_info(files: &ObjectFiles, dso: &Dso) -> Option<Arc<UnwindInfo>> {
    dso::release_files_above_bound();
    let file = files.open(dso);
    let object = file.as_ref().as_ref().ok()?.object()?;
    Some(UnwindInfo::new(Arc::clone(object)))
}

/// Executable memory without a file; what else has no file holds no code.
fn is_jit_code(dso: &Dso) -> bool {
    matches!(dso.kind, DsoKind::PerfMap { .. }) && dso.path.starts_with("/tmp/perf-")
}

fn jit_code() -> NamedFrame {
    NamedFrame { name: JIT_CODE.to_owned(), ..NamedFrame::default() }
}

fn unnamed(files: &ObjectFiles, dso: &Dso, info: Option<&Arc<UnwindInfo>>, addrs: &[u64]) -> Names {
    dso::release_files_above_bound();
    let file = files.open(dso);
    let name = |&addr: &u64| {
        let file = file.as_ref().as_ref().map_err(|why| *why)?;
        let (start, size) = info
            .and_then(|info| function_around(dso, file, info, addr))
            .ok_or_else(|| without_symbol(file))?;
        let stated = svma_of(dso, file, start).unwrap_or(Svma(start));
        Ok(vec![NamedFrame { name: dso::unnamed_function(stated), start, size, ..NamedFrame::default() }])
    };
    addrs.iter().map(name).collect()
}

fn without_symbol(file: &Loaded) -> Missing {
    if file.symbols().is_empty() { Missing::NoSymbolTable } else { Missing::NoSymbolAt }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dso::DebugSearch;
    use std::path::Path;
    use std::process::Command;

    const SOURCE: &str =
        "int hot(int n) { return n * 3 + 1; }\nint main(int argc, char **argv) { return hot(argc); }\n";

    /// Address and size as the linker wrote them, before they were stripped.
    fn build(folder: &Path) -> Option<(u64, u64)> {
        std::fs::create_dir_all(folder).ok()?;
        std::fs::write(folder.join("t.c"), SOURCE).ok()?;
        let run =
            |program: &str, args: &[&str]| Command::new(program).args(args).current_dir(folder).status();
        run("gcc", &["-O0", "-o", "t", "t.c"]).ok()?.success().then_some(())?;
        let nm = Command::new("nm").args(["-S", "t"]).current_dir(folder).output().ok()?;
        let listed = String::from_utf8(nm.stdout).ok()?;
        let hot: Vec<_> = listed.lines().find(|line| line.ends_with(" hot"))?.split(' ').collect();
        run("strip", &["-s", "t"]).ok()?.success().then_some(())?;
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        Some((number(hot[0])?, number(hot[1])?))
    }

    #[test]
    fn a_stripped_function_is_named_after_its_unwind_table_entry() {
        let folder = std::env::temp_dir().join(format!("tally-nameless-{}", std::process::id()));
        let Some((start, size)) = build(&folder) else {
            return println!("skipped: no working gcc and strip");
        };
        let files = ObjectFiles::new(DebugSearch::default());
        let dso = Dso {
            kind: DsoKind::File,
            path: folder.join("t").display().to_string(),
            short_name: "t".to_owned(),
            build_id: None,
            level: '.',
            start_avma: 0,
        };
        // In the text segment of such a program file offsets and stated addresses are the same.
        let addrs = [start, start + size - 1, 0x10];
        let named = unnamed(&files, &dso, unwind_info(&files, &dso).as_ref(), &addrs);
        std::fs::remove_dir_all(&folder).expect("our own folder");
        let names: Vec<_> = named.into_iter().map(|n| n.map(|frames| frames[0].name.clone())).collect();
        let hot = Ok(format!("function {start:#x}"));
        assert_eq!(names, [hot.clone(), hot, Err(Missing::NoSymbolAt)]);
    }
}
