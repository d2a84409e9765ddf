//! From steps to packets, as a processor with user-only tracing would send them.

use std::collections::BTreeMap;
use std::ops::Range;

use intelpt::Packet;
use rustc_hash::FxHashMap;

use super::Options;
use super::kinds::{Decoded, Kind, decode};
use super::repeat;
use super::step::{Note, Side, Steps};
use super::writer::{Stream, Truth, Writer};

/// TSC ticks of one instruction, of a system call or signal, of a switch: the truth about time.
const TICKS: (u64, u64, u64) = (2, 2500, 5000);
/// Crystal ticks: TSC ticks times 2 / 200.
pub const TSC_PER_CTC: (u64, u64) = (200, 2);
/// MTC carries the crystal counter from this bit on.
pub const MTC_SHIFT: u32 = 3;
/// Ratio of core to bus clock, constant here.
pub const RATIO: u8 = 25;
const FIRST_TSC: u64 = 10_000_000_000;

/// Something for the sideband.
pub struct SideRecord {
    /// When, TSC.
    pub tsc: u64,
    /// On which virtual CPU.
    pub cpu: u32,
    /// Thread of the trace.
    pub tid: i32,
    /// The event.
    pub what: SideKind,
}

/// Events outside the trace.
pub enum SideKind {
    /// Switched in.
    In,
    /// Switched out; by force or not.
    Out {
        /// It would have gone on.
        preempted: bool,
    },
    /// As the stepper noted it.
    Step(Side),
}

/// All that was made.
pub struct Traced {
    /// The process.
    pub pid: i32,
    /// By CPU, or by thread.
    pub streams: Vec<Stream>,
    /// In time order.
    pub sides: Vec<SideRecord>,
    /// `TID NS KIND FROM TO`, in time order.
    pub truth: Vec<String>,
    /// Executed.
    pub instructions: u64,
    /// Moments by the machine's own counter and by the trace's.
    pub clock: Vec<(u64, u64)>,
}

/// perf's clock: 2.5 GHz.
pub fn ns_of(tsc: u64) -> u64 {
    const SHIFT: u32 = 31;
    const MULT: u64 = 858_993_459;
    (tsc >> SHIFT) * MULT + (((tsc & ((1 << SHIFT) - 1)) * MULT) >> SHIFT)
}

/// Encodes all steps; what really happened is only kept if `truth` is wanted.
pub fn encode(steps: &Steps, options: &Options, truth: bool) -> Result<Traced, String> {
    let mut run = Run {
        steps,
        options,
        writers: Vec::new(),
        place: FxHashMap::default(),
        decoded: FxHashMap::default(),
        generation: 0,
        tsc: FIRST_TSC,
        sides: Vec::new(),
        truth: Truth { lines: Vec::new(), wanted: truth },
        resume: FxHashMap::default(),
        instructions: 0,
        clock: Vec::new(),
        told: 0,
    };
    let nexts = next_of_thread(steps);
    let again = if options.repeat > 1 { repeat::longest(steps, |ip| run.decoded(ip).ok()) } else { 0..0 };
    run.round(0..again.end, &nexts)?;
    for _ in 1..options.repeat {
        run.round(again.clone(), &nexts)?;
    }
    run.round(again.end..steps.notes.len(), &nexts)?;
    run.last_sides();
    let streams = run.writers.into_iter().map(|writer| writer.stream).collect();
    Ok(Traced {
        pid: steps.pid,
        streams,
        sides: run.sides,
        truth: run.truth.lines,
        instructions: run.instructions,
        clock: run.clock,
    })
}

/// For each note the address of the same thread's next one.
fn next_of_thread(steps: &Steps) -> Vec<Option<u64>> {
    let mut nexts = vec![None; steps.notes.len()];
    let mut last: BTreeMap<i32, u64> = BTreeMap::new();
    for (at, (tid, note)) in steps.notes.iter().enumerate().rev() {
        let (Note::Executed(ip) | Note::Signal(ip)) = note;
        nexts[at] = last.insert(*tid, *ip);
    }
    nexts
}

