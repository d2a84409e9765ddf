//! From a file to a profile with names: mapping, reading in time order, unwinding, symbolizing.

use crate::damage;
use crate::name_args::NameArgs;
use crate::out;
use crate::symbols::{self, ObjectFiles};
use crate::term;
use crate::trace_text::FileFormats;
use crate::unnamed::{UnnamedCode, name_unnamed};
use crate::unwind::StackUnwinder;
use anyhow::{Context, bail};
use dso::Mmap;
use perfdata::stack_notes::StackNotes;
use perfdata::{Features, Order, PerfData};
use profile::profile::Profile;
use profile::session::{Session, SessionOpts};
use profile::source::Want;
use std::io::{IsTerminal, Read, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What is read of a recording.
pub struct LoadOpts {
    /// What the session keeps.
    pub session: SessionOpts,
    /// What is asked of the object files.
    pub want: Want,
    /// Where names come from.
    pub names: NameArgs,
    /// What code without a symbol is called.
    pub unnamed: UnnamedCode,
}

/// A recording, read.
#[derive(Default)]
pub struct Recording {
    /// What was recorded, aggregated and named.
    pub profile: Profile,
    /// The object files, open.
    pub files: Arc<ObjectFiles>,
    /// The file's header.
    pub features: Features,
    /// What reading came across.
    pub diagnostics: perfdata::Diagnostics,
}

/// Bytes read before their memory is given back.
const RELEASE: u64 = 8 << 20;

/// Records handed to all cores at once.
const BATCH: usize = 8192;

/// The file's bytes: mapped, or read if it is a pipe; `-` is standard input.
///
/// # Errors
/// If it can't be opened or read, or is empty.
pub fn open(path: &Path) -> anyhow::Result<Mmap> {
    let map = if path.as_os_str() == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes).context("can't read standard input")?;
        Mmap::from_vec(bytes)
    } else {
        let remedy =
            if path == Path::new("perf.data") { " (record with tally record or tally run)" } else { "" };
        Mmap::open(path).with_context(|| format!("can't open {}{remedy}", path.display()))?
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
pub fn parse<'a>(path: &Path, map: &'a Mmap) -> anyhow::Result<PerfData<'a>> {
    let file = PerfData::open(map).with_context(|| format!("can't read {}", name_of(path)))?;
    damage::tell_header(path, &file);
    Ok(file)
}

/// The path, or "standard input" for `-`.
pub fn name_of(path: &Path) -> String {
    if path.as_os_str() == "-" { "standard input".to_owned() } else { path.display().to_string() }
}

/// Reads the recording at `path` with everything `opts` asks for.
///
/// # Errors
/// If it can't be read at all. Damage behind the header is told in the diagnostics, with what could be salvaged.
pub fn load(path: &Path, opts: LoadOpts) -> anyhow::Result<Recording> {
    let map = open(path)?;
    let file = parse(path, &map)?;
    load_file((path, &file), opts, &mut Progress::on_stderr(path, &map))
}

/// The same for a file already open, which was found at the path.
///
/// # Errors
/// None today.
pub fn load_file(
    (path, file): (&Path, &PerfData<'_>),
    opts: LoadOpts,
    progress: &mut Progress<'_>,
) -> anyhow::Result<Recording> {
    let recording = load_watched(file, opts, &mut |reading| progress.at(reading.offset));
    progress.end();
    damage::tell(path, &recording.diagnostics.problems);
    Ok(recording)
}

/// A recording while it is read.
pub struct Reading<'r> {
    /// How far in the file, in bytes.
    pub offset: u64,
    session: &'r Session,
    files: &'r Arc<ObjectFiles>,
    features: &'r Features,
    unnamed: UnnamedCode,
}

impl Reading<'_> {
    /// What is read by now, with the names of its functions.
    pub fn snapshot(&self) -> Recording {
        let mut profile = self.session.snapshot();
        name_all(&mut profile, self.files, (Want::Names, self.unnamed));
        let (features, files) = (self.features.clone(), Arc::clone(self.files));
        Recording { profile, features, diagnostics: perfdata::Diagnostics::default(), files }
    }
}

