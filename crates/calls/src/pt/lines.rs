//! Branches as `perf script --itrace=cr` prints them: the same fields, flags and columns, for comparison and for
//! programs that read that text.
//
// Source: linux v6.18 tools/perf/builtin-script.c perf_sample__fprintf_start(), perf_sample__fprintf_bts();

mod columns;
mod selection;

use crate::pt::Sideband;
use intelpt::{FlowEvent, FlowKind, Gap};
use rustc_hash::FxHashMap;
use std::fmt::Write as _;
use std::io::{self, Write};

use super::image::{ProcessMoment, TraceCode};
use super::walk::{Chains, SampledEvent, Walk};
use columns::{BRANCHES, INSTRUCTIONS};
use perfdata::PidTid;
use perfdata::text::harmless;
pub use selection::{LineSelection, TimeDigits};

/// Where and when an event happened.
#[derive(Clone, Copy)]
struct EventPlace {
    task: PidTid,
    /// Index among the recording's buffers.
    buffer: usize,
    time_ns: u64,
}

impl EventPlace {
    const fn moment(self) -> ProcessMoment {
        ProcessMoment { pid: self.task.signed_pid(), time_ns: self.time_ns }
    }
}

/// Code that was mapped at a moment.
#[derive(Clone, Copy)]
struct CodeSpot {
    moment: ProcessMoment,
    /// Number of the code mappings.
    space: u32,
}

/// Writes the lines.
pub struct Lines<'a> {
    code: &'a TraceCode,
    side: &'a Sideband<'a>,
    wanted: &'a LineSelection,
    /// Text after an address, by space and address.
    names: FxHashMap<(u32, u64), Box<str>>,
    words: FxHashMap<(u32, u64), &'static str>,
    line: String,
    last_ns: FxHashMap<usize, u64>,
    /// Where each buffer's execution is.
    walks: FxHashMap<usize, Walk>,
    chains: Chains,
    /// Events still to be passed over.
    skip: u64,
}

impl<'a> Lines<'a> {
    /// Nothing is written yet.
    pub fn new(code: &'a TraceCode, side: &'a Sideband<'a>, wanted: &'a LineSelection) -> Self {
        Self {
            code,
            side,
            wanted,
            names: FxHashMap::default(),
            words: FxHashMap::default(),
            line: String::new(),
            last_ns: FxHashMap::default(),
            walks: FxHashMap::default(),
            chains: Chains::default(),
            skip: wanted.kinds.skip,
        }
    }

    /// Writes one event of a thread, if it is wanted, and the instructions before it that are.
    pub fn write(
        &mut self,
        out: &mut impl Write,
        tid: i32,
        buffer: usize,
        event: &FlowEvent,
    ) -> io::Result<()> {
        let last = self.last_ns.entry(buffer).or_insert(0);
        let time_ns = event.tsc.map_or(*last, |tsc| self.side.setup.clock.ns_at(tsc));
        *last = time_ns;
        let task = PidTid::from_signed(self.side.process_of(tid), tid);
        let place = EventPlace { task, buffer, time_ns };
        let chosen = self.chosen(place);
        if let Some(every) = self.wanted.kinds.instructions {
            let sampled = SampledEvent { event, space: self.space(place), every, time_ns };
            let samples = self.follow(place, sampled);
            for (ip, period) in samples.into_iter().filter(|_| chosen) {
                self.line.clear();
                self.sample(place, sampled.space, ip, period);
                self.put(out)?;
            }
        }
        if self.wanted.kinds.chain.is_some() {
            self.chains.take(tid, event);
        }
        if !chosen {
            return Ok(());
        }
        self.line.clear();
        let wanted = match event.what {
            FlowKind::Gap(gap) => self.error(gap, place, event.from),
            _ => self.branch(place, event),
        };
        if wanted { self.put(out) } else { Ok(()) }
    }

    fn put(&mut self, out: &mut impl Write) -> io::Result<()> {
        if self.skip > 0 {
            self.skip -= 1;
            return Ok(());
        }
        out.write_all(self.line.as_bytes())
    }

    /// Number of the code mappings at an event.
    fn space(&self, place: EventPlace) -> u32 {
        self.side.code(place.task.signed_pid(), place.time_ns).map_or(0, |(number, _)| number)
    }

    /// Follows the instructions up to an event: address and period of those whose turn it is.
    fn follow(&mut self, place: EventPlace, sampled: SampledEvent<'_>) -> Vec<(u64, u64)> {
        let (side, code) = (self.side, self.code);
        let walk = self.walks.entry(place.buffer).or_default();
        walk.follow(sampled, |ip| code.at(side, place.moment(), ip).code)
    }

