//! The code an Intel PT trace ran through: object files by mapping, functions by symbol.

mod running;

use crate::model::FunctionId;
use crate::pt::{CodeMapping, Sideband};
use dso::unwind::UnwindInfo;
use dso::{DebugSearch, FileOffset, Loaded, Loader, Missing as NoCode, RecordedKernel, Svma, Wanted};
use profile::machine::is_kernel_proper;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::kernel::{KernelCode, is_kernel, module_name};
use crate::recording::function::Function;
use crate::recording::functions::Functions;
use running::whole;
pub use running::{CodeAt, ProcessMoment, RunningImage};

/// A file that code ran in.
struct CodeFile {
    loaded: Result<Loaded, NoCode>,
    /// Bounds functions where the file was stripped of symbols.
    unwind: Option<Arc<UnwindInfo>>,
    name: String,
}

/// A function of a file.
struct Bounds {
    /// Stated addresses.
    range: Range<u64>,
    /// As its symbol or its place has it.
    name: String,
}

impl CodeFile {
    /// The function around a stated address; `None` when neither symbols nor unwind tables know one.
    fn bounds(&self, svma: Svma) -> Option<Bounds> {
        if let Ok(symbol) = self.loaded.as_ref().ok()?.symbol(svma) {
            let name = whole(&dso::demangle(symbol.name)).to_owned();
            return Some(Bounds { range: symbol.start.0..symbol.end.0, name });
        }
        let (start, end) = self.unwind.as_ref()?.function_range(svma)?;
        Some(Bounds { range: start.0..end.0, name: dso::unnamed_function(start) })
    }
}

/// Where a function is: its file and its start there. Functions split by the compiler count as one.
type FunctionStart = (u32, u64);

/// All files and functions of a recording, shared by all who decode it.
pub struct TraceCode {
    loader: Loader,
    files: Vec<CodeFile>,
    by_name: FxHashMap<(String, Option<Vec<u8>>), u32>,
    kernel: KernelCode,
    functions: Mutex<Found>,
}

#[derive(Default)]
struct Found {
    functions: Functions,
    numbers: FxHashMap<FunctionStart, FunctionId>,
    missing: BTreeSet<String>,
}

impl TraceCode {
    /// Opens every file that the sideband names, of a recording on this kernel.
    #[must_use]
    pub fn open(side: &Sideband<'_>, kernel_recorded: RecordedKernel) -> Self {
        let kernel = || side.all_code().filter(|mapping| is_kernel(mapping.start));
        let loader = Loader::new(DebugSearch::from_env()).of_kernel(kernel_recorded);
        let is_running = loader.is_running_kernel();
        let mut code = Self {
            kernel: KernelCode::open(kernel(), side.pokes(), is_running),
            loader,
            files: Vec::new(),
            by_name: FxHashMap::default(),
            functions: Mutex::default(),
        };
        for mapping in side.all_code() {
            let key = (mapping.name.clone(), mapping.build_id.clone());
            if code.by_name.contains_key(&key) {
                continue;
            }
            let loaded = code.load(mapping);
            code.by_name.insert(key, code.files.len() as u32);
            let object = loaded.as_ref().ok().and_then(Loaded::object);
            let unwind = object.map(|object| UnwindInfo::new(Arc::clone(object)));
            code.files.push(CodeFile { loaded, unwind, name: mapping.name.clone() });
        }
        code
    }

    fn load(&self, mapping: &CodeMapping) -> Result<Loaded, NoCode> {
        let build_id = mapping.build_id.as_deref().and_then(dso::BuildId::from_bytes);
        let build_id = build_id.as_ref();
        let module = module_name(&mapping.name);
        let wanted = match mapping.name.as_str() {
            "[vdso]" => Wanted::Vdso { build_id },
            name if is_kernel_proper(name) => Wanted::Kernel { build_id, reference: None },
            _ if is_kernel(mapping.start) => Wanted::KernelModule { name: &module, start: None },
            name => Wanted::File { path: Path::new(name), build_id },
        };
        self.loader.load(&wanted)
    }

    fn file_of(&self, mapping: &CodeMapping) -> Option<u32> {
        self.by_name.get(&(mapping.name.clone(), mapping.build_id.clone())).copied()
    }

