//! One sample as perf script prints it.
//
// Source of the widths and the order: linux v6.1 tools/perf/builtin-script.c, process_event() and
//         perf_sample__fprintf_start(); tools/perf/util/evsel_fprintf.c, sample__fprintf_callchain().

use super::branches::write_branches;
use super::fields::{FieldSet, ScriptField};
use super::frame::{FrameTexts, ShownChain, own_name, write_names, write_srcline};
use super::row::Row;
use crate::terminal::foreign::{harmless, harmless_lines};
use calls::pt::lines::TimeDigits;
use display::digits;
use perfdata::abi::*;
use perfdata::tracepoint::TracepointFormats;
use perfdata::{CpuMode, DataSource, Event, SampleRegs, Weight};
use profile::machine::Mappings;
use profile::profile::Profile;
use std::fmt::Write;
use std::sync::LazyLock;
use symbols::ObjectFiles;

/// Settings that the lines of one run share.
pub struct LineStyle<'a> {
    /// The file's events.
    pub events: &'a [Event],
    /// Fields by event index.
    pub fields: Vec<FieldSet>,
    /// Width of the longest event name of the file.
    pub name_width: usize,
    /// Digits of times.
    pub digits: TimeDigits,
    /// Call chains are shown at all.
    pub callchains: bool,
    /// Functions inlined into recorded frames are shown as well; perf 6.1 shows only those of unwound ones.
    pub inline: bool,
    /// The lines of frames.
    pub texts: FrameTexts,
    /// Names of kernel addresses in tracepoints.
    pub kernel: KernelNames<'a>,
    /// The file's tracepoint formats.
    pub formats: Option<&'a TracepointFormats>,
}

impl LineStyle<'_> {
    /// Fields and event of a row. A record that is no sample has none in a file whose events can't be read: then it
    /// begins as a sample's line does.
    pub fn of(&self, row: &Row<'_>) -> (FieldSet, &Event) {
        static NO_EVENT: LazyLock<Event> = LazyLock::new(Event::default);
        let start = || {
            [ScriptField::Comm, ScriptField::Tid, ScriptField::Cpu, ScriptField::Time, ScriptField::Event]
                .into_iter()
                .collect()
        };
        let fields = self.fields.get(row.event).copied().unwrap_or_else(start);
        (fields, self.events.get(row.event).unwrap_or(&NO_EVENT))
    }
}

/// Names for addresses of the recording kernel.
pub struct KernelNames<'a> {
    /// The object files.
    pub files: &'a ObjectFiles,
    /// The kernel's mappings by now.
    pub mappings: Mappings,
}

impl KernelNames<'_> {
    /// Function and offset.
    pub fn name(&self, profile: &Profile, addr: u64) -> Option<(String, u64)> {
        let mapping = self.mappings.find(addr)?;
        let file = self.files.open(profile.dsos.of(mapping.dso));
        let svma = dso::Svma(mapping.to_dso(addr));
        let symbol = file.as_ref().as_ref().ok()?.symbol(svma).ok()?;
        Some((dso::demangle(symbol.name).into_owned(), svma.0.wrapping_sub(symbol.start.0)))
    }
}

