//! `tally agent`: records the whole machine again and again for a fleet.

use crate::flags::recording::value::parse_bytes;
use crate::fleet::agent::{cpu_used, now_s, run_self};
use crate::fleet::folder;
use crate::fleet::spool::{Delivery, Spool};
use crate::reading::wall::parse_duration;
use crate::terminal::out;
use anyhow::Context;
use display::number::{count_of, duration_ns};
use exchange::fleet::{
    AgentUse, FailedRounds, RoundLength, SpoolLimits, moment_text, next_round_s, rounds_missed, seconds_of,
    sure_now_s,
};
use exchange::http::HttpUrl;
use record::output_file::create_folders;
use record::scratch::ScratchFolder;
use record::stop_signals::StopSignals;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Record this machine at intervals into the folder of a fleet, or for a receiver
///
/// Rounds begin on whole multiples of --every on all machines. If recording and storing take more than --max-cpu, rounds
/// become shorter, down to a fifth of --for, and then some are left out. What the agent used is in the folder
/// (`tally fleet hosts`). A round that fails, because the disk is full or events are denied, is left out; each reason is
/// reported once.
///
/// A receiver of OpenTelemetry's profiles gets each round by HTTP. While it can't be reached, profiles wait in --spool and
/// attempts become rarer; the oldest are dropped, counted, when the spool is full.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tally agent --to /var/lib/tally                   5 seconds a minute
  tally agent --every 5m --for 10s --keep-days 30 --to /mnt/fleet
  tally agent --keep-size 10G --to DIR              at most 10 GB of this machine
  tally agent --to http://collector:4318            OpenTelemetry's profiles
  tally agent --rounds 1 --every 1s --for 1s --to DIR    one round, for a test")]
pub struct Args {
    /// The folder of the fleet, or a receiver of OpenTelemetry's profiles: http://HOST:PORT
    #[arg(long, value_name = "DIR|URL", value_parser = target)]
    to: AgentTarget,
    /// Time from one round to the next
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = seconds)]
    every: u64,
    /// How long a round records; shorter where --max-cpu requires it
    #[arg(long = "for", value_name = "TIME", default_value = "5s", value_parser = seconds)]
    length: u64,
    /// Samples per second of CPU time
    #[arg(short = 'F', long, value_name = "HZ", default_value_t = 49)]
    freq: u32,
    /// Running time only
    #[arg(long)]
    no_off_cpu: bool,
    /// This machine's name in the fleet [default: its hostname]
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Remove this machine's profiles after N days
    #[arg(long, value_name = "N", default_value_t = 7)]
    keep_days: u64,
    /// Remove this machine's oldest profiles above this size, such as 10G
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    keep_size: Option<u64>,
    /// Shorten, then leave out rounds above this share of one CPU, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, value_parser = percent)]
    max_cpu: f64,
    /// Where profiles wait for a receiver [default: spool in $STATE_DIRECTORY, or temporary]
    #[arg(long, value_name = "DIR")]
    spool: Option<PathBuf>,
    /// Drop the oldest waiting profiles above this size
    #[arg(long, value_name = "MB", default_value_t = 64)]
    spool_mb: u64,
    /// End after N rounds
    #[arg(long, value_name = "N")]
    rounds: Option<u64>,
}

/// Where profiles go.
#[derive(Clone, Debug)]
enum AgentTarget {
    Folder(PathBuf),
    Receiver(HttpUrl),
}

fn target(text: &str) -> Result<AgentTarget, String> {
    const PORT: u16 = 4318;
    if text.starts_with("http://") {
        let url = HttpUrl::parse(text, "http://", PORT);
        return url
            .map(AgentTarget::Receiver)
            .ok_or_else(|| "an address is like http://HOST:4318".to_owned());
    }
    match text.contains("://") {
        true => Err("a folder or http://HOST:PORT: for https, send to a collector nearby".to_owned()),
        false => Ok(AgentTarget::Folder(PathBuf::from(text))),
    }
}

/// `90s`, `5m`, `1h`, or `1500ms`, in seconds.
fn seconds(text: &str) -> Result<u64, String> {
    let found = seconds_of(text).or_else(|| Some(parse_duration(text).ok()? / 1_000_000_000));
    found.filter(|&seconds| seconds > 0).ok_or_else(|| "at least one second, as 60s, 5m or 1h".to_owned())
}

