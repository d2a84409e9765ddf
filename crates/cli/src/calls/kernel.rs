//! The kernel's part of a call: system calls, page faults, block requests, times off the CPU.
//!
//! They are spans under the user's function that caused them.

use anyhow::Context;
use calls::recording::kernel::{BLOCK_NAME, FAULT_NAME, NAMES};
use calls::selection::pattern::{self, Pattern};
use dso::system_file;
use record::calls::{CallAddresses, CallSource, KernelFunction, KernelParts, KernelSelection};
use record::output_file::write_part;
use rustc_hash::FxHashMap;
use std::fmt::Write as _;
use std::path::Path;

use super::record_spec::RecordSpec;

/// Where the kernel lists its functions.
const KALLSYMS: &str = "/proc/kallsyms";
/// System calls have smaller numbers.
const SYSTEM_CALLS: usize = 512;
/// After a function's name: it is the kernel's.
const SUFFIX: &str = "@kernel";

/// Kernel functions to record, and their substitutes where they can't be traced.
///
/// # Errors
/// If a filter means no function of the kernel.
pub fn wanted(args: &RecordSpec) -> anyhow::Result<(KernelParts, KernelSelection)> {
    let mut patterns = Vec::new();
    // The others are about the program's functions.
    let named = args.trace.only.iter().chain(&args.patch);
    patterns.extend(named.filter_map(|filter| filter.strip_suffix(SUFFIX)).map(Pattern::new));
    if !is_wanted(args) {
        return Ok((KernelParts::default(), KernelSelection::default()));
    }
    let functions = if patterns.is_empty() { Vec::new() } else { functions(&patterns)? };
    let depth = args.probes.kernel_depth.unwrap_or(1).max(1);
    let parts = KernelParts { system_calls: true, faults: true, switches: true, blocks: true };
    Ok((parts, KernelSelection { functions, depth }))
}

/// The selected functions of the kernel.
fn functions(patterns: &[Pattern]) -> anyhow::Result<Vec<KernelFunction>> {
    let text = system_file::read_text(KALLSYMS).with_context(|| format!("can't read {KALLSYMS}"))?;
    let symbols = text.lines().filter_map(symbol);
    let mut found: Vec<KernelFunction> = symbols
        .filter(|(_, name)| pattern::any(patterns, name))
        .map(|(address, name)| KernelFunction { name: name.to_owned(), address })
        .collect();
    found.dedup_by(|a, b| a.address == b.address);
    let named = patterns.iter().map(Pattern::text).collect::<Vec<_>>().join(", ");
    anyhow::ensure!(!found.is_empty(), "the kernel has no function {named}; {KALLSYMS} lists its functions");
    // Hidden addresses are all 0: names are enough for some ways.
    Ok(found)
}

/// Address and name of a function in a line of kallsyms.
fn symbol(line: &str) -> Option<(u64, &str)> {
    let mut words = line.split_ascii_whitespace();
    let (address, kind, name) = (words.next()?, words.next()?, words.next()?);
    let is_code = matches!(kind, "t" | "T" | "w" | "W");
    Some((u64::from_str_radix(address, 16).ok().filter(|_| is_code)?, name))
}

/// How the kernel's functions are recorded, or why they are not and what is instead: one line.
#[must_use]
pub fn status(source: &dyn CallSource, selection: &KernelSelection) -> Option<String> {
    if selection.depth == 0 {
        return None;
    }
    let names: Vec<&str> =
        selection.functions.iter().map(|function| function.name.as_str()).take(3).collect();
    let what = match (names.is_empty(), selection.functions.len() - names.len()) {
        (true, _) => "kernel functions".to_owned(),
        (false, 0) => names.join(", "),
        (false, more) => format!("{} and {more} more", names.join(", ")),
    };
    Some(match source.kernel_way() {
        Some(way) => format!("{what} by {way}"),
        None => format!(
            "{what} can't be traced here ({}); recorded instead, under the function that caused them: system calls, \
             page faults, block requests, time off the CPU",
            source.kernel_refusals().join("; ")
        ),
    })
}

/// Whether anything of the kernel is asked for.
#[must_use]
pub fn is_wanted(args: &RecordSpec) -> bool {
    args.probes.kernel_depth.is_some()
        || args.trace.only.iter().chain(&args.patch).any(|name| is_of_kernel(name))
}

/// Whether a filter is about the kernel.
#[must_use]
pub fn is_of_kernel(filter: &str) -> bool {
    filter.ends_with(SUFFIX)
}

/// Writes the names of what the recording may hold of the kernel.
///
/// # Errors
/// If the file can't be written.
pub fn write_names(
    dir: &Path,
    addresses: &CallAddresses,
    parts: KernelParts,
    functions: &[u64],
) -> anyhow::Result<()> {
    if parts == KernelParts::default() {
        return Ok(());
    }
    let mut text = String::new();
    for (number, name) in
        (0..SYSTEM_CALLS).filter_map(|number| Some((number, syscalls::numbers::name(number)?)))
    {
        // Writing to a String does not fail.
        let _ = writeln!(text, "{:x} sys_{name}", addresses.system_calls + number as u64);
    }
    let _ = writeln!(text, "{:x} {FAULT_NAME}", addresses.fault);
    let _ = writeln!(text, "{:x} {BLOCK_NAME}", addresses.block);
    let read = || system_file::read_text(KALLSYMS).unwrap_or_default();
    let symbols = if functions.is_empty() { String::new() } else { read() };
    let mut by_address: FxHashMap<u64, &str> = FxHashMap::default();
    symbols.lines().filter_map(symbol).for_each(|(address, name)| {
        by_address.entry(address).or_insert(name);
    });
    for (number, address) in (0..).zip(functions) {
        let at = addresses.kernel_functions + number;
        let start = record::calls::function_start(*address, |start| by_address.contains_key(&start));
        let _ = match start.and_then(|start| by_address.get(&start)) {
            Some(name) => writeln!(text, "{at:x} {name}"),
            None => writeln!(text, "{at:x} kernel {address:#x}"),
        };
    }
    write_part(&dir.join(NAMES), text).context("can't write the kernel's names")
}
