//! The perf.data around the trace: attributes, sideband, buffers, header features.
//
// Layouts: as written by perf's tools (util/header.c, util/auxtrace.c, arch/x86/util/intel-pt.c), little-endian.

use super::Options;
use super::encode::{MTC_SHIFT, RATIO, SideKind, SideRecord, TSC_PER_CTC, Traced, ns_of};
use super::step::{Mapping, Side};

pub const PT_TYPE: u32 = 10;
pub const PT_ID: u64 = 100;
pub const DUMMY_ID: u64 = 200;
const ATTR_BYTES: u64 = 128;
const HEADER_BYTES: u64 = 104;
const SAMPLE_TYPE: u64 = 0x10087;

#[derive(Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn u8s(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend(bytes);
        self
    }
    fn u32(&mut self, value: u32) -> &mut Self {
        self.u8s(&value.to_le_bytes())
    }
    fn i32(&mut self, value: i32) -> &mut Self {
        self.u8s(&value.to_le_bytes())
    }
    fn u64(&mut self, value: u64) -> &mut Self {
        self.u8s(&value.to_le_bytes())
    }
    /// NUL-terminated and padded to a multiple of 8.
    fn name(&mut self, name: &str) -> &mut Self {
        let padded = (name.len() + 1).next_multiple_of(8);
        self.u8s(name.as_bytes());
        self.0.resize(self.0.len() + padded - name.len(), 0);
        self
    }
    /// A header string: length with padding, then the bytes.
    fn text(&mut self, text: &str) -> &mut Self {
        let padded = (text.len() + 1).next_multiple_of(64);
        self.u32(padded as u32).u8s(text.as_bytes());
        self.0.resize(self.0.len() + padded - text.len(), 0);
        self
    }
}

fn attr(kind: u32, config: u64, flags: u64) -> Bytes {
    let mut bytes = Bytes::default();
    bytes.u32(kind).u32(ATTR_BYTES as u32).u64(config).u64(1).u64(SAMPLE_TYPE).u64(4).u64(flags);
    bytes.0.resize(ATTR_BYTES as usize, 0);
    bytes
}

fn bits(set: &[u32]) -> u64 {
    set.iter().fold(0, |bits, bit| bits | 1 << bit)
}

fn record(kind: u32, misc: u16, body: &Bytes) -> Bytes {
    let mut bytes = Bytes::default();
    bytes.u32(kind).u8s(&misc.to_le_bytes()).u8s(&((body.0.len() + 8) as u16).to_le_bytes()).u8s(&body.0);
    bytes
}

/// The event's `config`: what was asked of the processor.
pub fn config(options: &Options) -> u64 {
    0x1 | 0x2000
        | if options.tsc { 0x400 } else { 0 }
        | u64::from(MTC_SHIFT) << 14
        | if options.mtc { 0x200 } else { 0 }
        | if options.cyc { 0x2 } else { 0 }
        | if options.compress_returns { 0 } else { 0x800 }
}

/// The whole file.
pub fn build(traced: &Traced, options: &Options) -> Vec<u8> {
    let count = traced.streams.len() as u64;
    let config = config(options);
    let plain = [0, 1, 5, 6, 12, 18];
    let side = [1, 5, 6, 8, 9, 13, 18, 23, 24, 26];
    let attrs = [(attr(PT_TYPE, config, bits(&plain)), PT_ID), (attr(1, 9, bits(&side)), DUMMY_ID)];
    let mut file = Bytes::default();
    let ids_at = HEADER_BYTES;
    let attrs_at = ids_at + 2 * 8 * count;
    let data_at = attrs_at + 2 * (ATTR_BYTES + 16);
    let (data, aux_offsets) = data(traced, options, data_at);
    file.u8s(b"PERFILE2").u64(HEADER_BYTES).u64(ATTR_BYTES + 16);
    file.u64(attrs_at).u64(2 * (ATTR_BYTES + 16)).u64(data_at).u64(data.0.len() as u64).u64(0).u64(0);
    file.u64(bits(&[3, 4, 5, 6, 7, 11, 12, 16, 18])).u64(0).u64(0).u64(0);
    for (_, first) in &attrs {
        (0..count).for_each(|n| {
            file.u64(first + n);
        });
    }
    for (n, (attr, _)) in attrs.iter().enumerate() {
        file.u8s(&attr.0).u64(ids_at + 8 * count * n as u64).u64(8 * count);
    }
    file.u8s(&data.0);
    features(&mut file, traced, options, &attrs, &aux_offsets);
    file.0
}