/// Appends the lines of one row, line end included.
pub fn write_row(out: &mut String, style: &LineStyle<'_>, profile: &Profile, row: &Row<'_>) {
    let (fields, event) = style.of(row);
    write_start(out, style, profile, row);
    if let Some(note) = &row.note {
        out.push_str(note);
        out.push('\n');
        return;
    }
    if fields.has(ScriptField::Period) {
        digits::decimal(out, row.sample.period.unwrap_or(event.attr.sample_period), 10);
        out.push(' ');
    }
    if fields.has(ScriptField::Event) {
        digits::right(out, &harmless(&event.name), style.name_width);
        out.push_str(": ");
    }
    if let Some(labels) = row.labels.filter(|_| fields.has(ScriptField::Label)) {
        let _ = write!(out, "{} ", harmless(profile.strings.of(labels)));
    }
    if fields.has(ScriptField::Flags) {
        let _ = write!(out, "  {:<21} ", "");
    }
    if let Some(raw) = row.sample.raw.filter(|_| fields.has(ScriptField::Trace)) {
        match style.formats.and_then(|f| f.of(event.attr.config)) {
            Some(format) => {
                let mut text = String::new();
                format.print_with(raw, &|addr| style.kernel.name(profile, addr), &mut text);
                out.push_str(&harmless_lines(&text));
            }
            None => write_raw(out, raw),
        }
    }
    write_numbers(out, fields, profile, event, row);
    if fields.has(ScriptField::Ip) {
        match &row.chain {
            Some(chain) => {
                let plain = if style.inline { 0 } else { row.recorded };
                out.push('\n');
                style.texts.write_chain(out, profile, fields, ShownChain { frames: chain, plain });
            }
            None => write_leaf(out, fields, profile, row),
        }
    }
    write_regs(out, row.sample.regs_intr.filter(|_| fields.has(ScriptField::Iregs)));
    write_regs(out, row.sample.regs_user.filter(|_| fields.has(ScriptField::Uregs)));
    write_branches(out, fields, profile, row);
    write_tail(out, fields, row);
    out.push('\n');
}

fn write_start(out: &mut String, style: &LineStyle<'_>, profile: &Profile, row: &Row<'_>) {
    let (fields, event) = style.of(row);
    if fields.has(ScriptField::Comm) {
        let comm = harmless(profile.strings.of(row.comm));
        let has_chain = style.callchains && event.has_callchain();
        digits::right(out, &comm, if fields.has(ScriptField::Ip) && has_chain { 0 } else { 16 });
        out.push(' ');
    }
    let (pid, tid) = row.sample.pid_tid.unwrap_or((u32::MAX, u32::MAX));
    let (pid, tid) = (pid.cast_signed(), tid.cast_signed());
    match (fields.has(ScriptField::Pid), fields.has(ScriptField::Tid)) {
        (true, true) => {
            digits::signed(out, pid, 5);
            out.push('/');
            let start = out.len();
            digits::signed(out, tid, 0);
            (out.len() - start..5).for_each(|_| out.push(' '));
            out.push(' ');
        }
        (true, false) => digits::signed(out, pid, 5),
        (false, true) => digits::signed(out, tid, 5),
        (false, false) => {}
    }
    if fields.has(ScriptField::Pid) != fields.has(ScriptField::Tid) {
        out.push(' ');
    }
    if fields.has(ScriptField::Cpu) {
        out.push('[');
        match row.sample.cpu {
            Some(cpu) => digits::zeros(out, u64::from(cpu), 3),
            None => out.push_str("-01"),
        }
        out.push_str("] ");
    }
    if fields.has(ScriptField::Misc) {
        let mode = match row.sample.cpu_mode() {
            CpuMode::Kernel => "K",
            CpuMode::User => "U",
            CpuMode::Hypervisor => "H",
            CpuMode::GuestKernel => "G",
            CpuMode::GuestUser => "g",
            CpuMode::Unknown => "",
        };
        let _ = write!(out, "{mode:<6}");
    }
    if fields.has(ScriptField::Time) {
        write_time(out, row.sample.time_ns.unwrap_or(0), style.digits);
    }
}

fn write_time(out: &mut String, time_ns: u64, digits: TimeDigits) {
    let (secs, nanos) = (time_ns / 1_000_000_000, time_ns % 1_000_000_000);
    digits::decimal(out, secs, 5);
    out.push('.');
    match digits {
        TimeDigits::Nanos => digits::zeros(out, nanos, 9),
        TimeDigits::Micros => digits::zeros(out, nanos / 1000, 6),
    }
    out.push_str(": ");
}

