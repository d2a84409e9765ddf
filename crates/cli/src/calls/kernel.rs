//! The kernel's part of a call: system calls, page faults, block requests, times off the CPU.
//!
//! They stand as spans under the user's function that caused them.

use anyhow::{Context, bail};
use record::calls::{Addresses, KernelParts};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::record::Args;
use super::syscalls;
use crate::out;

/// Name of the pseudo file that these spans belong to.
pub const MAPPING: &str = "[kernel]";
/// Name of the file with their names: lines `address name`.
pub const NAMES: &str = "kernel";
/// Offset of page faults behind the system calls' numbers.
pub const FAULT: u64 = 0x1000;
/// Offset of block requests.
pub const BLOCK: u64 = 0x1001;
/// System calls have smaller numbers.
const SYSTEM_CALLS: usize = 512;
/// Behind a function's name: it is the kernel's.
const SUFFIX: &str = "@kernel";

/// What of the kernel is to be recorded; says so when a kernel function is asked for, which needs more than there is.
///
/// # Errors
/// If a filter is about user functions: those are chosen otherwise.
pub fn wanted(args: &Args) -> anyhow::Result<KernelParts> {
    let mut functions = Vec::new();
    for filter in &args.only {
        match filter.strip_suffix(SUFFIX) {
            Some(name) => functions.push(name),
            None => bail!("-F {filter}: choose functions to record with -P, or filter with -F when you look"),
        }
    }
    if functions.is_empty() && args.probes.kernel_depth.is_none() {
        return Ok(KernelParts::default());
    }
    let what = if functions.is_empty() { "kernel functions".to_owned() } else { functions.join(", ") };
    out::note(&format!(
        "tally calls: {what} can't be traced: {}; recorded instead, under the function that caused them: system \
         calls, page faults, block requests, time off the CPU",
        why_no_functions()
    ));
    Ok(KernelParts { system_calls: true, faults: true, switches: true, blocks: true })
}

/// Whether a filter is about the kernel.
#[must_use]
pub fn is_of_kernel(filter: &str) -> bool {
    filter.ends_with(SUFFIX)
}

/// What this kernel lacks for tracing its functions.
fn why_no_functions() -> String {
    let tracers = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"]
        .iter()
        .find_map(|root| fs::read_to_string(format!("{root}/available_tracers")).ok());
    let has_graph =
        tracers.as_deref().is_some_and(|list| list.split_whitespace().any(|t| t == "function_graph"));
    let has_kprobes = Path::new("/sys/bus/event_source/devices/kprobe").exists();
    let mut lacks = Vec::new();
    if !has_kprobes {
        lacks.push("no kprobes");
    }
    if !has_graph {
        lacks.push("no function_graph tracer");
    }
    if lacks.is_empty() {
        return "tally does not use this kernel's kprobes or function_graph yet".to_owned();
    }
    format!("this kernel has {}", lacks.join(" and "))
}

/// Writes the names of what the recording may hold of the kernel.
///
/// # Errors
/// If the file can't be written.
pub fn write_names(dir: &Path, addresses: &Addresses, parts: KernelParts) -> anyhow::Result<()> {
    if parts == KernelParts::default() {
        return Ok(());
    }
    let mut text = String::new();
    for (number, name) in (0..SYSTEM_CALLS).filter_map(|number| Some((number, syscalls::name(number)?))) {
        // Writing to a String does not fail.
        let _ = writeln!(text, "{:x} sys_{name}", addresses.system_calls + number as u64);
    }
    let _ = writeln!(text, "{:x} page fault", addresses.fault);
    let _ = writeln!(text, "{:x} block request", addresses.block);
    fs::write(dir.join(NAMES), text).context("can't write the kernel's names")
}

/// Reads what [`write_names`] wrote; empty without it.
#[must_use]
pub fn read_names(dir: &Path) -> rustc_hash::FxHashMap<u64, String> {
    let text = fs::read_to_string(dir.join(NAMES)).unwrap_or_default();
    let line = |line: &str| {
        let (address, name) = line.split_once(' ')?;
        Some((u64::from_str_radix(address, 16).ok()?, name.to_owned()))
    };
    text.lines().filter_map(line).collect()
}
