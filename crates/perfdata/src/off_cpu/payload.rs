//! The bytes of a payload: an interval or a thread's totals, written and parsed.

use super::{OffCpuInterval, OffCpuTotals, OtherThread, QueueLengths, State, WaitSums, flag};

/// Either payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload {
    /// One interval off the CPU.
    Interval(OffCpuInterval),
    /// A thread's sums.
    Totals(OffCpuTotals),
}

const INTERVAL_MAGIC: u32 = u32::from_le_bytes(*b"tOF1");

const TOTALS_MAGIC: u32 = u32::from_le_bytes(*b"tOT1");

const COMM_BYTES: usize = 16;

/// Zeros after the first form of totals.
const PADDING_BYTES: usize = 4;

impl Payload {
    /// Reads a sample's raw bytes; `None` if they aren't a payload of ours, or one of a later form.
    #[must_use]
    pub fn parse(raw: &[u8]) -> Option<Self> {
        let mut read = Bytes(raw);
        match read.u32()? {
            INTERVAL_MAGIC => parse_interval(read).map(Self::Interval),
            TOTALS_MAGIC => parse_totals(read).map(Self::Totals),
            _ => None,
        }
    }
}

// Layout: u32 magic "tOF1"; u32 state; u32 flags; u32 syscall + 1 (0 = none); u64 since_ns; u64 length_ns; u64 args[3];
//         u32 other_pid; u32 other_tid; with the flag SUMS WaitSums;
//         from here on only if any of it is known: char other_comm[16]; u64 n; u64 chain[n];
//         from here on only with a place: u64 bytes; char place[bytes]
fn parse_interval(mut read: Bytes<'_>) -> Option<OffCpuInterval> {
    let state = State::from_code(u8::try_from(read.u32()?).unwrap_or(u8::MAX));
    let flags = read.u32()?;
    let syscall = read.u32()?.checked_sub(1);
    let (since_ns, length_ns) = (read.u64()?, read.u64()?);
    let args = [read.u64()?, read.u64()?, read.u64()?];
    let (pid, tid) = (read.u32()?, read.u32()?);
    let sums = if flags & flag::SUMS != 0 { Some(Box::new(WaitSums::parse(&mut read)?)) } else { None };
    // The rest is padding then.
    let ends_here = read.0.len() < 8;
    let comm = if ends_here { String::new() } else { read.comm()? };
    let frames = if ends_here { 0 } else { usize::try_from(read.u64()?).ok()? };
    let chain = (0..frames).map_while(|_| read.u64()).collect();
    let place = read.text();
    Some(OffCpuInterval {
        state,
        flags: flags & !flag::SUMS,
        since_ns,
        length_ns,
        syscall,
        args,
        sums,
        other: OtherThread { pid, tid, comm, chain },
        place,
    })
}

// Layout: u32 magic "tOT1"; u32 flags; u64 start_ns; u64 end_ns; u64 switches; u64 total_ns[8]; char comm[16];
//         in later files also u32 preemptions; u64 migrations; u64 minor_faults; u64 major_faults;
//         in still later ones QueueLengths of waits once woken; QueueLengths of preemptions;
//         from here on only with a title: u64 bytes; char title[bytes]
fn parse_totals(mut read: Bytes<'_>) -> Option<OffCpuTotals> {
    let flags = read.u32()?;
    let (start_ns, end_ns, switches) = (read.u64()?, read.u64()?, read.u64()?);
    let mut total_ns = [0; 8];
    for total in &mut total_ns {
        *total = read.u64()?;
    }
    let comm = read.comm()?;
    let totals =
        OffCpuTotals { start_ns, end_ns, total_ns, switches, flags, comm, ..OffCpuTotals::default() };
    if read.0.len() <= PADDING_BYTES {
        return Some(totals);
    }
    let (preemptions, migrations, faults) = (read.u32()?, read.u64()?, [read.u64()?, read.u64()?]);
    let both =
        |read: &mut Bytes<'_>| Some(Box::new([QueueLengths::parse(read)?, QueueLengths::parse(read)?]));
    let queue = both(&mut read);
    let title = read.text();
    Some(OffCpuTotals { preemptions, migrations, faults, queue, title, ..totals })
}

