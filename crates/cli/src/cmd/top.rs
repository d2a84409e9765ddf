//! `tally top`: what runs now, refreshed every few seconds.
//!
//! Recordings of a few seconds are made one after the other by a thread of their own while the last one is shown, so
//! that nothing is missed but the moment between two. Enter opens the shown one in the report's browser.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use anyhow::Context;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers, poll, read};
use crossterm::{cursor, execute, queue, style, terminal};
use profile::session::SessionOpts;
use profile::source::Want;
use profile::view::report::{ReportOpts, SortKey, report};
use record::Whom;
use record::opts::{KeepFiles, Output, RecordOpts};

use crate::load::{self, LoadOpts, Recording};
use crate::recording::{SamplingArgs, TargetArgs};
use crate::text::report::{StdioOpts, section_name, write};
use crate::{out, term, tui};

/// Show what runs now: functions by their share, refreshed every few seconds
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tally top                    the whole machine
  tally top -p 1234            one process
  tally top -e cs -d 5         where context switches come from, every five seconds
  tally top --stdio -n 3       three tables as text

Keys: Enter browse this moment (call graphs, annotate, flame), e next event, s other columns, space hold, q leave")]
pub struct Args {
    /// Whom.
    #[command(flatten)]
    target: TargetArgs,
    /// What and how.
    #[command(flatten)]
    sampling: SamplingArgs,
    /// Seconds from one screen to the next
    #[arg(short = 'd', long = "refresh", value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=3600))]
    refresh: u32,
    /// Stop after so many screens
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    iterations: Option<u32>,
    /// Print tables instead of a screen
    #[arg(long)]
    stdio: bool,
}

