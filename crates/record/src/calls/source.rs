//! Where calls come from: whichever of the kernel's ways is allowed here.

use super::kernel_merge::WithKernel;
use super::layout::{CallEvent, FunctionSums};
use super::perf::PerfEngine;
use super::plan::{KernelSelection, ProbeOptions, ProbedFunction, ProbedObject, WatchedCounts};
use super::{CallEngine, Error};

/// Attached probes. Dropping it takes them away.
pub trait CallSource {
    /// Records this process and its later children.
    ///
    /// # Errors
    /// If there is no room for another process, or the process doesn't exist.
    fn add_process(&mut self, pid: u32) -> Result<(), Error>;

    /// Puts the probes in place, but for functions that the kernel refuses to probe (see [`CallSource::refused`]).
    ///
    /// # Errors
    /// If the kernel refuses them all.
    fn attach(&mut self) -> Result<(), Error>;

    /// Takes these functions' probes away.
    ///
    /// # Errors
    /// As [`CallSource::attach`]; then all stay in place.
    fn detach(&mut self, functions: &[u32]) -> Result<(), Error>;

    /// Takes all probes away; what waits can still be read by [`CallSource::poll`].
    fn stop(&mut self);

    /// Hands out what waits, each thread's events in their order; never blocks.
    fn poll(&mut self, sink: &mut dyn FnMut(CallEvent));

    /// Number of places probed.
    fn probes(&self) -> usize;

    /// Entries so far of the functions that are still probed.
    fn entries(&self) -> Vec<WatchedCounts>;

    /// Entries so far of all functions, those detached included.
    fn all_entries(&self) -> u64;

    /// The sums of [`super::CallMode::Totals`], of functions that were called.
    fn sums(&self) -> Vec<(u32, FunctionSums)>;

    /// Losses: how often, and a description.
    fn losses(&self) -> Vec<(u64, &'static str)>;

    /// Functions that the kernel refuses to probe, by number: their first instruction can't be stepped.
    fn refused(&self) -> &[u32];

    /// Parts of the kernel that could not be attached, with the reason.
    fn missing(&self) -> Vec<String>;

    /// Name of the method, as shown to the user.
    fn name(&self) -> &'static str;

    /// Records these kernel functions, too, named ones only. Returns the method, or the reason for each method that
    /// fails.
    ///
    /// # Errors
    /// For each method, the reason why the kernel lacks or refuses it.
    fn trace_kernel(&mut self, _wish: &KernelSelection) -> Result<&'static str, Vec<String>> {
        Err(vec!["kprobe_multi and fentry need BPF".to_owned()])
    }

    /// How kernel functions are recorded; `None` if they are not.
    fn kernel_way(&self) -> Option<&'static str> {
        None
    }

    /// Why kernel functions are not recorded, way by way.
    fn kernel_refusals(&self) -> &[String] {
        &[]
    }

    /// Addresses of the kernel functions recorded, by their number.
    fn kernel_functions(&self) -> Vec<u64> {
        Vec::new()
    }
}

/// An opened source, and why it is not the cheaper one.
pub struct OpenedSource {
    /// The source; nothing is attached yet.
    pub source: Box<dyn CallSource>,
    /// Why BPF is not used; `None` if it is.
    pub why_no_bpf: Option<Error>,
}

/// Opens the cheapest way that the kernel allows: BPF, else plain perf events.
///
/// # Errors
/// If neither is allowed: why BPF is not, then why perf events are not.
pub fn open(
    objects: &[ProbedObject],
    functions: &[ProbedFunction],
    options: &ProbeOptions,
) -> Result<OpenedSource, Error> {
    let boxed = |source: Box<dyn CallSource>| -> Box<dyn CallSource> {
        let selection = &options.kernel_selection;
        if selection.depth == 0 { source } else { Box::new(WithKernel::new(source, selection.clone())) }
    };
    let why = match CallEngine::load(objects.to_vec(), functions.to_vec(), options.clone()) {
        Ok(engine) => return Ok(OpenedSource { source: boxed(Box::new(engine)), why_no_bpf: None }),
        Err(why) => why,
    };
    match PerfEngine::open(objects.to_vec(), functions.to_vec(), options.clone()) {
        Ok(plain) => Ok(OpenedSource { source: boxed(Box::new(plain)), why_no_bpf: Some(why) }),
        Err(also) => Err(Error::Neither { bpf: Box::new(why), perf: Box::new(also) }),
    }
}
