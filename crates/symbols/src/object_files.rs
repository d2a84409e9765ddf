//! Object files for the profile: names through `dso`, on all cores.

use crate::archive::ArchivedFiles;
use crate::jit_names::RecordedNames;
use crate::name_opts::debuginfod::fetch_missing;
use crate::name_opts::{NameForm, NameOpts};
use crate::recorded_kernel::kernel_of;
use crate::shown_name::{NamedCode, ShownNames, ShownNamesPool};
use dso::unwind::UnwindInfo;
use dso::{DebugSearch, FileOffset, Loaded, Loader, Missing, SourceFrame, Svma, Symbol, SymbolIndex, Wanted};
use perfdata::PerfData;
use perfdata::appendix::python_functions::{self, PythonFunction, PythonFunctions};
use profile::profile::Profile;
use profile::source::{DsoSource, NamedFrame, Want};
use profile::symbolize::SymbolizeRequest;
use profile::table::{Dso, DsoKind};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Key that distinguishes DSOs.
type Key = (DsoKind, String, Option<Vec<u8>>);

/// The frames of each address asked for, or why it has none.
pub(crate) type Names = Vec<Result<Vec<NamedFrame>, Missing>>;

/// Object files, each opened once and kept.
pub struct ObjectFiles {
    loader: Loader,
    /// How names are shown.
    form: NameForm,
    /// Perf maps of any user are read.
    any_owner: bool,
    opened: Mutex<FxHashMap<Key, Arc<Result<Loaded, Missing>>>>,
    /// Names of JIT code in the recording.
    jit: Mutex<RecordedNames>,
    /// Functions of Python programs in the recording.
    python: PythonFunctions,
    /// Object files in the recording.
    archived: ArchivedFiles,
    shown: ShownNamesPool,
}

impl Default for ObjectFiles {
    /// Looks nowhere but at the paths recorded.
    fn default() -> Self {
        Self::new(DebugSearch::default())
    }
}

impl ObjectFiles {
    /// Looks for files by `search`, and for large symbol tables in the user's cache first.
    pub fn new(search: DebugSearch) -> Self {
        let loader = Loader::new(search).with_index(SymbolIndex::from_env());
        Self {
            loader,
            form: NameForm::default(),
            any_owner: false,
            opened: Mutex::default(),
            jit: Mutex::default(),
            python: PythonFunctions::default(),
            archived: ArchivedFiles::default(),
            shown: ShownNamesPool::default(),
        }
    }

    /// Object files of the machine that `file` was recorded on. Looks and names by `names`.
    pub fn of_recording(file: &PerfData<'_>, names: &NameOpts) -> Self {
        if names.fetch {
            fetch_missing(file, &names.search);
        }
        let files = Self::new(names.search.clone());
        let loader = files.loader.of_kernel(kernel_of(file));
        let jit = Mutex::new(RecordedNames::of_recording(file));
        let python = file.appendix().and_then(|appendix| PythonFunctions::read(appendix, file.endian()));
        let python = python.unwrap_or_default();
        let archived = ArchivedFiles::of_recording(file);
        Self { form: names.form, any_owner: names.any_owner, loader, jit, python, archived, ..files }
    }

    /// Is the recorded kernel the running one?
    pub fn is_running_kernel(&self) -> bool {
        self.loader.is_running_kernel()
    }

    /// Has the recording functions of Python programs?
    pub fn has_python(&self) -> bool {
        !self.python.functions.is_empty()
    }

    /// The function at `addr` of `dso`; `None` if that is not of a Python program.
    pub(crate) fn python_function(&self, dso: &Dso, addr: u64) -> Option<&PythonFunction> {
        let (index, _) = python_functions::function_at(addr).filter(|_| dso.kind == DsoKind::Python)?;
        self.python.functions.get(index)
    }