struct Run<'a> {
    steps: &'a Steps,
    options: &'a Options,
    writers: Vec<Writer<'a>>,
    place: FxHashMap<i32, usize>,
    decoded: FxHashMap<(u32, u64), Decoded>,
    /// Which generation of the code runs.
    generation: u32,
    tsc: u64,
    sides: Vec<SideRecord>,
    truth: Truth,
    /// Where each thread goes on.
    resume: FxHashMap<i32, u64>,
    instructions: u64,
    clock: Vec<(u64, u64)>,
    /// Number of sides written so far.
    told: usize,
}

impl Run<'_> {
    /// Encodes some of the notes; their side events are written the first time only.
    fn round(&mut self, notes: Range<usize>, nexts: &[Option<u64>]) -> Result<(), String> {
        for at in notes {
            let (tid, note) = &self.steps.notes[at];
            while let Some((_, side_tid, side)) =
                self.steps.sides.get(self.told).filter(|(before, _, _)| *before <= at)
            {
                self.told += 1;
                self.side(*side_tid, SideKind::Step(side.clone()));
            }
            self.generation = self.steps.generations.partition_point(|first| *first <= at) as u32;
            let index = self.place_of(*tid);
            self.switch(index, *tid);
            if let Some((_, ticks)) = self.steps.clock.get(self.clock.len()).filter(|(note, _)| *note <= at) {
                self.clock.push((*ticks, self.tsc));
            }
            match note {
                Note::Executed(ip) => self.execute(index, *tid, *ip, nexts[at])?,
                Note::Signal(ip) => self.interrupted(index, *tid, *ip),
            }
        }
        Ok(())
    }

    fn last_sides(&mut self) {
        for (_, tid, side) in self.steps.sides.get(self.told..).unwrap_or_default() {
            self.side(*tid, SideKind::Step(side.clone()));
        }
    }

    fn cpu_of(&self, index: usize) -> u32 {
        if self.options.per_thread { 0 } else { index as u32 }
    }

    fn side(&mut self, tid: i32, what: SideKind) {
        let cpu = self.place.get(&tid).map_or(0, |index| self.cpu_of(*index));
        self.sides.push(SideRecord { tsc: self.tsc, cpu, tid, what });
    }

    /// The buffer a thread is traced into.
    fn place_of(&mut self, tid: i32) -> usize {
        let wanted = if self.options.per_thread { usize::MAX } else { self.options.cpus as usize };
        let next = if self.place.len() < wanted { self.place.len() } else { self.place.len() % wanted };
        let index = *self.place.entry(tid).or_insert(next);
        while self.writers.len() <= index {
            let owner = if self.options.per_thread { tid } else { -1 };
            self.writers.push(Writer::new(self.options, owner));
        }
        index
    }

    fn switch(&mut self, index: usize, tid: i32) {
        let Some(before) = self.writers[index].running.filter(|before| *before != tid) else {
            if self.writers[index].running.is_none() {
                self.writers[index].running = Some(tid);
                self.side(tid, SideKind::In);
            }
            return;
        };
        let tsc = self.tsc;
        let on = self.writers[index].on;
        if on {
            let ip = self.resume.get(&before).copied().unwrap_or(0);
            let writer = &mut self.writers[index];
            writer.with_ip(Packet::Fup, Some(ip), tsc);
            writer.with_ip(Packet::TipPgd, None, tsc);
            writer.on = false;
            if writer.lost == 0 {
                self.truth.say(Some(before), tsc, "end-async", ip, 0);
            }
        }
        self.side(before, SideKind::Out { preempted: on });
        self.tsc += TICKS.2;
        self.writers[index].running = Some(tid);
        self.writers[index].returns.clear();
        self.side(tid, SideKind::In);
    }

    fn decoded(&mut self, ip: u64) -> Result<Decoded, String> {
        let place = (self.generation, ip);
        if let Some(known) = self.decoded.get(&place) {
            return Ok(*known);
        }
        let code = self.steps.code.get(&place).filter(|code| !code.is_empty());
        let decoded = decode(ip, code.ok_or_else(|| format!("no code at {ip:#x}"))?);
        self.decoded.insert(place, decoded);
        Ok(decoded)
    }

    fn begin(&mut self, index: usize, tid: i32, ip: u64) {
        let tsc = self.tsc;
        let writer = &mut self.writers[index];
        if writer.stream.bytes.is_empty() {
            writer.psb(ip, tsc);
        } else if writer.lost == 0 {
            writer.cyc(tsc);
            writer.times(tsc);
        }
        writer.on = true;
        writer.with_ip(Packet::TipPge, Some(ip), tsc);
        if writer.lost == 0 {
            self.truth.say(Some(tid), tsc, "begin", 0, ip);
        }
    }

    fn interrupted(&mut self, index: usize, tid: i32, ip: u64) {
        if self.writers[index].on {
            let tsc = self.tsc;
            let writer = &mut self.writers[index];
            writer.with_ip(Packet::Fup, Some(ip), tsc);
            writer.with_ip(Packet::TipPgd, None, tsc);
            writer.on = false;
            if writer.lost == 0 {
                self.truth.say(Some(tid), tsc, "end-async", ip, 0);
            }
        }
        self.tsc += TICKS.1;
    }

    fn execute(&mut self, index: usize, tid: i32, ip: u64, next: Option<u64>) -> Result<(), String> {
        if !self.writers[index].on {
            self.begin(index, tid, ip);
        }
        let tsc = self.tsc;
        self.writers[index].before(ip, tsc, &mut self.truth);
        let decoded = self.decoded(ip)?;
        if next == Some(ip) && decoded.kind != Kind::Plain && decoded.target != ip {
            // A step that ended before the instruction did: it was noted again.
            return Ok(());
        }
        self.instructions += 1;
        self.tsc += TICKS.0;
        let tsc = self.tsc;
        let to = next.unwrap_or(0);
        let writer = &mut self.writers[index];
        let mut kind = None;
        match decoded.kind {
            Kind::Plain | Kind::Jump => {}
            Kind::Conditional => writer.bit(to == decoded.target, tsc),
            Kind::JumpIndirect => writer.with_ip(Packet::Tip, Some(to), tsc),
            Kind::Call => {
                if decoded.target != decoded.next {
                    writer.call(decoded.next);
                }
                kind = Some("call");
            }
            Kind::CallIndirect => {
                writer.call(decoded.next);
                writer.with_ip(Packet::Tip, Some(to), tsc);
                kind = Some("call");
            }
            Kind::Return => {
                writer.ret(to, tsc);
                kind = Some("return");
            }
            Kind::Syscall => {
                writer.with_ip(Packet::TipPgd, None, tsc);
                writer.on = false;
                kind = Some("end");
                self.tsc += TICKS.1;
            }
        }
        let lost = writer.lost > 0;
        if let Some(kind) = kind.filter(|_| !lost) {
            let to = if kind == "end" { 0 } else { to };
            self.truth.say(Some(tid), tsc, kind, ip, to);
        }
        self.resume.insert(tid, to);
        if next.is_none() && self.writers[index].on {
            self.interrupted_at_end(index, tid, ip);
        }
        Ok(())
    }

    /// A thread's last instruction did not leave by a system call (it was killed): tracing stops there.
    fn interrupted_at_end(&mut self, index: usize, tid: i32, ip: u64) {
        let next = self.decoded.get(&(self.generation, ip)).map_or(ip, |decoded| match decoded.kind {
            Kind::Call | Kind::Jump => decoded.target,
            _ => decoded.next,
        });
        self.interrupted(index, tid, next);
    }
}
