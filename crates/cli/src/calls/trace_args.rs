//! The flags of recording by the tracer in the program.

use calls::selection::TraceSpec;

/// Flags that select functions, where the program records itself.
#[derive(clap::Args, Default)]
#[command(
    next_help_heading = "Filters (those other than -F, -N, -C, -T trace_on|trace_off|filter|notrace, --disable: instrumented programs only)"
)]
pub struct TraceArgs {
    /// Only calls of this function and what they call (can be repeated). As -P, -N, -C and -T it takes a name, a
    /// pattern, /REGEX/, file:SOURCE.c, @LIST (a file of such words)
    #[arg(short = 'F', long = "filter", value_name = "FUNC")]
    pub only: Vec<String>,
    /// Not calls of this function nor what they call (can be repeated)
    #[arg(short = 'N', long = "notrace", value_name = "FUNC")]
    pub not: Vec<String>,
    /// Only calls that lead to this function (can be repeated)
    #[arg(short = 'C', long = "caller-filter", value_name = "FUNC")]
    pub callers: Vec<String>,
    /// Actions where FUNC is called: trace_on, trace_off, depth=N, time=10us, slow=10ms (keep only
    /// calls of FUNC that took so long, with all in them), backtrace, filter, notrace, argN, retval; several with
    /// commas (can be repeated)
    #[arg(short = 'T', long = "trigger", value_name = "FUNC@WHAT")]
    pub trigger: Vec<String>,
    /// Record nothing until a trigger begins it
    #[arg(long)]
    pub disable: bool,
    /// Begin (SIGNAL@trace_on) or stop (SIGNAL@trace_off) recording when the program gets a signal (can be repeated)
    #[arg(long, value_name = "SIGNAL@WHAT")]
    pub signal: Vec<String>,
    /// Record arguments: FUNC (all that its debug information lists) or FUNC@arg1,arg2/s,fparg1 with formats
    /// i u x c s f p, and S for std::string (can be repeated)
    #[arg(short = 'A', long = "argument", value_name = "FUNC[@ARGS]")]
    pub arguments: Vec<String>,
    /// Record results: FUNC or FUNC@retval/FORMAT (can be repeated)
    #[arg(short = 'R', long = "retval", value_name = "FUNC[@retval]")]
    pub results: Vec<String>,
    /// Record arguments and results of all functions that debug information describes
    #[arg(short = 'a', long)]
    pub auto_args: bool,
    /// Don't record calls of library functions
    #[arg(long, visible_alias = "no-libcalls")]
    pub no_libcall: bool,
    /// Record the library functions called by a program even if it is not instrumented itself
    #[arg(long, conflicts_with = "no_libcall")]
    pub libcall: bool,
    /// Also those that instrumented libraries call
    #[arg(long, conflicts_with = "no_libcall")]
    pub nest_libcall: bool,
}

impl TraceArgs {
    /// The same without clap, for the analysis.
    #[must_use]
    pub fn spec(&self) -> TraceSpec {
        TraceSpec {
            only: self.only.clone(),
            not: self.not.clone(),
            callers: self.callers.clone(),
            trigger: self.trigger.clone(),
            disable: self.disable,
            signal: self.signal.clone(),
            arguments: self.arguments.clone(),
            results: self.results.clone(),
            auto_args: self.auto_args,
            no_libcall: self.no_libcall,
            libcall: self.libcall,
            nest_libcall: self.nest_libcall,
        }
    }
}
