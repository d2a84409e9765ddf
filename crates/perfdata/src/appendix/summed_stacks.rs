//! Stacks that another profiler summed up: tally's appendix of a recording without samples of its own.
//!
//! Other programs' files have a path with a number of samples and a value, where a perf.data has one record for each
//! sample. A recording made of such a file holds these sums, and every view of samples reads them.
//
// Layout: docs/formats/summed-stacks.md. In the byte order of the file.

use crate::wire::{Endian, Put, Wire};

const MAGIC: [u8; 8] = *b"tSUMS1\0\0";

/// A thread under one name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct StackThread {
    /// The process; 0 if unknown.
    pub pid: i32,
    /// The thread; 0 if unknown.
    pub tid: i32,
    /// Name.
    pub name: String,
}

/// Source of the names of addresses of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CodeKind {
    /// Nobody: its path is unknown.
    #[default]
    Unknown,
    /// A program or library; addresses are offsets into the file.
    File,
    /// The kernel or a module of it.
    Kernel,
    /// Code made at run time.
    Jit,
    /// A program or library; addresses are bytes from its lowest segment on. They are of no use where the file is missing.
    Image,
}

/// A program, a library, or another place of code.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct CodeFile {
    /// Kind.
    pub kind: CodeKind,
    /// Path, or a name in brackets.
    pub path: String,
    /// The GNU build id; empty if unknown.
    pub build_id: Vec<u8>,
}

/// A function at one line.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct StackLine {
    /// The function's name.
    pub function: String,
    /// Source file; empty if unknown.
    pub source: String,
    /// 1-based; 0 if unknown.
    pub line: u32,
    /// It is inlined into the function of the next line.
    pub is_inlined: bool,
}

/// An address, or a place that is known by its function only.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct StackFrame {
    /// Index into [`SummedStacks::files`].
    pub file: usize,
    /// In the space that [`CodeKind`] names; `None` if unknown.
    pub address: Option<u64>,
    /// Innermost first; empty if the address has no name yet.
    pub lines: Vec<StackLine>,
}

/// A path with what was counted there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SummedStack {
    /// Index of the file's event.
    pub event: usize,
    /// Index into [`SummedStacks::threads`].
    pub thread: usize,
    /// Index into [`SummedStacks::paths`].
    pub path: usize,
    /// Number of samples.
    pub samples: u64,
    /// Sum, in the event's unit.
    pub value: u64,
    /// When, ns of the recording's clock; `None` if they are of several moments.
    pub time_ns: Option<u64>,
}

/// All stacks of such a recording.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SummedStacks {
    /// All threads.
    pub threads: Vec<StackThread>,
    /// All files.
    pub files: Vec<CodeFile>,
    /// All places.
    pub frames: Vec<StackFrame>,
    /// Indices into `frames`, leaf first; none is empty.
    pub paths: Vec<Vec<usize>>,
    /// The sums.
    pub stacks: Vec<SummedStack>,
}

impl SummedStacks {
    /// Reads them from an appendix ([`crate::PerfData::appendix`]); `None` if it holds none, or damaged ones: then no
    /// index is outside of its list.
    #[must_use]
    pub fn read(appendix: &[u8], endian: Endian) -> Option<Self> {
        let mut w = Wire::new(appendix, endian);
        if w.array::<8>()? != MAGIC {
            return None;
        }
        let mut read = Self::default();
        for _ in 0..w.u64()? {
            let (pid, tid) = (w.i32()?, w.i32()?);
            read.threads.push(StackThread { pid, tid, name: text(&mut w)? });
        }
        for _ in 0..w.u64()? {
            let kind = kind_of(w.u64()?)?;
            let path = text(&mut w)?;
            read.files.push(CodeFile { kind, path, build_id: bytes(&mut w)?.to_vec() });
        }
        for _ in 0..w.u64()? {
            read.frames.push(frame(&mut w, read.files.len())?);
        }
        for _ in 0..w.u64()? {
            read.paths.push(path(&mut w, read.frames.len())?);
        }
        for _ in 0..w.u64()? {
            read.stacks.push(stack(&mut w, &read)?);
        }
        Some(read)
    }

    /// The bytes of the appendix.
    #[must_use]
    pub fn to_bytes(&self, endian: Endian) -> Vec<u8> {
        let mut p = Put::new(endian);
        p.raw(&MAGIC);
        p.count(self.threads.len());
        for thread in &self.threads {
            p.u32(thread.pid.cast_unsigned());
            p.u32(thread.tid.cast_unsigned());
            put_bytes(&mut p, thread.name.as_bytes());
        }
        p.count(self.files.len());
        for file in &self.files {
            p.u64(file.kind as u64);
            put_bytes(&mut p, file.path.as_bytes());
            put_bytes(&mut p, &file.build_id);
        }
        p.count(self.frames.len());
        self.frames.iter().for_each(|frame| put_frame(&mut p, frame));
        p.count(self.paths.len());
        for path in &self.paths {
            p.count(path.len());
            path.iter().for_each(|&frame| p.count(frame));
        }
        p.count(self.stacks.len());
        for stack in &self.stacks {
            [stack.event, stack.thread, stack.path].into_iter().for_each(|index| p.count(index));
            p.u64(stack.samples);
            p.u64(stack.value);
            put_optional(&mut p, stack.time_ns);
        }
        p.bytes
    }
}

