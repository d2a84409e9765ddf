//! When a recording begins and ends.

use std::time::Duration;

use crate::session::control::ControlPaths;

/// When a recording begins and ends.
#[derive(Debug, Clone, Default)]
pub struct SpanOpts {
    /// When to start after the command has begun.
    pub delay: Delay,
    /// Pipes on which another program controls when to record, and when to begin another file.
    pub control: Option<ControlPaths>,
    /// The recording ends by itself after this time.
    pub ends_after: Option<Duration>,
    /// Causes outside the target that end it.
    pub ends_by: EndsBy,
}

/// When to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Delay {
    /// With the command's exec.
    #[default]
    None,
    /// So long after it.
    After(Duration),
    /// Never by itself (`-D -1`): a command of [`SpanOpts::control`] starts it. Until then it reports processes
    /// only.
    Off,
}

/// Causes that end a recording, in addition to the end of its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EndsBy {
    /// The signals of [`crate::session::stop_signals`].
    #[default]
    Signals,
    /// Those, and the end of the program that reads our standard output.
    SignalsAndStdout,
    /// Nothing: the caller waits for signals. Its thread and those it starts must have them blocked.
    Caller,
}
