//! This crate's parsers as plain functions over bytes, for `cargo test` and libFuzzer alike.

use std::io;

use crate::event::{EventSource, parse};
use crate::off_cpu::{later, look};
use crate::{proc, target};

/// Every fuzz target with its name.
#[expect(clippy::type_complexity, reason = "every crate with parsers offers this same type")]
pub const TARGETS: &[(&str, fn(&[u8]))] = &[
    ("event_spec", event_spec),
    ("proc_maps", proc_maps),
    ("proc_status", proc_status),
    ("cpu_list", cpu_list),
    ("proc_syscall", proc_syscall),
    ("kernel_btf", kernel_btf),
    ("branch_filter", branch_filter),
    ("call_event", call_event),
    ("trace_page", trace_page),
    ("control", control),
];

/// The first line is an event text, the rest the contents of each file of sysfs and tracefs.
fn event_spec(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (spec, files) = text.split_once('\n').unwrap_or((&text, ""));
    if let Err(error) = parse(spec, &Said(files)) {
        let _ = (error.caret(), error.to_string());
    }
}

/// Where commands come from, and the commands.
fn control(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let _ = crate::control::ControlPaths::parse(&text);
    text.lines().for_each(|line| drop(crate::control::Command::parse(line)));
}

fn branch_filter(data: &[u8]) {
    let _ = crate::event::parse_branch_filter(&String::from_utf8_lossy(data));
}

fn proc_maps(data: &[u8]) {
    for line in data.split(|&byte| byte == b'\n') {
        let _ = proc::parse_map_line(line);
    }
}

fn proc_status(data: &[u8]) {
    let _ = proc::parse_status(data);
}

fn cpu_list(data: &[u8]) {
    let _ = target::parse_cpu_list(&String::from_utf8_lossy(data));
}

fn proc_syscall(data: &[u8]) {
    let _ = look::parse_syscall(&String::from_utf8_lossy(data));
}

fn kernel_btf(data: &[u8]) {
    let _ = later::find_function(data, b"a");
}

fn trace_page(data: &[u8]) {
    let _ = crate::calls::ftrace::parse_page(data, &mut |_, _| {});
}

fn call_event(data: &[u8]) {
    for record in data.chunks(crate::calls::layout::EVENT_BYTES) {
        let _ = crate::calls::layout::parse_call_event(record);
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
