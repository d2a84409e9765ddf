//! Selection of calls to show.

/// Threads, functions and calls that a view is limited to; by default all.
#[derive(Clone, Debug, Default)]
pub struct ViewSpec {
    /// Only calls of these functions and what they call.
    pub only: Vec<String>,
    /// Not calls of these functions nor what they call.
    pub not: Vec<String>,
    /// Only calls that lead to these functions.
    pub callers: Vec<String>,
    /// Rules at functions, `FUNC@WHAT`.
    pub trigger: Vec<String>,
    /// For each thread nothing before a trigger `trace_on`.
    pub disable: bool,
    /// Only calls nested at most this deep.
    pub depth: Option<usize>,
    /// Only calls that took at least this long, ns.
    pub min_ns: Option<u64>,
    /// Only these threads.
    pub tid: Vec<u32>,
    /// Only threads of these processes.
    pub pid: Vec<u32>,
    /// Not these functions, but what they call.
    pub hide: Vec<String>,
    /// Not the library functions that the program calls.
    pub no_libcall: bool,
    /// Only functions of these files.
    pub dso: Vec<String>,
}

impl ViewSpec {
    /// Whether a thread of this process is to be shown.
    pub(crate) fn means(&self, tid: u32, pid: Option<u32>) -> bool {
        let of_process = || pid.is_some_and(|pid| self.pid.contains(&pid));
        (self.tid.is_empty() || self.tid.contains(&tid)) && (self.pid.is_empty() || of_process())
    }

    /// Whether single calls are to be chosen, beyond those of whole functions.
    pub(crate) fn chooses_calls(&self) -> bool {
        let words = [&self.only, &self.not, &self.callers, &self.trigger];
        words.iter().any(|words| !words.is_empty())
            || self.min_ns.is_some()
            || self.disable
            || !self.tid.is_empty()
            || !self.pid.is_empty()
    }
}
