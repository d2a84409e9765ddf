//! The code of one process at a moment, as the decoder requests it.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use dso::Missing as NoCode;
use dso::Svma;
use intelpt::{Image, MissingCode};
use perfdata::PidTid;

use super::super::kernel::is_kernel;
use super::{CodeFile, MADE, TraceCode, svma_of};
use crate::model::FunctionId;
use crate::pt::{CodeMapping, MadeCode, Sideband};
use crate::recording::function::Function;

/// A process at a time.
#[derive(Clone, Copy, Debug)]
pub struct ProcessMoment {
    /// The kernel's number of the process.
    pub pid: i32,
    /// Time, ns.
    pub time_ns: u64,
}

/// Code at an address.
#[derive(Clone, Copy, Default)]
pub struct CodeAt<'c> {
    /// The mapping's name.
    pub file: Option<&'c str>,
    /// The address's offset in the file.
    pub offset: Option<u64>,
    /// The symbol, and how far after its start, in bytes.
    pub symbol: Option<(&'c str, u64)>,
    /// Bytes of code: an instruction, if there are as many.
    pub code: &'c [u8],
}

/// A function's name without the marks of the parts that compilers move elsewhere.
pub(super) fn whole(name: &str) -> &str {
    name.strip_suffix(" [clone .cold]").or_else(|| name.strip_suffix(".cold")).unwrap_or(name)
}

/// One decoder's view of the code: the process that runs at the moment.
pub struct RunningImage<'a> {
    code: &'a TraceCode,
    side: &'a Sideband<'a>,
    buffer: usize,
    now: Cell<Option<&'a [CodeMapping]>>,
    task: Cell<Option<PidTid>>,
    /// The time that the mappings are of, and when they are replaced next, ns.
    time_ns: Cell<u64>,
    stale_ns: Cell<u64>,
    last: RefCell<Option<&'a CodeMapping>>,
    /// The function found last: where it is, its number, whether its first address is the function's.
    last_unit: RefCell<Option<(Range<u64>, u32, bool)>>,
}

impl<'a> RunningImage<'a> {
    /// For the trace of buffer number `buffer`.
    #[must_use]
    pub fn new(code: &'a TraceCode, side: &'a Sideband<'a>, buffer: usize) -> Self {
        Self {
            code,
            side,
            buffer,
            now: Cell::new(None),
            task: Cell::new(None),
            time_ns: Cell::new(0),
            stale_ns: Cell::new(u64::MAX),
            last: RefCell::new(None),
            last_unit: RefCell::new(None),
        }
    }

    /// The number of the buffer it is for.
    #[must_use]
    pub fn buffer(&self) -> usize {
        self.buffer
    }

    /// The (process, thread) that runs.
    #[must_use]
    pub fn task(&self) -> Option<PidTid> {
        self.task.get()
    }

    /// The file mapped there, if the recording doesn't identify its build.
    #[must_use]
    pub fn file_at(&self, ip: u64) -> Option<&'a str> {
        let mapping = self.mapping(ip)?;
        (mapping.build_id.is_none() && !mapping.is_anonymous()).then_some(&mapping.name)
    }

    pub(super) fn mapping(&self, ip: u64) -> Option<&'a CodeMapping> {
        let holds = |mapping: &CodeMapping| ip.wrapping_sub(mapping.start) < mapping.bytes;
        if let Some(last) = self.last.borrow().filter(|last| holds(last)) {
            return Some(last);
        }
        let mappings = if is_kernel(ip) { self.side.kernel(self.time_ns.get()) } else { self.now.get()? };
        let found = mappings.iter().find(|mapping| holds(mapping))?;
        self.last.replace(Some(found));
        Some(found)
    }

    pub(super) fn place(&self, ip: u64) -> Option<(u32, &'a CodeFile, Svma)> {
        let mapping = self.mapping(ip)?;
        let number = self.code.file_of(mapping)?;
        let file = &self.code.files[number as usize];
        let svma = match &file.loaded {
            Ok(loaded) => svma_of(loaded, mapping, ip)?,
            Err(_) => Svma(mapping.offset_of(ip)),
        };
        Some((number, file, svma))
    }

    /// The code made at run time that is there.
    pub(super) fn made(&self, ip: u64) -> Option<&'a MadeCode> {
        let task = self.task.get()?;
        self.side.made_at(task.signed_pid(), ip, self.time_ns.get())
    }

    /// Whether a mapping's bytes are those of its file.
    fn check(&self, mapping: &CodeMapping) -> Result<(), MissingCode> {
        let why = match () {
            () if mapping.is_anonymous() => MissingCode::MadeAtRunTime,
            () if mapping.writable => MissingCode::Rewritten,
            () => return Ok(()),
        };
        Err(why)
    }

    /// The kernel's code.
    pub(super) fn kernel(&self, ip: u64) -> Result<&[u8], MissingCode> {
        let bytes = self.code.kernel.bytes(ip, self.time_ns.get());
        bytes.ok_or_else(|| {
            let why = "the kernel: its memory (/proc/kcore) can't be read, or another kernel was recorded";
            self.code.found().missing.insert(why.to_owned());
            MissingCode::NoFile
        })
    }
}

