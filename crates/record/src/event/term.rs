//! The settings between slashes: `/event=0x3c,period=100000,call-graph=dwarf,name=busy/`.
//!
//! Some belong to a PMU's format (`pmu.rs` sees to them), the rest are the same for every event and live in [`Terms`].

use std::ops::Range;

use super::error::Fault;

/// `call-graph=` of one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallGraphTerm {
    /// No callchains for this event.
    No,
    /// Frame pointers, walked by the kernel.
    FramePointer,
    /// Copied stack bytes, unwound by DWARF rules.
    Dwarf,
    /// The CPU's last-branch records.
    Lbr,
    /// Unwound while recording.
    Live,
}

/// Settings of one event that override those of the command line; `None`: as on the command line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Terms {
    /// Event occurrences from one sample to the next.
    pub period: Option<u64>,
    /// Samples per second.
    pub freq_hz: Option<u64>,
    /// How to take callchains.
    pub call_graph: Option<CallGraphTerm>,
    /// Stack bytes copied with each sample.
    pub stack_size_bytes: Option<u32>,
    /// Longest callchain kept by the kernel, in frames.
    pub max_stack: Option<u16>,
    /// Record this many samples, then switch the event off.
    pub max_events: Option<u64>,
    /// Timestamps on or off.
    pub time: Option<bool>,
    /// Children inherit the event or not.
    pub inherit: Option<bool>,
    /// The ring overwrites its oldest records or not.
    pub overwrite: Option<bool>,
    /// Count per core rather than per hardware thread.
    pub percore: bool,
    /// Branch-record filter words as typed, e.g. `any,u`.
    pub branch_type: Option<String>,
    /// This event's data go to the group leader's AUX area.
    pub aux_output: bool,
    /// AUX bytes copied into each sample.
    pub aux_sample_size_bytes: Option<u32>,
    /// A driver's own setting, as typed.
    pub driver_config: Option<String>,
}

/// A term as typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Term {
    pub name: String,
    /// Range of the name in the whole text.
    pub name_span: Range<usize>,
    pub value: Option<String>,
    /// Range of the value; the name's range if there is none.
    pub value_span: Range<usize>,
}

/// Names of the terms that every event takes, for suggestions.
pub(super) const TERM_NAMES: &[&str] = &[
    "config",
    "config1",
    "config2",
    "config3",
    "name",
    "period",
    "freq",
    "call-graph",
    "stack-size",
    "max-stack",
    "nr",
    "time",
    "inherit",
    "no-inherit",
    "overwrite",
    "no-overwrite",
    "percore",
    "branch_type",
    "aux-output",
    "aux-sample-size",
    "driver-config",
    "metric-id",
];

impl Terms {
    /// Takes `term` in if it is one of the general ones: `Ok(false)` if it is not.
    pub(super) fn apply(&mut self, term: &Term) -> Result<bool, Fault> {
        match term.name.as_str() {
            "period" => self.period = Some(term.number("an event count")?),
            "freq" => self.freq_hz = Some(term.number("samples per second")?),
            "call-graph" => self.call_graph = Some(term.call_graph()?),
            "stack-size" => self.stack_size_bytes = Some(term.small("bytes")?),
            "max-stack" => self.max_stack = Some(term.small("a number of frames")?),
            "nr" => self.max_events = Some(term.number("a number of samples")?),
            "time" => self.time = Some(term.switch()?),
            "inherit" => self.inherit = Some(term.switch()?),
            "no-inherit" => self.inherit = Some(!term.switch()?),
            "overwrite" => self.overwrite = Some(term.switch()?),
            "no-overwrite" => self.overwrite = Some(!term.switch()?),
            "percore" => self.percore = term.switch()?,
            "branch_type" => self.branch_type = Some(term.text()?.to_owned()),
            "aux-output" => self.aux_output = term.switch()?,
            "aux-sample-size" => self.aux_sample_size_bytes = Some(term.small("bytes")?),
            "driver-config" => self.driver_config = Some(term.text()?.to_owned()),
            "metric-id" => drop(term.text()?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl Term {
    /// The value as text.
    pub(super) fn text(&self) -> Result<&str, Fault> {
        self.value.as_deref().ok_or_else(|| Fault::TermNeedsValue(self.name.clone()))
    }

    /// The value as a decimal or `0x` number.
    pub(super) fn number(&self, expected: &'static str) -> Result<u64, Fault> {
        parse_number(self.text()?).ok_or_else(|| self.bad(expected))
    }

    fn small<T: TryFrom<u64>>(&self, expected: &'static str) -> Result<T, Fault> {
        T::try_from(self.number(expected)?).map_err(|_| self.bad(expected))
    }

    fn switch(&self) -> Result<bool, Fault> {
        match self.value.as_deref() {
            None | Some("1") => Ok(true),
            Some("0") => Ok(false),
            Some(_) => Err(self.bad("0 or 1")),
        }
    }

    fn call_graph(&self) -> Result<CallGraphTerm, Fault> {
        match self.text()? {
            "no" => Ok(CallGraphTerm::No),
            "fp" => Ok(CallGraphTerm::FramePointer),
            "dwarf" => Ok(CallGraphTerm::Dwarf),
            "lbr" => Ok(CallGraphTerm::Lbr),
            "live" => Ok(CallGraphTerm::Live),
            _ => Err(self.bad("live, fp, dwarf, lbr or no")),
        }
    }

    fn bad(&self, expected: &'static str) -> Fault {
        Fault::BadTermValue {
            term: self.name.clone(),
            value: self.value.clone().unwrap_or_default(),
            expected,
        }
    }
}

/// `123` or `0x7b`; nothing else, no sign, no blanks.
pub(super) fn parse_number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => parse_hex(hex),
        None if text.bytes().all(|b| b.is_ascii_digit()) => text.parse().ok(),
        None => None,
    }
}

/// Hexadecimal digits without `0x`.
pub(super) fn parse_hex(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    u64::from_str_radix(text, 16).ok()
}
