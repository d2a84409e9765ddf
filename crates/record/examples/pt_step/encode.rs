//! From steps to packets, as a processor with user-only tracing would send them.

use std::collections::{BTreeMap, HashMap};

use iced_x86::{Decoder, DecoderOptions, FlowControl, Mnemonic};
use intelpt::{Ip, LastIp, Packet, encode as write};

use super::Options;
use super::step::{Note, Side, Steps};

/// TSC ticks of one instruction, of a system call or signal, of a switch: the truth about time.
const TICKS: (u64, u64, u64) = (2, 2500, 5000);
/// Crystal ticks: TSC ticks times 2 / 200.
pub const TSC_PER_CTC: (u64, u64) = (200, 2);
/// MTC carries the crystal counter from this bit on.
pub const MTC_SHIFT: u32 = 3;
/// Ratio of core to bus clock, constant here.
pub const RATIO: u8 = 25;
const FIRST_TSC: u64 = 10_000_000_000;
/// Most entries of the processor's return stack.
const RETURNS: usize = 64;
/// Instructions lost at an overflow.
const LOST: u32 = 2000;

/// A buffer's trace.
#[derive(Default)]
pub struct Stream {
    /// The packets.
    pub bytes: Vec<u8>,
    /// The thread of a per-thread buffer.
    pub tid: i32,
    /// When the last packet was written, TSC.
    pub end_tsc: u64,
}

/// Something for the sideband.
pub struct SideRecord {
    /// When, TSC.
    pub tsc: u64,
    /// On which virtual CPU.
    pub cpu: u32,
    /// Whose.
    pub tid: i32,
    /// What.
    pub what: SideKind,
}

/// What happened beside the trace.
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
}

/// perf's clock: 2.5 GHz.
pub fn ns_of(tsc: u64) -> u64 {
    const SHIFT: u32 = 31;
    const MULT: u64 = 858_993_459;
    (tsc >> SHIFT) * MULT + (((tsc & ((1 << SHIFT) - 1)) * MULT) >> SHIFT)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Conditional,
    Jump,
    JumpIndirect,
    Call,
    CallIndirect,
    Return,
    Syscall,
}

#[derive(Clone, Copy)]
struct Decoded {
    kind: Kind,
    next: u64,
    target: u64,
}

fn decode(ip: u64, code: &[u8]) -> Decoded {
    let instruction = Decoder::with_ip(64, code, ip, DecoderOptions::NONE).decode();
    let kind = match instruction.flow_control() {
        FlowControl::ConditionalBranch => Kind::Conditional,
        FlowControl::UnconditionalBranch => Kind::Jump,
        FlowControl::IndirectBranch => Kind::JumpIndirect,
        FlowControl::Return => Kind::Return,
        FlowControl::Call if instruction.mnemonic() == Mnemonic::Syscall => Kind::Syscall,
        FlowControl::Call => Kind::Call,
        FlowControl::IndirectCall => Kind::CallIndirect,
        FlowControl::Interrupt => Kind::Syscall,
        _ => Kind::Plain,
    };
    Decoded { kind, next: instruction.next_ip(), target: instruction.near_branch_target() }
}

/// One virtual CPU or thread buffer being written.
struct Writer<'a> {
    options: &'a Options,
    stream: Stream,
    last_ip: LastIp,
    tnt: Vec<bool>,
    returns: Vec<u64>,
    on: bool,
    running: Option<i32>,
    last_cyc_tsc: u64,
    last_ctc: u64,
    since_psb: usize,
    psbs: usize,
    lost: u32,
}

impl<'a> Writer<'a> {
    fn new(options: &'a Options, tid: i32) -> Self {
        Self {
            options,
            stream: Stream { tid, ..Stream::default() },
            last_ip: LastIp::default(),
            tnt: Vec::new(),
            returns: Vec::new(),
            on: false,
            running: None,
            last_cyc_tsc: 0,
            last_ctc: 0,
            since_psb: 0,
            psbs: 0,
            lost: 0,
        }
    }

