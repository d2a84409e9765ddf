//! Commands that only perf has: what to use in their place.

use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

/// perf's command, and what does its work here.
const INSTEAD: &[(&str, &str)] = &[
    (
        "bench",
        "it measures the kernel, not programs; `tally stat --vs 'COMMAND B' -- COMMAND A` compares two programs",
    ),
    (
        "c2c",
        "tally record -d -W -e mem-loads,mem-stores, then tally report --mem-mode (where the CPU has these events)",
    ),
    (
        "data",
        "tally script --json prints samples as JSON, tally export writes traced calls for ui.perfetto.dev",
    ),
    ("ftrace", "tally calls record traces the calls of programs; the kernel's: trace-cmd"),
    ("iostat", "tally io shows requests to disks: how long they wait, and who causes them"),
    ("kmem", "tally record -g -e 'kmem:*' -a, then tally report --sort call_site,sym or tally script"),
    ("kvm", "guests are not looked into; tally record -e 'kvm:*' -a samples the host's side"),
    ("kwork", "tally record -e 'irq:*,workqueue:*' -a, then tally script"),
    (
        "mem",
        "tally record -d -W -e mem-loads,mem-stores, then tally report --mem-mode (where the CPU has these events)",
    ),
    ("timechart", "tally record --off-cpu, then tally timeline"),
];

/// The line for who typed a command of perf's that is not here.
pub fn instead(error: &Error) -> Option<String> {
    let (ErrorKind::InvalidSubcommand, Some(ContextValue::String(word))) =
        (error.kind(), error.get(ContextKind::InvalidSubcommand))
    else {
        return None;
    };
    let (name, instead) = INSTEAD.iter().find(|(name, _)| name == word)?;
    Some(format!("no command '{name}': {instead}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::Flags;
    use clap::{CommandFactory, Parser};

    #[test]
    fn a_command_of_perfs_gets_what_to_use_instead() {
        let error = |word: &str| Flags::try_parse_from(["tally", word]).err().expect("no such command");
        let text = instead(&error("timechart")).expect("a command of perf's");
        assert!(text.starts_with("no command 'timechart': tally record --off-cpu"), "{text}");
        assert_eq!(instead(&error("flmae")), None);
    }

    #[test]
    fn no_command_of_ours_is_refused() {
        let ours = Flags::command();
        assert!(INSTEAD.iter().all(|(name, _)| ours.find_subcommand(name).is_none()));
    }
}