impl Image for RunningImage<'_> {
    fn code(&self, ip: u64) -> Result<&[u8], MissingCode> {
        const WINDOW_BYTES: usize = 4096;
        if let Some(made) = self.made(ip) {
            let offset = usize::try_from(ip - made.start).unwrap_or(usize::MAX);
            return made.code.get(offset..).ok_or(MissingCode::NotMapped);
        }
        self.check(self.mapping(ip).ok_or(MissingCode::NotMapped)?)?;
        if is_kernel(ip) {
            return self.kernel(ip);
        }
        let Some((_, file, svma)) = self.place(ip) else {
            return Err(MissingCode::NotMapped);
        };
        let object = match &file.loaded {
            Ok(loaded) => loaded.object().ok_or(MissingCode::NoFile)?,
            Err(why) => {
                self.code.found().missing.insert(format!("{}: {why}", file.name));
                let wrong = matches!(why, NoCode::BuildIdMismatch);
                return Err(if wrong { MissingCode::WrongFile } else { MissingCode::NoFile });
            }
        };
        // Less at the end of the section: shorter windows until one fits.
        std::iter::successors(Some(WINDOW_BYTES), |bytes| (*bytes > 1).then_some(bytes / 2))
            .find_map(|bytes| object.bytes_at(svma, bytes))
            .ok_or(MissingCode::NotMapped)
    }

    fn unit(&self, ip: u64) -> (u32, bool) {
        if let Some((range, unit, whole)) = &*self.last_unit.borrow()
            && range.contains(&ip)
        {
            return (*unit, *whole && range.start == ip);
        }
        if let Some(made) = self.made(ip) {
            let function = Function::new(made.name.clone(), MADE.to_owned());
            return (self.code.found().functions.number(function).0, ip == made.start);
        }
        let Some((file, _, svma)) = self.place(ip) else { return (self.code.unknown(), false) };
        let (FunctionId(id), range) = self.code.function(file, svma);
        let Some(range) = range else { return (id, false) };
        let avma = |at: u64| at.wrapping_sub(svma.0).wrapping_add(ip);
        let at_start = range.start == svma.0;
        // Only as far as this mapping goes: after it the same difference need not hold.
        let mapping = self.mapping(ip).map_or(ip..ip + 1, |at| at.start..at.start.saturating_add(at.bytes));
        let covered = avma(range.start).max(mapping.start)..avma(range.end).min(mapping.end);
        let whole = covered.start == avma(range.start);
        self.last_unit.replace(Some((covered, id, whole)));
        (id, at_start)
    }

    fn space(&self, tsc: Option<u64>) -> u32 {
        let time_ns = self.side.setup.clock.ns_at(tsc.unwrap_or(0));
        let task = self.side.running(self.buffer, time_ns);
        self.task.set(task);
        self.time_ns.set(time_ns);
        let stale_ns = task.and_then(|task| self.side.code_changes_after(task.signed_pid(), time_ns));
        self.stale_ns.set(stale_ns.unwrap_or(u64::MAX));
        self.last.replace(None);
        self.last_unit.replace(None);
        let space = task.and_then(|task| self.side.code(task.signed_pid(), time_ns));
        self.now.set(space.map(|(_, mappings)| mappings));
        space.map_or(0, |(number, _)| number)
    }

    fn is_stale(&self, tsc: Option<u64>) -> bool {
        let stale_ns = self.stale_ns.get();
        stale_ns != u64::MAX && tsc.is_some_and(|tsc| self.side.setup.clock.ns_at(tsc) >= stale_ns)
    }
}
