//! From addresses in traced processes to functions.

use crate::model::FunctionId;
use dso::MapLine;
use dso::{DebugSearch, FileOffset, Loader, Svma, Wanted};
use rustc_hash::FxHashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::folder::{Folder, Maps};
use super::function::Function;
use super::imports::ImportNames;
use super::kernel;
use crate::values::FunctionFormats;

/// All functions seen, numbered.
#[derive(Default)]
pub struct Functions {
    list: Vec<Function>,
    numbers: FxHashMap<Function, FunctionId>,
    loaded: FxHashMap<Vec<u8>, Option<dso::Loaded>>,
    loader: Option<Loader>,
    imports: ImportNames,
    values: FxHashMap<FunctionId, FunctionFormats>,
    /// Addresses without a symbol.
    pub unknown: usize,
}

/// Begin of a thread's file: decides which of a process's mappings hold.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadBegin {
    /// The kernel's number of the process.
    pub pid: u32,
    /// Value of the time stamp counter.
    pub tsc: u64,
}

impl Functions {
    /// None yet; files are looked for by `DebugSearch`.
    #[must_use]
    pub fn new() -> Self {
        Self { loader: Some(Loader::new(DebugSearch::from_env())), ..Self::default() }
    }

    /// The function of a number.
    #[must_use]
    pub fn of(&self, FunctionId(id): FunctionId) -> &Function {
        &self.list[id as usize]
    }

    /// All of them by number.
    #[must_use]
    pub fn all(&self) -> &[Function] {
        &self.list
    }

    /// The function at an address of a process.
    pub fn at(&mut self, folder: &Folder, begin: ThreadBegin, address: u64) -> FunctionId {
        let ThreadBegin { pid, tsc } = begin;
        if let Some(name) = folder.kernel.get(&address) {
            return self.number(Function::new(name.clone(), kernel::MAPPING.to_owned()));
        }
        if let Some(function) = folder.named.get(&address) {
            return self.number(function.clone());
        }
        let mapping = mapping_of(&folder.maps, pid, tsc, address);
        let Some((function, start)) = mapping.and_then(|line| self.look_up(line, address)) else {
            self.unknown += 1;
            let name = format!("{address:#x}");
            let dso =
                mapping.map(|line| String::from_utf8_lossy(&line.name).into_owned()).unwrap_or_default();
            return self.number(Function::new(name, dso));
        };
        let number = self.number(function);
        let object = mapping.map(|line| String::from_utf8_lossy(&line.name)).unwrap_or_default();
        if let Some(formats) = folder.values.get(&*object).and_then(|functions| functions.get(&start)) {
            self.show_values(number, formats.clone());
        }
        number
    }

    /// How a function's recorded arguments and result are shown.
    #[must_use]
    pub fn values(&self, function: FunctionId) -> Option<&FunctionFormats> {
        self.values.get(&function)
    }

    /// A function's values are recorded, and shown like this.
    pub fn show_values(&mut self, function: FunctionId, formats: FunctionFormats) {
        self.values.entry(function).or_insert(formats);
    }

    /// The number of a function.
    pub fn number(&mut self, function: Function) -> FunctionId {
        let next = FunctionId(self.list.len() as u32);
        *self.numbers.entry(function).or_insert_with_key(|function| {
            self.list.push(function.clone());
            next
        })
    }

    /// The function at an address, and where it starts; of an imported one its slot.
    fn look_up(&mut self, line: &MapLine, address: u64) -> Option<(Function, Svma)> {
        let loader = self.loader.as_ref();
        let path = Path::new(OsStr::from_bytes(&line.name));
        let loaded = self
            .loaded
            .entry(line.name.clone())
            .or_insert_with(|| loader?.load(&Wanted::File { path, build_id: None }).ok())
            .as_ref()?;
        let svma = loaded.svma_of(FileOffset(line.offset_of(address)))?;
        let dso = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let object = loaded.object().map(|object| &**object);
        if let Some(name) = self.imports.find(path, object, svma) {
            return Some((Function { name: name.to_owned(), dso, imported: true }, svma));
        }
        // A stripped program's function is called as the reports call it: after its place.
        let (name, start) = loaded.symbol(svma).map_or_else(
            |_| (format!("function {:#x}", svma.0), svma),
            |symbol| (dso::demangle(symbol.name).into_owned(), symbol.start),
        );
        Some((Function::new(name, dso), start))
    }
}

/// The mapping of `address`: in the last maps before `tsc`, or in later ones (objects opened afterwards).
fn mapping_of(maps: &[Maps], pid: u32, tsc: u64, address: u64) -> Option<&MapLine> {
    let own: Vec<&Maps> = maps.iter().filter(|maps| maps.pid == pid).collect();
    let first = own.iter().rposition(|maps| maps.moment.0 <= tsc).unwrap_or(0);
    own.get(first..)?.iter().find_map(|maps| {
        maps.lines.iter().find(|line| line.start <= address && address < line.end && !line.name.is_empty())
    })
}
