//! Where and how counts are printed: the style, the file, the shell command between runs.

use std::cell::Cell;
use std::io;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::SystemTime;

use ::record::output_file::{append_export, create_export};
use anyhow::Context;

use super::Args;
use crate::stat::output::CountFile;
use crate::stat::print::{Form, Style};
use crate::terminal::out;

impl Args {
    pub(super) fn style(&self) -> Style {
        let form = match &self.field_separator {
            Some(separator) => {
                Form::Csv(if separator == "\\t" { "\t".to_owned() } else { separator.clone() })
            }
            None if self.json => Form::Json,
            None => Form::Text,
        };
        let big_num = form == Form::Text && !self.no_big_num && (self.big_num || locale_groups_digits());
        Style {
            form,
            big_num,
            repeated: self.repeat > 1,
            metric_only: self.metric_only,
            summary: self.summary && !self.no_csv_summary,
        }
    }

    /// With `has_failed` an error of writing is reported and noted there; else it is the writer's.
    pub(super) fn open_output(&self, has_failed: Option<Rc<Cell<bool>>>) -> anyhow::Result<Box<dyn Write>> {
        let path = match (&self.output, self.log_fd) {
            (Some(path), _) if !self.file.record => path.clone(),
            (None, Some(fd)) => PathBuf::from(format!("/proc/self/fd/{fd}")),
            _ if self.quiet => return Ok(Box::new(io::sink())),
            _ => return Ok(Box::new(out::stderr())),
        };
        let appends = self.append || self.log_fd.is_some();
        let file = if appends { append_export(&path) } else { create_export(&path) };
        let file = file.with_context(|| format!("cannot write {}", path.display()))?;
        let mut file: Box<dyn Write> = match has_failed {
            Some(has_failed) => Box::new(CountFile::new(file, path, has_failed)),
            None => Box::new(BufWriter::new(file)),
        };
        if self.log_fd.is_none() {
            writeln!(file, "# started on {}\n", started())?;
        }
        Ok(file)
    }
}

/// The moment as `-o` files note it.
fn started() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    exchange::perf_header::date::utc(now.map_or(0, |since| since.as_secs()))
}

/// Does the locale of numbers set thousands off? All but the plain C locale are taken to do so, by commas.
fn locale_groups_digits() -> bool {
    let set = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
    let locale = set("LC_ALL").or_else(|| set("LC_NUMERIC")).or_else(|| set("LANG"));
    locale.is_some_and(|l| l != "C" && l != "POSIX" && !l.starts_with("C."))
}
