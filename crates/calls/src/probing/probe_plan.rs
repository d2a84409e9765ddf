//! Which functions of a program are probed, and where they are left.

mod finder;

use crate::error::{Context, bail};
use dso::code::flow::{ProbedFunction, ProbedObject};
use dso::unwind::UnwindInfo;
use dso::{DebugSearch, Loader, Svma, Wanted};
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::probe_selection::ProbeSelection;
use super::searched_files::SearchedFile;
use crate::instrumented::source_files::SourceFiles;
use finder::{Finder, go_code};

/// Functions chosen to be probed.
#[derive(Default)]
pub struct ProbePlan {
    /// The files.
    pub objects: Vec<ProbedObject>,
    /// Functions.
    pub functions: Vec<ProbedFunction>,
    /// Names of the functions.
    pub names: Vec<String>,
    /// Functions left out, by the reason.
    pub left_out: BTreeMap<&'static str, usize>,
    /// Names that were given and match no function.
    pub unmet: Vec<String>,
    /// The patterns that mean one, by their numbers.
    met: FxHashSet<usize>,
}

/// Why a function gets no return probe.
const KEEPS: &str = "that keep their return address";
/// Why the function that a name of a library represents is not probed there.
const RESOLVED: &str = "whose name selects one of several when the program starts (IFUNC): name that one";
/// Code without a function is passed over in such steps, to places that functions are aligned to.
const GAP_BYTES: u64 = 16;
/// But byte by byte so far after a function: what fills up to the next, however that is aligned.
const FILL_BYTES: u64 = 32;

/// Never with return probes: their return address is kept or moved by themselves.
const KEEP_RETURN_ADDRESS: &[&str] = &[
    "setjmp",
    "_setjmp",
    "sigsetjmp",
    "__sigsetjmp",
    "vfork",
    "__vfork",
    "getcontext",
    "swapcontext",
    "makecontext",
    "_start",
    "__morestack",
    "_dl_runtime_resolve",
    "_dl_runtime_resolve_xsave",
    "_dl_runtime_resolve_xsavec",
    "_dl_runtime_resolve_fxsave",
    "__restore_rt",
];

impl ProbePlan {
    /// Looks through the files.
    ///
    /// # Errors
    /// If one can't be read, or nothing in them is selected.
    pub fn from(sources: &[SearchedFile], selection: &ProbeSelection) -> crate::Result<Self> {
        let mut chosen = Self::default();
        for source in sources {
            chosen.add(source, selection)?;
        }
        if chosen.functions.is_empty() {
            let files: Vec<String> = sources.iter().map(|source| source.path.display().to_string()).collect();
            bail!("no function to probe in {}{}", files.join(", "), chosen.why_none(selection));
        }
        chosen.unmet = selection.without(&chosen.met);
        Ok(chosen)
    }

    fn why_none(&self, selection: &ProbeSelection) -> String {
        let left: Vec<String> = self.left_out.iter().map(|(why, count)| format!("{count} {why}")).collect();
        match (left.is_empty(), selection.is_all()) {
            (false, _) => format!(" ({})", left.join(", ")),
            (true, true) => {
                ": it has no symbols; install its debug symbols, or name exported functions of a library with \
                 -P FUNC@LIBRARY"
                    .to_owned()
            }
            (true, false) => ": none matches -P (`nm -C`, and `nm -CD` for a stripped one, list them); of a library it \
                 is -P FUNC@LIBRARY"
                .to_owned(),
        }
    }

    /// Functions of a stripped file, as its unwind table has them.
    fn add_nameless(&mut self, finder: &Finder<'_>, object: usize) {
        let code = finder.file.section(".text").map_or(0..0, |text| text.svma.clone());
        let (mut at, mut behind) = (code.start, code.start);
        while at < code.end {
            let Some((start, end)) = finder.unwind.function_range(Svma(at)).filter(|(_, end)| end.0 > at)
            else {
                at = if at < behind + FILL_BYTES { at + 1 } else { (at / GAP_BYTES + 1) * GAP_BYTES };
                continue;
            };
            (at, behind) = (end.0, end.0);
            // Functions with a name were looked at by their name.
            let named = finder.symbols.find(start).is_some();
            if !named
                && (finder.selection.is_all() || finder.means(&dso::unnamed_function(start), &mut self.met))
            {
                let probed = finder.probe(&[(start, end)], dso::unnamed_function(start), object);
                self.take(probed);
            }
        }
    }

    fn take(&mut self, probed: Result<(String, ProbedFunction), &'static str>) {
        match probed {
            Ok((name, function)) => {
                self.names.push(name);
                self.functions.push(function);
            }
            Err(why) => *self.left_out.entry(why).or_default() += 1,
        }
    }

    fn add(&mut self, source: &SearchedFile, selection: &ProbeSelection) -> crate::Result<()> {
        let loader = Loader::new(DebugSearch::from_env());
        let wanted = Wanted::File { path: &source.path, build_id: None };
        let shown = source.path.display();
        let loaded =
            loader.load(&wanted).map_err(|why| crate::Error::new(format!("can't read {shown}: {why}")))?;
        let file = loaded.object().with_context(|| format!("{shown} is no ELF file"))?;
        let symbols = loaded.symbols();
        let cold = symbols.iter().filter_map(|s| Some((s.name.strip_suffix(".cold")?, (s.start, s.end))));
        let unwind = UnwindInfo::new(Arc::clone(file));
        let exported = dso::exported(file);
        let mut finder = Finder {
            file,
            symbols,
            unwind,
            cold: cold.collect(),
            lines: SourceFiles::new(file),
            selection,
            source,
            goroutines: go_code(file, symbols),
            resolvers: exported.iter().filter(|name| name.is_resolver).map(|name| name.start).collect(),
            exported,
        };
        let number = self.objects.len();
        self.objects.push(ProbedObject { path: source.path.clone(), pid: source.pid });
        for start in finder.starts(&mut self.met) {
            let probed = finder.function(start, number);
            self.take(probed);
        }
        if selection.is_all() && source.library.is_none() || selection.names_nameless() {
            self.add_nameless(&finder, number);
        }
        Ok(())
    }
}
