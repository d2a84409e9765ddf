//! Entry point for symbolizing: loads a DSO named by a recording, so that addresses can be looked up in it.

pub(crate) mod debug_search;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::dwarf::LinePool;
use crate::kernel::kallsyms::Kallsyms;
use crate::kernel::modules;
use crate::kernel::recorded_kernel::RecordedKernel;
use crate::kernel::vdso;
use crate::loader::debug_search::KernelNames;
use crate::symtab::index::TableKey;
use crate::symtab::made_lines::MadeLines;
use crate::symtab::perf_map;
use crate::{
    ArchivedDebugFiles, BuildId, DebugSearch, FileOffset, LineResolver, Missing, ObjectFile, SourceFrame,
    Svma, Symbol, SymbolIndex, SymbolTable,
};

/// A DSO as a recording names it.
#[derive(Clone, Copy, Debug)]
pub enum Wanted<'a> {
    /// An ELF file by its path, with the build-id recorded, if any.
    File {
        /// As recorded.
        path: &'a Path,
        /// From the recording; a file with another one is refused.
        build_id: Option<&'a BuildId>,
    },
    /// The kernel proper, `[kernel.kallsyms]`.
    Kernel {
        /// From the recording; without one [`Loader::of_kernel`] decides.
        build_id: Option<&'a BuildId>,
        /// Where the recording saw a symbol (its `_text` or `_stext`), to undo KASLR of another boot.
        reference: Option<(&'a str, u64)>,
    },
    /// A kernel module, by name without brackets.
    KernelModule {
        /// Such as `ext4`.
        name: &'a str,
        /// Where the recording saw it begin, to undo another boot's place. A kernel Avma.
        start: Option<u64>,
    },
    /// `[vdso]`.
    Vdso {
        /// From the recording.
        build_id: Option<&'a BuildId>,
    },
    /// JIT code: `/tmp/perf-PID.map`.
    PerfMap {
        /// The file as recorded, e.g. `/tmp/perf-123.map`.
        path: &'a Path,
        /// The users one of whom must own it; `None`: anybody.
        owners: Option<&'a [u32]>,
    },
}

/// Opens DSOs. Cheap to clone; used from many threads.
#[derive(Clone, Debug, Default)]
pub struct Loader {
    search: DebugSearch,
    index: Option<SymbolIndex>,
    kallsyms: Arc<OnceLock<Result<Arc<Kallsyms>, Missing>>>,
    /// `None` means the running kernel.
    kernel: Option<RecordedKernel>,
    is_running: Arc<OnceLock<bool>>,
}

impl Loader {
    /// Looks in the places of `search`; keeps nothing on disk.
    pub fn new(search: DebugSearch) -> Self {
        Self { search, ..Self::default() }
    }

    /// The same, with large symbol tables kept in `index`.
    pub fn with_index(self, index: Option<SymbolIndex>) -> Self {
        Self { index, ..self }
    }

    /// The same for a recording of this kernel: another kernel than the running one gets none of its names.
    pub fn of_kernel(self, kernel: RecordedKernel) -> Self {
        Self { kernel: Some(kernel), is_running: Arc::default(), ..self }
    }

    /// Is the recorded kernel the running one?
    pub fn is_running_kernel(&self) -> bool {
        let Some(kernel) = &self.kernel else { return true };
        *self.is_running.get_or_init(|| {
            let symbols = || self.kallsyms.get_or_init(|| Kallsyms::read().map(Arc::new)).as_deref().ok();
            kernel.is_running(symbols)
        })
    }

    /// Where it looks.
    pub fn search(&self) -> &DebugSearch {
        &self.search
    }

    /// The DSO, its symbols not read yet. `Err` is the reason why it is not available.
    pub fn load(&self, wanted: &Wanted<'_>) -> Result<Loaded, Missing> {
        match *wanted {
            Wanted::File { path, build_id } => self.file(path, build_id).map(|o| self.loaded(o)),
            Wanted::Vdso { build_id } => self.vdso(build_id).map(|o| self.loaded(o)),
            Wanted::Kernel { build_id, reference } => self.kernel(build_id, reference),
            Wanted::KernelModule { name, start } => self.module(name, start),
            Wanted::PerfMap { path, owners } => {
                perf_map::read(path, owners.map(<[u32]>::to_vec)).map(Loaded::of_table)
            }
        }
    }

    fn loaded(&self, object: ObjectFile) -> Loaded {
        Loaded {
            object: Some(Arc::new(object)),
            search: self.search.clone(),
            index: self.index.clone(),
            symbols: OnceLock::new(),
            lines: OnceLock::new(),
            made: MadeLines::default(),
            shift: 0,
        }
    }

