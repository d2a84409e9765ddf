//! Errors in an event text: the fault, its place, and the event that was probably intended.

use std::fmt;
use std::ops::Range;

/// An event text that cannot be understood; displays as one line, [`Error::caret`] adds the fault's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The whole text as it was given to `-e`.
    pub text: String,
    /// Byte range of the fault in `text`; may be empty (something is missing there).
    pub span: Range<usize>,
    /// The fault.
    pub fault: Box<Fault>,
    /// The nearest known names, best first; empty when nothing is near.
    pub nearest: Vec<String>,
}

/// A replacement for a PMU that few machines have.
fn instead_of(pmu: &str) -> &'static str {
    if matches!(pmu, "intel_pt" | "intel_bts" | "cs_etm" | "arm_spe_0") {
        "; `tally calls record -- CMD` (or -p PID) counts and times calls without it"
    } else {
        ""
    }
}

/// The kinds of fault in an event text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// An event is missing where one is needed.
    #[error("an event name is missing")]
    MissingEvent,
    /// The name is none of hardware, software, cache, PMU or tool events.
    #[error("unknown event '{0}'")]
    UnknownEvent(String),
    /// There is no PMU of that name in sysfs.
    #[error("no PMU '{name}' on this machine{instead}", name = .0, instead = instead_of(.0))]
    UnknownPmu(String),
    /// The PMU knows neither a format field nor an event of that name.
    #[error("'{term}' is neither a field nor an event of PMU '{pmu}'")]
    UnknownPmuTerm {
        /// The PMU asked.
        pmu: String,
        /// The name it does not know.
        term: String,
    },
    /// A setting between slashes that no event has.
    #[error("unknown term '{0}'")]
    UnknownTerm(String),
    /// A setting that needs `=value`.
    #[error("the term '{0}' needs a value")]
    TermNeedsValue(String),
    /// A value of the wrong sort.
    #[error("'{value}' is not a value for '{term}' ({expected})")]
    BadTermValue {
        /// The setting's name.
        term: String,
        /// The value as typed.
        value: String,
        /// The accepted values.
        expected: &'static str,
    },
    /// A setting that recordings do not follow.
    #[error("'{term}' can't be followed: {why}")]
    NotRecorded {
        /// The setting's name.
        term: &'static str,
        /// Why.
        why: &'static str,
    },
    /// A word that names no kind of branch.
    #[error(
        "unknown branch filter '{0}' (any, any_call, any_ret, ind_call, ind_jmp, call, cond, stack, in_tx, no_tx, abort_tx, u, k, hv …)"
    )]
    UnknownBranchFilter(String),
    /// More bits than the PMU's field has.
    #[error("the value of '{field}' is too big: its maximum is {max:#x}")]
    ValueTooBig {
        /// The PMU's format field.
        field: String,
        /// Largest value that fits.
        max: u64,
    },
    /// A sysfs file of the PMU that doesn't have the documented format.
    #[error("PMU '{pmu}': the kernel's description of '{entry}' cannot be read")]
    BadSysfs {
        /// The PMU.
        pmu: String,
        /// The entry in its `format` or `events` folder.
        entry: String,
    },
    /// A letter that isn't a modifier.
    #[error("unknown modifier '{0}' (known: u k h H G p P S D e I W b)")]
    UnknownModifier(char),
    /// A modifier given twice, or `p` more than three times.
    #[error("the modifier '{0}' is given too often")]
    RepeatedModifier(char),
    /// No such tracepoint, or no tracepoint matches the pattern.
    #[error("no tracepoint '{0}'")]
    UnknownTracepoint(String),
    /// Tracepoints cannot be looked up: tracefs is absent or not readable.
    #[error(
        "tracepoints cannot be read ({0}); mount tracefs (mount -t tracefs nodev /sys/kernel/tracing) and make it readable"
    )]
    NoTracefs(String),
    /// A breakpoint's address, length or access is not understood.
    #[error("{0}")]
    BadBreakpoint(&'static str),
    /// A `{` without its `}`.
    #[error("this group is not closed: '}}' is missing")]
    UnclosedGroup,
    /// A `{` inside of a group.
    #[error("groups cannot be nested")]
    NestedGroup,
    /// A `/` without its partner.
    #[error("the terms are not closed: '/' is missing")]
    UnclosedTerms,
    /// There is other text where `,` or the end should be.
    #[error("',' or the end was expected here")]
    Trailing,
    /// A cache event whose operation the cache does not have.
    #[error("{cache} has no {op} events")]
    CacheOp {
        /// The cache as perf names it.
        cache: &'static str,
        /// The operation as perf names it.
        op: &'static str,
    },
    /// `--filter` without an event before it.
    #[error("--filter must follow the -e whose events it narrows")]
    FilterWithoutEvent,
    /// `--filter` after events that have no fields.
    #[error("--filter works on tracepoints and address-filtering PMUs; '{0}' is neither")]
    FilterOnPlainEvent(String),
}

impl Error {
    /// The text and, under it, carets that mark the fault: two lines without a final newline.
    #[must_use]
    pub fn caret(&self) -> String {
        let shown: String = self.text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let before = self.text.get(..self.span.start).map_or(0, |s| s.chars().count());
        let marked = self.text.get(self.span.clone()).map_or(0, |s| s.chars().count());
        format!("  {shown}\n  {:before$}{}", "", "^".repeat(marked.max(1)))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.fault)?;
        if !self.nearest.is_empty() {
            write!(f, "; did you mean {}?", self.nearest.join(", "))?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

/// At most four of `known` that are near to `typed`, best first: whatever was misspelt, swapped letters are one fault.
#[must_use]
pub fn nearest<S: AsRef<str>>(typed: &str, known: impl IntoIterator<Item = S>) -> Vec<String> {
    const LIMIT: usize = 4;
    let typed = &typed[..floor_char(typed, 64)];
    let mut scored: Vec<(usize, String)> = known
        .into_iter()
        .filter_map(|name| score(typed, name.as_ref()).map(|s| (s, name.as_ref().to_owned())))
        .collect();
    scored.sort();
    scored.dedup_by(|a, b| a.1 == b.1);
    scored.into_iter().take(LIMIT).map(|(_, name)| name).collect()
}

/// Edit distance if it is small for the length of the name; half of that when one begins with the other.
fn score(typed: &str, name: &str) -> Option<usize> {
    if typed.len() >= 3 && name.starts_with(typed) {
        return Some(1);
    }
    let allowed = (typed.len().max(name.len()) / 3).clamp(1, 6);
    if typed.len().abs_diff(name.len()) > allowed {
        return None;
    }
    let distance = edit_distance(typed.as_bytes(), name.as_bytes());
    (distance <= allowed).then_some(distance)
}

/// Levenshtein distance with swapped neighbours counted once, ASCII case ignored.
fn edit_distance(a: &[u8], b: &[u8]) -> usize {
    let mut before: Vec<usize> = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let change = usize::from(!x.eq_ignore_ascii_case(y));
            let mut best = (last[j] + change).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && x == &b[j - 1] && &a[i - 1] == y {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

/// The largest character boundary of `text` that is at most `limit`.
fn floor_char(text: &str, limit: usize) -> usize {
    (0..=limit.min(text.len())).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0)
}
