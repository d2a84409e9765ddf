//! The line on a terminal that shows what is being recorded, as long as nothing else is printed there.

use record::{Target, Whom, proc, process_tree};
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the line is on the terminal now.
static IS_SHOWN: AtomicBool = AtomicBool::new(false);

/// Shows the line until it is dropped.
#[derive(Debug)]
pub struct StatusLine(());

impl StatusLine {
    /// For a recording of `target`. Nothing is shown where standard error is no terminal, and not while a command runs, which may
    /// write to the terminal itself.
    #[must_use]
    pub fn of(target: &Target) -> Self {
        if target.command.is_empty() && target.whom != Whom::Command && std::io::stderr().is_terminal() {
            let line = format!("recording {} … Ctrl-C ends", crate::terminal::out::harmless(&whom(target)));
            let line = display::fit::cut(&line, display::term::width().saturating_sub(1));
            IS_SHOWN.store(write!(std::io::stderr(), "\r{line}").is_ok(), Ordering::Relaxed);
        }
        Self(())
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        clear();
    }
}

/// Takes the line away, if there is one: something else is printed.
pub fn clear() {
    if IS_SHOWN.swap(false, Ordering::Relaxed) {
        let width = display::term::width().saturating_sub(1);
        let _ = write!(std::io::stderr(), "\r{:width$}\r", "");
    }
}

/// `redis-server (2002)`, `postgres (812) and 5 child processes`.
fn whom(target: &Target) -> String {
    match &target.whom {
        Whom::Processes(pids) => named(pids),
        Whom::Trees(pids) => with_children(&named(pids), process_tree::descendants(pids).len()),
        Whom::Threads(tids) => named(tids),
        Whom::User(uid) => format!("the processes of user {uid}"),
        Whom::System | Whom::Command => "the whole machine".to_owned(),
    }
}

/// `postgres (812) and 5 child processes`.
#[must_use]
pub fn with_children(parents: &str, children: usize) -> String {
    match children {
        0 => parents.to_owned(),
        1 => format!("{parents} and 1 child process"),
        more => format!("{parents} and {more} child processes"),
    }
}

/// Processes or threads by name and number.
#[must_use]
pub fn named(ids: &[u32]) -> String {
    let name = |id: &u32| match proc::status(*id) {
        Some(status) => format!("{} ({id})", String::from_utf8_lossy(&status.comm)),
        None => id.to_string(),
    };
    ids.iter().map(name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_named_with_its_number_and_its_children_are_counted() {
        let ours = std::process::id();
        let status = proc::status(ours).expect("we live");
        let name = format!("{} ({ours})", String::from_utf8_lossy(&status.comm));
        let target = |whom| whom_of(whom);
        assert_eq!(target(Whom::Processes(vec![ours])), name);
        assert_eq!(target(Whom::Threads(vec![ours, 4_194_303])), format!("{name}, 4194303"));
        assert_eq!(target(Whom::System), "the whole machine");
        assert_eq!(with_children("postgres (812)", 0), "postgres (812)");
        assert_eq!(with_children("postgres (812)", 1), "postgres (812) and 1 child process");
        assert_eq!(with_children("postgres (812)", 5), "postgres (812) and 5 child processes");
    }

    fn whom_of(whom: Whom) -> String {
        super::whom(&Target { whom, ..Target::default() })
    }
}