    /// The file at its path if it is the build recorded, else a cached copy of that build.
    fn file(&self, path: &Path, build_id: Option<&BuildId>) -> Result<ObjectFile, Missing> {
        let at_path = ObjectFile::open(&self.search.rooted(path)).map_err(|e| e.missing());
        let Some(id) = build_id else { return at_path };
        match at_path {
            Ok(object) if object.matches(id) => Ok(object),
            Ok(_) => self.search.find_copy(id, path).ok_or(Missing::BuildIdMismatch),
            Err(why) => self.search.find_copy(id, path).ok_or(why),
        }
    }

    fn vdso(&self, build_id: Option<&BuildId>) -> Result<ObjectFile, Missing> {
        let own = vdso::own().map_err(|_| Missing::NoFile);
        let Some(id) = build_id else {
            return if self.is_running_kernel() { own } else { Err(Missing::OtherKernel) };
        };
        own.ok()
            .filter(|o| o.matches(id))
            .or_else(|| self.search.find_copy(id, Path::new("/[vdso]")))
            .ok_or(Missing::BuildIdMismatch)
    }

    fn running_kernel(&self) -> Result<Arc<Kallsyms>, Missing> {
        self.kallsyms.get_or_init(|| Kallsyms::read().map(Arc::new)).clone()
    }

    /// The running kernel's symbols: from the index if it has them at this boot's addresses.
    fn running_table(&self) -> Result<SymbolTable, Missing> {
        let key = crate::elf::kernel_build_id().map(|id| TableKey::of_running_kernel(&id));
        let Some((index, key)) = self.index.as_ref().zip(key) else {
            return Ok(self.running_kernel()?.kernel.clone());
        };
        // A kernel is at another address after each boot.
        let start = Kallsyms::start_of_running();
        let is_of_this_boot = |table: &SymbolTable| start.is_some() && Kallsyms::start_of(table) == start;
        if let Some(table) = index.load(&key).filter(is_of_this_boot) {
            return Ok(table);
        }
        let table = self.running_kernel()?.kernel.clone();
        index.store(&key, &table);
        Ok(table)
    }

    fn module(&self, name: &str, start: Option<u64>) -> Result<Loaded, Missing> {
        if !self.is_running_kernel() {
            return Err(Missing::OtherKernel);
        }
        let all = self.running_kernel()?;
        let table = all.modules.get(name).ok_or(Missing::NoKallsyms)?.clone();
        let shift =
            start.zip(modules::start_of_running(name)).map(|(recorded, own)| recorded.wrapping_sub(own.0));
        Ok(Loaded { shift: shift.unwrap_or(0), ..Loaded::of_table(table) })
    }

    fn kernel(&self, build_id: Option<&BuildId>, reference: Option<(&str, u64)>) -> Result<Loaded, Missing> {
        let (table, start) = self.kernel_table(build_id)?;
        let shift = reference.and_then(|(name, address)| {
            // The table keeps only one of several names for an address.
            let named = || table.by_name(name).next().map(|symbol| symbol.start);
            let start = start.or_else(named).or_else(|| Kallsyms::start_of(&table))?;
            Some(address.wrapping_sub(start.0))
        });
        Ok(Loaded { shift: shift.unwrap_or(0), ..Loaded::of_table(table) })
    }

    /// The kernel's symbols; and where its code begins, if the table may not have the name of that place.
    fn kernel_table(&self, build_id: Option<&BuildId>) -> Result<(SymbolTable, Option<Svma>), Missing> {
        match &self.search.kernel {
            Some(KernelNames::Kallsyms(path)) => return Ok((Kallsyms::read_named(path)?.kernel, None)),
            Some(KernelNames::Image(path)) => return image_table(path, build_id),
            None => {}
        }
        let is_running = match build_id {
            Some(id) => crate::elf::kernel_build_id().is_some_and(|own| own.same_as(id)),
            None => self.is_running_kernel(),
        };
        if is_running {
            return Ok((self.running_table()?, None));
        }
        let copy = build_id.and_then(|id| self.search.find_kallsyms(id)).ok_or(Missing::OtherKernel)?;
        Ok((Kallsyms::read_copy(&copy)?.kernel, None))
    }
}

/// The symbols of a kernel image, and where its code begins (`_text` is one of several names of that place); lines are
/// not read from it.
fn image_table(path: &Path, build_id: Option<&BuildId>) -> Result<(SymbolTable, Option<Svma>), Missing> {
    let image = ObjectFile::open(path).map_err(|e| e.missing())?;
    if build_id.is_some_and(|id| !image.matches(id)) {
        return Err(Missing::BuildIdMismatch);
    }
    let start = image.section(".text").map(|text| Svma(text.svma.start));
    Ok((SymbolTable::load(&image, None), start))
}

