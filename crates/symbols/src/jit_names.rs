//! Where the names of JIT code come from: a map kept with the recording, `/tmp/perf-PID.map`, the same file as a process in a container sees it, and the
//! `jit-PID.dump` that the process has mapped.

use dso::symtab::perf_map;
use dso::{FileRule, Loaded, Loader, MappedFile, Missing, Wanted};
use perfdata::PerfData;
use perfdata::appendix::jit_maps::JitMaps;
use perfdata::jitdump::{JitDump, JitKind};
use profile::table::{Dso, DsoKind};
use rustc_hash::FxHashMap;
use std::path::{Path, PathBuf};

/// Larger dumps are not read: a runtime that runs for weeks writes some GB of code.
const MAX_DUMP_BYTES: u64 = 16 << 30;

/// Places of names by the recording itself, by process.
#[derive(Default)]
pub(crate) struct RecordedNames {
    /// The text of maps.
    maps: FxHashMap<i32, Vec<u8>>,
    /// Jitdumps that were mapped.
    dumps: FxHashMap<i32, PathBuf>,
}

impl RecordedNames {
    /// The maps kept with `file`.
    pub(crate) fn of_recording(file: &PerfData<'_>) -> Self {
        let maps = file.appendix().and_then(|appendix| JitMaps::read(appendix, file.endian()));
        let maps = maps.map(|maps| maps.0).unwrap_or_default().into_iter();
        let maps = maps.filter_map(|map| Some((i32::try_from(map.pid).ok()?, map.text))).collect();
        Self { maps, dumps: FxHashMap::default() }
    }

    /// Remembers the jitdumps among `dsos`.
    pub(crate) fn note_dumps<'d>(&mut self, dsos: impl Iterator<Item = &'d Dso>) {
        self.dumps.extend(dsos.filter_map(|dso| Some((pid_of_dump(dso)?, PathBuf::from(&dso.path)))));
    }

    /// The names of the JIT code of process `pid`, in files of one of `owners` (`None`: anybody).
    pub(crate) fn load(&self, loader: &Loader, pid: i32, owners: Option<&[u32]>) -> Result<Loaded, Missing> {
        if let Some(text) = self.maps.get(&pid) {
            return Ok(Loaded::of_kept_map(text));
        }
        load(loader, pid, self.dumps.get(&pid).map(PathBuf::as_path), owners)
    }
}

/// The process a mapped file is the jitdump of, by its name.
fn pid_of_dump(dso: &Dso) -> Option<i32> {
    let number = dso.short_name.strip_prefix("jit-")?.strip_suffix(".dump")?;
    number.parse().ok().filter(|_| dso.kind == DsoKind::File)
}

fn load(loader: &Loader, pid: i32, dump: Option<&Path>, owners: Option<&[u32]>) -> Result<Loaded, Missing> {
    let map = |path: &Path| loader.load(&Wanted::PerfMap { path, owners });
    let host = map(Path::new(&format!("/tmp/perf-{pid}.map")));
    host.or_else(|why| match why {
        Missing::NoPerfMap => inner_map(pid).map_or(Err(why), |path| map(&path)),
        _ => Err(why),
    })
    .or_else(|why| dump.map_or(Err(why), |path| of_dump(path, owners)))
}

/// The map of a process in a container: it knows itself by another number, and `/tmp` as another folder.
fn inner_map(pid: i32) -> Option<PathBuf> {
    let pid = u32::try_from(pid).ok()?;
    let inner = dso::innermost_pid(pid)?;
    Some(PathBuf::from(format!("/proc/{pid}/root/tmp/perf-{inner}.map")))
}

fn of_dump(path: &Path, owners: Option<&[u32]>) -> Result<Loaded, Missing> {
    let rule = FileRule::up_to(MAX_DUMP_BYTES).dense();
    let rule = owners.map(<[u32]>::to_vec).into_iter().fold(rule, FileRule::owned_by);
    let bytes = MappedFile::open_by(&rule, path).map_err(|_| Missing::NoPerfMap)?;
    let dump = JitDump::parse(&bytes).map_err(|_| Missing::NoPerfMap)?;
    Ok(Loaded::of_table(perf_map::of_code(code_of(&dump))))
}

/// Start, size and name of all code, in the order in which it was made or moved.
fn code_of<'d>(dump: &JitDump<'d>) -> Vec<(u64, u64, &'d str)> {
    let mut named: FxHashMap<u64, &'d str> = FxHashMap::default();
    let mut all = Vec::new();
    for event in &dump.events {
        let (start, size, name) = match event.kind {
            JitKind::Load { addr, name, code } => (addr.0, code.len() as u64, std::str::from_utf8(name).ok()),
            JitKind::Move { from, to, bytes } => (to.0, bytes, named.get(&from.0).copied()),
        };
        if let Some(name) = name {
            named.insert(start, name);
            all.push((start, size, name));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfdata::Avma;
    use perfdata::jitdump::JitEvent;

    #[test]
    fn code_that_moved_keeps_its_name() {
        let event = |kind| JitEvent { time: 0, kind };
        let load = |addr, name: &'static str| JitKind::Load {
            addr: Avma(addr),
            name: name.as_bytes(),
            code: &[0; 16],
        };
        let events = vec![
            event(load(0x1000, "first")),
            event(load(0x2000, "second")),
            event(JitKind::Move { from: Avma(0x1000), to: Avma(0x3000), bytes: 16 }),
            event(load(0x1000, "third")),
        ];
        let dump = JitDump { pid: 7, machine: 62, is_tsc: false, events, cut: None };
        let table = perf_map::of_code(code_of(&dump));
        let name = |at| table.find(dso::Svma(at)).map(|symbol| symbol.name.to_owned());
        let names = [0x1008, 0x2008, 0x3008].map(|at| name(at).unwrap_or_default());
        assert_eq!(names, ["third", "second", "first"]);
    }
}
