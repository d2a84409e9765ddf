//! The sample lines of session text.

use super::parse::{event_index, trailer};
use super::print::CONTEXTS;
use super::words::{Parsed, TextProblem, Words, number};
use crate::abi::*;
use crate::{
    Avma, BranchStack, Callchain, CpuMode, GroupLayout, ReadGroup, ReadValue, Record, Sample, SampleId,
    SampleRegs, UserStack, Weight, Writer,
};

/// A chain entry: an address, or a context by name.
fn chain_entry(word: &str) -> Option<u64> {
    CONTEXTS.iter().find(|(_, name, _)| *name == word).map(|(_, _, v)| *v).or_else(|| number(word))
}

/// The parts of a sample that must be owned somewhere.
#[derive(Default)]
struct Owned {
    chain: Option<Vec<u64>>,
    raw: Option<Vec<u8>>,
    branches: Option<Vec<u64>>,
    counters: Option<Vec<u64>>,
    regs_user: Option<Vec<u64>>,
    regs_intr: Option<Vec<u64>>,
    stack: Option<(Vec<u8>, u64)>,
    aux: Option<Vec<u8>>,
    group: Option<Vec<u64>>,
}

fn owned(line: &Words<'_>) -> Parsed<Owned> {
    let branch = |b: &str| {
        let (from, rest) = b.split_once('>')?;
        let (to, flags) = rest.split_once(':').unwrap_or((rest, "0"));
        Some([number(from)?, number(to)?, number(flags)?])
    };
    let sizes = line.text("stack").map(|v| v.split_once('/').unwrap_or((v, v)));
    let size = |v: &str| {
        number(v)
            .filter(|n| *n <= 65_528)
            .ok_or_else(|| TextProblem::bad_word(format!("stack={v}"), "is not a valid size"))
    };
    let given = line.bytes("stack_bytes")?;
    let stack = match (sizes, given) {
        (Some((valid, reserved)), given) => {
            let valid = usize::try_from(size(valid)?).unwrap_or(0);
            Some((given.unwrap_or_else(|| vec![0; valid]), size(reserved)?))
        }
        (None, Some(bytes)) => Some((bytes, 0)),
        (None, None) => None,
    };
    let values = |v: &str| v.split(':').map(number).collect::<Option<Vec<_>>>();
    Ok(Owned {
        chain: line.list("chain", chain_entry)?,
        raw: line.bytes("raw")?,
        branches: line.list("branches", branch)?.map(|b| b.concat()),
        counters: line.list("branch_counters", number)?,
        regs_user: line.list("regs_user", number)?,
        regs_intr: line.list("regs_intr", number)?,
        stack,
        aux: line.bytes("aux")?,
        group: line.list("group", values)?.map(|g| g.concat()),
    })
}

fn regs<'a>(values: &'a Option<Vec<u64>>, mask: u64) -> Option<SampleRegs<'a>> {
    let (abi, values) = values.as_ref()?.split_first()?;
    Some(SampleRegs { abi: *abi, mask, values: values.into() })
}

fn read<'a>(
    line: &Words<'_>,
    group: &'a Option<Vec<u64>>,
    read_format: u64,
) -> Parsed<Option<ReadGroup<'a>>> {
    let has = |bit| read_format & bit != 0;
    let mut out = match (group, line.text("read")) {
        (Some(words), _) => ReadGroup::group(
            words,
            GroupLayout { has_id: has(PERF_FORMAT_ID), has_lost: has(PERF_FORMAT_LOST) },
        ),
        (None, Some(text)) => {
            let mut parts = text.split(':').map(number);
            let mut next = || parts.next().flatten();
            let value = next().ok_or(TextProblem::BadLine("read= needs a value"))?;
            ReadGroup::one(ReadValue { value, id: next(), lost: next() })
        }
        _ => return Ok(None),
    };
    out.time_enabled_ns = line.number("enabled")?;
    out.time_running_ns = line.number("running")?;
    Ok(Some(out))
}

fn weight(line: &Words<'_>) -> Parsed<Option<Weight>> {
    let Some(text) = line.text("weight") else { return Ok(None) };
    let parts: Vec<u64> = text.split('/').filter_map(number).collect();
    let bad = || TextProblem::bad_word(format!("weight={text}"), "cannot be read");
    Ok(Some(match parts.as_slice() {
        [w] => Weight::Full(*w),
        [a, b, c] => Weight::Struct {
            var1: u32::try_from(*a).map_err(|_| bad())?,
            var2: u16::try_from(*b).map_err(|_| bad())?,
            var3: u16::try_from(*c).map_err(|_| bad())?,
        },
        _ => return Err(bad()),
    }))
}

/// Appends the sample of a line.
pub(super) fn write_sample(w: &mut Writer<'_>, line: &Words<'_>) -> Parsed<()> {
    let event = event_index(w, line)?;
    let attr = w.events().get(event).ok_or(TextProblem::BadLine("there is no such event"))?.attr;
    let id = trailer(w, event, line)?;
    let o = owned(line)?;
    let first_address = o.chain.iter().flatten().copied().find(|e| *e < PERF_CONTEXT_MAX);
    let ip = line.number("ip")?.or(first_address).map(Avma);
    let default = if ip.is_some_and(Avma::is_kernel) { CpuMode::Kernel } else { CpuMode::User };
    let exact = if line.has("exact") { PERF_RECORD_MISC_EXACT_IP } else { 0 };
    let sample = Sample {
        misc: line.mode(default)?.to_misc() | exact,
        identifier: id.identifier,
        ip,
        pid_tid: line.pid_tid,
        time_ns: id.time_ns,
        addr: line.number("addr")?.map(Avma),
        id: id.id,
        stream_id: line.number("stream")?,
        cpu: id.cpu,
        period: Some(line.number("period")?.unwrap_or(1)),
        read: read(line, &o.group, attr.read_format)?,
        callchain: o.chain.as_deref().map(|c| Callchain(c.into())),
        raw: o.raw.as_deref(),
        branches: o.branches.as_deref().map(|b| {
            BranchStack::from_words(line.number("hw_index").ok().flatten(), b, o.counters.as_deref())
        }),
        regs_user: regs(&o.regs_user, attr.sample_regs_user),
        stack_user: o.stack.as_ref().map(|(bytes, reserved)| UserStack { bytes, reserved: *reserved }),
        weight: weight(line)?,
        data_src: line.number("data_src")?,
        transaction: line.number("transaction")?,
        regs_intr: regs(&o.regs_intr, attr.sample_regs_intr),
        phys_addr: line.number("phys_addr")?,
        cgroup: line.number("cgroup")?,
        data_page_size: line.number("data_page_size")?,
        code_page_size: line.number("code_page_size")?,
        aux: o.aux.as_deref(),
    };
    Ok(w.write_record(event, &Record::Sample(sample), &SampleId::default())?)
}
