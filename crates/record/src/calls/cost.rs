//! Cost of a probed call on this machine: tally probes a function of its own and calls it.

use std::hint::black_box;
use std::path::PathBuf;

use dso::{Avma, FileOffset, ObjectFile, Svma};

use super::{
    CallMode, CountRules, Error, Exits, KernelParts, KernelSelection, Leave, OpenedSource, ProbeOptions,
    ProbedFunction, ProbedObject, source,
};
use crate::machine::proc;
use crate::sys::mem;

/// Calls per round.
const CALLS: u64 = 300;
const ROUNDS: usize = 4;
/// The longest that the measured function can be.
const MOST_CODE_BYTES: u64 = 256;

/// Here for being probed. Several instructions, so that entry and end are different addresses.
#[inline(never)]
extern "C" fn probed(x: u64) -> u64 {
    black_box(black_box(x).wrapping_mul(3) + 1)
}

/// Cost of a call, and the kind of probe it was measured with.
#[derive(Debug)]
pub struct ProbeCost {
    /// Entry and exit, ns.
    pub ns: f64,
    /// [`super::CallSource::name`].
    pub way: &'static str,
    /// Why it is not the cheaper one.
    pub why_no_bpf: Option<Error>,
}

/// Cost of one call, as `mode` and `exits` have it.
///
/// # Errors
/// If the kernel refuses the probes; `Ok(None)` if tally's own code can't be read.
pub fn cost_per_call(mode: CallMode, exits: Exits) -> Result<Option<ProbeCost>, Error> {
    let Some((path, function)) = own_function() else { return Ok(None) };
    let pid = std::process::id();
    let (kernel, kernel_selection) = (KernelParts::default(), KernelSelection::default());
    let options = ProbeOptions {
        mode,
        exits,
        ring_bytes: 1 << 20,
        kernel,
        kernel_selection,
        counted: CountRules::default(),
    };
    let objects = [ProbedObject { path, pid }];
    let OpenedSource { source: mut engine, why_no_bpf } = source::open(&objects, &[function], &options)?;
    engine.add_process(pid)?;
    let plain = cheapest(|| {});
    engine.attach()?;
    let probed = cheapest(|| engine.poll(&mut |_| {}));
    let seen = engine.entries().first().map_or(0, |watched| watched.entries);
    // Not seen at all: the probes sit elsewhere than where we think, so the time means nothing.
    Ok((seen >= CALLS).then(|| ProbeCost { ns: (probed - plain).max(0.0), way: engine.name(), why_no_bpf }))
}

/// The cheapest of [`ROUNDS`] rounds, ns a call.
fn cheapest(mut after_each: impl FnMut()) -> f64 {
    let rounds = (0..ROUNDS).map(|_| {
        let ns = round();
        after_each();
        ns
    });
    rounds.fold(f64::INFINITY, f64::min)
}

/// CPU time of a call, ns: a busy machine makes it not dearer.
fn round() -> f64 {
    let used = || {
        let own = mem::own_use();
        own.user_ns + own.system_ns
    };
    let start = used();
    for i in 0..CALLS {
        black_box(probed(black_box(i)));
    }
    (used() - start) as f64 / CALLS as f64
}

/// Offset of [`probed`] in tally's own file.
fn own_function() -> Option<(PathBuf, ProbedFunction)> {
    let path = std::env::current_exe().ok()?;
    let address = Avma(probed as extern "C" fn(u64) -> u64 as usize as u64);
    let maps = proc::maps(std::process::id())?;
    let map = maps.iter().find(|map| map.start <= address.0 && address.0 < map.end)?;
    let object = ObjectFile::open(&path).ok()?;
    let start = object.svma_of(FileOffset(map.offset_of(address.0)))?;
    let flow = dso::function_flow(&object, start, Svma(start.0 + MOST_CODE_BYTES))?;
    let leave = object.file_offset_of(*flow.returns.first()?)?;
    let offset = object.file_offset_of(flow.entry?)?.0;
    Some((
        path,
        ProbedFunction {
            object: 0,
            offset,
            leaves: vec![Leave::always(leave.0)],
            jumps_out: false,
            loops: false,
            by_goroutine: false,
        },
    ))
}
