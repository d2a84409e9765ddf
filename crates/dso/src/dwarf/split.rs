//! Split DWARF: units with most of their data in `.dwo` files, or in one `.dwp` next to the program.

use std::cell::OnceCell;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use addr2line::SplitDwarfLoad;

use super::metered::grant;
use super::resolver::{Reader, SharedDwarf, load_dwo, section};
use crate::ObjectFile;

pub(super) struct SplitFiles {
    program: Option<PathBuf>,
    /// Looked for at its first use.
    package: OnceCell<Option<gimli::DwarfPackage<Reader>>>,
}

impl SplitFiles {
    pub(super) fn new(program: Option<&Path>) -> Self {
        Self { program: program.map(Path::to_owned), package: OnceCell::new() }
    }

    /// The bulk of the unit `wanted` names, `None` if it isn't to be found.
    pub(super) fn load(&mut self, wanted: &SplitDwarfLoad<Reader>) -> Option<SharedDwarf> {
        self.find_in_package(wanted).or_else(|| self.open_dwo(wanted))
    }

    fn find_in_package(&mut self, wanted: &SplitDwarfLoad<Reader>) -> Option<SharedDwarf> {
        let program = &self.program;
        let package = self.package.get_or_init(|| open_package(program.as_deref()?)).as_ref()?;
        package.find_cu(wanted.dwo_id, &wanted.parent).ok().flatten().map(Arc::new)
    }

    fn open_dwo(&self, wanted: &SplitDwarfLoad<Reader>) -> Option<SharedDwarf> {
        let path = |r: Reader| PathBuf::from(std::ffi::OsStr::from_bytes(r.slice()));
        let name = path(wanted.path?);
        let folder = wanted.comp_dir.map(path).unwrap_or_default();
        let beside = self
            .program
            .as_deref()
            .and_then(Path::parent)
            .map(|f| f.join(name.file_name().unwrap_or_default()));
        let file =
            std::iter::once(folder.join(&name)).chain(beside).find_map(|p| ObjectFile::open(&p).ok())?;
        let mut dwarf = load_dwo(&file)?;
        let same = dwarf.units().next().ok()??;
        let unit = dwarf.unit(same).ok()?;
        if unit.dwo_id.is_some_and(|id| id != wanted.dwo_id) {
            return None; // rebuilt since
        }
        dwarf.make_dwo(&wanted.parent);
        Some(Arc::new(dwarf))
    }
}

/// `PROGRAM.dwp`.
fn open_package(program: &Path) -> Option<gimli::DwarfPackage<Reader>> {
    let mut name = program.as_os_str().to_owned();
    name.push(".dwp");
    let file = ObjectFile::open(Path::new(&name)).ok()?;
    let empty = section(&file, "");
    let load = |id: gimli::SectionId| {
        let found = section(&file, id.dwo_name().unwrap_or_default());
        grant(found.slice().len() as u64);
        Ok::<_, gimli::Error>(found)
    };
    gimli::DwarfPackage::load(load, empty).ok()
}