/// `uname -r` of this machine: the traced program's vdso is this kernel's.
pub fn kernel_release() -> String {
    let read = std::fs::read_to_string("/proc/sys/kernel/osrelease");
    read.map(|text| text.trim_end().to_owned()).unwrap_or_default()
}

fn features(file: &mut Bytes, traced: &Traced, options: &Options, attrs: &[(Bytes, u64); 2], aux: &[u64]) {
    let string = |text: &str| {
        let mut bytes = Bytes::default();
        bytes.text(text);
        bytes
    };
    let mut cpus = Bytes::default();
    cpus.u32(options.cpus).u32(options.cpus);
    let mut command = Bytes::default();
    command.u32(1).text("pt_step");
    let mut events = Bytes::default();
    events.u32(2).u32(ATTR_BYTES as u32);
    for ((attr, first), name) in attrs.iter().zip(["intel_pt//u", "dummy:u"]) {
        events.u8s(&attr.0).u32(traced.streams.len() as u32).text(name);
        (0..traced.streams.len() as u64).for_each(|n| {
            events.u64(first + n);
        });
    }
    let mut pmus = Bytes::default();
    pmus.u32(2).u32(1).text("software").u32(PT_TYPE).text("intel_pt");
    let mut index = Bytes::default();
    index.u64(aux.len() as u64);
    aux.iter().for_each(|at| {
        index.u64(*at).u64(48);
    });
    let bodies = [
        string("stepper"),
        string(&kernel_release()),
        string("6.1"),
        string("x86_64"),
        cpus,
        command,
        events,
        pmus,
        index,
    ];
    let mut at = file.0.len() as u64 + 16 * bodies.len() as u64;
    for body in &bodies {
        file.u64(at).u64(body.0.len() as u64);
        at += body.0.len() as u64;
    }
    bodies.iter().for_each(|body| {
        file.u8s(&body.0);
    });
}

/// The data section, and the file offsets of its AUXTRACE records.
fn data(traced: &Traced, options: &Options, data_at: u64) -> (Bytes, Vec<u64>) {
    let mut data = Bytes::default();
    data.u8s(&record(70, 0, &info(options)).0);
    data.u8s(&first_name(traced, options));
    let mut known: Vec<Mapping> = Vec::new();
    for side in &traced.sides {
        data.u8s(&side_record(traced, side, &mut known));
    }
    let mut aux = Vec::new();
    for (n, stream) in traced.streams.iter().enumerate() {
        let cpu = if options.per_thread { -1 } else { n as i32 };
        let (whole, task) = ([0, stream.bytes.len() as u64, 0], (traced.pid, traced.pid));
        data.u8s(&aux_record(whole, task, (ns_of(stream.end_tsc) + 1, n as u32)));
        aux.push(data_at + data.0.len() as u64);
        let mut body = Bytes::default();
        let padded = stream.bytes.len().next_multiple_of(8);
        let tid = if options.per_thread { stream.tid } else { -1 };
        // The reference is a TSC near the data's: perf takes the 8 bits that TSC packets lack from it.
        body.u64(padded as u64).u64(0).u64(stream.end_tsc).u32(n as u32).i32(tid).i32(cpu).u32(0);
        data.u8s(&record(71, 0, &body).0).u8s(&stream.bytes);
        data.0.resize(data.0.len() + padded - stream.bytes.len(), 0);
    }
    data.u8s(&record(68, 0, &Bytes::default()).0);
    (data, aux)
}

/// Record with the program's name when it begins.
pub fn first_name(traced: &Traced, options: &Options) -> Vec<u8> {
    let mut comm = Bytes::default();
    comm.i32(traced.pid).i32(traced.pid).name(comm_of(options));
    trailer(&mut comm, traced.pid, traced.pid, 0, 0, 0);
    record(3, 1 << 13, &comm).0
}

