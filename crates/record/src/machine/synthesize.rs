//! Records of processes that already run: names, threads and mappings from /proc, the kernel's own ranges.
//!
//! The same records the kernel would have written, with time 0, before all others.

use std::io::{BufRead, BufReader};

use dso::system_file;
use perfdata::record::{Cgroup, Comm, FileId, Mmap, Namespaces, TaskRecord};
use perfdata::{Avma, CpuMode, Record, SampleId};

use crate::machine::proc::{self, MapLine};

/// Describes the running kernel and its modules. Nothing if its addresses are hidden from us.
pub fn kernel(mut with: impl FnMut(&Record<'_>, &SampleId)) {
    let Some(symbols) = KernelRange::read() else { return };
    let name = [b"[kernel.kallsyms]", symbols.reference.as_bytes()].concat();
    let core = kernel_mmap(symbols.start, symbols.end, symbols.reference_address, &name);
    with(&Record::Mmap(core), &kernel_id());
    let release = system_file::read_text("/proc/sys/kernel/osrelease").unwrap_or_default();
    let files = module_files(release.trim());
    for (module, start, len) in modules() {
        let path = files.iter().find(|(name, _)| *name == module).map(|(_, path)| path.clone());
        let name = path.unwrap_or_else(|| format!("[{module}]"));
        with(&Record::Mmap(kernel_mmap(start, start + len, 0, name.as_bytes())), &kernel_id());
    }
}

/// Describes a process: its name, threads and executable mappings (all of them with `data`). `false` if it is gone
/// or not ours to read.
pub fn process(pid: u32, opts: ProcessOpts, mut with: impl FnMut(&Record<'_>, &SampleId)) -> bool {
    let Some(status) = proc::status(pid) else { return false };
    let leader = TaskRecord { pid, ppid: status.parent, tid: pid, ptid: status.parent, time_ns: 0 };
    with(&Record::Fork(leader), &id_of(pid, pid));
    with(&comm(pid, pid, &status.comm), &id_of(pid, pid));
    if opts.namespaces {
        let words: Vec<u64> = proc::namespaces(pid).into_iter().flat_map(|(dev, ino)| [dev, ino]).collect();
        with(&Record::Namespaces(Namespaces::from_words(pid, pid, &words)), &id_of(pid, pid));
    }
    for tid in proc::threads(pid).unwrap_or_default().into_iter().filter(|&t| t != pid) {
        let Some(thread) = proc::status(tid) else { continue };
        let task = TaskRecord { pid, ppid: pid, tid, ptid: pid, time_ns: 0 };
        with(&Record::Fork(task), &id_of(pid, tid));
        with(&comm(pid, tid, &thread.comm), &id_of(pid, tid));
    }
    let Some(maps) = proc::maps(pid) else { return false };
    for line in &maps {
        let is_code = line.prot & libc::PROT_EXEC as u32 != 0;
        if is_code || (opts.data && line.prot & libc::PROT_READ as u32 != 0) {
            with(&Record::Mmap(user_mmap(pid, line, is_code)), &id_of(pid, pid));
        }
    }
    true
}

/// Names the cgroups that exist.
pub fn cgroups(mut with: impl FnMut(&Record<'_>, &SampleId)) {
    for (id, path) in crate::cgroups::paths_by_id() {
        with(&Record::Cgroup(Cgroup { id, path: path.as_bytes() }), &kernel_id());
    }
}

/// The parts of a process to write records for.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessOpts {
    /// Mappings of data as well.
    pub data: bool,
    /// Namespaces.
    pub namespaces: bool,
}

fn comm(pid: u32, tid: u32, name: &[u8]) -> Record<'_> {
    Record::Comm(Comm { pid, tid, comm: name, exec: false })
}

fn id_of(pid: u32, tid: u32) -> SampleId {
    SampleId { pid_tid: Some((pid, tid)), time_ns: Some(0), ..SampleId::default() }
}

fn kernel_id() -> SampleId {
    SampleId { pid_tid: Some((u32::MAX, 0)), time_ns: Some(0), ..SampleId::default() }
}

pub(crate) fn user_mmap(pid: u32, line: &MapLine, is_code: bool) -> Mmap<'_> {
    // The kernel's own records call memory without a file so.
    let filename: &[u8] = if line.name.is_empty() { b"//anon" } else { &line.name };
    let sharing = if line.shared { libc::MAP_SHARED } else { libc::MAP_PRIVATE };
    let (major, minor) = line.device;
    Mmap {
        pid,
        tid: pid,
        addr: Avma(line.start),
        len: line.end - line.start,
        pgoff: line.pgoff,
        filename,
        file_id: FileId::Inode { major, minor, inode: line.inode, generation: 0 },
        prot_flags: Some((line.prot, sharing as u32)),
        cpu_mode: CpuMode::User,
        is_data: !is_code,
        parse_timeout: false,
    }
}

