//! Selection of functions to record, where the program records itself.

/// Filters, triggers, and which values to record.
#[derive(Clone, Debug, Default)]
pub struct TraceSpec {
    /// Only calls of these functions and what they call.
    pub only: Vec<String>,
    /// Not calls of these functions nor what they call.
    pub not: Vec<String>,
    /// Only calls that lead to these functions.
    pub callers: Vec<String>,
    /// Rules at functions, `FUNC@WHAT`.
    pub trigger: Vec<String>,
    /// Nothing is recorded until a trigger begins it.
    pub disable: bool,
    /// Signals that begin or stop recording, `SIGNAL@WHAT`.
    pub signal: Vec<String>,
    /// Arguments to record, `FUNC` or `FUNC@ARGS`.
    pub arguments: Vec<String>,
    /// Results to record, `FUNC` or `FUNC@retval/FORMAT`.
    pub results: Vec<String>,
    /// Arguments and results of all functions that debug information describes.
    pub auto_args: bool,
    /// No calls of library functions.
    pub no_libcall: bool,
    /// Calls of library functions even if the program is not instrumented itself.
    pub libcall: bool,
    /// Also those that instrumented libraries call.
    pub nest_libcall: bool,
}

impl TraceSpec {
    /// The first flag given that only the tracer in the program can follow; `None` if none was.
    #[must_use]
    pub fn first_for_tracer(&self) -> Option<&'static str> {
        let given = [
            (!self.signal.is_empty(), "--signal"),
            (!self.arguments.is_empty(), "-A"),
            (!self.results.is_empty(), "-R"),
            (self.auto_args, "-a"),
        ];
        given.into_iter().find(|(is_given, _)| *is_given).map(|(_, flag)| flag)
    }
}
