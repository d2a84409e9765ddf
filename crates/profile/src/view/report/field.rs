//! Columns of a report: numbers, and keys that rows are grouped by.

mod names;

use crate::profile::SampleWord;
use names::KEYS;
use std::fmt;

/// A key that samples are grouped by (`--sort`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SortKey {
    /// The thread's name.
    Comm,
    /// File or pseudo-file.
    Dso,
    /// Function.
    Symbol,
    /// Command and thread id, as perf's `pid` key has it.
    Pid,
    /// Command and thread id.
    Tid,
    /// Command and process id.
    Tgid,
    /// CPU number.
    Cpu,
    /// `file.c:12` of the address.
    SrcLine,
    /// Source file of the address.
    SrcFile,
    /// First caller whose name matches `--parent`.
    Parent,
    /// The tracepoint's payload as text.
    Trace,
    /// One field of a tracepoint, by name; the position among the fields asked for.
    TraceField(String),
    /// cgroup path or id.
    Cgroup,
    /// Container of the cgroup: its name, where that is known, else its id.
    Container,
    /// Labels of the goroutine: all, or the value of the one with this key.
    Label(Option<String>),
    /// DSO of the branch instruction.
    DsoFrom,
    /// DSO of the branch target.
    DsoTo,
    /// Function of the branch instruction.
    SymbolFrom,
    /// Function of the branch target.
    SymbolTo,
    /// Was the branch predicted wrongly?
    Mispredict,
    /// Branch inside a transaction?
    InTx,
    /// Branch from a transaction abort?
    Abort,
    /// Cycles since the branch before.
    Cycles,
    /// Sum of hardware-given weights.
    Weight,
    /// Mean hardware-given weight.
    LocalWeight,
    /// Time slice.
    Time,
    /// Transaction flags.
    Transaction,
    /// CPU package.
    Socket,
    /// Length of the function.
    SymbolSize,
    /// Length of the mapping. (As perf: of the DSO's text.)
    DsoSize,
    /// Data address of the access.
    DataAddr,
    /// The very address, as it was in the process that first had it.
    Addr,
    /// Address of the branch instruction.
    AddrFrom,
    /// Address of the branch target.
    AddrTo,
    /// Source line of the branch instruction.
    SrcLineFrom,
    /// Source line of the branch target.
    SrcLineTo,
    /// A number of the sample's own, each by itself.
    Word(SampleWord),
    /// The same, times the samples of the row.
    WordTotal(SampleWord),
    /// A part of where a memory access was answered from.
    Memory(MemoryPart),
    /// Nothing: one row a sample, in order.
    SampleNumber,
}

/// The parts of a memory access's data source that are keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemoryPart {
    /// Cache level or memory.
    Level,
    /// Translation buffer.
    Tlb,
    /// Answers of other caches.
    Snoop,
    /// Locked access?
    Lock,
    /// Why it was blocked.
    Blocked,
}

/// A column (`--fields`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ReportField {
    /// Self period in percent of the total (`overhead`).
    Overhead,
    /// Period with the row anywhere in the chain (`overhead_children`).
    OverheadChildren,
    /// Self period in kernel mode.
    OverheadSys,
    /// Self period in user mode.
    OverheadUs,
    /// Self period in a guest's kernel.
    OverheadGuestSys,
    /// Self period in a guest's user mode.
    OverheadGuestUs,
    /// Share of the wall clock: self periods, each divided by the number of threads that ran then (`latency`).
    Latency,
    /// Number of samples.
    Samples,
    /// Self period.
    Period,
    /// A key.
    Key(SortKey),
}

impl ReportField {
    /// The column's heading as perf prints it. `Overhead` reads `Self` next to `Children`. That is left to the
    /// renderer, which knows the other columns.
    #[must_use]
    pub fn heading(&self) -> String {
        match self {
            Self::Overhead => "Overhead",
            Self::OverheadChildren => "Children",
            Self::OverheadSys => "sys",
            Self::OverheadUs => "usr",
            Self::OverheadGuestSys => "guest sys",
            Self::OverheadGuestUs => "guest usr",
            Self::Latency => "Latency",
            Self::Samples => "Samples",
            Self::Period => "Period",
            Self::Key(key) => return key.heading(),
        }
        .to_owned()
    }
}

