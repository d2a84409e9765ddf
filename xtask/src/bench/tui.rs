//! `report` in a terminal: time from its start to the first table, and from a key to the next picture.
//!
//! The terminal is `script`'s; its relaying is included in the times.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::{Bench, files};
use crate::process;
use crate::score::skip;

/// A part of the heading above the first rows: their number of samples.
const WITH_ROWS: &str = "samples of cpu-clock";
/// The table of a whole file is complete when nothing more is drawn for this time.
const QUIET: Duration = Duration::from_secs(3);
/// A picture is complete when nothing more of it arrives for this time.
const PAUSE: Duration = Duration::from_millis(4);
const LIMIT: Duration = Duration::from_secs(120);

/// Keys with their action and the number of times each is measured.
const KEYS: &[(&str, &str, usize)] = &[
    ("a line down", "j", 300),
    ("a page down", "\x1b[6~", 100),
    ("all graphs open", "E", 1),
    ("a page down, all open", "\x1b[6~", 100),
    ("to the end and back", "Gg", 20),
    ("callers and callees", "s", 1),
    ("back", "q", 1),
    ("flame graph", "f", 1),
    ("in the flame graph", "j", 20),
    ("back", "q", 1),
    ("annotate", "\r", 1),
    ("back", "q", 1),
];

/// The bench.
pub fn tui(bench: &Bench) -> Result<()> {
    if process::find("script").is_none() {
        let _ = skip("bench tui", "no script (util-linux) for a terminal");
        return Ok(());
    }
    let file = files::big(bench)?.to_string_lossy().into_owned();
    let mut firsts = Vec::new();
    for _ in 0..5 {
        let mut screen = Screen::start(bench, &file)?;
        firsts.push(screen.until(WITH_ROWS)?);
        screen.kill();
    }
    firsts.sort();
    println!("  first table: {} (goal 500 ms; {})", ms(firsts[0]), list(&firsts));
    let mut screen = Screen::start(bench, &file)?;
    let whole = screen.until_quiet()?;
    println!("  whole file: {}", ms(whole));
    for (what, key, times) in KEYS {
        let mut frames = (0..*times).map(|_| screen.frame(key)).collect::<Result<Vec<_>>>()?;
        frames.sort();
        let (middle, worst) = (frames[frames.len() / 2], frames[frames.len() - 1]);
        println!(
            "  {what}: {} ({} at most, {} times; 60 a second are 16.7 ms)",
            ms(middle),
            ms(worst),
            times
        );
    }
    screen.kill();
    Ok(())
}

fn ms(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

fn list(times: &[Duration]) -> String {
    times.iter().map(|time| format!("{:.0}", time.as_secs_f64() * 1e3)).collect::<Vec<_>>().join(", ")
}

/// A running program in a terminal.
struct Screen {
    child: Child,
    keys: ChildStdin,
    pictures: Receiver<(Instant, Vec<u8>)>,
    started: Instant,
}

impl Screen {
    fn start(bench: &Bench, file: &str) -> Result<Self> {
        let line = format!("stty rows 50 cols 160; exec '{}' report -i '{file}'", bench.tally.display());
        let mut command: Command = bench.command("script", &["-q", "-f", "-e", "-c", &line, "/dev/null"]);
        command.env("TERM", "xterm-256color").stdin(Stdio::piped()).stdout(Stdio::piped());
        let started = Instant::now();
        let mut child = command.stderr(Stdio::null()).spawn().context("cannot start script")?;
        let keys = child.stdin.take().context("its input")?;
        let mut output = child.stdout.take().context("its output")?;
        let (sender, pictures) = channel();
        std::thread::spawn(move || {
            let mut bytes = vec![0; 1 << 16];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                if sender.send((Instant::now(), bytes[..count].to_vec())).is_err() {
                    break;
                }
            }
        });
        Ok(Self { child, keys, pictures, started })
    }

    /// Time from the start until `text` is drawn.
    fn until(&mut self, text: &str) -> Result<Duration> {
        let mut seen = Vec::new();
        while let Ok((at, bytes)) = self.pictures.recv_timeout(LIMIT) {
            seen.extend_from_slice(&bytes);
            if String::from_utf8_lossy(&seen).contains(text) {
                return Ok(at - self.started);
            }
        }
        self.kill();
        bail!("'{text}' did not appear: {}", String::from_utf8_lossy(&seen).escape_debug());
    }

    /// Time from the start until the last drawing before a pause.
    fn until_quiet(&mut self) -> Result<Duration> {
        let mut last = None;
        while let Ok((at, _)) = self.pictures.recv_timeout(QUIET) {
            last = Some(at);
        }
        Ok(last.context("nothing was drawn")? - self.started)
    }

    /// Time from a key to the end of the next picture.
    fn frame(&mut self, keys: &str) -> Result<Duration> {
        while self.pictures.try_recv().is_ok() {}
        let pressed = Instant::now();
        self.keys.write_all(keys.as_bytes()).and_then(|()| self.keys.flush()).context("cannot type")?;
        let (mut last, _) = self.pictures.recv_timeout(LIMIT).context("no picture followed a key")?;
        while let Ok((at, _)) = self.pictures.recv_timeout(PAUSE) {
            last = at;
        }
        Ok(last - pressed)
    }

    /// Kills it in any state.
    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
