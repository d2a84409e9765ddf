//! `tally export` by the rules of the formats: what viewers refuse or draw wrongly. Chrome's JSON by the trace event
//! format, Perfetto's by its protocol buffers, read with another's reader.

use super::{build, tally};
use quick_protobuf::BytesReader;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The calls of a program with five threads that forks.
fn recorded(name: &str) -> Option<PathBuf> {
    let program = build("calls.c", name, "gcc", &["-O1", "-pg", "-pthread"])?;
    let folder = program.with_extension("calls");
    let recorded =
        tally().args(["calls", "record", "-q", "-o"]).arg(&folder).arg("--").arg(&program).output();
    assert!(recorded.expect("tally starts").status.success());
    Some(folder)
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn events_of_a_timeline_are_in_order_nested_and_belong_to_threads_that_are_named() {
    let Some(folder) = recorded("export-chrome") else { return };
    let exported = tally().args(["export", "--chrome", "-i"]).arg(&folder).output().expect("tally starts");
    let trace: Value = serde_json::from_slice(&exported.stdout).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("a list");
    let (mut open, mut last, mut named) = (BTreeMap::<u64, Vec<String>>::new(), BTreeMap::new(), Vec::new());
    let (mut first_us, mut spans) = (f64::INFINITY, 0);
    for event in events {
        let tid = event["tid"].as_u64().expect("a thread");
        assert!(event["pid"].is_u64(), "{event}");
        if event["ph"] == "M" {
            assert!(event["args"]["name"].is_string(), "{event}");
            named.push(tid);
            continue;
        }
        assert!(named.contains(&tid), "{event}");
        let at = event["ts"].as_f64().expect("µs");
        // speedscope orders by time alone, and ends only what has the same name.
        assert!(at > last.insert(tid, at).unwrap_or(-1.0), "{event}");
        let around = open.entry(tid).or_default();
        let name = event["name"].as_str().expect("a name").to_owned();
        if event["ph"] == "B" {
            around.push(name);
            spans += 1;
        } else {
            assert!(event["ph"] == "E" && around.pop() == Some(name), "{event} ends another");
        }
        first_us = first_us.min(at);
    }
    assert!(open.values().all(Vec::is_empty), "calls never end: {open:?}");
    assert!(open.len() >= 5 && spans > 10_000 && first_us == 0.0, "{spans} {first_us}");
}

/// A message's fields: number with a varint or with bytes, in their order.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn fields(message: &[u8]) -> Vec<(u32, Field<'_>)> {
    let mut reader = BytesReader::from_bytes(message);
    let mut fields = Vec::new();
    while !reader.is_eof() {
        let tag = reader.next_tag(message).expect("a tag");
        let field = match tag & 7 {
            0 => Field::Number(reader.read_uint64(message).expect("a varint")),
            2 => Field::Bytes(reader.read_bytes(message).expect("bytes")),
            other => panic!("wire type {other}"),
        };
        fields.push((tag >> 3, field));
    }
    fields
}

fn number(message: &[u8], wanted: u32) -> Option<u64> {
    fields(message).into_iter().find_map(|(field, value)| match value {
        Field::Number(number) if field == wanted => Some(number),
        _ => None,
    })
}

fn messages(message: &[u8], wanted: u32) -> Vec<&[u8]> {
    let of = |(field, value)| match value {
        Field::Bytes(bytes) if field == wanted => Some(bytes),
        _ => None,
    };
    fields(message).into_iter().filter_map(of).collect()
}

/// State of a viewer after some packets. Field numbers: perfetto's trace_packet.proto, track_descriptor.proto,
/// track_event.proto, interned_data.proto.
#[derive(Default)]
struct Viewer {
    /// Process by track, thread by track.
    processes: BTreeMap<u64, u64>,
    threads: BTreeMap<u64, (u64, u64)>,
    names: BTreeMap<u64, String>,
    categories: BTreeMap<u64, String>,
    /// Open slices and the last time, by track.
    open: BTreeMap<u64, (Vec<u64>, u64)>,
    calls: BTreeMap<String, u64>,
}

impl Viewer {
    fn packet(&mut self, packet: &[u8]) {
        assert_eq!(number(packet, 10), Some(1), "trusted_packet_sequence_id");
        for interned in messages(packet, 12) {
            Self::intern(&mut self.categories, messages(interned, 1));
            Self::intern(&mut self.names, messages(interned, 2));
        }
        for descriptor in messages(packet, 60) {
            self.describe(descriptor);
        }
        for event in messages(packet, 11) {
            self.event(event, number(packet, 8).expect("a timestamp"));
        }
    }

    fn intern(to: &mut BTreeMap<u64, String>, entries: Vec<&[u8]>) {
        for entry in entries {
            let name = String::from_utf8(messages(entry, 2)[0].to_vec()).expect("UTF-8");
            assert!(to.insert(number(entry, 1).expect("iid"), name).is_none(), "an iid twice");
        }
    }

    fn describe(&mut self, descriptor: &[u8]) {
        let uuid = number(descriptor, 1).expect("uuid");
        assert!(!self.processes.contains_key(&uuid) && !self.threads.contains_key(&uuid), "a uuid twice");
        for process in messages(descriptor, 3) {
            self.processes.insert(uuid, number(process, 1).expect("pid"));
            assert!(!messages(process, 6)[0].is_empty(), "a process without a name");
        }
        for thread in messages(descriptor, 4) {
            let (pid, tid) = (number(thread, 1).expect("pid"), number(thread, 2).expect("tid"));
            let parent = number(descriptor, 5).expect("parent_uuid");
            assert_eq!(self.processes.get(&parent), Some(&pid), "a thread below another's process");
            self.threads.insert(uuid, (pid, tid));
        }
    }

    fn event(&mut self, event: &[u8], time_ns: u64) {
        let track = number(event, 11).expect("track_uuid");
        assert!(self.threads.contains_key(&track), "an event of a track not described");
        let (open, last) = self.open.entry(track).or_default();
        assert!(time_ns >= *last, "time runs backwards on a track");
        *last = time_ns;
        match number(event, 9) {
            Some(1) => {
                let name = number(event, 10).expect("name_iid");
                let category = &self.categories[&number(event, 3).expect("category_iids")];
                open.push(name);
                let calls = self.calls.entry(self.names[&name].clone()).or_default();
                *calls += u64::from(category == "call");
            }
            Some(2) => assert!(open.pop().is_some(), "an end without a beginning"),
            other => panic!("event of type {other:?}"),
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn perfettos_packets_read_by_another_reader_are_nested_in_order_and_all_calls() {
    let Some(folder) = recorded("export-perfetto") else { return };
    let exported = tally().args(["export", "--perfetto", "-i"]).arg(&folder).output().expect("tally starts");
    let packets = messages(&exported.stdout, 1);
    // SEQ_INCREMENTAL_STATE_CLEARED comes first, or nothing interned is looked at.
    assert_eq!(number(packets[0], 13).map(|flags| flags & 1), Some(1));
    let mut viewer = Viewer::default();
    packets.iter().for_each(|packet| viewer.packet(packet));
    assert!(viewer.open.values().all(|(open, _)| open.is_empty()), "slices without an end");
    assert!(viewer.processes.len() == 2 && viewer.threads.len() >= 5, "{:?}", viewer.threads);
    let report = super::report_of(&folder);
    viewer.calls.retain(|_, calls| *calls > 0);
    assert_eq!(viewer.calls, super::counts_of_report(&report), "{report}");
}
