//! The kernel's side of a ring and its AUX area in a plain file: writes as the kernel does, so that the recorder's own
//! code reads what a machine with Intel PT would give it.
//
// Source: linux v6.18 kernel/events/ring_buffer.c (data_head, aux_head, what happens when an area is full);
//         include/uapi/linux/perf_event.h struct perf_event_mmap_page for the offsets.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

const PAGE: u64 = 4096;
const CAPABILITIES: u64 = 40;
const TIME_SHIFT: u64 = 50;
const DATA_HEAD: u64 = 1024;
const DATA_TAIL: u64 = 1032;
const AUX_HEAD: u64 = 1056;
const AUX_TAIL: u64 = 1064;
const AUX_OFFSET: u64 = 1072;
const CAP_USER_TIME_ZERO: u64 = 1 << 4;

/// A ring of a fake kernel.
pub struct FakeKernel {
    file: File,
    data_bytes: u64,
    aux_bytes: u64,
    data_head: u64,
    aux_head: u64,
    /// The area is written over and over.
    overwrite: bool,
}

/// The written part of a piece of trace: the fields of the AUX record that the kernel would send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    pub offset: u64,
    pub size: u64,
    /// Bytes that found no room.
    pub dropped: u64,
}

impl FakeKernel {
    /// With rings of `pages` and areas of `aux_bytes`.
    pub fn new(pages: u64, aux_bytes: u64, overwrite: bool) -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("tally-ring-{}-{:p}", std::process::id(), &pages));
        let file = File::options().read(true).write(true).create_new(true).open(&path)?;
        std::fs::remove_file(&path)?;
        let data_bytes = pages * PAGE;
        // The area is at the next multiple of its size; room for that wherever it is.
        file.set_len((data_bytes + PAGE).next_multiple_of(aux_bytes) + aux_bytes)?;
        Ok(Self { file, data_bytes, aux_bytes, data_head: 0, aux_head: 0, overwrite })
    }

    /// The file that the recorder maps.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Conversion of time stamps to times.
    pub fn set_clock(&self, shift: u16, mult: u32, zero_ns: u64) -> io::Result<()> {
        self.file.write_all_at(&CAP_USER_TIME_ZERO.to_ne_bytes(), CAPABILITIES)?;
        self.file.write_all_at(&shift.to_ne_bytes(), TIME_SHIFT)?;
        self.file.write_all_at(&mult.to_ne_bytes(), TIME_SHIFT + 2)?;
        self.file.write_all_at(&zero_ns.to_ne_bytes(), TIME_SHIFT + 14)
    }

    /// Little-endian, as the machines with Intel PT are.
    fn number(&self, at: u64) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, at)?;
        Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// Writes around the end of an area that begins at `base`.
    fn put(&self, (base, size): (u64, u64), head: u64, bytes: &[u8]) -> io::Result<()> {
        let at = head % size;
        let (first, second) = bytes.split_at(bytes.len().min((size - at) as usize));
        self.file.write_all_at(first, base + at)?;
        self.file.write_all_at(second, base)
    }

    /// A record; false if the ring is full.
    pub fn record(&mut self, bytes: &[u8]) -> io::Result<bool> {
        if self.data_head - self.number(DATA_TAIL)? + bytes.len() as u64 > self.data_bytes {
            return Ok(false);
        }
        self.put((PAGE, self.data_bytes), self.data_head, bytes)?;
        self.data_head += bytes.len() as u64;
        self.file.write_all_at(&self.data_head.to_ne_bytes(), DATA_HEAD)?;
        Ok(true)
    }

    /// A piece of trace: a full area takes only what there is room for, one that is written over the newest.
    pub fn trace(&mut self, bytes: &[u8]) -> io::Result<Written> {
        let base = self.number(AUX_OFFSET)?;
        let offset = self.aux_head;
        if self.overwrite {
            for chunk in bytes.chunks(self.aux_bytes as usize) {
                self.put((base, self.aux_bytes), self.aux_head, chunk)?;
                self.aux_head += chunk.len() as u64;
            }
            // Here the head is a place, not a count.
            self.file.write_all_at(&(self.aux_head % self.aux_bytes).to_ne_bytes(), AUX_HEAD)?;
            return Ok(Written { offset, size: bytes.len() as u64, dropped: 0 });
        }
        let room = self.aux_bytes - (self.aux_head - self.number(AUX_TAIL)?);
        let (kept, dropped) = bytes.split_at(bytes.len().min(room as usize));
        self.put((base, self.aux_bytes), self.aux_head, kept)?;
        self.aux_head += kept.len() as u64;
        self.file.write_all_at(&self.aux_head.to_ne_bytes(), AUX_HEAD)?;
        Ok(Written { offset, size: kept.len() as u64, dropped: dropped.len() as u64 })
    }
}
