//! A slow call as a recording of its own: what `tally calls live -o DIR` leaves there.

use ::record::output_file::write_part;
use anyhow::Context;
use calls::model::{ExtraKind, Step, TscClock};
use std::path::Path;
use tracer::layout::{self, ThreadHeader};

use super::own_folder;
use calls::recording::folder::{Folder, Maps};
use calls::recording::{folder_file, function_list, kernel};
use calls::values;
use calls::view::slow_call::SlowCall;

/// Files of a recording that name its functions and show its values.
const BESIDE: [&str; 3] = [function_list::NAME, kernel::NAMES, values::NAME];

/// Writes the call into `dir`, in the place of an earlier one; `from` is the recording that it was read from, `info` its
/// facts in lines `key value`.
///
/// # Errors
/// If `dir` holds something else than a recording, or can't be written.
pub fn write(dir: &Path, call: &SlowCall, from: (&Folder, TscClock), info: &str) -> anyhow::Result<()> {
    own_folder::prepare(dir)?;
    let (folder, clock) = from;
    let written = |name: &str, bytes: &[u8]| {
        let path = dir.join(name);
        write_part(&path, bytes).with_context(|| format!("can't write {}", path.display()))
    };
    for name in BESIDE {
        if let Ok(bytes) = folder_file::read(&folder.path.join(name)) {
            written(name, &bytes)?;
        }
    }
    let maps = folder.maps.iter().filter(|maps| maps.pid == call.pid);
    for (at, maps) in maps.enumerate() {
        written(&format!("{}-{at}.maps", call.pid), &bytes_of_maps(maps, clock))?;
    }
    written("info", info.as_bytes())?;
    // Last: what is read before it is there is a recording without calls, and no half one.
    written(&format!("{}-{}-0.calls", call.pid, call.tid), &bytes_of(call))
}

/// Maps as a recording has them whose counter is the clock.
fn bytes_of_maps(maps: &Maps, clock: TscClock) -> Vec<u8> {
    let mut bytes = format!("tsc {0} monotonic_ns {0}\n", clock.ns_at(maps.moment.0)).into_bytes();
    for line in &maps.lines {
        // The other fields are not used here.
        bytes.extend(format!("{:x}-{:x} r-xp {:x} 00:00 0 ", line.start, line.end, line.pgoff).into_bytes());
        bytes.extend(&line.name);
        bytes.push(b'\n');
    }
    bytes
}

/// The thread's file.
fn bytes_of(call: &SlowCall) -> Vec<u8> {
    let header = ThreadHeader {
        pid: call.pid,
        tid: call.tid,
        tsc: call.start_ns,
        monotonic_ns: call.start_ns,
        first: 0,
    };
    let mut words = Words { bytes: header.to_bytes().to_vec(), time_high: call.start_ns >> 32, addr_high: 0 };
    for kept in &call.steps {
        words.step(kept.time_ns, kept.step, kept.address, &call.extra);
    }
    if call.left_out > 0 {
        words.control(layout::CONTROL_LOST, call.left_out);
    }
    words.bytes
}

/// A thread file as it is written.
struct Words {
    bytes: Vec<u8>,
    time_high: u64,
    addr_high: u64,
}

impl Words {
    fn step(&mut self, time_ns: u64, step: Step, address: u64, extra: &[u8]) {
        if time_ns >> 32 != self.time_high {
            self.time_high = time_ns >> 32;
            self.control(layout::CONTROL_TIME_HIGH, self.time_high);
        }
        match step {
            Step::Enter(_) => {
                if address >> layout::ADDR_BITS != self.addr_high {
                    self.addr_high = address >> layout::ADDR_BITS;
                    self.control(layout::CONTROL_ADDR_HIGH, self.addr_high);
                }
                self.word(layout::entry_word(address, time_ns));
            }
            Step::Exit(below) => {
                self.below(below);
                self.word(layout::exit_word(time_ns));
            }
            Step::Unwound(below) => {
                self.below(below);
                self.control(layout::CONTROL_UNWOUND, time_ns);
            }
            Step::Lost(calls) => self.control(layout::CONTROL_LOST, calls),
            Step::OffCpu(ns) => self.control(layout::CONTROL_OFF_CPU, ns),
            Step::Extra(found) => {
                let count = u64::from(found.bytes);
                self.control(
                    match found.kind {
                        ExtraKind::Arguments => layout::CONTROL_ARGUMENTS,
                        ExtraKind::Result => layout::CONTROL_RESULT,
                        ExtraKind::Backtrace => layout::CONTROL_BACKTRACE,
                    },
                    if found.kind == ExtraKind::Backtrace { count / 8 } else { count },
                );
                let from = found.at as usize * layout::EVENT_BYTES;
                let to = from + (found.bytes as usize).next_multiple_of(layout::EVENT_BYTES);
                self.bytes.extend(extra.get(from..to).unwrap_or_default());
            }
            // None of these is in a thread's file.
            Step::TailJump(_) | Step::Abandon(_) | Step::Hole => {}
        }
    }

    fn below(&mut self, below: usize) {
        if below > 0 {
            self.control(layout::CONTROL_BELOW, below as u64);
        }
    }

    fn control(&mut self, code: u64, argument: u64) {
        self.word(layout::control_word(code, argument));
    }

    fn word(&mut self, word: u64) {
        self.bytes.extend(word.to_le_bytes());
    }
}
