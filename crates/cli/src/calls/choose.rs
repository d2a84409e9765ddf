//! Which functions of a program are probed, and where they are left.

use anyhow::{Context, bail};
use dso::unwind::UnwindInfo;
use dso::{DebugSearch, FunctionFlow, Loader, ObjectFile, Svma, SymbolTable, Wanted};
use record::calls::{Exits, Function, Object};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::pattern::Pattern;

/// What the command line asks for.
pub struct Wish {
    /// Patterns of functions, each with the library it is about (`malloc@libc.so.6`); none: all.
    pub patterns: Vec<(Pattern, Option<String>)>,
    /// Functions of source files of these names.
    pub files: Vec<String>,
    /// Also what the chosen functions call, this deep.
    pub callees: u32,
    /// How exits are seen.
    pub exits: Exits,
}

/// What was chosen.
#[derive(Default)]
pub struct Chosen {
    /// The files.
    pub objects: Vec<Object>,
    /// Their functions.
    pub functions: Vec<Function>,
    /// Names of the functions.
    pub names: Vec<String>,
    /// Functions left out, by the reason.
    pub left_out: BTreeMap<&'static str, usize>,
}

/// Why a function gets no return probe.
const KEEPS: &str = "that keep their return address";
/// Steps in which code without a function is passed over.
const GAP_BYTES: u64 = 16;

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

impl Wish {
    /// From the words after `-P`: names, globs, `/regex/`, `@list` (a file of such words), `file:NAME` (functions of
    /// that source file), each with `@LIBRARY` behind.
    ///
    /// # Errors
    /// If a list can't be read.
    pub fn parse(words: &[String], callees: u32, exits: Exits) -> anyhow::Result<Self> {
        let mut wish = Self { patterns: Vec::new(), files: Vec::new(), callees, exits };
        for word in words {
            if let Some(path) = word.strip_prefix('@') {
                let text = std::fs::read_to_string(path).with_context(|| format!("can't read {path}"))?;
                let lines =
                    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
                lines.for_each(|line| wish.add(line));
            } else {
                wish.add(word);
            }
        }
        Ok(wish)
    }

    fn add(&mut self, word: &str) {
        if let Some(file) = word.strip_prefix("file:") {
            self.files.push(file.to_owned());
        } else if let Some((name, library)) = word.rsplit_once('@').filter(|(name, _)| !name.is_empty()) {
            self.patterns.push((Pattern::new(name), Some(library.to_owned())));
        } else {
            self.patterns.push((Pattern::new(word), None));
        }
    }

    /// The libraries named.
    #[must_use]
    pub fn libraries(&self) -> BTreeSet<&str> {
        self.patterns.iter().filter_map(|(_, library)| library.as_deref()).collect()
    }

    fn is_all(&self) -> bool {
        self.patterns.is_empty() && self.files.is_empty()
    }

    /// Whether the function is meant, in the program itself (`library` `None`) or in a library.
    fn means(&self, name: &str, library: Option<&str>) -> bool {
        let here = |of: &Option<String>| match (of.as_deref(), library) {
            (None, None) => true,
            (Some(wanted), Some(library)) => library == wanted || library.starts_with(&format!("{wanted}.")),
            _ => false,
        };
        self.patterns.iter().any(|(pattern, of)| here(of) && pattern.is(name))
    }
}

/// One file to look through.
pub struct Source {
    /// To be read.
    pub path: PathBuf,
    /// Its name if it is a library.
    pub library: Option<String>,
    /// Only in this process; 0: in all.
    pub pid: u32,
}

impl Chosen {
    /// Looks through the files.
    ///
    /// # Errors
    /// If one can't be read, or nothing in them is meant.
    pub fn from(sources: &[Source], wish: &Wish) -> anyhow::Result<Self> {
        let mut chosen = Self::default();
        for source in sources {
            chosen.add(source, wish)?;
        }
        if chosen.functions.is_empty() {
            let files: Vec<String> = sources.iter().map(|source| source.path.display().to_string()).collect();
            bail!("no function to probe in {}{}", files.join(", "), chosen.why_none(wish));
        }
        Ok(chosen)
    }

