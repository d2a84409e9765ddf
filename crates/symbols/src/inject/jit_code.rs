//! Code in the jitdump files of a recording: an ELF file for each function, and a mapping for each.

use super::{CreateFile, InjectError};
use dso::elf::code_object::{CodeObject, TEXT_OFFSET};
use dso::{FileRule, MappedFile};
use perfdata::jitdump::{JitDump, JitKind};
use perfdata::{Avma, Order, PerfData, Record, SampleId};
use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Larger dumps are not read.
const MAX_DUMP_BYTES: u64 = 16 << 30;
/// `CLOCK_MONOTONIC`, the clock of jitdump files.
const MONOTONIC: i32 = 1;

/// A jitdump that a process had mapped.
struct MappedDump {
    pid: u32,
    path: PathBuf,
    time_ns: u64,
    id: SampleId,
    event: usize,
    tid: u32,
}

/// A mapping to add to a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMapping {
    /// ns of the recording's clock.
    pub time_ns: u64,
    /// Event whose layout the record has.
    pub event: usize,
    /// Trailer of the record.
    pub id: SampleId,
    /// Process and thread.
    pub task: (u32, u32),
    /// First address, and bytes.
    pub code: (Avma, u64),
    /// The ELF file with it.
    pub file: PathBuf,
}

/// The mappings of all JIT code of a recording.
#[derive(Debug, Default)]
pub struct JitMappings {
    /// By time.
    pub mappings: Vec<NewMapping>,
    /// Processes whose anonymous executable mappings these replace.
    pub processes: Vec<u32>,
    /// Jitdumps that could not be read, and why.
    pub unreadable: Vec<(PathBuf, String)>,
    /// The recording has another clock than the jitdumps: code is mapped from the start.
    pub is_untimed: bool,
}

/// Writes an ELF file for each function, next to its jitdump, as perf does: `jitted-PID-N.so`.
///
/// # Errors
/// A file can't be written.
pub fn write_code(file: &PerfData<'_>, create: CreateFile<'_>) -> Result<JitMappings, InjectError> {
    let is_untimed = !file.events().first().is_some_and(|event| {
        event.attr.flags.has(perfdata::AttrFlags::USE_CLOCKID) && event.attr.clockid == MONOTONIC
    });
    let mut all = JitMappings { is_untimed, ..JitMappings::default() };
    for (pid, mapped) in mapped_dumps(file) {
        let bytes = MappedFile::open_by(&FileRule::up_to(MAX_DUMP_BYTES).dense(), &mapped.path);
        let dump = match &bytes {
            Ok(bytes) => JitDump::parse(bytes).map_err(|why| why.to_string()),
            Err(why) => Err(why.to_string()),
        };
        match dump {
            Ok(dump) => {
                write_dump(&mapped, &dump, create, &mut all)?;
                all.processes.push(pid);
            }
            Err(why) => all.unreadable.push((mapped.path, why)),
        }
    }
    all.mappings.sort_by_key(|mapping| mapping.time_ns);
    Ok(all)
}

/// The jitdumps among the mapped files, by process.
fn mapped_dumps(file: &PerfData<'_>) -> BTreeMap<u32, MappedDump> {
    let mut dumps = BTreeMap::new();
    file.visit(Order::File, |item| {
        if let Record::Mmap(map) = &item.record
            && is_dump(map.filename)
        {
            let path = PathBuf::from(String::from_utf8_lossy(map.filename).into_owned());
            let time_ns = item.time_ns().unwrap_or(0);
            let (id, event) = (item.sample_id.unwrap_or_default(), item.event.unwrap_or(0));
            dumps.entry(map.pid).or_insert(MappedDump {
                pid: map.pid,
                path,
                time_ns,
                id,
                event,
                tid: map.tid,
            });
        }
        ControlFlow::Continue(())
    });
    dumps
}