impl SortKey {
    /// The column's heading as perf prints it.
    #[must_use]
    pub fn heading(&self) -> String {
        match self {
            Self::Comm => "Command",
            Self::Dso => "Shared Object",
            Self::Symbol => "Symbol",
            Self::Pid | Self::Tid => "    Pid:Command",
            Self::Tgid => "   Tgid:Command",
            Self::Cpu => "CPU",
            Self::SrcLine => "Source:Line",
            Self::SrcFile => "Source File",
            Self::Parent => "Parent symbol",
            Self::Trace => "Trace output",
            Self::TraceField(name) => name,
            Self::Cgroup => "Cgroup",
            Self::Container => "Container",
            Self::Label(None) => "Label",
            Self::Label(Some(key)) => key,
            Self::DsoFrom => "Source Shared Object",
            Self::DsoTo => "Target Shared Object",
            Self::SymbolFrom => "Source Symbol",
            Self::SymbolTo => "Target Symbol",
            Self::Mispredict => "Branch Mispredicted",
            Self::InTx => "Branch in transaction",
            Self::Abort => "Transaction abort",
            Self::Cycles => "Basic Block Cycles",
            Self::Weight => "Weight",
            Self::LocalWeight => "Local Weight",
            Self::Time => "Time",
            Self::Transaction => "Transaction                ",
            Self::Socket => "Socket",
            Self::SymbolSize => "Symbol size",
            Self::DsoSize => "DSO size",
            Self::DataAddr => "Data Symbol",
            Self::SampleNumber => "Sample",
            Self::Addr => "Address",
            Self::AddrFrom => "Source Address",
            Self::AddrTo => "Target Address",
            Self::SrcLineFrom => "From Source:Line",
            Self::SrcLineTo => "To Source:Line",
            Self::Word(word) => word_heading(*word, true),
            Self::WordTotal(word) => word_heading(*word, false),
            Self::Memory(MemoryPart::Level) => "Memory access",
            Self::Memory(MemoryPart::Tlb) => "TLB access",
            Self::Memory(MemoryPart::Snoop) => "Snoop",
            Self::Memory(MemoryPart::Lock) => "Locked",
            Self::Memory(MemoryPart::Blocked) => "Blocked",
        }
        .to_owned()
    }

    /// perf's least width of the column, in characters; 0 if the heading decides.
    #[must_use]
    pub fn least_width(&self) -> usize {
        match self {
            Self::Socket | Self::Cgroup | Self::Memory(MemoryPart::Lock) => 6,
            Self::Memory(MemoryPart::Blocked) => 10,
            Self::Weight | Self::LocalWeight | Self::Time | Self::Memory(MemoryPart::Snoop) => 12,
            Self::Addr => 18,
            Self::Memory(MemoryPart::Tlb) | Self::Word(SampleWord::DataPageSize) => 22,
            Self::Memory(MemoryPart::Level) => 24,
            _ => 0,
        }
    }

    /// The number of the sample that the key needs; `None` for all others.
    #[must_use]
    pub fn word(&self) -> Option<SampleWord> {
        match self {
            Self::Word(word) | Self::WordTotal(word) => Some(*word),
            Self::Memory(_) => Some(SampleWord::DataSource),
            _ => None,
        }
    }

    /// Is the value a number, to be set flush right?
    #[must_use]
    pub fn is_number(&self) -> bool {
        matches!(
            self,
            Self::Cpu
                | Self::Socket
                | Self::SymbolSize
                | Self::DsoSize
                | Self::SampleNumber
                | Self::Word(SampleWord::Parallelism)
        )
    }

    /// Does the value depend on the frame (rather than on the sample)?
    #[must_use]
    pub fn is_of_frame(&self) -> bool {
        matches!(
            self,
            Self::Dso
                | Self::Symbol
                | Self::SrcLine
                | Self::SrcFile
                | Self::SymbolSize
                | Self::DsoSize
                | Self::Addr
        )
    }
}

fn word_heading(word: SampleWord, local: bool) -> &'static str {
    match (word, local) {
        (SampleWord::InstructionLatency, true) => "Local INSTR Latency",
        (SampleWord::InstructionLatency, false) => "INSTR Latency",
        (SampleWord::StageCycles, true) => "Local Pipeline Stage Cycle",
        (SampleWord::StageCycles, false) => "Pipeline Stage Cycle",
        (SampleWord::CodePageSize, _) => "Code Page Size",
        (SampleWord::DataPageSize, _) => "Data Page Size",
        (SampleWord::PhysicalAddress, _) => "Data Physical Address",
        (SampleWord::DataSource, _) => "Memory access",
        (SampleWord::Parallelism, _) => "Parallelism",
    }
}

impl fmt::Display for SortKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TraceField(name) => f.write_str(name),
            Self::Label(Some(key)) => write!(f, "label:{key}"),
            Self::SampleNumber => f.write_str("sample_number"),
            key => f.write_str(KEYS.iter().find(|(_, k)| k == key).map_or("", |(name, _)| name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_upper_case_names_are_known() {
        assert_eq!(ReportField::parse("sym"), Some(ReportField::Key(SortKey::Symbol)));
        assert_eq!(ReportField::parse("Overhead"), Some(ReportField::Overhead));
        assert_eq!(ReportField::parse("period"), Some(ReportField::Period));
        assert_eq!(ReportField::parse("prev_state"), None);
        assert_eq!(SortKey::Symbol.to_string(), "symbol");
        let label = |key: Option<&str>| Some(ReportField::Key(SortKey::Label(key.map(str::to_owned))));
        assert_eq!(
            ["label", "lab", "label:Route"].map(ReportField::parse),
            [label(None), label(None), label(Some("Route"))]
        );
        assert_eq!(SortKey::Label(Some("a".to_owned())).to_string(), "label:a");
    }
}