    fn why_none(&self, wish: &Wish) -> String {
        let left: Vec<String> = self.left_out.iter().map(|(why, count)| format!("{count} {why}")).collect();
        match (left.is_empty(), wish.is_all()) {
            (false, _) => format!(" ({})", left.join(", ")),
            (true, true) => {
                ": it has no symbols; install its debug symbols, or name exported functions of a library with \
                 -P FUNC@LIBRARY"
                    .to_owned()
            }
            (true, false) => ": none is meant by -P; `nm` lists them".to_owned(),
        }
    }

    /// Functions of a stripped file, as its unwind table has them.
    fn add_nameless(&mut self, finder: &Finder<'_>, object: usize) {
        let info = UnwindInfo::new(Arc::clone(finder.file));
        let code = finder.file.section(".text").map_or(0..0, |text| text.svma.clone());
        let mut at = code.start;
        while at < code.end {
            let Some((start, end)) = info.function_range(Svma(at)).filter(|(_, end)| end.0 > at) else {
                at += GAP_BYTES;
                continue;
            };
            at = end.0;
            let probed = finder.probe(&[(start, end)], format!("function {:#x}", start.0), object);
            self.take(probed);
        }
    }

    fn take(&mut self, probed: Result<(String, Function), &'static str>) {
        match probed {
            Ok((name, function)) => {
                self.names.push(name);
                self.functions.push(function);
            }
            Err(why) => *self.left_out.entry(why).or_default() += 1,
        }
    }

    fn add(&mut self, source: &Source, wish: &Wish) -> anyhow::Result<()> {
        let loader = Loader::new(DebugSearch::from_env());
        let wanted = Wanted::File { path: &source.path, build_id: None };
        let shown = source.path.display();
        let loaded = loader.load(&wanted).map_err(|why| anyhow::anyhow!("can't read {shown}: {why}"))?;
        let file = loaded.object().with_context(|| format!("{shown} is no ELF file"))?;
        let symbols = loaded.symbols();
        let cold = symbols.iter().filter_map(|s| Some((s.name.strip_suffix(".cold")?, (s.start, s.end))));
        let mut finder = Finder { file, symbols, cold: cold.collect(), lines: None, wish, source };
        let number = self.objects.len();
        self.objects.push(Object { path: source.path.clone(), pid: source.pid });
        for start in finder.starts() {
            let probed = finder.function(start, number);
            self.take(probed);
        }
        if wish.is_all() && !self.functions.iter().any(|function| function.object == number) {
            self.add_nameless(&finder, number);
        }
        Ok(())
    }
}

struct Finder<'a> {
    file: &'a Arc<ObjectFile>,
    symbols: &'a SymbolTable,
    /// Of a function, where the compiler put what it thinks is seldom run: first address and the one past the last.
    cold: FxHashMap<&'a str, (Svma, Svma)>,
    lines: Option<dso::LineResolver>,
    wish: &'a Wish,
    source: &'a Source,
}

