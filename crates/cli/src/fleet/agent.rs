//! CPU time of an agent, and the commands it runs.

use anyhow::Context;
use record::session::bounded_command;
use record::sys::mem::{children_use, own_use};
use std::ffi::OsString;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Time beyond its own that a round's command gets.
const PATIENCE: Duration = Duration::from_secs(60);

/// Seconds since 1970 by the machine's clock, which may jump.
#[must_use]
pub fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// CPU time of this process and of its ended children.
#[must_use]
pub fn cpu_used() -> Duration {
    let uses = [own_use(), children_use()];
    Duration::from_nanos(uses.iter().map(|used| used.user_ns + used.system_ns).sum())
}

/// Runs this program with other arguments, for a time at most.
///
/// # Errors
/// It can't be started, or fails: with the last line it printed.
pub fn run_self(args: &[OsString], time: Duration) -> anyhow::Result<()> {
    let program = std::env::current_exe().context("can't find this program")?;
    let mut command = Command::new(program);
    // One thread: several tables of symbols at once need more memory, and the machine's other CPUs are not ours.
    command.args(args).env("RAYON_NUM_THREADS", "1");
    let ended = bounded_command::run(command, time + PATIENCE)?;
    if ended.status == Some(0) {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&ended.stderr).into_owned();
    anyhow::bail!("{}", errors.lines().last().unwrap_or("killed"))
}
