//! CallFilters of a recording by uprobes: which of the calls that the probes see are written.

use anyhow::bail;
use dso::{FileOffset, ObjectFile};
use record::calls::{CallFilters, CallMode, CountRules};
use tracer::layout::sleds;

use super::kernel;
use super::record_spec::RecordSpec;
use calls::instrumented::source_files::SourceFiles;
use calls::probing::ProbePlan;
use calls::selection::TraceSpec;
use calls::selection::rules::Rules;
use calls::selection::trigger::Trigger;

/// Possible actions at a probed function.
const RULES: u32 = sleds::NOT | sleds::ONLY | sleds::START | sleds::STOP | sleds::CALLER | sleds::SLOW;

/// From the flags, for the functions chosen.
///
/// # Errors
/// If a flag can't be followed by uprobes, or means none of the functions.
pub fn of(args: &RecordSpec, chosen: &ProbePlan, mode: CallMode, why: &str) -> anyhow::Result<CallFilters> {
    if let Some(flag) = args.trace.first_for_tracer() {
        bail!("{why}: by uprobes there is no {flag}; choose functions with -P");
    }
    if args.probes.entries && needs_ends(args) {
        bail!(
            "--entries does not see where calls end, which -F, -N, -C, -T, -D, -t and -K need; choose functions with -P, or \
             take --counts"
        );
    }
    let trace = &args.trace;
    let only: Vec<String> = trace.only.iter().filter(|text| !kernel::is_of_kernel(text)).cloned().collect();
    let (not, trigger, callers) = (trace.not.clone(), trace.trigger.clone(), trace.callers.clone());
    let rules = Rules::new(&[], &TraceSpec { only, not, trigger, callers, ..TraceSpec::default() })?;
    let (rules_of, slow_ns) = by_function(&rules, chosen)?;
    let filters = CallFilters {
        rules: rules_of,
        slow_ns,
        callers: rules.has(sleds::CALLER),
        starts_off: trace.disable,
        depth: args.depth.unwrap_or(0) as usize,
        keep_bytes: args.max_bytes.unwrap_or(0),
    };
    if filters.rules.iter().any(|rules| rules & sleds::SLOW != 0) && mode == CallMode::Totals {
        bail!(
            "{why}: slow= chooses which single calls are kept, and --counts keeps none; leave one of them out"
        );
    }
    if filters.keep_bytes > 0 && mode == CallMode::Totals {
        bail!(
            "{why}: --max-bytes keeps the last single calls, and --counts keeps none; leave one of them out"
        );
    }
    Ok(filters)
}

/// Whether the flags ask which calls are in others, or how long they took.
fn needs_ends(args: &RecordSpec) -> bool {
    let TraceSpec { only, not, callers, trigger, disable, .. } = &args.trace;
    let named = [only, not, callers, trigger].iter().any(|words| !words.is_empty());
    named || *disable || args.depth.is_some() || args.min_ns.is_some()
}

/// The same, and `-t`, for what is summed up in the kernel.
#[must_use]
pub fn counted(args: &RecordSpec, filters: &CallFilters) -> CountRules {
    CountRules {
        any_only: filters.rules.iter().any(|rules| rules & sleds::ONLY != 0),
        rules: filters.rules.clone(),
        starts_off: filters.starts_off,
        depth: filters.depth as u64,
        callers: filters.callers,
        min_ns: args.min_ns.unwrap_or(0),
    }
}

/// The rules of each function, and the time of `slow=` in ns.
fn by_function(rules: &Rules, chosen: &ProbePlan) -> anyhow::Result<(Vec<u32>, Vec<u32>)> {
    if !rules.any() {
        return Ok(Default::default());
    }
    let objects: Vec<Option<ObjectFile>> =
        chosen.objects.iter().map(|object| ObjectFile::open(&object.path).ok()).collect();
    let mut files: Vec<_> = objects.iter().map(|object| object.as_ref().map(SourceFiles::new)).collect();
    let (mut all, mut slow_ns) = (Vec::new(), Vec::new());
    for (function, name) in chosen.functions.iter().zip(&chosen.names) {
        let start = |object: &ObjectFile| object.svma_of(FileOffset(function.offset));
        let start = objects[function.object].as_ref().filter(|_| rules.any_file()).and_then(start);
        let file = start.and_then(|start| files[function.object].as_mut()?.of(start));
        let trigger = rules.of(name, file.as_deref());
        if trigger != (Trigger { min_ns: trigger.min_ns, ..Trigger::of(trigger.rules & RULES) }) {
            bail!(
                "-T {name}@…: by uprobes there are only trace_on, trace_off, filter, notrace, caller and slow=TIME"
            );
        }
        all.push(trigger.rules);
        slow_ns.push(trigger.min_ns);
    }
    if all.iter().all(|rules| *rules == 0) {
        bail!("-F, -N, -C and -T match no probed function; name their functions with -P, too");
    }
    Ok((all, slow_ns))
}