fn kind_of(number: u64) -> Option<CodeKind> {
    [CodeKind::Unknown, CodeKind::File, CodeKind::Kernel, CodeKind::Jit, CodeKind::Image]
        .get(usize::try_from(number).ok()?)
        .copied()
}

fn index(w: &mut Wire<'_>, len: usize) -> Option<usize> {
    usize::try_from(w.u64()?).ok().filter(|&index| index < len)
}

/// Reads a value that may be unknown; `None` if the bytes end before it.
fn read_optional(w: &mut Wire<'_>, field: &mut Option<u64>) -> Option<()> {
    let (is_known, value) = (w.u64()? != 0, w.u64()?);
    *field = is_known.then_some(value);
    Some(())
}

fn bytes<'a>(w: &mut Wire<'a>) -> Option<&'a [u8]> {
    let len = w.u64()?;
    w.take(len.checked_next_multiple_of(8)?)?.get(..usize::try_from(len).ok()?)
}

fn text(w: &mut Wire<'_>) -> Option<String> {
    Some(String::from_utf8_lossy(bytes(w)?).into_owned())
}

fn frame(w: &mut Wire<'_>, files: usize) -> Option<StackFrame> {
    let (file, mut address) = (index(w, files)?, None);
    read_optional(w, &mut address)?;
    let mut lines = Vec::new();
    for _ in 0..w.u64()? {
        let (function, source) = (text(w)?, text(w)?);
        let (line, is_inlined) = (w.u32()?, w.u32()? != 0);
        lines.push(StackLine { function, source, line, is_inlined });
    }
    Some(StackFrame { file, address, lines })
}

fn path(w: &mut Wire<'_>, frames: usize) -> Option<Vec<usize>> {
    let mut path = Vec::new();
    for _ in 0..w.u64()? {
        path.push(index(w, frames)?);
    }
    Some(path).filter(|path| !path.is_empty())
}

fn stack(w: &mut Wire<'_>, of: &SummedStacks) -> Option<SummedStack> {
    let event = usize::try_from(w.u64()?).ok()?;
    let (thread, path) = (index(w, of.threads.len())?, index(w, of.paths.len())?);
    let (samples, value, mut time_ns) = (w.u64()?, w.u64()?, None);
    read_optional(w, &mut time_ns)?;
    Some(SummedStack { event, thread, path, samples, value, time_ns })
}

fn put_bytes(p: &mut Put, bytes: &[u8]) {
    p.count(bytes.len());
    p.raw(bytes);
    p.pad(8);
}

fn put_optional(p: &mut Put, value: Option<u64>) {
    p.u64(u64::from(value.is_some()));
    p.u64(value.unwrap_or_default());
}

fn put_frame(p: &mut Put, frame: &StackFrame) {
    p.count(frame.file);
    put_optional(p, frame.address);
    p.count(frame.lines.len());
    for line in &frame.lines {
        put_bytes(p, line.function.as_bytes());
        put_bytes(p, line.source.as_bytes());
        p.u32(line.line);
        p.u32(u32::from(line.is_inlined));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stacks() -> SummedStacks {
        let line = |function: &str, is_inlined| StackLine {
            function: function.to_owned(),
            source: "/src/a.c".to_owned(),
            line: 7,
            is_inlined,
        };
        SummedStacks {
            threads: vec![StackThread { pid: 7, tid: -1, name: "app".to_owned() }],
            files: vec![CodeFile {
                kind: CodeKind::File,
                path: "/bin/app".to_owned(),
                build_id: vec![1, 2, 3],
            }],
            frames: vec![
                StackFrame {
                    file: 0,
                    address: Some(0),
                    lines: vec![line("leaf", true), line("main", false)],
                },
                StackFrame::default(),
            ],
            paths: vec![vec![0, 1]],
            stacks: vec![SummedStack {
                event: 1,
                thread: 0,
                path: 0,
                samples: 3,
                value: 9,
                time_ns: Some(5),
            }],
        }
    }

    #[test]
    fn stacks_are_read_as_written_in_both_byte_orders() {
        for endian in [Endian::Little, Endian::Big] {
            assert_eq!(SummedStacks::read(&stacks().to_bytes(endian), endian), Some(stacks()));
        }
    }

    #[test]
    fn every_truncation_is_refused() {
        let bytes = stacks().to_bytes(Endian::Little);
        for len in 0..bytes.len() {
            assert_eq!(SummedStacks::read(&bytes[..len], Endian::Little), None, "{len}");
        }
    }

    #[test]
    fn an_index_outside_of_its_list_is_refused() {
        let mut wrong = stacks();
        wrong.paths[0].push(2);
        assert_eq!(SummedStacks::read(&wrong.to_bytes(Endian::Little), Endian::Little), None);
    }
}