impl OffCpuInterval {
    /// The raw bytes; their length + 4 is a multiple of 8, as perf pads raw data.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(96 + self.other.chain.len() * 8);
        out.extend(INTERVAL_MAGIC.to_le_bytes());
        out.extend(u32::from(self.state.code()).to_le_bytes());
        let flags = self.flags | if self.sums.is_some() { flag::SUMS } else { 0 };
        out.extend(flags.to_le_bytes());
        out.extend(self.syscall.map_or(0, |nr| nr.wrapping_add(1)).to_le_bytes());
        out.extend(self.since_ns.to_le_bytes());
        out.extend(self.length_ns.to_le_bytes());
        self.args.iter().for_each(|arg| out.extend(arg.to_le_bytes()));
        out.extend(self.other.pid.to_le_bytes());
        out.extend(self.other.tid.to_le_bytes());
        if let Some(sums) = &self.sums {
            sums.write(&mut out);
        }
        if self.other.comm.is_empty() && self.other.chain.is_empty() && self.place.is_empty() {
            return pad(out);
        }
        out.extend(comm_bytes(&self.other.comm));
        out.extend((self.other.chain.len() as u64).to_le_bytes());
        self.other.chain.iter().for_each(|frame| out.extend(frame.to_le_bytes()));
        if !self.place.is_empty() {
            out.extend((self.place.len() as u64).to_le_bytes());
            out.extend(self.place.as_bytes());
        }
        pad(out)
    }
}

impl OffCpuTotals {
    /// The raw bytes, padded as [`OffCpuInterval::to_bytes`].
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(124);
        out.extend(TOTALS_MAGIC.to_le_bytes());
        out.extend(self.flags.to_le_bytes());
        [self.start_ns, self.end_ns, self.switches].iter().for_each(|n| out.extend(n.to_le_bytes()));
        self.total_ns.iter().for_each(|n| out.extend(n.to_le_bytes()));
        out.extend(comm_bytes(&self.comm));
        out.extend(self.preemptions.to_le_bytes());
        [self.migrations, self.faults[0], self.faults[1]].iter().for_each(|n| out.extend(n.to_le_bytes()));
        self.queue.iter().flat_map(|of| of.iter()).for_each(|lengths| lengths.write(&mut out));
        if !self.title.is_empty() && self.queue.is_some() {
            out.extend((self.title.len() as u64).to_le_bytes());
            out.extend(self.title.as_bytes());
        }
        pad(out)
    }
}

fn pad(mut out: Vec<u8>) -> Vec<u8> {
    while !(out.len() + 4).is_multiple_of(8) {
        out.push(0);
    }
    out
}

fn comm_bytes(comm: &str) -> [u8; COMM_BYTES] {
    let mut bytes = [0; COMM_BYTES];
    for (to, from) in bytes.iter_mut().take(COMM_BYTES - 1).zip(comm.bytes()) {
        *to = from;
    }
    bytes
}

/// A cursor over the payload.
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    fn take<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (head, tail) = self.0.split_first_chunk::<N>()?;
        self.0 = tail;
        Some(head)
    }
    pub(super) fn u32(&mut self) -> Option<u32> {
        self.take().map(|bytes| u32::from_le_bytes(*bytes))
    }
    pub(super) fn u64(&mut self) -> Option<u64> {
        self.take().map(|bytes| u64::from_le_bytes(*bytes))
    }
    /// A length and a text; empty if there is none.
    fn text(&mut self) -> String {
        let text = self.u64().and_then(|len| self.0.get(..usize::try_from(len).ok()?));
        String::from_utf8_lossy(text.unwrap_or_default()).into_owned()
    }
    pub(super) fn comm(&mut self) -> Option<String> {
        let bytes = self.take::<COMM_BYTES>()?;
        let name = bytes.split(|&b| b == 0).next().unwrap_or(&[]);
        Some(String::from_utf8_lossy(name).into_owned())
    }
}