/// A payload without a format: its bytes.
fn write_raw(out: &mut String, raw: &[u8]) {
    for byte in raw {
        let _ = write!(out, "{byte:02x}");
    }
}

fn write_numbers(out: &mut String, fields: FieldSet, profile: &Profile, event: &Event, row: &Row<'_>) {
    let s = &row.sample;
    if fields.has(ScriptField::Addr) {
        let _ = write!(out, "{:16x}", s.addr.unwrap_or_default());
        let faults =
            [PERF_COUNT_SW_PAGE_FAULTS, PERF_COUNT_SW_PAGE_FAULTS_MIN, PERF_COUNT_SW_PAGE_FAULTS_MAJ];
        let is_fault = event.attr.type_ == PERF_TYPE_SOFTWARE && faults.contains(&event.attr.config);
        if let Some(data) = row.data.filter(|_| is_fault) {
            write_names(out, fields, profile, data, own_name(profile, data));
        }
    }
    if fields.has(ScriptField::DataSrc) {
        let source = s.data_src.unwrap_or(0);
        let _ = write!(out, " {source:16x} {}", DataSource(source));
    }
    if fields.has(ScriptField::Weight) {
        let weight = match s.weight {
            Some(Weight::Full(w)) => w,
            Some(Weight::Struct { var1, .. }) => u64::from(var1),
            None => 0,
        };
        let _ = write!(out, "{weight:>16}");
    }
    if fields.has(ScriptField::InsLat) {
        let latency = if let Some(Weight::Struct { var2, .. }) = s.weight { var2 } else { 0 };
        let _ = write!(out, "{latency:>16}");
    }
}

fn write_leaf(out: &mut String, fields: FieldSet, profile: &Profile, row: &Row<'_>) {
    out.push(' ');
    digits::hexadecimal(out, row.sample.ip.unwrap_or_default().0, 16);
    if let Some(leaf) = row.leaf {
        write_names(out, fields, profile, leaf, own_name(profile, leaf));
        write_srcline(out, fields, profile, leaf, profile.frame_names(leaf).first());
    }
}

/// x86-64 register names by number of `perf_regs.h`.
const X86: [&str; 24] = [
    "AX", "BX", "CX", "DX", "SI", "DI", "BP", "SP", "IP", "FLAGS", "CS", "SS", "DS", "ES", "FS", "GS", "R8",
    "R9", "R10", "R11", "R12", "R13", "R14", "R15",
];

fn write_regs(out: &mut String, regs: Option<SampleRegs<'_>>) {
    let Some(regs) = regs else { return };
    let _ = write!(out, " ABI:{} ", regs.abi);
    for (at, value) in (0..64).filter(|r| regs.mask >> r & 1 != 0).zip(regs.values.iter()) {
        let name = X86.get(at as usize).copied().unwrap_or("unknown");
        let _ = write!(out, "{name:>5}:{value:#x} ");
    }
}

fn write_tail(out: &mut String, fields: FieldSet, row: &Row<'_>) {
    let s = &row.sample;
    if fields.has(ScriptField::PhysAddr) {
        let _ = write!(out, "{:16x}", s.phys_addr.unwrap_or(0));
    }
    for (field, size) in
        [(ScriptField::DataPageSize, s.data_page_size), (ScriptField::CodePageSize, s.code_page_size)]
    {
        if fields.has(field) {
            let _ = write!(out, " {}", page_size(size.unwrap_or(0)));
        }
    }
    if fields.has(ScriptField::Cgroup) {
        let _ = write!(out, " {}", s.cgroup.unwrap_or(0));
    }
}

fn page_size(bytes: u64) -> String {
    match bytes {
        0 => "N/A".into(),
        b if b >= 1 << 30 => format!("{}G", b >> 30),
        b if b >= 1 << 20 => format!("{}M", b >> 20),
        b if b >= 1 << 10 => format!("{}K", b >> 10),
        b => b.to_string(),
    }
}
