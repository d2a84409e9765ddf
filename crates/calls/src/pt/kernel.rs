//! The kernel's code as it was when it ran: its memory, with what it changed in itself put back by time.

use crate::pt::{CodeMapping, Poke};
use dso::Avma;
use dso::kernel::kcore::Kcore;
use std::sync::OnceLock;
use symbols::unbracketed;

/// Bytes read at a time.
const CHUNK_BYTES: u64 = 64 << 10;
/// Bytes after a chunk that belong to it, too: an instruction may reach across its end.
const REACH_BYTES: u64 = 16;
/// No kernel's code is longer, whatever a record claims.
const MOST_BYTES: u64 = 512 << 20;

/// A stretch of the kernel's code.
struct Chunk {
    start: u64,
    versions: Vec<Version>,
}

/// Content of a stretch from a time on; read on demand.
struct Version {
    from_ns: u64,
    bytes: OnceLock<Option<Box<[u8]>>>,
}

/// The code of the running kernel.
pub struct KernelCode {
    kcore: Option<Kcore>,
    chunks: Vec<Chunk>,
    pokes: Vec<Poke>,
}

impl KernelCode {
    /// Kernel code of these mappings, and these changes in the order of time. Only the running kernel's code is at
    /// hand:
    /// `is_running`: it is the recorded one.
    pub fn open<'m>(
        mappings: impl Iterator<Item = &'m CodeMapping>,
        pokes: &[Poke],
        is_running: bool,
    ) -> Self {
        let mut starts: Vec<u64> = mappings.flat_map(chunks).collect();
        starts.sort_unstable();
        starts.dedup();
        // Nothing is opened for a recording without the kernel.
        let kcore = if is_running && !starts.is_empty() { Kcore::open().ok() } else { None };
        let mut new = Self { kcore, chunks: Vec::new(), pokes: pokes.to_vec() };
        new.chunks = starts.into_iter().map(|start| new.chunk(start)).collect();
        new
    }

    fn chunk(&self, start: u64) -> Chunk {
        let range = start..start.saturating_add(CHUNK_BYTES + REACH_BYTES);
        let changes = self.pokes.iter().filter(|poke| poke.touches(&range)).map(|poke| poke.time_ns);
        let mut times: Vec<u64> = std::iter::once(0).chain(changes).collect();
        times.dedup();
        let version = |from_ns| Version { from_ns, bytes: OnceLock::new() };
        Chunk { start, versions: times.into_iter().map(version).collect() }
    }

    /// The bytes from an address on at a time; `None` where they can't be read.
    pub fn bytes(&self, ip: u64, time_ns: u64) -> Option<&[u8]> {
        let before = self.chunks.partition_point(|chunk| chunk.start <= ip).checked_sub(1)?;
        let chunk = self.chunks.get(before).filter(|chunk| ip - chunk.start < CHUNK_BYTES)?;
        let at = chunk.versions.partition_point(|version| version.from_ns <= time_ns).saturating_sub(1);
        let version = chunk.versions.get(at)?;
        let bytes = version.bytes.get_or_init(|| self.read(chunk.start, version.from_ns)).as_ref()?;
        bytes.get(usize::try_from(ip - chunk.start).ok()?..)
    }

    fn read(&self, start: u64, time_ns: u64) -> Option<Box<[u8]>> {
        let len = usize::try_from(CHUNK_BYTES + REACH_BYTES).ok()?;
        let mut bytes = self.kcore.as_ref()?.read(Avma(start), len)?;
        as_at(&self.pokes, time_ns, start, &mut bytes);
        Some(bytes.into())
    }
}

fn chunks(mapping: &CodeMapping) -> impl Iterator<Item = u64> + use<> {
    let first = mapping.start - mapping.start % CHUNK_BYTES;
    let end = mapping.start.saturating_add(mapping.bytes.min(MOST_BYTES));
    (first..end).step_by(CHUNK_BYTES as usize)
}

/// Makes bytes, which begin at `start`, what they were at a time, whenever they were read: changes that came later are
/// undone, the newest first, those that had come are made.
fn as_at(pokes: &[Poke], time_ns: u64, start: u64, bytes: &mut [u8]) {
    let (done, later) = pokes.split_at(pokes.partition_point(|poke| poke.time_ns <= time_ns));
    let mut put = |at: u64, new: &[u8]| {
        for (at, byte) in (at..).zip(new) {
            let place = at.checked_sub(start).and_then(|at| usize::try_from(at).ok());
            if let Some(place) = place.and_then(|place| bytes.get_mut(place)) {
                *place = *byte;
            }
        }
    };
    later.iter().rev().for_each(|poke| put(poke.start, &poke.old));
    done.iter().for_each(|poke| put(poke.start, &poke.new));
}

/// Whether an address of the trace is the kernel's.
pub const fn is_kernel(ip: u64) -> bool {
    perfdata::Avma(ip).is_kernel()
}

/// The module that a name in brackets or a file's path means.
pub fn module_name(name: &str) -> String {
    unbracketed(&profile::machine::module_name(name)).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poke(time_ns: u64, start: u64, old: &[u8], new: &[u8]) -> Poke {
        Poke { time_ns, start, old: old.to_vec(), new: new.to_vec() }
    }

    #[test]
    fn code_is_what_it_was_at_a_time_whenever_it_was_read() {
        let pokes =
            [poke(10, 0x1002, b"ab", b"cd"), poke(20, 0x1003, b"d", b"e"), poke(30, 0x0fff, b"xyz", b"XYZ")];
        for read in [*b"__ab__", *b"YZce__"] {
            let at = |time_ns| {
                let mut bytes = read;
                as_at(&pokes, time_ns, 0x1000, &mut bytes);
                bytes
            };
            assert_eq!([at(5), at(10), at(25), at(30)], [*b"yzab__", *b"yzcd__", *b"yzce__", *b"YZce__"]);
        }
    }

    #[test]
    fn modules_are_named_by_file_or_in_brackets() {
        assert_eq!([module_name("[ext4]"), module_name("/lib/modules/6.1/ext4.ko.xz")], ["ext4"; 2]);
        assert_eq!(module_name("/lib/modules/6.1/snd-hda.ko"), "snd_hda");
    }
}