/// `jit-PID.dump`.
pub(super) fn is_dump(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let number = name.strip_prefix(b"jit-").and_then(|rest| rest.strip_suffix(b".dump"));
    number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
}

fn write_dump(
    mapped: &MappedDump,
    dump: &JitDump<'_>,
    create: CreateFile<'_>,
    all: &mut JitMappings,
) -> Result<(), InjectError> {
    let pid = mapped.pid;
    let machine = u16::try_from(dump.machine).unwrap_or(0);
    let folder = mapped.path.parent().unwrap_or(Path::new("."));
    // Code by its address, for moves.
    let mut files: HashMap<u64, PathBuf> = HashMap::new();
    for (number, event) in dump.events.iter().enumerate() {
        let (addr, len, path) = match event.kind {
            JitKind::Load { addr, name, code } => {
                let path = folder.join(format!("jitted-{pid}-{number}.so"));
                let build_id = build_id_of(code, pid, number);
                let object = CodeObject { machine, name, code, build_id };
                let written = create(&path).and_then(|mut file| file.write_all(&object.to_bytes()));
                written.map_err(InjectError::at(&path))?;
                (addr, code.len() as u64, path)
            }
            JitKind::Move { from, to, bytes } => match files.get(&from.0) {
                Some(path) => (to, bytes, path.clone()),
                None => continue,
            },
        };
        files.insert(addr.0, path.clone());
        let time_ns =
            if all.is_untimed || dump.is_tsc { mapped.time_ns } else { event.time.max(mapped.time_ns) };
        let id = SampleId { time_ns: mapped.id.time_ns.map(|_| time_ns), ..mapped.id };
        let task = (pid, mapped.tid);
        all.mappings.push(NewMapping {
            time_ns,
            event: mapped.event,
            id,
            task,
            code: (addr, len),
            file: path,
        });
    }
    all.is_untimed |= dump.is_tsc;
    Ok(())
}

/// Differs for each function of a recording, and is the same when it is written again: FNV-1a of the code, then
/// process and number.
fn build_id_of(code: &[u8], pid: u32, number: usize) -> [u8; 20] {
    let hash = code.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut id = [0; 20];
    id[..8].copy_from_slice(&hash.to_be_bytes());
    id[8..12].copy_from_slice(&pid.to_be_bytes());
    id[12..].copy_from_slice(&(number as u64).to_be_bytes());
    id
}

impl NewMapping {
    /// The record to write.
    #[must_use]
    pub fn record<'r>(&self, path: &'r [u8]) -> Record<'r> {
        /// `PROT_READ | PROT_EXEC`, `MAP_PRIVATE`.
        const PROT_FLAGS: (u32, u32) = (1 | 4, 2);
        let file_id = perfdata::record::FileId::Inode { major: 0, minor: 0, inode: 0, generation: 0 };
        Record::Mmap(perfdata::record::Mmap {
            pid: self.task.0,
            tid: self.task.1,
            addr: self.code.0,
            len: self.code.1,
            pgoff: TEXT_OFFSET,
            filename: path,
            file_id,
            prot_flags: Some(PROT_FLAGS),
            cpu_mode: perfdata::CpuMode::User,
            is_data: false,
            parse_timeout: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jitdump_is_known_by_its_name() {
        let names = ["/tmp/jit-12.dump", "jit-1.dump", "/tmp/jit-.dump", "/tmp/jit-12.so", "/jit-x.dump"];
        assert_eq!(names.map(|name| is_dump(name.as_bytes())), [true, true, false, false, false]);
    }

    #[test]
    fn functions_with_the_same_code_have_build_ids_of_their_own() {
        assert_ne!(build_id_of(b"\x90", 1, 1), build_id_of(b"\x90", 1, 2));
        assert_ne!(build_id_of(b"\x90", 1, 1), build_id_of(b"\x91", 1, 1));
        assert_eq!(build_id_of(b"\x90", 1, 1), build_id_of(b"\x90", 1, 1));
    }
}