/// A DSO that answers addresses. Symbols are read at the first [`Loaded::symbol`], DWARF at the first
/// [`Loaded::frames`]. `Send` and `Sync`; threads that ask for lines at once get a resolver each.
pub struct Loaded {
    object: Option<Arc<ObjectFile>>,
    search: DebugSearch,
    index: Option<SymbolIndex>,
    symbols: OnceLock<SymbolTable>,
    lines: OnceLock<Option<LinePool>>,
    /// Lines of JIT code.
    made: MadeLines,
    /// Added to a table's addresses to give the recording's (KASLR).
    shift: u64,
}

impl Loaded {
    /// All names of code without a file.
    pub fn of_table(table: SymbolTable) -> Self {
        Self {
            object: None,
            search: DebugSearch::default(),
            index: None,
            symbols: OnceLock::from(table),
            lines: OnceLock::from(None),
            made: MadeLines::default(),
            shift: 0,
        }
    }

    /// JIT code by the text of a map that was kept with a recording: it may have lines, too.
    pub fn of_kept_map(text: &[u8]) -> Self {
        Self { made: MadeLines::parse(text), ..Self::of_table(perf_map::parse(text)) }
    }

    /// An object file from an archive, with the debug files that came with it.
    pub fn archived(object: ObjectFile, debug: ArchivedDebugFiles) -> Self {
        let search = DebugSearch { archived: Some(debug), ..DebugSearch::default() };
        Loader::new(search).loaded(object)
    }

    /// The files that have its debug information: its own, if that is another file, and dwz's common part.
    pub fn debug_files(&self) -> [Option<ObjectFile>; 2] {
        let Some(object) = &self.object else { return [None, None] };
        let debug = self.search.find_debug(object);
        let common = self.search.find_alt(debug.as_ref().unwrap_or(object));
        [debug, common]
    }

    /// An address of the recording as it is in the running kernel (of a table of its symbols).
    pub fn running(&self, svma: Svma) -> crate::Avma {
        crate::Avma(svma.0.wrapping_sub(self.shift))
    }

    /// The ELF file, `None` for kallsyms and perf maps.
    pub fn object(&self) -> Option<&Arc<ObjectFile>> {
        self.object.as_ref()
    }

    /// Where the file was found.
    pub fn path(&self) -> Option<PathBuf> {
        self.object.as_ref()?.path().map(Path::to_owned)
    }

    /// From a mapping's file offset to the stated address. For kallsyms and perf maps the two are the same.
    pub fn svma_of(&self, offset: FileOffset) -> Option<Svma> {
        match &self.object {
            Some(object) => object.svma_of(offset),
            None => Some(Svma(offset.0)),
        }
    }

    /// All symbols.
    pub fn symbols(&self) -> &SymbolTable {
        self.symbols.get_or_init(|| match &self.object {
            Some(object) => self.read_symbols(object),
            None => SymbolTable::empty(),
        })
    }

    fn read_symbols(&self, object: &ObjectFile) -> SymbolTable {
        let debug = self.search.find_debug(object);
        let key = TableKey::of_object(object, debug.as_ref());
        let index = self.index.as_ref().zip(key.as_ref());
        if let Some(known) = index.and_then(|(index, key)| index.load(key)) {
            return known;
        }
        let table = SymbolTable::load(object, debug.as_ref());
        // The table of a file that was truncated meanwhile is not stored.
        let is_whole = [Some(object), debug.as_ref()].into_iter().flatten().all(|o| o.bytes().is_intact());
        if let Some((index, key)) = index.filter(|(index, key)| is_whole && index.store(key, &table)) {
            // The stored one is mapped: memory is only what is looked at.
            return index.load(key).unwrap_or(table);
        }
        table
    }

    /// The symbol covering `svma`, with the addresses of the recording.
    pub fn symbol(&self, svma: Svma) -> Result<Symbol<'_>, Missing> {
        let table = self.symbols();
        if table.is_empty() {
            return Err(Missing::NoSymbolTable);
        }
        let found = table.find(Svma(svma.0.wrapping_sub(self.shift))).ok_or(Missing::NoSymbolAt)?;
        let moved = |a: Svma| Svma(a.0.wrapping_add(self.shift));
        Ok(Symbol { start: moved(found.start), end: moved(found.end), name: found.name })
    }

    /// Appends the source frames of `svma`, innermost first.
    pub fn frames(&self, svma: Svma, out: &mut Vec<SourceFrame>) -> Result<(), Missing> {
        if self.made.frames(svma, self.symbols(), out) {
            return Ok(());
        }
        self.with_lines(|lines| lines.frames(svma, out))?
    }

    /// Runs `ask` on a line resolver of this thread's own; the DWARF is opened at the first call.
    pub fn with_lines<T>(&self, ask: impl FnOnce(&mut LineResolver) -> T) -> Result<T, Missing> {
        let open = || LinePool::open(self.object.as_ref()?, &self.search).ok().flatten();
        let lines = self.lines.get_or_init(open).as_ref().ok_or(Missing::NoDebugInfo)?;
        lines.with(ask).map_err(|_| Missing::NoDebugInfo)
    }
}
