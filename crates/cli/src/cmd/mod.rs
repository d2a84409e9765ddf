//! The commands, one file each: `pub struct Args` (its flags) and `pub fn run(Args) -> anyhow::Result<ExitCode>`.
//!
//! The doc comment of `Args` is the command's help.

pub mod agent;
pub mod annotate;
pub mod archive;
pub mod buildid_cache;
pub mod buildid_list;
pub mod calls;
pub mod check;
pub mod completions;
pub mod config;
pub mod diff;
pub mod doctor;
pub mod dump;
pub mod evlist;
pub mod export;
pub mod flame;
pub mod fleet;
pub mod inject;
pub mod io;
pub mod kallsyms;
pub mod list;
pub mod lock;
pub mod locks;
pub mod mcp;
pub mod probe;
pub mod record;
pub mod report;
pub mod run;
pub mod sched;
pub mod script;
pub mod stat;
pub mod timeline;
pub mod top;
pub mod trace;
pub mod why;

use std::process::ExitCode;

/// Declares the enum clap parses into and the dispatch, from one line per command.
macro_rules! commands {
    ($($variant:ident: $module:ident),+ $(,)?) => {
        /// One command with its flags.
        #[derive(clap::Subcommand)]
        #[expect(missing_docs, reason = "a comment on the variant would replace the help of the command's Args")]
        pub enum Command {
            $($variant(Box<$module::Args>),)+
        }

        impl Command {
            /// The definition of this command without those of the others; `None` for names of two words, too.
            #[must_use]
            pub fn defined_alone(name: &str) -> Option<clap::Command> {
                match name {
                    $(stringify!($module) => {
                        Some(<$module::Args as clap::Args>::augment_args(clap::Command::new(stringify!($module))))
                    })+
                    _ => None,
                }
            }

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

// In alphabetical order, one line each. `cargo fmt` finds modules only where they are declared outside a macro.
commands! {
    Agent: agent,
    Annotate: annotate,
    Archive: archive,
    BuildidCache: buildid_cache,
    BuildidList: buildid_list,
    Calls: calls,
    Check: check,
    Completions: completions,
    Config: config,
    Diff: diff,
    Doctor: doctor,
    Dump: dump,
    Evlist: evlist,
    Export: export,
    Flame: flame,
    Fleet: fleet,
    Inject: inject,
    Io: io,
    Kallsyms: kallsyms,
    List: list,
    Lock: lock,
    Locks: locks,
    Mcp: mcp,
    Probe: probe,
    Record: record,
    Report: report,
    Run: run,
    Sched: sched,
    Script: script,
    Stat: stat,
    Timeline: timeline,
    Top: top,
    Trace: trace,
    Why: why,
}
