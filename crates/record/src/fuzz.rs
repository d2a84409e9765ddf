//! This crate's parsers as plain functions over bytes, for `cargo test` and libFuzzer alike.

use std::io;

use crate::event::{EventSource, Opt, parse, parse_opts};
use crate::machine::proc;
use crate::off_cpu::descriptors::sockets::{parse_inet, parse_unix};
use crate::off_cpu::proc_sampler;
use crate::runtimes::otel::{attribute_keys, attributes};
use crate::runtimes::python::{Offsets, parse_record, read_code};
use crate::runtimes::{hotspot, v8};
use crate::sys::inet_diag::parse_socket;
use crate::sys::socket_diag::parse_answer;

/// Every fuzz target with its name.
#[expect(clippy::type_complexity, reason = "every crate with parsers offers this same type")]
pub const TARGETS: &[(&str, fn(&[u8]))] = &[
    ("event_spec", event_spec),
    ("proc_maps", proc_maps),
    ("proc_status", proc_status),
    ("proc_syscall", proc_syscall),
    ("kernel_btf", kernel_btf),
    ("branch_filter", branch_filter),
    ("call_event", call_event),
    ("trace_page", trace_page),
    ("control", control),
    ("python_frames", python_frames),
    ("jvm_memory", jvm_memory),
    ("node_memory", node_memory),
    ("socket_tables", socket_tables),
    ("otel_contexts", otel_contexts),
];

/// The first line is an event text, the rest the contents of each file of sysfs and tracefs.
fn event_spec(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (spec, files) = text.split_once('\n').unwrap_or((&text, ""));
    let source = Said(files);
    if let Err(error) = parse(spec, &source) {
        let _ = (error.caret(), error.to_string());
    }
    let _ = parse_opts(&[Opt::Events(spec), Opt::Filter(spec), Opt::Events(spec)], &source);
}

/// The payload of a process context, and a thread's attributes.
fn otel_contexts(data: &[u8]) {
    let keys = attribute_keys(data).unwrap_or_default();
    let (found, is_whole) = attributes(data);
    let bytes: usize = found.iter().map(|(_, value)| value.len() + 2).sum();
    assert!(keys.len() <= 256 && bytes <= data.len() && is_whole == (bytes == data.len()));
}

/// A ring of copied frames, and a process's memory that a code object of each version is read from.
fn python_frames(data: &[u8]) {
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    let words: Vec<u64> = data.chunks_exact(8).map(word).collect();
    let mut rest = words.as_slice();
    while let Some((_, len)) = parse_record(rest) {
        rest = rest.get(len..).unwrap_or_default();
    }
    let read = |at: u64, into: &mut [u8]| {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let from = at.checked_add(into.len()).and_then(|end| data.get(at..end));
        from.map(|from| into.copy_from_slice(from)).is_some()
    };
    for minor in 8..=13 {
        let Some(offsets) = Offsets::of((3, minor)).map(|offsets| offsets.stated(data).unwrap_or(offsets))
        else {
            continue;
        };
        if let Some(code) = read_code(&read, &offsets, 8, words.get(2).copied().unwrap_or(0)) {
            [-1, 0, 6, 400].into_iter().for_each(|position| _ = code.line_of(position));
        }
    }
}

/// The memory of a JVM.
fn jvm_memory(data: &[u8]) {
    hotspot::name_all(MEMORY_BYTES.min(data.len()) as u64, &mut memory_of(data));
}

/// The memory of a Node.
fn node_memory(data: &[u8]) {
    v8::name_all(MEMORY_BYTES.min(data.len()) as u64, &mut memory_of(data));
}

/// Bytes of a memory that are looked at.
const MEMORY_BYTES: usize = 4096;

fn memory_of(data: &[u8]) -> impl FnMut(u64, &mut [u8]) -> usize {
    |at, into| {
        let from = usize::try_from(at).ok().and_then(|at| data.get(at..)).unwrap_or_default();
        let count = from.len().min(into.len());
        into[..count].copy_from_slice(&from[..count]);
        count
    }
}

/// The kernel's tables of sockets, and an answer of its socket monitor.
fn socket_tables(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    std::hint::black_box((parse_inet(&text), parse_unix(&text)));
    let _ = parse_answer(data, &mut Vec::new());
    let _ = parse_socket(data);
}

/// Where commands come from, and the commands.
fn control(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let _ = crate::session::control::ControlPaths::parse(&text);
    text.lines().for_each(|line| drop(crate::session::control::Command::parse(line)));
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

fn proc_syscall(data: &[u8]) {
    let _ = proc_sampler::parse_syscall(&String::from_utf8_lossy(data));
}

fn kernel_btf(data: &[u8]) {
    let Some(types) = crate::sys::bpf_object::KernelTypes::from_bytes(data.to_vec()) else { return };
    let _ = types.find(crate::sys::bpf_object::TypeKind::Func, "a");
    let _ = crate::sys::bpf_object::needed_types(&types, &types);
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
