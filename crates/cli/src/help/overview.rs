//! `tally --help`: the commands, grouped by what a person wants to do.

use std::fmt::Write as _;

/// A purpose, and the commands for it with a line each.
type Purpose = (&'static str, &'static [(&'static str, &'static str)]);

pub(super) const PURPOSES: &[Purpose] = &[
    (
        "Look",
        &[
            ("run", "run or watch a program, print where its time went and why"),
            ("top", "show the functions that run now, refreshed"),
            ("stat", "count events over a run; compare two commands"),
            ("doctor", "show what this machine lets you record, with remedies"),
        ],
    ),
    (
        "Dig",
        &[
            ("why", "show the evidence of what tally run found"),
            ("report", "browse a recording: functions, callers, source"),
            ("annotate", "show samples by source line and instruction"),
            ("flame", "draw a flame graph (SVG), or print folded stacks"),
            ("timeline", "show what each thread did over time"),
            ("locks", "show locks, their waiters and who released them"),
            ("lock", "show waits for the kernel's own locks (perf lock)"),
            ("io", "show disk requests: queue, device, cause"),
            ("calls", "record and show every call: exact counts and times"),
            ("trace", "show each system call as it happens, or their sums"),
            ("sched", "show each switch, and waits for a CPU (perf sched)"),
            ("script", "print every sample"),
        ],
    ),
    (
        "Record",
        &[
            ("record", "sample a command, a process or the machine"),
            ("probe", "put events on functions and lines of programs"),
            ("list", "list the events of this machine"),
        ],
    ),
    (
        "Compare",
        &[
            ("diff", "compare recordings, with the noise between runs"),
            ("check", "fail in CI if a program became slower"),
        ],
    ),
    (
        "Share",
        &[
            ("archive", "pack a recording and its programs into one file"),
            ("export", "convert a recording for pprof, speedscope, Perfetto"),
            ("agent", "record this machine at intervals, for a fleet"),
            ("fleet", "query the profiles of many machines"),
            ("mcp", "answer an assistant's questions about recordings"),
        ],
    ),
    (
        "Inspect",
        &[
            ("evlist", "list the events of a recording"),
            ("buildid-cache", "list, add, remove the files kept by build-id"),
            ("buildid-list", "list the build-ids of the files in a recording"),
            ("inject", "copy a recording, with names of JIT code (perf inject)"),
            ("kallsyms", "find functions of the running kernel by name"),
            ("dump", "print the records of a file"),
        ],
    ),
    (
        "Learn",
        &[
            ("config", "list perf's settings, and which of them tally uses"),
            ("completions", "print completions for bash, zsh, fish and other shells"),
            ("help", "print help for a command; `tally help topics`"),
        ],
    ),
];

/// The output of `tally` alone: what it is, and the commands to start with.
pub(super) const WELCOME: &str = "\
tally shows where a program's time goes: running, waiting, and what for.
  tally run -- ./app             run it; then one screen with the answer
  tally run -p 1234 -- sleep 5   the same for a process that already runs
  tally why                      the evidence of that answer
  tally report                   browse the recording (tally --help: all commands)";

/// The groups as lines of text, styled by `heading` and `name`.
pub(super) fn groups(heading: impl Fn(&str) -> String, name: impl Fn(&str) -> String) -> String {
    let mut text = String::new();
    for (purpose, commands) in PURPOSES {
        let _ = writeln!(text, "{}", heading(purpose));
        for (command, does) in *commands {
            let gap = " ".repeat(14_usize.saturating_sub(command.len()));
            let _ = writeln!(text, "  {}{gap}{does}", name(command));
        }
    }
    text
}