    fn shown_name<'n>(&self, name: &'n str) -> Cow<'n, str> {
        match self.form {
            NameForm::Mangled => Cow::Borrowed(name),
            NameForm::Whole => dso::demangle(name),
            NameForm::AnyCompiler => shortened(dso::demangle(name), dso::of_any_compiler),
            NameForm::Brief => shortened(dso::demangle(name), dso::brief),
        }
    }

    /// The file of `dso`, opened at the first call; `Err` has the reason why there is none.
    pub fn open(&self, dso: &Dso) -> Arc<Result<Loaded, Missing>> {
        let key = (dso.kind, dso.path.clone(), dso.build_id.clone());
        let known = self.opened.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        known.unwrap_or_else(|| {
            // Two threads may open the same file at once; the first to be done is kept.
            let file = Arc::new(self.load(dso));
            let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(opened.entry(key).or_insert(file))
        })
    }

    /// A file that the user names.
    pub(crate) fn load_named(&self, path: &Path) -> Result<Loaded, Missing> {
        self.loader.load(&Wanted::File { path, build_id: None })
    }

    /// Reads `loaded` in place of the file of `dso`.
    pub(crate) fn use_instead(&self, dso: &Dso, loaded: &Arc<Result<Loaded, Missing>>) {
        let key = (dso.kind, dso.path.clone(), dso.build_id.clone());
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).insert(key, Arc::clone(loaded));
        self.shown.clear();
    }

    /// Remembers which processes have mapped a jitdump.
    fn note_dumps(&self, profile: &Profile) {
        let mut jit = self.jit.lock().unwrap_or_else(PoisonError::into_inner);
        jit.note_dumps(profile.dsos.iter().map(|(_, dso)| dso));
    }

    fn load(&self, dso: &Dso) -> Result<Loaded, Missing> {
        // Whoever names a folder or a kernel wants its files.
        let search = self.loader.search();
        let is_named = search.root.is_some() || search.kernel.is_some();
        if let Some(loaded) = (!is_named).then(|| self.archived.load(dso)).flatten() {
            return Ok(loaded);
        }
        let build_id = dso.build_id.as_deref().and_then(dso::BuildId::from_bytes);
        let build_id = build_id.as_ref();
        match dso.kind {
            DsoKind::File => self.loader.load(&Wanted::File { path: Path::new(&dso.path), build_id }),
            DsoKind::Kernel => {
                // The image begins at _text, and that is where it is mapped for perf.
                let reference = (dso.start_avma != 0).then_some(("_text", dso.start_avma));
                self.loader.load(&Wanted::Kernel { build_id, reference })
            }
            DsoKind::KernelModule => {
                let start = Some(dso.start_avma).filter(|&start| start != 0);
                self.loader.load(&Wanted::KernelModule { name: unbracketed(&dso.short_name), start })
            }
            // Another program may run at their addresses now: the recording has their names.
            DsoKind::Bpf | DsoKind::Python => Err(Missing::NoFile),
            DsoKind::Vdso => self.loader.load(&Wanted::Vdso { build_id }),
            DsoKind::PerfMap { pid } => {
                let owners = (!self.any_owner).then(|| perf_map_owners(pid));
                let jit = self.jit.lock().unwrap_or_else(PoisonError::into_inner);
                jit.load(&self.loader, pid, owners.as_deref())
            }
            DsoKind::GuestKernel | DsoKind::GuestUser => Err(Missing::NoFile),
            DsoKind::Unknown => Err(Missing::Anonymous),
        }
    }
}

/// Users who may name the code of process `pid`. Everybody can put a file into /tmp under the name of another's
/// process. So: root, this user (the one who ran `sudo`, too), and the user of the process while it runs.
fn perf_map_owners(pid: i32) -> Vec<u32> {
    let sudo = std::env::var("SUDO_UID").ok().and_then(|uid| uid.parse().ok());
    let own = dso::OwnRights::read().map(|rights| rights.user);
    let process = u32::try_from(pid).ok().and_then(dso::user_of_process);
    std::iter::once(0).chain(own).chain(sudo).chain(process).collect()
}

/// `ext4` of a module's short name, `[ext4]`.
pub fn unbracketed(short_name: &str) -> &str {
    short_name.trim_start_matches('[').trim_end_matches(']')
}

impl DsoSource for ObjectFiles {
    fn symbolize(&self, dso: &Dso, addrs: &[u64], want: Want) -> Names {
        dso::release_files_above_bound();
        if dso.kind == DsoKind::Python {
            return addrs.iter().map(|&addr| python_function(&self.python, addr)).collect();
        }
        match self.open(dso).as_ref() {
            Ok(file) => {
                let names = self.shown.with(|shown| {
                    let mut request = OpenRequest { file, dso, want, shown };
                    addrs.iter().map(|&addr| self.names_at(&mut request, addr)).collect()
                });
                // Looked at afterwards: what was found may come from the zeros that were read.
                let is_intact = file.object().is_none_or(|object| object.bytes().is_intact());
                if is_intact { names } else { addrs.iter().map(|_| Err(Missing::FileShrank)).collect() }
            }
            Err(why) => addrs.iter().map(|_| without_file(dso, *why)).collect(),
        }
    }
}

