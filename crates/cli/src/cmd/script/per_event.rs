//! `--per-event-dump`: the samples of each event in a file of their own.

use crate::terminal::out;
use anyhow::Context;
use perfdata::Event;
use record::output_file::create_export;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// One file for each event of a recording.
pub struct PerEvent {
    files: Vec<Dump>,
}

struct Dump {
    path: PathBuf,
    file: BufWriter<File>,
    bytes: u64,
    samples: u64,
}

impl PerEvent {
    /// Makes `INPUT.EVENT.dump` for every event, as perf names them.
    ///
    /// # Errors
    /// One can't be made.
    pub fn create(input: &Path, events: &[Event]) -> anyhow::Result<Self> {
        let dump = |event: &Event| -> anyhow::Result<Dump> {
            // A slash of an event's name (`cpu/cycles/`) is none of a path.
            let event_name = out::harmless(&event.name).replace('/', "_");
            let name = format!("{}.{event_name}.dump", input.display());
            let path = PathBuf::from(name);
            let file = create_export(&path).with_context(|| format!("can't write {}", path.display()))?;
            Ok(Dump { path, file: BufWriter::new(file), bytes: 0, samples: 0 })
        };
        Ok(Self { files: events.iter().map(dump).collect::<anyhow::Result<_>>()? })
    }

    /// Appends the lines of a sample.
    ///
    /// # Errors
    /// They can't be written.
    pub fn write(&mut self, event: usize, text: &str) -> anyhow::Result<()> {
        // Records that are no samples have no event in a file whose events can't be read.
        let Some(dump) = self.files.get_mut(event) else { return Ok(()) };
        dump.bytes += text.len() as u64;
        dump.samples += 1;
        dump.file.write_all(text.as_bytes()).with_context(|| format!("can't write {}", dump.path.display()))
    }

    /// Reports what was written.
    ///
    /// # Errors
    /// The last of it can't be written.
    pub fn finish(self) -> anyhow::Result<()> {
        for mut dump in self.files {
            dump.file.flush().with_context(|| format!("can't write {}", dump.path.display()))?;
            let megabytes = dump.bytes as f64 / f64::from(1 << 20);
            let path = dump.path.display();
            out::line(&format!(
                "[ tally script: Wrote {megabytes:.3} MB {path} ({} samples) ]",
                dump.samples
            ))?;
        }
        Ok(())
    }
}
