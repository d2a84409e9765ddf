//! Makes an Intel PT recording on a machine without Intel PT: steps a program instruction by instruction and writes
//! the packets that a processor would have sent, with all other records that perf writes.
//!
//! In addition to the recording it writes the truth: every call, return and interruption, as it happened. Decoders
//! (ours, and perf's) are compared with that.

mod emulate;
mod encode;
mod fake_kernel;
mod jit;
mod kinds;
mod perf_file;
mod recorded;
mod repeat;
mod step;
mod writer;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use recorded::How;

/// Options of the recording to make.
#[derive(Clone, Debug)]
pub struct Options {
    /// Compress returns to a bit where the processor would.
    pub compress_returns: bool,
    /// Emit TSC packets.
    pub tsc: bool,
    /// Emit CYC packets.
    pub cyc: bool,
    /// Emit MTC packets.
    pub mtc: bool,
    /// Bytes between PSBs.
    pub psb_bytes: usize,
    /// Bits of a TNT packet.
    pub tnt_bits: u8,
    /// Virtual CPUs; threads are dealt to them in turn.
    pub cpus: u32,
    /// A buffer per thread instead of per CPU.
    pub per_thread: bool,
    /// Lose packets at every this many PSBs; 0 never.
    pub overflow_every: usize,
    /// The longest loop of a program with one thread this many times over.
    pub repeat: u64,
    /// Steps before another thread's turn.
    pub quantum: u32,
    /// Instructions after which the program is ended.
    pub most: usize,
    /// Step on this CPU only.
    pub cpu: Option<usize>,
    /// Run in qemu instead of being stepped; the trace begins after this many instructions.
    pub emulate: Option<usize>,
    output: PathBuf,
    truth: Option<PathBuf>,
    /// A file for the same with a twentieth of the repetitions.
    part: Option<PathBuf>,
    /// A folder for the same run encoded in every way.
    every_way: Option<PathBuf>,
    /// Written by the recorder itself from a fake kernel's rings.
    recorded: Option<How>,
    command: Vec<String>,
}

const HELP: &str = "\
pt_step [OPTIONS] [-o perf.data] [--truth FILE] -- CMD
  --noretcomp --nocyc --nomtc  leave out
  --notiming                   no packets of time at all
  --psb BYTES                  between PSBs (2048)
  --tnt BITS                   of a TNT packet (6)
  --cpus N                     virtual CPUs (1)
  --per-thread                 a buffer per thread
  --ovf N                      lose packets at every Nth PSB
  --repeat N                   the longest loop N times over
  --quantum N                  steps before another thread's turn (1000)
  --on-cpu N                   step on this one only: two steppers at a time are faster so
  --most N                     end the program after N instructions
  --emulate N                  run it in qemu, far faster; the trace begins after N instructions (one thread, no signals)
  --part FILE                  the same with a twentieth of the repetitions there
  --recorded HOW               by the recorder itself from a fake kernel's rings: whole, snapshot or late
  --every-way DIR              NAME.data and NAME.truth there, for every kind of timing and buffer
";

fn options() -> Option<Options> {
    let mut options = Options {
        compress_returns: true,
        tsc: true,
        cyc: true,
        mtc: true,
        psb_bytes: 2048,
        tnt_bits: 6,
        cpus: 1,
        per_thread: false,
        overflow_every: 0,
        repeat: 1,
        quantum: 1000,
        most: usize::MAX,
        cpu: None,
        emulate: None,
        output: PathBuf::from("perf.data"),
        truth: None,
        part: None,
        every_way: None,
        recorded: None,
        command: Vec::new(),
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next();
        match arg.as_str() {
            "--noretcomp" => options.compress_returns = false,
            "--notiming" => (options.tsc, options.cyc, options.mtc) = (false, false, false),
            "--nocyc" => options.cyc = false,
            "--nomtc" => options.mtc = false,
            "--per-thread" => options.per_thread = true,
            "--psb" => options.psb_bytes = value()?.parse().ok()?,
            "--tnt" => options.tnt_bits = value()?.parse().ok()?,
            "--cpus" => options.cpus = value()?.parse().ok()?,
            "--ovf" => options.overflow_every = value()?.parse().ok()?,
            "--repeat" => options.repeat = value()?.parse().ok()?,
            "--quantum" => options.quantum = value()?.parse().ok()?,
            "--emulate" => options.emulate = Some(value()?.parse().ok()?),
            "--on-cpu" => options.cpu = Some(value()?.parse().ok()?),
            "--most" => options.most = value()?.parse().ok()?,
            "-o" => options.output = value()?.into(),
            "--truth" => options.truth = Some(value()?.into()),
            "--part" => options.part = Some(value()?.into()),
            "--recorded" => {
                options.recorded = Some(HOWS.iter().find(|(name, _)| Some(*name) == value().as_deref())?.1)
            }
            "--every-way" => options.every_way = Some(value()?.into()),
            "--" => options.command = args.by_ref().collect(),
            _ => return None,
        }
    }
    (!options.command.is_empty()).then_some(options)
}