/// A request for names to a file that is open.
struct OpenRequest<'f> {
    file: &'f Loaded,
    dso: &'f Dso,
    want: Want,
    shown: &'f mut ShownNames,
}

/// The function of a Python program, with the line: `main (app.py)`.
fn python_function(python: &PythonFunctions, addr: u64) -> Result<Vec<NamedFrame>, Missing> {
    let (index, line) = python_functions::function_at(addr).ok_or(Missing::OutsideSegments)?;
    let function = python.functions.get(index).ok_or(Missing::NoSymbolAt)?;
    let file = profile::machine::file_name(&function.file);
    let start = python_functions::MAPPING_START + index as u64 * python_functions::FUNCTION_BYTES;
    Ok(vec![NamedFrame {
        name: format!("{} ({file})", function.name),
        start,
        size: python_functions::FUNCTION_BYTES,
        file: Some(function.file.clone()),
        line,
        inlined: false,
    }])
}

/// BPF programs announce their own name.
fn without_file(dso: &Dso, why: Missing) -> Result<Vec<NamedFrame>, Missing> {
    if dso.kind != DsoKind::Bpf {
        return Err(why);
    }
    Ok(vec![NamedFrame { name: dso.path.clone(), start: dso.start_avma, ..NamedFrame::default() }])
}

/// Makes one frame of a function and the part of it that compilers split off and inline again (`read` of the C library). It
/// has the name of the symbol, and the line of the part.
fn merge_parts(sources: &mut Vec<SourceFrame>) {
    while let [.., part, whole] = &mut sources[..]
        && part.function == whole.function
    {
        std::mem::swap(part, whole);
        sources.remove(sources.len() - 2);
    }
}

/// The symbol `found` at `svma`, or the function after it where it is only padding that the kernel names.
///
/// A frame that an interrupt left at a function's first instruction has that address in the chain, and is looked up one
/// byte before it like a return address. No call is in the padding, so no return address leads there.
fn past_padding<'f>(
    found: Symbol<'f>,
    svma: Svma,
    symbol_at: impl FnOnce(Svma) -> Option<Symbol<'f>>,
) -> Symbol<'f> {
    let Some(function) = found.name.strip_prefix("__pfx_") else { return found };
    let after = (svma.0.checked_add(1) == Some(found.end.0)).then(|| symbol_at(found.end)).flatten();
    after.filter(|after| after.name == function).unwrap_or(found)
}

impl ObjectFiles {
    fn names_at(&self, request: &mut OpenRequest<'_>, addr: u64) -> Result<Vec<NamedFrame>, Missing> {
        let OpenRequest { file, dso, want, shown } = request;
        let want = *want;
        let svma = svma_of(dso, file, addr).ok_or(Missing::OutsideSegments)?;
        let found = match file.symbol(svma) {
            Ok(symbol) => past_padding(symbol, svma, |after| file.symbol(after).ok()),
            Err(why) => return without_file(dso, why),
        };
        // From stated addresses back to the space of the DSO's frames.
        let start = addr.wrapping_sub(svma.0.wrapping_sub(found.start.0));
        let size = found.end.0.saturating_sub(found.start.0);
        // Open files stay where they are.
        let code = NamedCode { file: std::ptr::from_ref::<Loaded>(file).addr(), start: found.start.0 };
        let name = shown.of(code, found.name, |name| self.shown_name(name));
        let function = NamedFrame { name, start, size, ..NamedFrame::default() };
        if want == Want::Names {
            return Ok(vec![function]);
        }
        Ok(self.with_lines(file, svma, function))
    }

    /// The function with its line, after the functions inlined into it at `svma`.
    fn with_lines(&self, file: &Loaded, svma: Svma, function: NamedFrame) -> Vec<NamedFrame> {
        let mut sources: Vec<SourceFrame> = Vec::new();
        if file.frames(svma, &mut sources).is_err() || sources.is_empty() {
            return vec![function];
        }
        if self.form == NameForm::Brief {
            merge_parts(&mut sources);
        }
        let last = sources.len() - 1;
        let frame = |(i, source): (usize, SourceFrame)| NamedFrame {
            name: match source.function {
                Some(name) if i < last => self.shown_name(&name).into_owned(),
                _ => function.name.clone(),
            },
            start: function.start,
            size: function.size,
            file: source.file,
            line: source.line.unwrap_or(0),
            inlined: i < last,
        };
        sources.into_iter().enumerate().map(frame).collect()
    }
}

