//! Writes the page of a recording to a file.

use super::{About, MOST_BYTES, PageData, PageSource};
use crate::reading::load;
use anyhow::Context;
use profile::session::Dimensions;
use profile::view::page::gather;
use profile::view::wall::{WallOpts, wall};
use std::io::{BufWriter, Write};
use std::path::Path;
use symbols::LoadOpts;

/// Adds what a page needs of a recording to the options of reading it: the times of all samples, and labels.
pub fn keep_times(opts: &mut LoadOpts) {
    let kept = &mut opts.session.dimensions;
    *kept = Dimensions { time_slice_ns: Some(1), seen_running: true, labels: true, ..std::mem::take(kept) };
}

/// Data and text of the page of a recording that was read with [`keep_times`].
#[must_use]
pub fn of_recording(source: PageSource<'_>, opts: &WallOpts) -> (PageData, About) {
    let profile = &source.recording.profile;
    // Idle waits are a state of their own on the page, and left out until they are asked for.
    let opts = WallOpts { with_idle: false, never_empty: true, ..opts.clone() };
    let view = wall(profile, &opts);
    (gather(profile, &view, &opts), About::of(source, &view, &opts))
}

/// Reads a recording and writes its page.
///
/// # Errors
/// The recording can't be read, or the page not written.
pub fn write_recording(page: &Path, source: &Path) -> anyhow::Result<()> {
    let map = load::open(source)?;
    let file = load::parse(source, &map)?;
    let mut opts = crate::reading::wall::load_opts();
    keep_times(&mut opts);
    let recording = load::load_file(source, &file, opts, &mut load::Progress::on_stderr(source, &map))?;
    let source = PageSource { path: source, bytes: &map, file: &file, recording: &recording };
    let (data, about) = of_recording(source, &WallOpts::default());
    write_file(page, &data, &about)
}

/// Writes a page.
///
/// # Errors
/// The file can't be written.
pub fn write_file(path: &Path, data: &PageData, about: &About) -> anyhow::Result<()> {
    let write = || -> std::io::Result<()> {
        let mut out = BufWriter::new(record::output_file::create_export(path)?);
        super::write(&mut out, data, about, MOST_BYTES)?;
        out.flush()
    };
    write().with_context(|| format!("can't write {}", path.display()))
}