fn percent(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.trim_end_matches('%').parse().ok();
    number.filter(|&share| share > 0.0 && share.is_finite()).ok_or_else(|| "a percentage above 0".to_owned())
}

/// Runs the command until a signal ends it.
///
/// # Errors
/// Signals can't be waited for, or there is no place for recordings.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let stops = StopSignals::new(&[]).context("can't wait for signals")?;
    let scratch = ScratchFolder::private("agent")?;
    let spool = spool_of(&args, scratch.path())?;
    let mut agent = Agent {
        length: RoundLength::new(args.length, args.every, args.max_cpu / 100.0),
        args,
        spool,
        stops,
        started: Instant::now(),
        started_s: now_s(),
        failed: FailedRounds::default(),
        left_out: 0,
        recording: scratch.path().join("round.data"),
    };
    agent.tidy_up();
    let mut rounds = 0;
    while agent.args.rounds.is_none_or(|most| rounds < most) && agent.wait_for_round()? {
        let (began_s, began, before) = (now_s(), Instant::now(), cpu_used());
        agent.report(began_s, agent.round(began_s));
        agent.deliver();
        agent.retain(began_s);
        agent.length.note(cpu_used().saturating_sub(before));
        agent.left_out += rounds_missed(began_s, began.elapsed(), agent.args.every);
        rounds += 1;
    }
    Ok(ExitCode::SUCCESS)
}

/// The spool, if profiles go to a receiver.
fn spool_of(args: &Args, scratch: &Path) -> anyhow::Result<Option<Spool>> {
    let AgentTarget::Receiver(url) = &args.to else { return Ok(None) };
    let state = || std::env::var_os("STATE_DIRECTORY").map(|state| Path::new(&state).join("spool"));
    let folder = args.spool.clone().or_else(state).unwrap_or_else(|| scratch.join("spool"));
    create_folders(&folder).with_context(|| format!("can't make {}", folder.display()))?;
    let limits = SpoolLimits { bytes: args.spool_mb.saturating_mul(1 << 20), every_s: args.every };
    Ok(Some(Spool::new(url.clone(), folder, limits)))
}

struct Agent {
    args: Args,
    spool: Option<Spool>,
    stops: StopSignals,
    started: Instant,
    /// Start by the machine's clock, s since 1970.
    started_s: u64,
    failed: FailedRounds,
    length: RoundLength,
    /// Rounds that failed, would have cost too much, or passed while another one was sent.
    left_out: u64,
    recording: PathBuf,
}

impl Agent {
    /// False when a signal asks to end.
    fn wait_for_round(&mut self) -> anyhow::Result<bool> {
        let planned_s = now_s();
        let next_s = next_round_s(planned_s, self.args.every, self.used());
        // The next multiple is no round left out.
        let rounds = next_s / self.args.every - planned_s / self.args.every;
        self.leave_out(rounds.saturating_sub(1));
        loop {
            let now_s = now_s();
            // A clock that was set back would make the wait endless: the round is now.
            if now_s >= next_s || now_s < planned_s {
                return Ok(true);
            }
            self.stops.wait(Duration::from_millis(500))?;
            self.stops.take(None)?;
            if self.stops.came().is_some() {
                return Ok(false);
            }
        }
    }

    /// Counts rounds that would have cost too much; the first time with a message.
    fn leave_out(&mut self, rounds: u64) {
        if rounds > 0 && self.left_out == 0 {
            let used = duration_ns(u64::try_from(cpu_used().as_nanos()).unwrap_or(u64::MAX));
            out::note(&format!(
                "tally agent: {} left out: {used} of CPU time since the start is more than {}% of a CPU (--max-cpu)",
                count_of(rounds, "round", "rounds"),
                self.args.max_cpu
            ));
        }
        self.left_out += rounds;
    }

    /// Sends what waits, if there is a receiver.
    fn deliver(&mut self) {
        let Some(spool) = &mut self.spool else { return };
        let dropped = spool.shrink();
        if dropped > 0 {
            let count = count_of(dropped, "profile", "profiles");
            out::note(&format!("tally agent: the spool is full: the oldest {count} dropped"));
        }
        match spool.deliver(now_s()) {
            Ok(Delivery::Sent(_) | Delivery::Waits) => {}
            Err(why) => out::note(&format!("tally agent: {}", crate::in_one_line(&why))),
        }
    }

