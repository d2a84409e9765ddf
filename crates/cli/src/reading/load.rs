//! Opens the recordings that the user names, and reports on stderr how far reading is and what is damaged.

use crate::reading::damage;
use crate::terminal::{out, status_line};
use anyhow::{Context, bail};
use display::reading::ReadingLine;
use display::term;
use dso::MappedFile;
use exchange::import;
use perfdata::PerfData;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;
use symbols::{LoadOpts, Recording};

/// Bytes read before their memory is given back.
const RELEASE: u64 = 8 << 20;

/// The bytes of the recording at a path; `-` is standard input. Another profiler's file becomes a recording in memory.
///
/// # Errors
/// If it can't be opened or read, or is empty.
pub fn open(path: &Path) -> anyhow::Result<MappedFile> {
    as_recording(path, open_as_it_is(path)?)
}

/// The same of a file that is open.
///
/// # Errors
/// If it is another profiler's, and can't be read.
pub fn as_recording(path: &Path, map: MappedFile) -> anyhow::Result<MappedFile> {
    if map.starts_with(b"PERFILE2") || map.starts_with(b"2ELIFREP") {
        return Ok(map);
    }
    let gathered = import::gather(&map).with_context(|| format!("can't read {}", name_of(path)))?;
    match gathered {
        Some(gathered) => Ok(MappedFile::from_vec(gathered.to_perf_data()?)),
        None => Ok(map),
    }
}

/// The file's bytes: mapped, or read if it is a pipe; `-` is standard input.
///
/// # Errors
/// If it can't be opened or read, or is empty.
pub fn open_as_it_is(path: &Path) -> anyhow::Result<MappedFile> {
    let map = if path.as_os_str() == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes).context("can't read standard input")?;
        MappedFile::from_vec(bytes)
    } else {
        let remedy = match path {
            _ if path.join("info").is_file() => " (traced calls: see tally calls report)",
            _ if path == Path::new("perf.data") => " (record with tally record or tally run)",
            _ => "",
        };
        MappedFile::open(path).with_context(|| format!("can't open {}{remedy}", path.display()))?
    };
    if map.is_empty() {
        bail!("{} is empty: nothing was recorded", name_of(path));
    }
    Ok(map)
}

/// The header of the file in `map`. A damaged or unfinished file is named on standard error.
///
/// # Errors
/// If it is no perf.data file.
pub fn parse<'a>(path: &Path, map: &'a MappedFile) -> anyhow::Result<PerfData<'a>> {
    let file = PerfData::open(map).with_context(|| format!("can't read {}", name_of(path)))?;
    damage::warn_of_header(path, &file);
    Ok(file)
}

/// The path, or "standard input" for `-`.
pub fn name_of(path: &Path) -> String {
    if path.as_os_str() == "-" { "standard input".to_owned() } else { path.display().to_string() }
}

/// Reads the recording at `path` with everything `opts` asks for.
///
/// # Errors
/// If it can't be read at all. Damage after the header is reported in the diagnostics, with what could be salvaged.
pub fn load(path: &Path, opts: LoadOpts) -> anyhow::Result<Recording> {
    let map = open(path)?;
    let file = parse(path, &map)?;
    load_file(path, &file, opts, &mut Progress::on_stderr(path, &map))
}

/// The same for a file already open, which was found at the path.
///
/// # Errors
/// None today.
pub fn load_file(
    path: &Path,
    file: &PerfData<'_>,
    opts: LoadOpts,
    progress: &mut Progress<'_>,
) -> anyhow::Result<Recording> {
    let recording = symbols::load_watched(file, opts, &mut |reading| progress.at(reading.offset));
    progress.end();
    damage::warn(path, &recording.diagnostics.problems);
    Ok(recording)
}

/// Counts of what was read: one line each (`-v`).
pub fn describe(recording: &Recording) -> Vec<String> {
    let (profile, read) = (&recording.profile, &recording.diagnostics);
    let samples = &profile.diagnostics;
    let mut lines = vec![
        format!("records {}, problems {}", read.record_count(), read.problem_count),
        format!(
            "samples read {}, attributed {}, left out {}, unreadable {}",
            samples.samples_read,
            samples.samples_attributed,
            samples.dropped_total(),
            read.unreadable_samples
        ),
        format!(
            "frames {}, paths {}, symbols {}, files {}",
            profile.frames.len(),
            profile.callsites.len(),
            profile.symbols.len(),
            profile.dsos.len()
        ),
    ];
    if samples.merged_frames > 0 {
        lines.push(format!("frames merged, more than the file justifies: {}", samples.merged_frames));
    }
    lines.extend(samples.dropped.iter().map(|(reason, count)| format!("left out, {reason}: {count}")));
    lines.extend(samples.stack_ends.iter().map(|(end, count)| format!("stacks, {end}: {count}")));
    lines.extend(
        profile.missing_names().iter().map(|(why, count)| format!("frames without name, {why}: {count}")),
    );
    lines
}

/// A recording that is open.
pub struct OpenRecording<'a> {
    /// Path.
    pub path: &'a Path,
    /// Bytes.
    pub map: &'a MappedFile,
    /// Content.
    pub file: &'a PerfData<'a>,
}

/// Progress of reading: shows on standard error how far it is, if that takes more than a second, and gives back the memory
/// of what has been read.
pub struct Progress<'a> {
    started: Instant,
    line: Option<ReadingLine>,
    map: Option<&'a MappedFile>,
    /// Memory before it is given back.
    released: u64,
}

impl<'a> Progress<'a> {
    /// For the file in `map`; shown on terminals only.
    pub fn on_stderr(path: &Path, map: &'a MappedFile) -> Self {
        let name = || out::harmless(&name_of(path)).into_owned();
        let line = status_line::is_possible().then(|| ReadingLine::new(name(), map.len() as u64));
        Self { started: Instant::now(), line, map: Some(map), released: 0 }
    }

    /// The same for a command that prints while it reads: shown where its output goes to a file.
    pub fn next_to_output(path: &Path, map: &'a MappedFile) -> Self {
        if out::is_stdout_file() { Self::on_stderr(path, map) } else { Self::releasing(map) }
    }

    /// Never reports anything.
    pub fn silent() -> Self {
        Self { started: Instant::now(), line: None, map: None, released: 0 }
    }

    /// Never reports anything, but gives memory back.
    pub fn releasing(map: &'a MappedFile) -> Self {
        Self { started: Instant::now(), line: None, map: Some(map), released: 0 }
    }

    /// Notes the position in the file.
    pub fn at(&mut self, offset: u64) -> ControlFlow<()> {
        if let Some(map) = self.map.filter(|_| offset >= self.released + RELEASE) {
            // Records of the present round may be before: they are read from the file once more.
            map.release(self.released as usize..offset as usize);
            self.released = offset;
        }
        if let Some(line) = &mut self.line
            && let Some(text) = line.advance(self.started.elapsed(), offset, term::width().saturating_sub(1))
        {
            status_line::draw(&text);
        }
        ControlFlow::Continue(())
    }

    /// Takes the line away again.
    pub fn end(&mut self) {
        if self.line.is_some() {
            status_line::clear();
        }
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        self.end();
    }
}