/// The same; `watch` goes along with it, and when it says to stop, what is read by then is the recording.
pub fn load_watched(
    file: &PerfData<'_>,
    opts: LoadOpts,
    watch: &mut dyn FnMut(&Reading<'_>) -> ControlFlow<()>,
) -> Recording {
    let files = Arc::new(ObjectFiles::of_recording(file, &opts.names));
    let features = file.features();
    let mut session = new_session(file, opts.session);
    let unnamed = opts.unnamed;
    let unwinder = StackUnwinder::new(&files, features.arch.as_deref());
    let diagnostics = file.visit_batches(Order::Time, BATCH, |items| {
        unwinder.unwind_along(&mut session, items, Session::push, Session::complete);
        let offset = items.last().map_or(0, |item| item.offset);
        watch(&Reading { offset, session: &session, files: &files, features, unnamed })
    });
    let mut profile = session.finish();
    if let Some(layout) = &features.cpu_topology {
        profile.cpu_sockets = layout.cpus.iter().map(|cpu| cpu.socket_id).collect();
    }
    name_all(&mut profile, &files, (opts.want, unnamed));
    Recording { profile, features: features.clone(), diagnostics, files }
}

/// Names what is not named yet, with as much as is wanted.
pub fn name_all(profile: &mut Profile, files: &ObjectFiles, (want, unnamed): (Want, UnnamedCode)) {
    symbols::symbolize(profile, files, want);
    if unnamed == UnnamedCode::Functions {
        name_unnamed(profile, files);
    }
}

fn new_session(file: &PerfData<'_>, mut opts: SessionOpts) -> Session {
    if opts.trace_text.is_none()
        && let Some(formats) = FileFormats::of(file)
    {
        opts.trace_text = Some(Box::new(formats));
    }
    let mut session = Session::new(file.events(), file.endian(), opts);
    session.set_input_bytes(file.bytes().len());
    if file.is_unfinished() {
        session.set_unfinished();
    }
    let features = file.features();
    let names =
        features.build_ids.iter().map(|id| (String::from_utf8_lossy(&id.filename), id.build_id.as_slice()));
    let names: Vec<_> = names.collect();
    session.set_build_ids(names.iter().map(|(path, id)| (path.as_ref(), *id)));
    if let Some(notes) = file.appendix().and_then(|appendix| StackNotes::read(appendix, file.endian())) {
        session.set_stack_notes(notes);
    }
    for group in &features.groups {
        session.set_group(group.leader as usize, group.members as usize, group.given_name());
    }
    session
}

/// What was read, in counts: one line each (`-v`).
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

/// Goes along with reading: tells on standard error how far it is, from one second on and only on a terminal, and
/// gives back the memory of what has been read.
pub struct Progress<'a> {
    name: String,
    total: u64,
    started: Instant,
    shown: Option<Instant>,
    on: bool,
    map: Option<&'a Mmap>,
    /// What lies before is given back.
    released: u64,
}

impl<'a> Progress<'a> {
    /// For the file in `map`.
    pub fn on_stderr(path: &Path, map: &'a Mmap) -> Self {
        let on = std::io::stderr().is_terminal();
        let (started, name) = (Instant::now(), path.display().to_string());
        Self { name, total: map.len() as u64, started, shown: None, on, map: Some(map), released: 0 }
    }

    /// Never tells anything.
    pub fn silent() -> Self {
        Self {
            name: String::new(),
            total: 0,
            started: Instant::now(),
            shown: None,
            on: false,
            map: None,
            released: 0,
        }
    }

    /// Never tells anything, but gives memory back.
    pub fn releasing(map: &'a Mmap) -> Self {
        Self { total: map.len() as u64, map: Some(map), ..Self::silent() }
    }

    /// Notes the position in the file.
    pub fn at(&mut self, offset: u64) -> ControlFlow<()> {
        if let Some(map) = self.map.filter(|_| offset >= self.released + RELEASE) {
            // Records of the present round may lie before: they are read from the file once more.
            map.release(self.released as usize..offset as usize);
            self.released = offset;
        }
        let now = Instant::now();
        let due = match self.shown {
            None => now - self.started > Duration::from_secs(1),
            Some(last) => now - last > Duration::from_millis(100),
        };
        if self.on && due {
            self.shown = Some(now);
            let percent = (offset as f64 * 100.0 / self.total.max(1) as f64).min(100.0);
            let text = format!("reading {} {percent:.0} % (Ctrl-C stops)", out::harmless(&self.name));
            let text: String = text.chars().take(term::width().saturating_sub(1)).collect();
            let _ = write!(std::io::stderr(), "\r{text}");
        }
        ControlFlow::Continue(())
    }

    /// Takes the line away again.
    pub fn end(&mut self) {
        if self.shown.take().is_some() {
            let _ = write!(std::io::stderr(), "\r{:width$}\r", "", width = term::width().saturating_sub(1));
        }
    }
}