impl Finder<'_> {
    /// First addresses of the functions meant, ascending.
    fn starts(&mut self) -> BTreeSet<Svma> {
        let library = self.source.library.clone();
        let mut starts = BTreeSet::new();
        for symbol in self.symbols.iter() {
            let is_code = symbol.end > symbol.start && self.file.is_code(symbol.start);
            if !is_code || symbol.name.contains("@plt") || symbol.name.ends_with(".cold") {
                continue;
            }
            let meant = (self.wish.is_all() && library.is_none())
                || self.wish.means(&dso::demangle(symbol.name), library.as_deref())
                || self.is_of_file(symbol.start);
            if meant {
                starts.insert(symbol.start);
            }
        }
        let mut edge = starts.clone();
        for _ in 0..self.wish.callees {
            edge = edge
                .iter()
                .flat_map(|start| self.callees(*start))
                .filter(|to| !starts.contains(to))
                .collect();
            starts.extend(&edge);
        }
        starts
    }

    /// Whether the function is of a source file asked for.
    fn is_of_file(&mut self, start: Svma) -> bool {
        if self.wish.files.is_empty() {
            return false;
        }
        if self.lines.is_none() {
            self.lines = dso::LineResolver::open(self.file, &DebugSearch::from_env()).ok().flatten();
        }
        let place = self.lines.as_mut().and_then(|lines| lines.location(start));
        place.and_then(|place| place.file).is_some_and(|file| {
            let file = Path::new(&*file);
            self.wish.files.iter().any(|wanted| file.ends_with(wanted))
        })
    }

    /// Functions of this file that the one at `start` calls or jumps to.
    fn callees(&self, start: Svma) -> Vec<Svma> {
        let Some(symbol) = self.symbols.find(start) else { return Vec::new() };
        let flow = dso::function_flow(self.file, symbol.start, symbol.end).unwrap_or_default();
        let begins = |to: &Svma| {
            self.symbols.find(*to).is_some_and(|callee| callee.start == *to && !callee.name.contains("@plt"))
        };
        flow.callees.into_iter().filter(begins).collect()
    }

    fn function(&self, start: Svma, object: usize) -> Result<(String, Function), &'static str> {
        let symbol = self.symbols.find(start).ok_or("without a symbol")?;
        if self.wish.exits == Exits::Return && KEEP_RETURN_ADDRESS.contains(&symbol.name) {
            return Err(KEEPS);
        }
        let cold = self.cold.get(symbol.name).copied();
        let ranges: Vec<_> = [(symbol.start, symbol.end)].into_iter().chain(cold).collect();
        self.probe(&ranges, dso::demangle(symbol.name).into_owned(), object)
    }

    /// The probes of the function that lies in `ranges`, the one with its entry first.
    fn probe(
        &self,
        ranges: &[(Svma, Svma)],
        name: String,
        object: usize,
    ) -> Result<(String, Function), &'static str> {
        let flow_of = |&(start, end): &(Svma, Svma)| dso::function_flow(self.file, start, end);
        let flows: Option<Vec<FunctionFlow>> = ranges.iter().map(flow_of).collect();
        let flows = flows.ok_or("in code of another processor")?;
        let by_returns = self.wish.exits == Exits::Return;
        if by_returns && ranges[0].0 == self.file.entry() {
            return Err(KEEPS);
        }
        if flows.iter().any(|flow| flow.damaged) {
            return Err("with bytes that are no instructions");
        }
        let offset = |svma: Svma| self.file.file_offset_of(svma).map(|offset| offset.0);
        let tail_jumps = tail_jumps(ranges, &flows);
        let returns = flows.iter().flat_map(|flow| &flow.returns);
        let leaves = returns.chain(&tail_jumps).filter_map(|leave| offset(*leave)).collect();
        let entry = flows[0].entry.ok_or("whose first instruction can't be probed")?;
        let offset = offset(entry).ok_or("not in the file")?;
        let jumps_out = flows.iter().any(|flow| flow.jumps_out) || by_returns && !tail_jumps.is_empty();
        Ok((name, Function { object, offset, leaves, jumps_out, loops: flows[0].loops }))
    }
}

/// The jumps that end a function whose parts lie in `ranges`: those between its parts don't.
fn tail_jumps(ranges: &[(Svma, Svma)], flows: &[FunctionFlow]) -> Vec<Svma> {
    let is_inside = |to: Svma| ranges.iter().any(|(start, end)| (*start..*end).contains(&to));
    let jumps = flows.iter().flat_map(|flow| &flow.jumps);
    jumps.filter(|(_, to)| !is_inside(*to)).map(|(at, _)| *at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jump_to_the_cold_part_of_a_function_and_back_does_not_end_it() {
        let ranges = [(Svma(0x1000), Svma(0x1100)), (Svma(0x400), Svma(0x440))];
        let jumps = [
            vec![(Svma(0x1010), Svma(0x400)), (Svma(0x1020), Svma(0x2000))],
            vec![(Svma(0x430), Svma(0x1018))],
        ];
        let flows = jumps.map(|jumps| FunctionFlow { jumps, ..FunctionFlow::default() });
        assert_eq!(tail_jumps(&ranges, &flows), [Svma(0x1020)]);
        assert_eq!(tail_jumps(&ranges[..1], &flows[..1]), [Svma(0x1010), Svma(0x1020)]);
    }
}