fn main() -> ExitCode {
    let Some(options) = options() else {
        eprint!("{HELP}");
        return ExitCode::from(2);
    };
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pt_step: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A way to step: its name, and what it sets.
type SteppingMethod = (&'static str, fn(&mut Options));

/// Ways to trace one run: name, and what differs from the usual.
const WAYS: &[SteppingMethod] = &[
    ("cycles", |_| {}),
    ("uncompressed", |way| (way.compress_returns, way.psb_bytes) = (false, 256)),
    ("crystal", |way| way.cyc = false),
    ("tsc", |way| (way.cyc, way.mtc, way.tnt_bits) = (false, false, 47)),
    ("two-cpus", |way| way.cpus = 2),
    ("per-thread", |way| way.per_thread = true),
    ("overflows", |way| (way.overflow_every, way.psb_bytes) = (3, 512)),
];

/// Ways the recorder records a run.
const HOWS: &[(&str, How)] = &[("whole", How::Whole), ("snapshot", How::Snapshot), ("late", How::Late)];

fn run(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    let steps = match options.emulate {
        Some(skip) => emulate::run(&options.command, skip, options.most)?,
        None => step::run(&options.command, options.quantum, options.most, options.cpu)?,
    };
    if let Some(part) = &options.part {
        let fewer = Options { repeat: options.repeat.div_ceil(20), ..options.clone() };
        write(&steps, &fewer, part, None)?;
    }
    if let Some(how) = options.recorded {
        let traced = encode::encode(&steps, options, options.truth.is_some())?;
        return record(&traced, options, (how, &options.output), options.truth.as_deref());
    }
    let Some(folder) = &options.every_way else {
        return write(&steps, options, &options.output, options.truth.as_deref());
    };
    std::fs::create_dir_all(folder)?;
    for (name, change) in WAYS {
        let mut way = options.clone();
        change(&mut way);
        let path = |ending: &str| folder.join(format!("{name}.{ending}"));
        write(&steps, &way, &path("data"), Some(&path("truth")))?;
    }
    for (cpus, per_thread, kind) in [(2, false, "cpus"), (1, true, "threads")] {
        let way = Options { cpus, per_thread, psb_bytes: 512, ..options.clone() };
        let traced = encode::encode(&steps, &way, true)?;
        for (name, how) in HOWS {
            let path = |ending: &str| folder.join(format!("recorded-{name}-{kind}.{ending}"));
            record(&traced, &way, (*how, &path("data")), Some(&path("truth")))?;
        }
    }
    Ok(())
}

/// Has the recorder write an encoded run.
fn record(
    traced: &encode::Traced,
    options: &Options,
    (how, output): (How, &Path),
    truth: Option<&Path>,
) -> Result<(), Box<dyn std::error::Error>> {
    if let Some(path) = truth {
        std::fs::write(path, traced.truth.join("\n") + "\n")?;
    }
    recorded::write(traced, options, how, output)
}

/// Encodes a run and writes it and what really happened.
fn write(
    steps: &step::Steps,
    options: &Options,
    output: &Path,
    truth: Option<&Path>,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut traced = encode::encode(steps, options, truth.is_some())?;
    jit::follow(&mut traced, output)?;
    std::fs::write(output, perf_file::build(&traced, options))?;
    if let Some(path) = truth {
        std::fs::write(path, traced.truth.join("\n") + "\n")?;
    }
    let bytes: usize = traced.streams.iter().map(|stream| stream.bytes.len()).sum();
    eprintln!("pt_step: {} instructions, {bytes} bytes of trace", traced.instructions);
    Ok(())
}
