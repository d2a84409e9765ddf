//! Long text on a terminal goes through a pager, as that of perf and git does.

use display::term;
use record::sys::redirect;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// `--no-pager` was given.
static IS_OFF: AtomicBool = AtomicBool::new(false);
/// The pager that runs.
static RUNNING: Mutex<Option<Child>> = Mutex::new(None);

/// Notes `--no-pager`.
pub fn set_off(is_off: bool) {
    IS_OFF.store(is_off, Ordering::Relaxed);
}

/// Starts the pager if standard output is a terminal. All that is printed from here on goes through it, messages on
/// standard error as well where that is a terminal too.
pub fn start() {
    let is_plain = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    if IS_OFF.load(Ordering::Relaxed) || is_plain || !io::stdout().is_terminal() {
        return;
    }
    let Some(words) = command(|name| std::env::var(name).ok()).filter(|words| is_there(words)) else {
        return;
    };
    let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    if running.is_none() {
        *running = spawn(&words).ok();
    }
}

/// The pager's command: TALLY_PAGER, PAGER, or less; `None` if that is empty or `cat`.
fn command(value: impl Fn(&str) -> Option<String>) -> Option<String> {
    let asked = value("TALLY_PAGER").or_else(|| value("PAGER"));
    asked.map_or(Some("less".to_owned()), |words| {
        let words = words.trim();
        (!words.is_empty() && words != "cat").then(|| words.to_owned())
    })
}

/// True if the program is in PATH. A shell finds out only when our text is lost.
fn is_there(words: &str) -> bool {
    let program = words.split_whitespace().next().unwrap_or_default();
    program.contains(['/', '=']) || is_in_path(program)
}

/// True if a folder of PATH has a file of this name.
pub fn is_in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn spawn(words: &str) -> io::Result<Child> {
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(words).stdin(Stdio::piped());
    shell.env("LESS", less_options(std::env::var("LESS").ok()));
    let mut child = shell.spawn()?;
    let to = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
    if io::stderr().is_terminal() {
        redirect::standard(2, to.as_fd())?;
    }
    redirect::standard(1, to.as_fd())?;
    redirect::leave_interrupts();
    term::set_paged();
    Ok(child)
}

/// The user's options of less, in which colours always pass. Without any, one screen is left as it is, too, and nothing
/// is cleared at the end.
fn less_options(of_user: Option<String>) -> String {
    of_user.map_or_else(|| "FRX".to_owned(), |options| format!("-R {options}"))
}

/// Ends the text and waits until the user has left the pager.
pub fn finish() {
    let Some(mut child) = RUNNING.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
    let _ = io::stdout().flush();
    if let Ok(nowhere) = dso::system_file::open("/dev/null") {
        let _ = redirect::standard(1, nowhere.as_fd());
        let _ = redirect::standard(2, nowhere.as_fd());
    }
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_pass_through_less_whatever_options_the_user_has() {
        assert_eq!(less_options(None), "FRX");
        assert_eq!(less_options(Some("-N".to_owned())), "-R -N");
        assert_eq!(less_options(Some("iM".to_owned())), "-R iM");
    }

    #[test]
    fn the_pager_is_tallys_the_users_or_less() {
        let of = |tally: Option<&str>, user: Option<&str>| {
            command(|name| if name == "PAGER" { user } else { tally }.map(str::to_owned))
        };
        assert_eq!(of(None, None).as_deref(), Some("less"));
        assert_eq!(of(None, Some("more -d")).as_deref(), Some("more -d"));
        assert_eq!(of(Some("less -S"), Some("more")).as_deref(), Some("less -S"));
        assert_eq!((of(Some(""), Some("more")), of(None, Some("cat"))), (None, None));
    }
}
