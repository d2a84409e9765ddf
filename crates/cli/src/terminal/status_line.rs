//! The line at the foot of a terminal that shows how far recording or reading is.

use display::term;
use record::{Target, Whom, proc, process_tree};
use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The line of the recording that goes on.
static LINE: Mutex<Option<Progress>> = Mutex::new(None);

/// A recording whose line is on the terminal.
#[derive(Debug)]
struct Progress {
    whom: String,
    begin: Instant,
}

/// The terminal has the line now, and not the text of something else.
static IS_DRAWN: AtomicBool = AtomicBool::new(false);

/// Shows the line until it is dropped.
#[derive(Debug)]
pub struct StatusLine(());

impl StatusLine {
    /// For a recording of `target`. Nothing is shown where standard error is no terminal that can erase a line, nor
    /// for a command that may write to the same terminal.
    #[must_use]
    pub fn of(target: &Target) -> Self {
        let writes = !target.command.is_empty() && std::io::stdout().is_terminal();
        if is_possible() && !writes {
            let whom = crate::terminal::out::harmless(&whom(target)).into_owned();
            *line() = Some(Progress { whom, begin: Instant::now() });
            advance(0);
        }
        Self(())
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        clear();
        *line() = None;
    }
}

fn line() -> std::sync::MutexGuard<'static, Option<Progress>> {
    LINE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Whether standard error is a terminal that can erase a line.
pub fn is_possible() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|name| name != "dumb")
}

/// Draws the line of the recording again, if there is one.
pub fn advance(samples: u64) {
    if let Some(progress) = line().as_ref() {
        draw(&text(&progress.whom, progress.begin.elapsed(), samples, term::width().saturating_sub(1)));
    }
}

/// Draws a line in place of the last one. Its text is harmless, and leaves a column free.
pub fn draw(text: &str) {
    // The command may have left the cursor anywhere, and the last line may have been longer.
    IS_DRAWN.store(write!(std::io::stderr(), "\r{text}\x1b[K").is_ok(), Ordering::Relaxed);
}

/// Takes the line away, if there is one: something else is printed.
pub fn clear() {
    if IS_DRAWN.swap(false, Ordering::Relaxed) {
        let _ = write!(std::io::stderr(), "\r\x1b[K");
    }
}

/// `recording redis-server (2002)  2.1 s, 1,903 samples   Ctrl-C ends`: a long name makes room for the numbers.
fn text(whom: &str, elapsed: Duration, samples: u64, width: usize) -> String {
    let samples = display::number::count_of(samples, "sample", "samples");
    let numbers = format!("  {:.1} s, {samples}   Ctrl-C ends", elapsed.as_secs_f64());
    let whom = format!("recording {whom}");
    display::fit::cut(
        &(display::fit::cut(&whom, width.saturating_sub(numbers.chars().count())) + &numbers),
        width,
    )
}

/// `redis-server (2002)`, `postgres (812) and 5 child processes`.
fn whom(target: &Target) -> String {
    match &target.whom {
        Whom::Processes(pids) => named(pids),
        Whom::Trees(pids) => with_children(&named(pids), process_tree::descendants(pids).len()),
        Whom::Threads(tids) => named(tids),
        Whom::User(uid) => format!("the processes of user {uid}"),
        Whom::Command => {
            target.command.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
        }
        Whom::System => "the whole machine".to_owned(),
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

    #[test]
    fn the_line_has_time_and_samples_whatever_the_names_length() {
        let elapsed = Duration::from_millis(2140);
        let redis = text("redis-server (2002)", elapsed, 1903, 79);
        assert_eq!(redis, "recording redis-server (2002)  2.1 s, 1,903 samples   Ctrl-C ends");
        for width in [20, 40, 79] {
            assert!(text(&"x".repeat(200), elapsed, 1903, width).chars().count() <= width);
        }
        assert!(text(&"x".repeat(200), elapsed, 1903, 50).ends_with("…  2.1 s, 1,903 samples   Ctrl-C ends"));
    }

    fn whom_of(whom: Whom) -> String {
        super::whom(&Target { whom, ..Target::default() })
    }
}