    /// The file's name, the symbol with its start, and the code at an address of a process at a time, as far as they
    /// can be had.
    pub fn at<'c>(&'c self, side: &'c Sideband<'_>, moment: ProcessMoment, ip: u64) -> CodeAt<'c> {
        const LONGEST: usize = 15;
        let ProcessMoment { pid, time_ns } = moment;
        if let Some(made) = side.made_at(pid, ip, time_ns) {
            let behind = ip - made.start;
            let code = made.code.get(behind as usize..).unwrap_or_default();
            return CodeAt { file: Some(MADE), offset: None, symbol: Some((&made.name, behind)), code };
        }
        let mappings = if is_kernel(ip) {
            side.kernel(time_ns)
        } else {
            side.code(pid, time_ns).map_or(&[][..], |(_, list)| list)
        };
        let Some(mapping) = mappings.iter().find(|mapping| ip.wrapping_sub(mapping.start) < mapping.bytes)
        else {
            return CodeAt::default();
        };
        let file = self.file_of(mapping).and_then(|number| self.files.get(number as usize));
        let loaded = file.and_then(|file| file.loaded.as_ref().ok());
        let svma = loaded.and_then(|loaded| svma_of(loaded, mapping, ip));
        let symbol = loaded.zip(svma).and_then(|(loaded, svma)| loaded.symbol(svma).ok());
        let symbol = symbol.zip(svma).map(|(symbol, svma)| (symbol.name, svma.0 - symbol.start.0));
        let object = loaded.and_then(|loaded| loaded.object());
        let code = match object.zip(svma) {
            Some((object, svma)) => (1..=LONGEST).rev().find_map(|bytes| object.bytes_at(svma, bytes)),
            None => self.kernel.bytes(ip, time_ns).filter(|_| is_kernel(ip)),
        };
        CodeAt {
            file: Some(&mapping.name),
            offset: Some(mapping.offset_of(ip)),
            symbol,
            code: code.unwrap_or_default(),
        }
    }

    /// The functions met, once all is decoded, numbered by name; and the new number of each old one.
    #[must_use]
    pub fn functions_by_name(&self) -> (Functions, Vec<FunctionId>) {
        let found = self.found();
        let mut sorted: Vec<&Function> = found.functions.all().iter().collect();
        sorted.sort();
        let mut functions = Functions::new();
        sorted.into_iter().for_each(|function| {
            functions.number(function.clone());
        });
        let order = found.functions.all().iter().map(|function| functions.number(function.clone())).collect();
        (functions, order)
    }

    /// Files whose code was missing, with the reason.
    pub fn missing(&self) -> BTreeSet<String> {
        self.found().missing.clone()
    }

    /// The functions met so far, from this number on.
    pub fn functions_from(&self, first: usize) -> Vec<Function> {
        self.found().functions.all().iter().skip(first).cloned().collect()
    }

    /// The number of what is in no mapping.
    pub fn unknown(&self) -> u32 {
        let function = Function::new("[unknown]".into(), String::new());
        self.found().functions.number(function).0
    }

    fn found(&self) -> MutexGuard<'_, Found> {
        self.functions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The function at a stated address of a file: its number, and the stated addresses that it covers; `None` for
    /// these when its end is unknown.
    fn function(&self, file: u32, svma: Svma) -> (FunctionId, Option<Range<u64>>) {
        let of = &self.files[file as usize];
        let bounds = of.bounds(svma);
        let range = bounds.as_ref().map(|bounds| bounds.range.clone());
        let place = (file, range.as_ref().map_or(u64::MAX, |range| range.start));
        let mut found = self.found();
        if let Some(known) = found.numbers.get(&place) {
            return (*known, range);
        }
        let dso = of.name.rsplit('/').next().unwrap_or(&of.name).to_owned();
        let name = bounds.map_or_else(|| format!("[{dso}]"), |bounds| bounds.name);
        let id = found.functions.number(Function::new(name, dso));
        found.numbers.insert(place, id);
        (id, range)
    }
}

/// Key under which code made at run time is filed.
const MADE: &str = "[jit]";

/// The stated address of an address in a mapping; the kernel's symbols are stated as they run.
fn svma_of(loaded: &Loaded, mapping: &CodeMapping, ip: u64) -> Option<Svma> {
    if is_kernel(ip) && loaded.object().is_none() {
        return Some(Svma(ip));
    }
    loaded.svma_of(FileOffset(mapping.offset_of(ip)))
}