    fn put(&mut self, packet: &Packet, tsc: u64) {
        if self.lost > 0 {
            return;
        }
        write(packet, &mut self.stream.bytes);
        self.stream.end_tsc = tsc;
    }

    fn cyc(&mut self, tsc: u64) {
        if self.options.cyc && self.lost == 0 {
            let cycles = tsc - self.last_cyc_tsc;
            self.last_cyc_tsc = tsc;
            self.put(&Packet::Cyc(cycles), tsc);
        }
    }

    fn flush(&mut self, tsc: u64) {
        if self.tnt.is_empty() {
            return;
        }
        self.cyc(tsc);
        let bits = self.tnt.iter().fold(0, |bits, bit| bits << 1 | u64::from(*bit));
        let count = self.tnt.len() as u8;
        self.tnt.clear();
        self.put(&Packet::Tnt { bits, count }, tsc);
    }

    fn bit(&mut self, bit: bool, tsc: u64) {
        if self.lost > 0 {
            return;
        }
        self.tnt.push(bit);
        if self.tnt.len() >= self.options.tnt_bits.into() {
            self.flush(tsc);
        }
    }

    fn with_ip(&mut self, make: fn(Ip) -> Packet, ip: Option<u64>, tsc: u64) {
        self.flush(tsc);
        if self.lost > 0 {
            return;
        }
        self.cyc(tsc);
        let ip = ip.map_or(Ip::NONE, |ip| self.last_ip.compress(ip));
        self.put(&make(ip), tsc);
    }

    fn mtc(&mut self, tsc: u64) {
        let ctc = ctc_of(tsc);
        if self.options.mtc && ctc >> MTC_SHIFT != self.last_ctc >> MTC_SHIFT && !self.stream.bytes.is_empty()
        {
            // At the moment the counter stepped, not later: one packet per step.
            let first = (self.last_ctc >> MTC_SHIFT) + 1;
            for step in first..=ctc >> MTC_SHIFT {
                let at = ((step << MTC_SHIFT) * TSC_PER_CTC.0).div_ceil(TSC_PER_CTC.1);
                self.cyc(at.max(self.last_cyc_tsc));
                self.put(&Packet::Mtc(step as u8), at);
            }
        }
        self.last_ctc = ctc;
    }

    fn times(&mut self, tsc: u64) {
        self.put(&Packet::Tsc(tsc), tsc);
        let ctc = ctc_of(tsc);
        let fast = tsc - ctc * TSC_PER_CTC.0 / TSC_PER_CTC.1;
        if self.options.mtc {
            self.put(&Packet::Tma { ctc: ctc as u16, fast: fast as u16 }, tsc);
        }
        self.put(&Packet::Cbr(RATIO), tsc);
        self.last_ctc = ctc;
        self.last_cyc_tsc = tsc;
    }

    fn psb(&mut self, ip: u64, tsc: u64) {
        self.flush(tsc);
        self.cyc(tsc);
        self.put(&Packet::Psb, tsc);
        self.last_ip = LastIp::default();
        self.returns.clear();
        self.times(tsc);
        self.put(&Packet::ModeExec { bits: 64, interrupts: false }, tsc);
        if self.on {
            let ip = self.last_ip.compress(ip);
            self.put(&Packet::Fup(ip), tsc);
        }
        self.put(&Packet::PsbEnd, tsc);
        self.since_psb = self.stream.bytes.len();
        self.psbs += 1;
    }

    /// Before an instruction: boundaries and losses that are due.
    fn before(&mut self, ip: u64, tsc: u64, truth: &mut Truth) {
        if self.lost > 0 {
            self.lost -= 1;
            if self.lost == 0 {
                self.found(ip, tsc, truth);
            }
            return;
        }
        self.mtc(tsc);
        if self.stream.bytes.len() - self.since_psb < self.options.psb_bytes {
            return;
        }
        self.psb(ip, tsc);
        let every = self.options.overflow_every;
        if every > 0 && self.psbs.is_multiple_of(every) {
            self.put(&Packet::Ovf, tsc);
            self.lost = LOST;
            truth.say(self.running, tsc, "gap", 0, 0);
        }
    }

