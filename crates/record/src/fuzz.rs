//! This crate's parsers as plain functions over bytes, for `cargo test` and libFuzzer alike.

use std::io;

use crate::event::{EventSource, parse};

/// Every fuzz target with its name.
#[expect(clippy::type_complexity, reason = "every crate with parsers offers this same type")]
pub const TARGETS: &[(&str, fn(&[u8]))] = &[("event_spec", event_spec)];

/// The first line is an event text, the rest what each file of sysfs and tracefs says.
fn event_spec(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (spec, files) = text.split_once('\n').unwrap_or((&text, ""));
    if let Err(error) = parse(spec, &Said(files)) {
        let _ = (error.caret(), error.to_string());
    }
}

/// A machine on which every file has the same content and every folder the same entries.
struct Said<'a>(&'a str);

impl EventSource for Said<'_> {
    fn read_pmu(&self, path: &str) -> io::Result<String> {
        Ok(if path.ends_with("/type") { "7".to_owned() } else { self.0.to_owned() })
    }

    fn list_pmu(&self, _path: &str) -> io::Result<Vec<String>> {
        Ok(vec!["cpu".to_owned(), "event".to_owned()])
    }

    fn read_tracefs(&self, _path: &str) -> io::Result<String> {
        Ok("1".to_owned())
    }

    fn list_tracefs(&self, _path: &str) -> io::Result<Vec<String>> {
        Ok(vec!["sched".to_owned()])
    }
}
