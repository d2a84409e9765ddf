//! The commands, one file each: `pub struct Args` (its flags) and `pub fn run(Args) -> anyhow::Result<ExitCode>`.
//!
//! The doc comment of `Args` is the command's help.

use std::process::ExitCode;

/// Declares the modules, the enum clap parses into and the dispatch, from one line per command.
macro_rules! commands {
    ($($variant:ident: $module:ident),+ $(,)?) => {
        $(pub mod $module;)+

        /// One command with its flags.
        #[derive(clap::Subcommand)]
        #[expect(missing_docs, reason = "a comment on the variant would replace the help of the command's Args")]
        pub enum Command {
            $($variant(Box<$module::Args>),)+
        }

        impl Command {
            /// Runs the command.
            ///
            /// # Errors
            /// What the command could not do; shown in one line by `main`.
            pub fn run(self) -> anyhow::Result<ExitCode> {
                match self {
                    $(Self::$variant(args) => $module::run(*args),)+
                }
            }
        }
    };
}

// In alphabetical order, one line each.
commands! {
    Annotate: annotate,
    BuildidList: buildid_list,
    Calls: calls,
    Diff: diff,
    Doctor: doctor,
    Dump: dump,
    Evlist: evlist,
    Export: export,
    Flame: flame,
    Io: io,
    List: list,
    Locks: locks,
    Probe: probe,
    Record: record,
    Report: report,
    Run: run,
    Script: script,
    Stat: stat,
    Timeline: timeline,
    Top: top,
}