/// Runs until the user leaves.
///
/// # Errors
/// If nothing can be recorded, or the terminal fails.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let opts = args.record_opts()?;
    let folder = Folder::new()?;
    let slices = start(opts, folder.0.clone());
    let mut view = View::default();
    if args.stdio || !std::io::stdout().is_terminal() {
        print_tables(&args, &slices, &view)?;
    } else {
        let screen = Screen::open()?;
        let result = show(&args, &slices, &mut view);
        drop(screen);
        result?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Args {
    fn record_opts(&self) -> anyhow::Result<RecordOpts> {
        let mut opts = RecordOpts { target: self.target.target()?, ..RecordOpts::default() };
        self.sampling.apply(&mut opts)?;
        if opts.target.whom == Whom::Command {
            anyhow::ensure!(opts.target.command.is_empty(), "top watches what runs already: -p PID, -t TID, -u USER, or all of it");
            opts.target.whom = Whom::System;
        }
        opts.target.command = vec!["sleep".into(), self.refresh.to_string().into()];
        opts.keep_files = KeepFiles::Unreachable;
        Ok(opts)
    }
}

/// A folder for the recordings, removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("tally-top-{}", std::process::id()));
        std::fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

type Slice = anyhow::Result<Recording>;

/// Records one slice after the other, and reads them, until nobody listens or one fails: a thread each, so that
/// neither holds up the other nor the keys.
fn start(mut opts: RecordOpts, folder: PathBuf) -> Receiver<Slice> {
    let (recorded, to_read): (SyncSender<Result<PathBuf, record::Error>>, _) = sync_channel(1);
    std::thread::spawn(move || {
        for number in 0u64.. {
            let path = folder.join(format!("{number}.data"));
            opts.output = Output::File(path.clone());
            let slice = record::record(&opts).map(|_| path);
            let failed = slice.is_err();
            if recorded.send(slice).is_err() || failed {
                return;
            }
        }
    });
    let (sender, receiver): (SyncSender<Slice>, _) = sync_channel(1);
    std::thread::spawn(move || {
        for slice in to_read {
            let slice = slice.map_err(anyhow::Error::from).and_then(|path| read_slice(&path));
            if sender.send(slice).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Reads a slice and forgets the file.
fn read_slice(path: &Path) -> anyhow::Result<Recording> {
    let session = SessionOpts::default();
    let map = load::open(path)?;
    let _ = std::fs::remove_file(path);
    let file = load::parse(path, &map)?;
    let opts = LoadOpts { session, want: Want::Names, symfs: None };
    load::load_file(&file, opts, &mut load::Progress::silent())
}

/// What of a slice is shown.
#[derive(Default)]
struct View {
    columns: usize,
    event: usize,
    held: bool,
}

impl View {
    fn sort(&self) -> &'static [SortKey] {
        const CHOICES: [&[SortKey]; 5] = [
            &[SortKey::Dso, SortKey::Symbol],
            &[SortKey::Comm, SortKey::Dso, SortKey::Symbol],
            &[SortKey::Comm],
            &[SortKey::Dso],
            &[SortKey::Pid, SortKey::Tid],
        ];
        CHOICES[self.columns % CHOICES.len()]
    }

    /// Heading and rows, at most `rows` lines.
    fn lines(&self, recording: &Recording, rows: usize) -> anyhow::Result<Vec<String>> {
        let profile = &recording.profile;
        let opts = ReportOpts { sort: self.sort().to_vec(), ..ReportOpts::default() };
        let mut all = report(profile, &opts);
        if all.sections.is_empty() {
            return Ok(vec!["no samples in this time".to_owned()]);
        }
        let section = all.sections.swap_remove(self.event % all.sections.len());
        let samples: u64 = section.totals.iter().map(|t| t.count).sum();
        let head = format!("{samples} samples of {}", section_name(profile, &section).1);
        all.sections = vec![section];
        let mut text = Vec::new();
        let style = StdioOpts { quiet: true, min_percent: 0.1, ..StdioOpts::default() };
        write(&mut text, profile, &all, &style)?;
        let text = String::from_utf8_lossy(&text).into_owned();
        let body = text.lines().filter(|l| !l.trim().is_empty()).take(rows.saturating_sub(1));
        Ok(std::iter::once(head).chain(body.map(str::to_owned)).collect())
    }
}

fn print_tables(args: &Args, slices: &Receiver<Slice>, view: &View) -> anyhow::Result<()> {
    let mut printed = 0;
    while let Ok(slice) = slices.recv() {
        let recording = slice?;
        let mut out = out::stdout();
        for line in view.lines(&recording, 40)? {
            writeln!(out, "{line}")?;
        }
        writeln!(out)?;
        out.flush()?;
        printed += 1;
        if args.iterations.is_some_and(|n| printed >= n) {
            break;
        }
    }
    Ok(())
}

fn show(args: &Args, slices: &Receiver<Slice>, view: &mut View) -> anyhow::Result<()> {
    let mut shown: Option<Recording> = None;
    let mut screens = 0;
    draw(view, None)?;
    loop {
        match slices.recv_timeout(Duration::from_millis(40)) {
            Ok(slice) => {
                let next = slice?;
                if !view.held {
                    shown = Some(next);
                    draw(view, shown.as_ref())?;
                    screens += 1;
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        if args.iterations.is_some_and(|n| screens >= n) {
            return Ok(());
        }
        while poll(Duration::ZERO)? {
            match read()? {
                Event::Key(key) if wants_to_leave(key) => return Ok(()),
                Event::Key(key) => press(key, view, shown.as_ref())?,
                _ => {}
            }
            draw(view, shown.as_ref())?;
        }
    }
}

fn wants_to_leave(key: KeyEvent) -> bool {
    let control_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    control_c || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc)
}

fn press(key: KeyEvent, view: &mut View, shown: Option<&Recording>) -> anyhow::Result<()> {
    match key.code {
        KeyCode::Char('e') => view.event += 1,
        KeyCode::Char('s') => view.columns += 1,
        KeyCode::Char(' ' | 'p') => view.held = !view.held,
        KeyCode::Enter => {
            if let Some(recording) = shown.filter(|r| r.profile.diagnostics.samples_read > 0) {
                let theme = tui::Theme { colour: term::colours_stdout() };
                let opts = ReportOpts { children: true, ..ReportOpts::default() };
                // The browser expects a clean screen of its own.
                execute!(std::io::stdout(), terminal::LeaveAlternateScreen)?;
                tui::run(tui::App::new(tui::Data::new(recording, opts), theme))?;
                Screen::enter()?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn draw(view: &View, shown: Option<&Recording>) -> anyhow::Result<()> {
    let (columns, rows) = terminal::size().unwrap_or((80, 24));
    let (columns, rows) = (usize::from(columns), usize::from(rows));
    let lines = match shown {
        Some(recording) => view.lines(recording, rows.saturating_sub(1))?,
        None => vec!["collecting…".to_owned()],
    };
    let held = if view.held { "[held] " } else { "" };
    let keys = format!("{held}Enter browse  e event  s columns  space hold  q leave");
    let mut out = std::io::stdout().lock();
    queue!(out, cursor::MoveTo(0, 0))?;
    for row in 0..rows {
        let text = if row + 1 == rows { Some(&keys) } else { lines.get(row) };
        let fitting: String = text.map(|t| t.chars().take(columns).collect()).unwrap_or_default();
        let at = cursor::MoveTo(0, u16::try_from(row).unwrap_or(u16::MAX));
        queue!(out, at, style::Print(fitting), terminal::Clear(terminal::ClearType::UntilNewLine))?;
    }
    Ok(out.flush()?)
}

/// The other screen of the terminal, left on every way out.
struct Screen;

impl Screen {
    fn open() -> anyhow::Result<Self> {
        Self::enter()?;
        Ok(Self)
    }

    fn enter() -> anyhow::Result<()> {
        terminal::enable_raw_mode().context("the terminal cannot be used")?;
        Ok(execute!(std::io::stdout(), terminal::EnterAlternateScreen, cursor::Hide)?)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = execute!(std::io::stdout(), cursor::Show, terminal::LeaveAlternateScreen);
        let _ = terminal::disable_raw_mode();
    }
}
