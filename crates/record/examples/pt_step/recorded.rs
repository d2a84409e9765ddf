//! The same run as the recorder itself would have written it: a fake kernel fills rings and AUX areas, and the
//! recorder's own code empties them, puts the records in order and writes the file.

use std::collections::HashMap;
use std::error::Error;
use std::path::Path;

use intelpt::Packets;
use perfdata::{Attr, AttrFlags, Event, Features, WriterOpts};
use record::opts::{EventRequest, FileOpts, Output, RecordOpts};
use record::output::RecordingSink;
use record::plan::{Offer, Plan, plan};
use record::pt::info::Info;
use record::pt::pieces::{self, Owner};
use record::pt::pmu::PtPmu;
use record::pt::{AuxSnapshot, PtOpts};
use record::queue::{Limits, Queue};
use record::ring_reader::{Layouts, drain};
use record::sys::aux_area::TscFactors;
use record::sys::time::Clock;
use record::sys::{AuxMode, Ring};
use record::worker::{HeaderOpts, Shared, Worker};

use super::Options;
use super::encode::{RATIO, TSC_PER_CTC, Traced, ns_of};
use super::fake_kernel::FakeKernel;
use super::perf_file::{self, DUMMY_ID, PT_ID, PT_TYPE};

/// Bytes of each area: far less than a trace, so that it goes round many times.
const AREA_BYTES: u64 = 8 << 10;
const RING_PAGES: u64 = 64;
/// Records between two passes over the rings.
const PASS: usize = 8;

/// How the recorder was asked to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// All of it.
    Whole,
    /// The newest part only, written at the end.
    Snapshot,
    /// The recorder looks too seldom: areas are full at times.
    Late,
}

/// Records it to `output`; standard output if that is `-`.
pub fn write(traced: &Traced, options: &Options, how: How, output: &Path) -> Result<(), Box<dyn Error>> {
    let opts = opts(options, how, output);
    let offer = Offer {
        lost_counts: false,
        unwind_regs: 0,
        max_rate_hz: 1,
        snapshot_steps: [0; 2],
        kernel: false,
        build_id_records: false,
    };
    let plan = plan(&opts, &opts.events, &offer);
    let count = traced.streams.len() as u64;
    let id_of = |aux: bool, n: u64| if aux { PT_ID + n } else { DUMMY_ID + n };
    let opened = plan.opened.iter().enumerate();
    let ids = opened.flat_map(|(at, event)| (0..count).map(move |n| (id_of(event.aux, n), at)));
    let layouts = Layouts::new(&plan, ids);
    let sink = RecordingSink::create(&opts, writer_opts(&plan, traced), 0)?;
    let shared = Shared::new(Queue::new(&std::env::temp_dir(), Limits::for_dir(&std::env::temp_dir())));
    let mut header = HeaderOpts { opts: opts.clone(), samples_kernel: false };
    header.opts.extra.switches = true;
    let mut worker = Worker::new(&plan, layouts.clone(), sink, shared.clone(), header);
    let mut kernel = Kernel::new(traced, options, how)?;
    worker.introduce(&info(&opts, kernel.rings[0].tsc_factors()));
    worker.described();
    let worker = std::thread::spawn(move || worker.run());
    kernel.run(traced, options, |rings, owners, last| {
        shared.queue.push(drain(rings, &layouts, false));
        for (idx, (ring, owner)) in rings.iter_mut().zip(owners).enumerate() {
            let (idx, owner) = (idx as u32, *owner);
            let piece = match (how, last) {
                (How::Snapshot, false) => None,
                (How::Snapshot, true) => pieces::take_snapshot(ring, idx, owner),
                _ => pieces::take(ring, idx, owner),
            };
            piece.into_iter().for_each(|piece| shared.queue.push(piece));
        }
    })?;
    shared.queue.close();
    let mut finished = worker.join().map_err(|_| "the recorder's thread has panicked")?;
    eprintln!("pt_step: recorded {:?}", finished.written.traced);
    Ok(finished.sink.finish(&features(traced), &[])?)
}

fn opts(options: &Options, how: How, output: &Path) -> RecordOpts {
    let flags = AttrFlags(0).with(AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV);
    let attr = Attr { type_: PT_TYPE, config: perf_file::config(options), flags, ..Attr::default() };
    let event = EventRequest { aux: true, ..EventRequest::plain("intel_pt//u", attr) };
    let snapshot = (how == How::Snapshot).then_some(AuxSnapshot { at_exit: true });
    let to_stdout = output.as_os_str() == "-";
    RecordOpts {
        events: vec![event],
        clock: Clock::Perf,
        file: FileOpts {
            output: if to_stdout { Output::Stdout } else { Output::File(output.to_owned()) },
            ..FileOpts::default()
        },
        trace: PtOpts { per_thread: options.per_thread, snapshot, ..PtOpts::default() },
        ..RecordOpts::default()
    }
}

fn features(traced: &Traced) -> Features {
    Features {
        hostname: Some("stepper".to_owned()),
        os_release: Some(perf_file::kernel_release()),
        version: Some("6.1".to_owned()),
        arch: Some("x86_64".to_owned()),
        nr_cpus: Some(perfdata::file::features::NrCpus {
            available: traced.streams.len() as u32,
            online: traced.streams.len() as u32,
        }),
        cmdline: Some(vec!["pt_step".to_owned()]),
        pmu_mappings: vec![(1, "software".to_owned()), (PT_TYPE, "intel_pt".to_owned())],
        ..Features::default()
    }
}