fn kernel_mmap(start: u64, end: u64, pgoff: u64, filename: &[u8]) -> Mmap<'_> {
    Mmap {
        pid: u32::MAX,
        tid: 0,
        addr: Avma(start),
        len: end - start,
        pgoff,
        filename,
        file_id: FileId::None,
        prot_flags: None,
        cpu_mode: CpuMode::Kernel,
        is_data: false,
        parse_timeout: false,
    }
}

/// Addresses of the kernel's code, from /proc/kallsyms.
#[derive(Debug, PartialEq, Eq)]
struct KernelRange {
    start: u64,
    end: u64,
    /// The symbol whose address shows readers how far the kernel was moved (KASLR).
    reference: &'static str,
    reference_address: u64,
}

impl KernelRange {
    fn read() -> Option<Self> {
        let symbols = system_file::open("/proc/kallsyms").ok()?;
        Self::parse(BufReader::new(symbols), code_length())
    }

    /// From the kernel's symbols, read until all that is needed is known: with the code's length (bytes) that is at
    /// the first line or two, and the kernel need not print a hundred thousand more.
    fn parse(symbols: impl BufRead, code_length: Option<u64>) -> Option<Self> {
        let (mut text_start, mut stext, mut etext) = (None, None, None);
        for line in symbols.split(b'\n') {
            let line = line.ok()?;
            let mut words = line.splitn(3, |&b| b == b' ');
            let (Some(address), Some(_), Some(name)) = (words.next(), words.next(), words.next()) else {
                continue;
            };
            let slot = match name {
                b"_text" => &mut text_start,
                b"_stext" => &mut stext,
                b"_etext" => &mut etext,
                _ => continue,
            };
            *slot = std::str::from_utf8(address).ok().and_then(|a| u64::from_str_radix(a, 16).ok());
            if let (Some(start), Some(length)) = (text_start, code_length) {
                etext = etext.or(start.checked_add(length));
            }
            if text_start.is_some() && etext.is_some() {
                break;
            }
        }
        let (reference, start) = match (text_start, stext) {
            (Some(address), _) => ("_text", address),
            (None, Some(address)) => ("_stext", address),
            _ => return None,
        };
        let end = etext?;
        (start != 0 && end > start).then_some(Self { start, end, reference, reference_address: start })
    }
}

/// Bytes from `_text` to `_etext`, from the kernel's range in physical memory, which only root can see (`Kernel code`
/// in /proc/iomem; arch/x86/kernel/setup.c). `None` where the range is missing, or has other symbols.
fn code_length() -> Option<u64> {
    if !cfg!(target_arch = "x86_64") {
        return None;
    }
    code_length_in(&system_file::read_text("/proc/iomem").ok()?)
}

fn code_length_in(memory: &str) -> Option<u64> {
    let range = memory.lines().find_map(|line| line.trim().strip_suffix(" : Kernel code"))?;
    let (first, last) = range.split_once('-')?;
    let [first, last] = [first, last].map(|address| u64::from_str_radix(address, 16).ok());
    // Without the right to see them, both are 0.
    last?.checked_sub(first?).filter(|length| *length > 0).map(|length| length + 1)
}