/// `name` made shorter by `shorten`.
fn shortened(name: Cow<'_, str>, shorten: fn(&str) -> Cow<'_, str>) -> Cow<'_, str> {
    match name {
        Cow::Borrowed(name) => shorten(name),
        Cow::Owned(name) => Cow::Owned(shorten(&name).into_owned()),
    }
}

/// Addresses per piece of work: enough to be worth a thread, few enough to spread.
const BATCH: usize = 512;

/// Adds the names and lines that `want` requests to frames of `profile` without them, on all cores.
pub fn symbolize(profile: &mut Profile, files: &ObjectFiles, want: Want) {
    symbolize_from(profile, 0, files, want);
}

/// The same, of the frames from `first` on: those before have been given it.
pub fn symbolize_from(profile: &mut Profile, first: usize, files: &ObjectFiles, want: Want) {
    files.note_dumps(profile);
    let batches = batches_of(profile.requests_from(want, first));
    let dsos = &profile.dsos;
    let answers: Vec<_> =
        batches.par_iter().map(|batch| files.symbolize(dsos.of(batch.dso), &batch.addrs, want)).collect();
    answer(profile, &batches, answers);
}

pub(crate) fn batches_of(requests: Vec<SymbolizeRequest>) -> Vec<SymbolizeRequest> {
    requests.into_iter().flat_map(|request| request.split(BATCH)).collect()
}

pub(crate) fn answer(profile: &mut Profile, batches: &[SymbolizeRequest], answers: Vec<Names>) {
    for (batch, answers) in batches.iter().zip(answers) {
        profile.answer(batch, answers);
    }
    profile.settle_precise_paths();
}

/// First address and bytes of the function that .eh_frame, or else the calls in the code, put around `addr`, in the
/// space of the DSO's frames.
pub fn function_around(dso: &Dso, file: &Loaded, info: &UnwindInfo, addr: u64) -> Option<(u64, u64)> {
    let svma = svma_of(dso, file, addr)?;
    let (start, end) = info.likely_function_range(svma)?;
    Some((addr.wrapping_sub(svma.0.wrapping_sub(start.0)), end.0.saturating_sub(start.0)))
}

/// The stated address of an address of the DSO's frames.
pub fn svma_of(dso: &Dso, file: &Loaded, addr: u64) -> Option<Svma> {
    match dso.kind {
        DsoKind::File | DsoKind::Vdso => file.svma_of(FileOffset(addr)),
        _ => Some(Svma(addr)),
    }
}

#[cfg(test)]
mod tests {
    use dso::kernel::kallsyms::Kallsyms;

    use super::*;

    #[test]
    fn a_part_inlined_into_its_own_function_is_that_function_with_the_line_of_the_part() {
        let frame = |function: Option<&str>, line| SourceFrame {
            function: function.map(str::to_owned),
            line: Some(line),
            ..SourceFrame::default()
        };
        let mut sources = vec![frame(Some("check"), 3), frame(Some("read"), 26), frame(Some("read"), 24)];
        merge_parts(&mut sources);
        assert_eq!(sources, [frame(Some("check"), 3), frame(Some("read"), 26)]);
        let mut only_lines = vec![frame(Some("main"), 1)];
        merge_parts(&mut only_lines);
        assert_eq!(only_lines.len(), 1);
    }

    #[test]
    fn the_last_byte_of_the_padding_before_a_kernel_function_is_named_after_it() {
        let text = b"1000 t one\n1100 t __pfx_two\n1110 t two\n1200 t three\n";
        let kernel = Kallsyms::parse(text).expect("symbols").kernel;
        let name_at = |svma: u64| {
            let found = kernel.find(Svma(svma)).expect("a symbol");
            past_padding(found, Svma(svma), |after| kernel.find(after)).name.to_owned()
        };
        assert_eq!(
            [0x10ff, 0x1100, 0x110e, 0x110f, 0x1110].map(name_at),
            ["one", "__pfx_two", "__pfx_two", "two", "two"]
        );
    }
}