fn writer_opts(plan: &Plan, traced: &Traced) -> WriterOpts {
    let ids = |first: u64| (0..traced.streams.len() as u64).map(|n| first + n).collect();
    let first = [PT_ID, DUMMY_ID];
    let events = plan.file.iter().zip(first);
    let events = events.map(|(of, first)| Event { attr: of.attr, ids: ids(first), name: of.name.clone() });
    WriterOpts { events: events.collect(), pipe_features: features(traced), ..WriterOpts::default() }
}

fn info(opts: &RecordOpts, clock: Option<TscFactors>) -> Info {
    let pmu = PtPmu {
        type_: PT_TYPE,
        tsc: 0x400,
        mtc: 0x200,
        cyc: 2,
        noretcomp: 0x800,
        mtc_period: 0x3c000,
        tsc_per_crystal: (TSC_PER_CTC.0 as u32, TSC_PER_CTC.1 as u32),
        max_nonturbo_ratio: RATIO.into(),
        event_trace: false,
    };
    Info { pmu, clock, options: opts.trace, system_wide: false, filter: None }
}

/// Rings that a fake kernel fills.
struct Kernel {
    fakes: Vec<FakeKernel>,
    rings: Vec<Ring>,
    owners: Vec<Owner>,
    /// The ring of each thread, where each has its own.
    of_thread: HashMap<i32, usize>,
    /// How much of each stream was written.
    written: Vec<usize>,
    /// Ends of each stream's packets.
    boundaries: Vec<Vec<usize>>,
    how: How,
}

impl Kernel {
    fn new(traced: &Traced, options: &Options, how: How) -> std::io::Result<Self> {
        let mut new = Self {
            fakes: Vec::new(),
            rings: Vec::new(),
            owners: Vec::new(),
            of_thread: HashMap::new(),
            written: vec![0; traced.streams.len()],
            boundaries: traced.streams.iter().map(|stream| packet_ends(&stream.bytes)).collect(),
            how,
        };
        let overwrite = how == How::Snapshot;
        for (n, stream) in traced.streams.iter().enumerate() {
            let fake = FakeKernel::new(RING_PAGES, AREA_BYTES, overwrite)?;
            fake.set_clock(31, 858_993_459, 0)?;
            let mut ring = Ring::map_fd(fake.fd(), RING_PAGES as usize)?;
            let mode = if overwrite { AuxMode::Snapshot } else { AuxMode::Full };
            ring.map_aux(fake.fd(), AREA_BYTES as usize, mode)?;
            if options.per_thread {
                new.of_thread.insert(stream.tid, n);
            }
            let thread = options.per_thread.then_some(Owner::Thread(stream.tid as u32));
            new.owners.push(thread.unwrap_or(Owner::Cpu(n as u32)));
            new.fakes.push(fake);
            new.rings.push(ring);
        }
        Ok(new)
    }

    /// Plays the run; `look` empties the rings, `true` the last time.
    fn run(
        &mut self,
        traced: &Traced,
        options: &Options,
        mut look: impl FnMut(&mut [Ring], &[Owner], bool),
    ) -> std::io::Result<()> {
        self.fakes[0].record(&perf_file::first_name(traced, options))?;
        let mut known = Vec::new();
        let passes = traced.sides.len().div_ceil(PASS).max(1);
        for (pass, sides) in traced.sides.chunks(PASS).enumerate() {
            for side in sides {
                let ring = self.of_thread.get(&side.tid).copied().unwrap_or(side.cpu as usize);
                self.fakes[ring].record(&perf_file::side_record(traced, side, &mut known))?;
            }
            let time_ns = sides.last().map_or(0, |side| ns_of(side.tsc));
            for n in 0..self.fakes.len() {
                let end = traced.streams[n].bytes.len() * (pass + 1) / passes;
                self.trace(traced, (n, end), time_ns, &mut look)?;
            }
            look(&mut self.rings, &self.owners, pass + 1 == passes);
        }
        Ok(())
    }

    /// Writes stream `n` up to `end`, no more at a time than half an area unless the recorder is late.
    fn trace(
        &mut self,
        traced: &Traced,
        (n, end): (usize, usize),
        time_ns: u64,
        look: &mut impl FnMut(&mut [Ring], &[Owner], bool),
    ) -> std::io::Result<()> {
        let stream = &traced.streams[n];
        while self.written[n] < end.min(stream.bytes.len()) {
            let most = if self.how == How::Late { end } else { AREA_BYTES as usize / 2 };
            let until = whole(&self.boundaries[n], end.min(self.written[n] + most));
            let told = self.fakes[n].trace(&stream.bytes[self.written[n]..until])?;
            self.written[n] = until;
            let flags = u64::from(told.dropped > 0) | u64::from(self.how == How::Snapshot) << 1;
            let tid = if stream.tid > 0 { stream.tid } else { traced.pid };
            let task = (traced.pid, tid);
            let aux = perf_file::aux_record([told.offset, told.size, flags], task, (time_ns, n as u32));
            self.fakes[n].record(&aux)?;
            if self.how != How::Late {
                look(&mut self.rings, &self.owners, false);
            }
        }
        Ok(())
    }
}

/// Where packets end: a processor that is stopped has flushed whole ones.
fn packet_ends(bytes: &[u8]) -> Vec<usize> {
    let mut packets = Packets::new(bytes, 0);
    let mut ends = Vec::new();
    while packets.next().is_some_and(|packet| packet.is_ok()) {
        ends.push(packets.offset());
    }
    ends
}

/// The first end of a packet at or after `at`.
fn whole(ends: &[usize], at: usize) -> usize {
    let next = ends.partition_point(|end| *end < at);
    ends.get(next).or(ends.last()).copied().unwrap_or(at)
}