/// New trace in the area of ring `n`: its offset, size and flags.
pub fn aux_record(fields: [u64; 3], (pid, tid): (i32, i32), (time_ns, n): (u64, u32)) -> Vec<u8> {
    let mut body = Bytes::default();
    fields.into_iter().for_each(|field| {
        body.u64(field);
    });
    trailer(&mut body, pid, tid, time_ns, n, PT_ID + u64::from(n));
    record(11, 0, &body).0
}

fn comm_of(options: &Options) -> &str {
    let name = options.command[0].rsplit('/').next().unwrap_or("");
    &name[..name.len().min(15)]
}

fn info(options: &Options) -> Bytes {
    let per_cpu = u64::from(!options.per_thread);
    let have_switch = if options.per_thread { 0 } else { 2 };
    let mut body = Bytes::default();
    body.u32(1).u32(0);
    let clock = [31, 858_993_459, 0, 1];
    let (n, d) = TSC_PER_CTC;
    let rest = [0x400, 0x800, have_switch, 0, per_cpu, 0x200, 0x3c000, n, d, 0x2, u64::from(RATIO), 0, 0];
    body.u64(PT_TYPE.into());
    clock.into_iter().chain(rest).for_each(|value| {
        body.u64(value);
    });
    body
}

/// Appends the fields at the end of every kernel record.
fn trailer(body: &mut Bytes, pid: i32, tid: i32, time_ns: u64, cpu: u32, id: u64) {
    body.i32(pid).i32(tid).u64(time_ns).u32(cpu).u32(0).u64(id);
}

/// Mappings are written once: `known` are those already written.
pub fn side_record(traced: &Traced, side: &SideRecord, known: &mut Vec<Mapping>) -> Vec<u8> {
    let (pid, tid) = (traced.pid, side.tid);
    let time_ns = ns_of(side.tsc);
    let mut all = Bytes::default();
    let mut put = |kind: u32, misc: u16, mut body: Bytes, at_ns: u64| {
        trailer(&mut body, pid, tid, at_ns, side.cpu, DUMMY_ID + u64::from(side.cpu));
        all.u8s(&record(kind, misc, &body).0);
    };
    match &side.what {
        SideKind::In => {
            let mut start = Bytes::default();
            start.i32(pid).i32(tid);
            put(12, 0, start, time_ns.saturating_sub(2));
            put(14, 0, Bytes::default(), time_ns.saturating_sub(1));
        }
        SideKind::Out { preempted } => {
            put(14, 1 << 13 | u16::from(*preempted) << 14, Bytes::default(), time_ns + 1);
        }
        SideKind::Step(Side::Clone { child }) => {
            let mut body = Bytes::default();
            body.i32(pid).i32(pid).i32(*child).i32(tid).u64(time_ns);
            put(7, 0, body, time_ns);
        }
        SideKind::Step(Side::Exit) => {
            let mut body = Bytes::default();
            body.i32(pid).i32(pid).i32(tid).i32(tid).u64(time_ns);
            put(4, 0, body, time_ns);
        }
        SideKind::Step(Side::Exec { comm }) => {
            let mut body = Bytes::default();
            body.i32(pid).i32(tid).name(comm);
            put(3, 1 << 13, body, time_ns.saturating_sub(60));
            known.clear();
        }
        SideKind::Step(Side::Maps(mappings)) => {
            for mapping in mappings.iter().filter(|mapping| !known.contains(mapping)) {
                put(10, 2, mmap2(pid, mapping), time_ns.saturating_sub(50));
            }
            known.clone_from(mappings);
        }
    }
    all.0
}

fn mmap2(pid: i32, mapping: &Mapping) -> Bytes {
    let mut body = Bytes::default();
    body.i32(pid).i32(pid).u64(mapping.start).u64(mapping.end - mapping.start).u64(mapping.offset);
    body.u32(0).u32(0).u64(0).u64(0).u32(mapping.prot).u32(2).name(&mapping.name);
    body
}
