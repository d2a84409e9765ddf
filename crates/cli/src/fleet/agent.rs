//! The agent's rounds: when the next one is, what has been used, and the commands it runs.

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

/// The moment at which the next round begins: the first multiple of `every_s` after now, so that all machines begin
/// together, and not before the agent has used at most its share of a CPU since it began.
#[must_use]
pub fn next_round_s(now_s: u64, every_s: u64, used: AgentUse) -> u64 {
    let affordable = used.cpu.as_secs_f64() / used.most_share;
    let pause = (affordable - used.age.as_secs_f64()).max(0.0).ceil() as u64;
    let every_s = every_s.max(1);
    ((now_s + pause) / every_s + 1) * every_s
}

/// CPU time and memory that an agent has used since it began.
#[derive(Clone, Copy, Debug)]
pub struct AgentUse {
    /// CPU time, its own and that of ended commands.
    pub cpu: Duration,
    /// How long it has been running.
    pub age: Duration,
    /// The share of one CPU that it may use, 0 to 1; not 0.
    pub most_share: f64,
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
    command.args(args);
    let ended = bounded_command::run(command, time + PATIENCE)?;
    if ended.status == Some(0) {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&ended.stderr).into_owned();
    anyhow::bail!("{}", errors.lines().last().unwrap_or("killed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(cpu_ms: u64, age_s: u64) -> AgentUse {
        AgentUse { cpu: Duration::from_millis(cpu_ms), age: Duration::from_secs(age_s), most_share: 0.01 }
    }

    #[test]
    fn rounds_begin_on_whole_multiples_and_wait_until_they_are_affordable() {
        assert_eq!(next_round_s(1000, 60, used(0, 0)), 1020);
        assert_eq!(next_round_s(1020, 60, used(500, 60)), 1080);
        // 3 s of CPU time are 1 % of 300 s, of which 60 are over.
        assert_eq!(next_round_s(1020, 60, used(3000, 60)), 1320);
    }
}