    /// The loss is over.
    fn found(&mut self, ip: u64, tsc: u64, truth: &mut Truth) {
        self.tnt.clear();
        self.returns.clear();
        self.times(tsc);
        if self.on {
            self.last_ip = LastIp::default();
            let ip6 = Ip { ip_bytes: 3, payload: ip & ((1 << 48) - 1) };
            self.last_ip.update(ip6);
            self.put(&Packet::Fup(ip6), tsc);
            truth.say(self.running, tsc, "begin", 0, ip);
        } else {
            self.last_ip = LastIp::default();
        }
    }
}

fn ctc_of(tsc: u64) -> u64 {
    tsc * TSC_PER_CTC.1 / TSC_PER_CTC.0
}

/// The list of what really happened.
#[derive(Default)]
struct Truth(Vec<String>);

impl Truth {
    fn say(&mut self, tid: Option<i32>, tsc: u64, kind: &str, from: u64, to: u64) {
        self.0.push(format!("{} {} {kind} {from:x} {to:x}", tid.unwrap_or(0), ns_of(tsc)));
    }
}

/// Encodes all steps.
pub fn encode(steps: &Steps, options: &Options) -> Result<Traced, String> {
    let mut run = Run {
        steps,
        options,
        writers: Vec::new(),
        place: HashMap::new(),
        decoded: HashMap::new(),
        tsc: FIRST_TSC,
        sides: Vec::new(),
        truth: Truth::default(),
        resume: HashMap::new(),
        instructions: 0,
    };
    let nexts = next_of_thread(steps);
    for round in 0..options.repeat {
        run.round(&nexts, round == 0)?;
    }
    let streams = run.writers.into_iter().map(|writer| writer.stream).collect();
    Ok(Traced {
        pid: steps.pid,
        streams,
        sides: run.sides,
        truth: run.truth.0,
        instructions: run.instructions,
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
    place: HashMap<i32, usize>,
    decoded: HashMap<u64, Decoded>,
    tsc: u64,
    sides: Vec<SideRecord>,
    truth: Truth,
    /// Where each thread goes on.
    resume: HashMap<i32, u64>,
    instructions: u64,
}

impl Run<'_> {
    fn round(&mut self, nexts: &[Option<u64>], first: bool) -> Result<(), String> {
        let mut sides = self.steps.sides.iter().peekable();
        for (at, (tid, note)) in self.steps.notes.iter().enumerate() {
            while let Some((_, side_tid, side)) = sides.next_if(|(before, _, _)| *before <= at) {
                if first {
                    self.side(*side_tid, SideKind::Step(side.clone()));
                }
            }
            let index = self.place_of(*tid);
            self.switch(index, *tid);
            match note {
                Note::Executed(ip) => self.execute(index, *tid, *ip, nexts[at])?,
                Note::Signal(ip) => self.interrupted(index, *tid, *ip),
            }
        }
        for (_, side_tid, side) in sides {
            if first {
                self.side(*side_tid, SideKind::Step(side.clone()));
            }
        }
        Ok(())
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
        if let Some(known) = self.decoded.get(&ip) {
            return Ok(*known);
        }
        let code = self.steps.code.get(&ip).filter(|code| !code.is_empty());
        let decoded = decode(ip, code.ok_or_else(|| format!("no code at {ip:#x}"))?);
        self.decoded.insert(ip, decoded);
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
        let next = self.decoded.get(&ip).map_or(ip, |decoded| decoded.next);
        self.interrupted(index, tid, next);
    }
}

impl Writer<'_> {
    fn call(&mut self, back: u64) {
        if self.returns.len() == RETURNS {
            self.returns.remove(0);
        }
        self.returns.push(back);
    }

    fn ret(&mut self, to: u64, tsc: u64) {
        if self.options.compress_returns && self.returns.last() == Some(&to) {
            self.returns.pop();
            self.bit(true, tsc);
        } else {
            // Not compressing after a mismatch keeps all decoders agreed.
            self.returns.clear();
            self.with_ip(Packet::Tip, Some(to), tsc);
        }
    }
}
