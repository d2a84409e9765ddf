//! callgrind's text, for KCachegrind and callgrind_annotate: own cost by line, and what each call of another function
//! cost in sum.
//
// Source: valgrind docs/html/cl-format.html.

use super::samples::{SampleSet, ValueUnit};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

/// A function with the costs of its lines and calls.
#[derive(Default)]
struct Costs {
    own: BTreeMap<u32, u64>,
    /// By (line of the call, called function): (stacks, inclusive cost).
    calls: BTreeMap<(u32, usize), (u64, u64)>,
}

/// Writes the kind of value at `kind`; `command` is what was recorded. The number of calls is not known from samples:
/// that of the samples replaces it.
///
/// # Errors
/// If writing fails.
pub fn write(mut out: impl Write, samples: &SampleSet<'_>, kind: usize, command: &str) -> io::Result<()> {
    let (costs, total) = costs_of(samples, kind);
    let about = &samples.kinds[kind];
    let unit = if about.unit == ValueUnit::Nanoseconds { "ns" } else { "events" };
    let name: String = about.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    writeln!(out, "# callgrind format\nversion: 1\ncreator: tally {}", env!("CARGO_PKG_VERSION"))?;
    writeln!(out, "cmd: {}\npositions: line", one_line(command))?;
    writeln!(out, "event: {name}_{unit}\nevents: {name}_{unit}\nsummary: {total}\n")?;
    for (function, costs) in costs {
        write_function(&mut out, samples, function, &costs)?;
    }
    out.flush()
}

fn write_function(
    out: &mut impl Write,
    samples: &SampleSet<'_>,
    function: usize,
    costs: &Costs,
) -> io::Result<()> {
    let (object, file, name) = names_of(samples, function);
    writeln!(out, "ob={object}\nfl={file}\nfn={name}")?;
    for (line, cost) in &costs.own {
        writeln!(out, "{line} {cost}")?;
    }
    for ((line, called), (stacks, cost)) in &costs.calls {
        let (object, file, name) = names_of(samples, *called);
        writeln!(out, "cob={object}\ncfi={file}\ncfn={name}\ncalls={stacks} 0\n{line} {cost}")?;
    }
    writeln!(out)
}

/// Own and inclusive costs by function, and the sum.
fn costs_of(samples: &SampleSet<'_>, kind: usize) -> (BTreeMap<usize, Costs>, u64) {
    let mut costs: BTreeMap<usize, Costs> = BTreeMap::new();
    let mut total = 0u64;
    for stack in samples.stacks.iter().filter(|stack| stack.kind == kind) {
        total = total.saturating_add(stack.value);
        let lines = samples.path(stack).flat_map(|at| samples.locations[at].lines.iter());
        let mut inner: Option<usize> = None;
        // A call inside a recursion counts once, at its innermost place.
        let mut seen = BTreeSet::new();
        for line in lines {
            let of_function = costs.entry(line.function).or_default();
            match inner {
                None => {
                    let own = of_function.own.entry(line.line).or_default();
                    *own = own.saturating_add(stack.value);
                }
                Some(called) if seen.insert((line.function, called)) => {
                    let (stacks, cost) = of_function.calls.entry((line.line, called)).or_default();
                    *stacks = stacks.saturating_add(stack.samples.max(1));
                    *cost = cost.saturating_add(stack.value);
                }
                Some(_) => {}
            }
            inner = Some(line.function);
        }
    }
    (costs, total)
}

fn names_of(samples: &SampleSet<'_>, function: usize) -> (String, String, String) {
    let function = &samples.functions[function];
    let object = function.dso.map_or("", |dso| &samples.profile.dsos.of(dso).path);
    let file = if function.file.is_empty() { "???" } else { &function.file };
    (one_line(object), one_line(file), one_line(&function.name))
}

/// Text that can't begin another line.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
