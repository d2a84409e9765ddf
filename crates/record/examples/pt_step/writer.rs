//! One trace being written: bits gathered, times kept, boundaries and losses where they are due.

use intelpt::{Ip, LastIp, Packet, encode as write};

use super::Options;
use super::encode::{MTC_SHIFT, RATIO, TSC_PER_CTC, ns_of};

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

/// One virtual CPU or thread buffer being written.
pub struct Writer<'a> {
    options: &'a Options,
    pub stream: Stream,
    last_ip: LastIp,
    tnt: Vec<bool>,
    pub returns: Vec<u64>,
    pub on: bool,
    pub running: Option<i32>,
    last_cyc_tsc: u64,
    last_ctc: u64,
    since_psb: usize,
    psbs: usize,
    pub lost: u32,
}

impl<'a> Writer<'a> {
    pub fn new(options: &'a Options, tid: i32) -> Self {
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

    pub fn put(&mut self, packet: &Packet, tsc: u64) {
        if self.lost > 0 {
            return;
        }
        write(packet, &mut self.stream.bytes);
        self.stream.end_tsc = tsc;
    }

    pub fn cyc(&mut self, tsc: u64) {
        if self.options.cyc && self.lost == 0 && !self.stream.bytes.is_empty() {
            let cycles = tsc - self.last_cyc_tsc;
            self.last_cyc_tsc = tsc;
            self.put(&Packet::Cyc(cycles), tsc);
        }
    }

    pub fn flush(&mut self, tsc: u64) {
        if self.tnt.is_empty() {
            return;
        }
        self.cyc(tsc);
        let bits = self.tnt.iter().fold(0, |bits, bit| bits << 1 | u64::from(*bit));
        let count = self.tnt.len() as u8;
        self.tnt.clear();
        self.put(&Packet::Tnt { bits, count }, tsc);
    }

    pub fn bit(&mut self, bit: bool, tsc: u64) {
        if self.lost > 0 {
            return;
        }
        self.tnt.push(bit);
        if self.tnt.len() >= self.options.tnt_bits.into() {
            self.flush(tsc);
        }
    }

    pub fn with_ip(&mut self, make: fn(Ip) -> Packet, ip: Option<u64>, tsc: u64) {
        self.flush(tsc);
        if self.lost > 0 {
            return;
        }
        self.cyc(tsc);
        let ip = ip.map_or(Ip::NONE, |ip| self.last_ip.compress(ip));
        self.put(&make(ip), tsc);
    }

    pub fn mtc(&mut self, tsc: u64) {
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

    pub fn times(&mut self, tsc: u64) {
        if !self.options.tsc {
            return;
        }
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

    pub fn psb(&mut self, ip: u64, tsc: u64) {
        self.flush(tsc);
        self.cyc(tsc);
        self.put(&Packet::Psb, tsc);
        self.returns.clear();
        self.times(tsc);
        self.put(&Packet::ModeExec { bits: 64, interrupts: false }, tsc);
        if self.on {
            let whole = self.whole(ip);
            self.put(&Packet::Fup(whole), tsc);
        } else {
            self.last_ip = LastIp::default();
        }
        self.put(&Packet::PsbEnd, tsc);
        self.since_psb = self.stream.bytes.len();
        self.psbs += 1;
    }

    /// Before an instruction: boundaries and losses that are due.
    pub fn before(&mut self, ip: u64, tsc: u64, truth: &mut Truth) {
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
    pub fn found(&mut self, ip: u64, tsc: u64, truth: &mut Truth) {
        self.tnt.clear();
        self.returns.clear();
        self.times(tsc);
        if self.on {
            let whole = self.whole(ip);
            self.put(&Packet::Fup(whole), tsc);
            truth.say(self.running, tsc, "begin", 0, ip);
        } else {
            self.last_ip = LastIp::default();
        }
    }

    /// `ip` with all its bits, for a place where nothing earlier counts. A processor may send low addresses shorter
    /// after a PSB, since that sets the last address to 0; perf 6.1 does not set it in the middle of a trace.
    fn whole(&mut self, ip: u64) -> Ip {
        let whole = Ip { ip_bytes: 3, payload: ip & ((1 << 48) - 1) };
        self.last_ip = LastIp::default();
        self.last_ip.update(whole);
        whole
    }
}

fn ctc_of(tsc: u64) -> u64 {
    tsc * TSC_PER_CTC.1 / TSC_PER_CTC.0
}

/// The list of what really happened.
pub struct Truth {
    /// `TID NS KIND FROM TO`, in time order.
    pub lines: Vec<String>,
    /// Whether anything is noted.
    pub wanted: bool,
}

impl Truth {
    pub fn say(&mut self, tid: Option<i32>, tsc: u64, kind: &str, from: u64, to: u64) {
        if self.wanted {
            self.lines.push(format!("{} {} {kind} {from:x} {to:x}", tid.unwrap_or(0), ns_of(tsc)));
        }
    }
}

impl Writer<'_> {
    pub fn call(&mut self, back: u64) {
        if self.returns.len() == RETURNS {
            self.returns.remove(0);
        }
        self.returns.push(back);
    }

    pub fn ret(&mut self, to: u64, tsc: u64) {
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
