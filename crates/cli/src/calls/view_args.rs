//! The flags that all views of calls share.

use calls::recording::folder;
use calls::selection::{ViewSpec, duration_ns_of};
use std::path::{Path, PathBuf};

/// Selection of calls to show: the flags that all views share.
#[derive(clap::Args, Clone, Debug)]
pub struct ViewArgs {
    /// The recording: a folder of `tally calls record` or of uftrace, or a perf.data with an Intel PT trace
    #[arg(short, long, value_name = "PATH", default_value = folder::DEFAULT)]
    pub input: PathBuf,
    /// Only calls of this function and what they call; a name or a pattern with * (can be repeated)
    #[arg(short = 'F', long = "filter", visible_alias = "func", value_name = "FUNC")]
    pub only: Vec<String>,
    /// Not calls of this function nor what they call (can be repeated)
    #[arg(short = 'N', long = "notrace", value_name = "FUNC")]
    pub not: Vec<String>,
    /// Only calls that lead to this function (can be repeated)
    #[arg(short = 'C', long = "caller-filter", value_name = "FUNC")]
    pub callers: Vec<String>,
    /// Actions where FUNC is called: trace_on, trace_off, depth=N, time=10us, filter, notrace, caller, backtrace (in
    /// the log, which calls around it are not shown); several with commas (can be repeated)
    #[arg(short = 'T', long = "trigger", value_name = "FUNC@WHAT")]
    pub trigger: Vec<String>,
    /// Show nothing of a thread before a trigger trace_on
    #[arg(long)]
    pub disable: bool,
    /// Only this deep
    #[arg(short = 'D', long, value_name = "N")]
    pub depth: Option<usize>,
    /// Only calls that took at least this long: 10us, 1ms (without a unit: ns)
    #[arg(short = 't', long = "min", visible_alias = "time-filter", value_name = "TIME", value_parser = duration_ns_of)]
    pub min_ns: Option<u64>,
    /// Only this thread (can be repeated)
    #[arg(long, visible_alias = "thread", value_name = "TID")]
    pub tid: Vec<u32>,
    /// Only threads of this process (can be repeated)
    #[arg(short = 'p', long, value_name = "PID")]
    pub pid: Vec<u32>,
    /// Not this function, but what it calls: its time becomes its caller's (can be repeated)
    #[arg(short = 'H', long, value_name = "FUNC")]
    pub hide: Vec<String>,
    /// Not the library functions that the program calls: their time becomes their callers'
    #[arg(long, visible_alias = "no-libcalls")]
    pub no_libcall: bool,
    /// Only functions of this file: name or pattern (can be repeated)
    #[arg(long, visible_alias = "file", value_name = "FILE")]
    pub dso: Vec<String>,
    /// Only calls that began then: FROM,TO in seconds since the first call, or parts of the whole: 10%-20%
    #[arg(long, value_name = "SPAN")]
    pub time: Option<String>,
}

impl ViewArgs {
    /// All of a recording. Where no file `input` is, the default folder of calls.
    #[must_use]
    pub fn all_of(input: &Path) -> Self {
        let default = Path::new(folder::DEFAULT);
        let input = if !input.exists() && default.exists() { default } else { input }.to_owned();
        let none = Vec::new;
        Self {
            input,
            only: none(),
            not: none(),
            callers: none(),
            trigger: none(),
            disable: false,
            depth: None,
            min_ns: None,
            tid: Vec::new(),
            pid: Vec::new(),
            hide: none(),
            dso: none(),
            no_libcall: false,
            time: None,
        }
    }

    /// The same without clap, for the analysis.
    #[must_use]
    pub fn spec(&self) -> ViewSpec {
        let all = self.clone();
        ViewSpec {
            only: all.only,
            not: all.not,
            callers: all.callers,
            trigger: all.trigger,
            disable: all.disable,
            depth: all.depth,
            min_ns: all.min_ns,
            tid: all.tid,
            pid: all.pid,
            hide: all.hide,
            no_libcall: all.no_libcall,
            dso: all.dso,
        }
    }
}