    /// Makes the line of an instruction.
    fn sample(&mut self, place: EventPlace, space: u32, ip: u64, period: u64) {
        let spot = CodeSpot { moment: place.moment(), space };
        let fields = &self.wanted.fields;
        let Some(size) = self.wanted.kinds.chain else {
            self.start(place, period, INSTRUCTIONS);
            if fields.has("flags") {
                let _ = write!(self.line, "  {:<21} ", "");
            }
            if fields.has("ip") {
                self.line.push(' ');
                self.address(spot, ip);
            }
            return self.line.push('\n');
        };
        self.start(place, period, INSTRUCTIONS);
        // Above a chain perf does not pad the name.
        let padding = self.line.len() - self.line.trim_start().len();
        self.line.drain(..padding);
        self.line.push('\n');
        let callers = self.chains.callers(place.task.signed_tid(), size.saturating_sub(1));
        for ip in std::iter::once(ip).chain(callers) {
            // In chains perf shows the offset in the file.
            let shown = self.at(spot, ip).offset.unwrap_or(ip);
            let _ = write!(self.line, "\t{shown:>16x}");
            self.names(spot, ip);
            self.line.push('\n');
        }
        self.line.push('\n');
    }

    fn cpu(&self, buffer: usize) -> i32 {
        self.side.buffers[buffer].cpu.map_or(-1, u32::cast_signed)
    }

    fn chosen(&self, place: EventPlace) -> bool {
        let EventPlace { task, buffer, time_ns } = place;
        let name = self.side.name_of(task.signed_tid(), time_ns).unwrap_or("");
        let wanted = self.wanted;
        (wanted.pids.is_empty() || wanted.pids.contains(&task.pid))
            && (wanted.tids.is_empty() || wanted.tids.contains(&task.tid))
            && (wanted.comms.is_empty() || wanted.comms.iter().any(|comm| comm == name))
            && wanted.cpus.as_ref().is_none_or(|cpus| cpus.contains(&self.cpu(buffer)))
            && wanted.times.is_none_or(|(from, to)| (from..=to).contains(&time_ns))
    }

    /// Makes the line of an error; false if it is not wanted.
    fn error(&mut self, gap: Gap, place: EventPlace, ip: u64) -> bool {
        let EventPlace { task, buffer, time_ns } = place;
        let (pid, tid) = (task.signed_pid(), task.signed_tid());
        if !self.wanted.kinds.tells(gap) {
            return false;
        }
        let (code, text) = match gap {
            Gap::Overflow => (7, "Overflow packet"),
            Gap::Packet => (3, "Bad packet"),
            Gap::Code(_) => (5, "Failed to get instruction"),
            Gap::Mismatch => (6, "Trace doesn't match instruction"),
            Gap::NotSaved => (8, "Lost trace data"),
            Gap::Loop => (10, "Never-ending loop (refer perf config intel-pt.max-loops)"),
            _ => (9, "Unknown error!"),
        };
        let (seconds, ns) = (time_ns / 1_000_000_000, time_ns % 1_000_000_000);
        let cpu = self.cpu(buffer);
        let _ = writeln!(
            self.line,
            " instruction trace error type 1 time {seconds}.{ns:09} cpu {cpu} pid {pid} tid {tid} ip {ip:#x} code {code}: {text}"
        );
        true
    }

    /// Makes the line of a branch; false if it is not wanted.
    fn branch(&mut self, place: EventPlace, event: &FlowEvent) -> bool {
        let spot = CodeSpot { moment: place.moment(), space: self.space(place) };
        let flags = self.flags(spot, event);
        if !self.wanted.kinds.means(flags) {
            return false;
        }
        self.start(place, 1, BRANCHES);
        let fields = &self.wanted.fields;
        if fields.has("flags") {
            let _ = write!(self.line, "  {flags:<21} ");
        }
        if fields.has("ip") {
            self.line.push(' ');
            self.address(spot, event.from);
        }
        if fields.has("addr") {
            self.line.push_str(" => ");
            self.address(spot, event.to);
        }
        self.line.push('\n');
        true
    }

    /// Text in front of the address.
    fn start(&mut self, place: EventPlace, period: u64, event: &str) {
        let EventPlace { task, buffer, time_ns } = place;
        let (pid, tid) = (task.signed_pid(), task.signed_tid());
        let wanted = self.wanted;
        let fields = &wanted.fields;
        if fields.has("comm") {
            let name = harmless(self.side.name_of(tid, time_ns).unwrap_or("")).into_owned();
            let _ = write!(self.line, "{name:>16} ");
        }
        let _ = match (fields.has("pid"), fields.has("tid")) {
            (true, true) => write!(self.line, "{pid:>5}/{tid:<5} "),
            (true, false) => write!(self.line, "{pid:>5} "),
            (false, true) => write!(self.line, "{tid:>5} "),
            (false, false) => Ok(()),
        };
        if fields.has("cpu") && self.cpu(buffer) >= 0 {
            let _ = write!(self.line, "[{:03}] ", self.cpu(buffer));
        }
        if fields.has("time") {
            let (seconds, ns) = (time_ns / 1_000_000_000, time_ns % 1_000_000_000);
            let _ = match wanted.digits {
                TimeDigits::Nanos => write!(self.line, "{seconds:>5}.{ns:09}: "),
                TimeDigits::Micros => write!(self.line, "{seconds:>5}.{:06}: ", ns / 1000),
            };
        }
        if fields.has("period") {
            let _ = write!(self.line, "{period:>10} ");
        }
        if fields.has("event") {
            let _ = write!(self.line, "{event:>0$}: ", wanted.name_width.max(wanted.kinds.longest_name()));
        }
    }
}