    fn used(&self) -> AgentUse {
        AgentUse {
            cpu: cpu_used(),
            round: self.length.cost(),
            age: self.started.elapsed(),
            most_share: self.args.max_cpu / 100.0,
        }
    }

    /// Counts a round that failed, and reports its reason unless the one before had the same.
    fn report(&mut self, began_s: u64, done: anyhow::Result<()>) {
        let Err(why) = done else {
            let failed = self.failed.ended();
            if failed > 0 {
                let failed = count_of(failed, "round", "rounds");
                out::note(&format!("tally agent: stores again, after {failed} left out"));
            }
            return;
        };
        self.left_out += 1;
        let why = crate::in_one_line(&why);
        if self.failed.is_news(&why) {
            let moment = moment_text(began_s);
            out::note(&format!("tally agent: {moment} left out, as all rounds that fail alike: {why}"));
        }
    }

    fn round(&self, began_s: u64) -> anyhow::Result<()> {
        let stored = self.record().and_then(|()| self.store(began_s).context("can't store"));
        for leftover in [self.recording.clone(), old(&self.recording)] {
            let _ = std::fs::remove_file(leftover);
        }
        stored
    }

    fn record(&self) -> anyhow::Result<()> {
        let length_s = self.length.seconds();
        let frequency = self.args.freq.to_string();
        // CPU time also where there are counters: machines are compared, and questions are about time.
        let mut args: Vec<OsString> =
            ["record", "-a", "-q", "-N", "-e", "cpu-clock", "-F", &frequency].map(OsString::from).into();
        if !self.args.no_off_cpu {
            args.extend(["--off-cpu", "--off-cpu-few"].map(OsString::from));
        }
        args.extend(["-o".into(), self.recording.clone().into_os_string(), "--".into(), "sleep".into()]);
        args.push(length_s.to_string().into());
        run_self(&args, Duration::from_secs(length_s)).context("can't record")
    }

    fn store(&self, began_s: u64) -> anyhow::Result<()> {
        let used = self.used();
        let agent = format!("{},{},{}", used.cpu.as_nanos(), used.age.as_nanos(), self.left_out);
        let at = moment_text(match self.own_place() {
            Some((folder, host)) => folder::free_second(folder, &host, began_s),
            None => began_s,
        });
        let at = format!("{}T{}:{}:{}", &at[..10], &at[11..13], &at[13..15], &at[15..17]);
        let mut args: Vec<OsString> =
            ["fleet", "add", "--agent", &agent, "--at", &at].map(OsString::from).into();
        if let Some(host) = &self.args.host {
            args.extend(["--host".into(), host.into()]);
        }
        args.extend(["-i".into(), self.recording.clone().into(), "--to".into()]);
        match (&self.args.to, &self.spool) {
            (AgentTarget::Folder(folder), _) => args.push(folder.into()),
            (AgentTarget::Receiver(_), None) => {}
            (AgentTarget::Receiver(_), Some(spool)) => {
                args.push(spool.free_file(began_s).into());
                args.push("--otlp".into());
            }
        }
        run_self(&args, Duration::ZERO)
    }

    /// Removes profiles that are too old or too many.
    fn retain(&self, now_s: u64) {
        let Some((folder, host)) = self.own_place() else { return };
        let now_s = sure_now_s(now_s, self.started_s, self.started.elapsed());
        let oldest = moment_text(now_s.saturating_sub(self.args.keep_days.saturating_mul(86_400)));
        folder::remove_before(folder, &host, &oldest[..10]);
        if let Some(bytes) = self.args.keep_size {
            folder::remove_above(folder, &host, SpoolLimits { bytes, every_s: self.args.every });
        }
    }

    /// Removes what an agent before this one has not finished.
    fn tidy_up(&self) {
        if let Some((folder, host)) = self.own_place() {
            folder::remove_unfinished(folder, &host);
        }
    }

    /// The fleet's folder, and this machine's name in it.
    fn own_place(&self) -> Option<(&Path, String)> {
        let AgentTarget::Folder(folder) = &self.args.to else { return None };
        Some((folder, self.args.host.clone().or_else(this_host)?))
    }
}

fn this_host() -> Option<String> {
    let name = dso::system_file::read_text("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned())
}

fn old(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".old");
    name.into()
}