/// The loaded modules: (name, start, length); empty if their addresses are hidden.
fn modules() -> Vec<(String, u64, u64)> {
    let text = system_file::read_text("/proc/modules").unwrap_or_default();
    text.lines().filter_map(parse_module).collect()
}

/// A line of /proc/modules: "name size users dependencies state 0xaddress".
fn parse_module(line: &str) -> Option<(String, u64, u64)> {
    let words: Vec<&str> = line.split(' ').collect();
    let start = u64::from_str_radix(words.get(5)?.strip_prefix("0x")?, 16).ok()?;
    let len = words.get(1)?.parse().ok()?;
    (start != 0).then(|| ((*words.first().unwrap_or(&"")).to_owned(), start, len))
}

/// (module name, path) of every module file of this kernel release.
fn module_files(release: &str) -> Vec<(String, String)> {
    let root = format!("/lib/modules/{release}");
    let list = system_file::read_text(format!("{root}/modules.dep")).unwrap_or_default();
    let paths = list.lines().filter_map(|l| l.split_once(':')).map(|(path, _)| path);
    paths
        .filter_map(|path| {
            let file = path.rsplit('/').next()?;
            let name = file.split(".ko").next()?.replace('-', "_");
            Some((name, format!("{root}/{path}")))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn we_are_told_with_name_and_code() {
        let pid = std::process::id();
        let (mut forks, mut comms, mut codes) = (0, 0, 0);
        let told = process(pid, ProcessOpts::default(), |record, id| {
            assert_eq!(id.time_ns, Some(0));
            match record {
                Record::Fork(_) => forks += 1,
                Record::Comm(_) => comms += 1,
                Record::Mmap(m) => codes += u32::from(!m.is_data && !m.filename.is_empty()),
                _ => {}
            }
        });
        assert!(told && forks == comms && forks >= 1 && codes >= 2);
        assert!(!process(4_194_303, ProcessOpts::default(), |_, _| {}));
    }

    #[test]
    fn the_kernel_range_needs_visible_addresses() {
        let text = b"ffffffff81000000 T _text\nffffffff81000000 T _stext\nffffffff82000000 T _etext\n";
        let range = KernelRange::parse(&text[..], None).expect("visible");
        assert_eq!(
            (range.start, range.end, range.reference),
            (0xffff_ffff_8100_0000, 0xffff_ffff_8200_0000, "_text")
        );
        let hidden = b"0000000000000000 T _text\n0000000000000000 T _etext\n";
        assert_eq!(KernelRange::parse(&hidden[..], None), None);
        assert_eq!(KernelRange::parse(&hidden[..], Some(4096)), None);
    }

    #[test]
    fn with_the_codes_length_the_first_symbols_are_enough() {
        let length = code_length_in("00000000-00000fff : Reserved\n  01000000-01ffffff : Kernel code\n");
        assert_eq!(length, Some(0x0100_0000));
        let text = b"ffffffff81000000 T _stext\nffffffff81000000 T _text\nno more of it is read";
        let range = KernelRange::parse(&text[..], length).expect("visible");
        assert_eq!((range.start, range.end), (0xffff_ffff_8100_0000, 0xffff_ffff_8200_0000));
        assert_eq!(code_length_in("00000000-00000000 : Kernel code"), None);
    }

    #[test]
    fn the_codes_length_leads_to_the_same_range_as_all_symbols() {
        let Ok(symbols) = std::fs::read("/proc/kallsyms") else { return };
        let (Some(length), Some(all)) = (code_length(), KernelRange::parse(&symbols[..], None)) else {
            return;
        };
        assert_eq!(KernelRange::parse(&symbols[..], Some(length)), Some(all));
    }

    #[test]
    fn a_module_line_has_name_address_and_size() {
        let line = "ext4 1024000 1 - Live 0xffffffffc0200000";
        assert_eq!(parse_module(line), Some(("ext4".to_owned(), 0xffff_ffff_c020_0000, 1_024_000)));
        assert_eq!(parse_module("ext4 1024000 1 - Live 0x0000000000000000"), None);
    }
}
