//! Perfetto's trace format (protocol buffers), for ui.perfetto.dev and trace_processor.
//
// Layout: message Trace { repeated TracePacket packet = 1; } with TrackDescriptors, interned names and
// slice begins and ends (TrackEvent).
// Source: perfetto protos/perfetto/trace/{trace_packet,track_event/track_event,track_event/track_descriptor,
// interned_data/interned_data}.proto.

use super::message::Message;
use super::{NamedSpan, TimelineWriter};
use perfdata::PidTid;
use rustc_hash::FxHashMap;
use std::io::{self, Write};

/// Trace.packet.
const PACKET: u64 = 1;
/// TracePacket's fields.
mod packet {
    pub const TIMESTAMP: u64 = 8;
    pub const SEQUENCE: u64 = 10;
    pub const TRACK_EVENT: u64 = 11;
    pub const INTERNED: u64 = 12;
    pub const FLAGS: u64 = 13;
    pub const DESCRIPTOR: u64 = 60;
    pub const FLAG_CLEARED: u64 = 1;
    pub const FLAG_NEEDED: u64 = 2;
}
/// TrackDescriptor's fields, and those of the process and thread in it.
mod track {
    pub const UUID: u64 = 1;
    pub const PROCESS: u64 = 3;
    pub const THREAD: u64 = 4;
    pub const PARENT: u64 = 5;
    pub const PROCESS_PID: u64 = 1;
    pub const PROCESS_NAME: u64 = 6;
    pub const THREAD_PID: u64 = 1;
    pub const THREAD_TID: u64 = 2;
    pub const THREAD_NAME: u64 = 5;
}
/// DebugAnnotation's fields.
mod annotation {
    pub const TEXT: u64 = 6;
    pub const NAME: u64 = 10;
}
/// TrackEvent's fields and types.
mod event {
    pub const ANNOTATIONS: u64 = 4;
    pub const CATEGORY: u64 = 3;
    pub const TYPE: u64 = 9;
    pub const NAME: u64 = 10;
    pub const TRACK: u64 = 11;
    pub const BEGIN: u64 = 1;
    pub const END: u64 = 2;
}
/// InternedData's fields; every entry is { iid = 1, name = 2 }.
mod interned {
    pub const CATEGORIES: u64 = 1;
    pub const NAMES: u64 = 2;
    pub const IID: u64 = 1;
    pub const NAME: u64 = 2;
}

/// Writes packets one by one.
pub struct Perfetto<W> {
    out: W,
    named: FxHashMap<u64, u64>,
    categories: Vec<String>,
    processes: Vec<u32>,
    cleared: bool,
}

impl<W: Write> Perfetto<W> {
    /// An empty trace.
    #[must_use]
    pub fn new(out: W) -> Self {
        let (named, categories, processes) = (FxHashMap::default(), Vec::new(), Vec::new());
        Self { out, named, categories, processes, cleared: false }
    }

    fn packet(&mut self, packet: Message) -> io::Result<()> {
        const SEQUENCE: u64 = 1;
        let flags = packet::FLAG_NEEDED | if self.cleared { 0 } else { packet::FLAG_CLEARED };
        self.cleared = true;
        let packet = packet.number(packet::SEQUENCE, SEQUENCE).number(packet::FLAGS, flags);
        self.out.write_all(&Message::default().message(PACKET, &packet).0)
    }

    fn descriptor(&mut self, descriptor: &Message) -> io::Result<()> {
        self.packet(Message::default().message(packet::DESCRIPTOR, descriptor))
    }
}

impl<W: Write> TimelineWriter for Perfetto<W> {
    fn thread(&mut self, task: PidTid, process: &str) -> io::Result<()> {
        let PidTid { pid, tid } = task;
        let (pid64, tid64) = (u64::from(pid), u64::from(tid));
        if !self.processes.contains(&pid) {
            self.processes.push(pid);
            let process = Message::default()
                .number(track::PROCESS_PID, pid64)
                .bytes(track::PROCESS_NAME, process.as_bytes());
            let uuid = Message::default().number(track::UUID, process_uuid(pid));
            self.descriptor(&uuid.message(track::PROCESS, &process))?;
        }
        let thread = Message::default()
            .number(track::THREAD_PID, pid64)
            .number(track::THREAD_TID, tid64)
            .bytes(track::THREAD_NAME, format!("thread {tid}").as_bytes());
        let uuid = Message::default().number(track::UUID, thread_uuid(task));
        self.descriptor(&uuid.number(track::PARENT, process_uuid(pid)).message(track::THREAD, &thread))
    }

    fn begin(&mut self, task: PidTid, named: NamedSpan<'_>, time_ns: u64) -> io::Result<()> {
        let mut new = Message::default();
        let entry = |iid: u64, name: &str| {
            Message::default().number(interned::IID, iid).bytes(interned::NAME, name.as_bytes())
        };
        let known = self.categories.iter().position(|category| category == named.category);
        let category = known.unwrap_or(self.categories.len()) as u64 + 1;
        if known.is_none() {
            self.categories.push(named.category.to_owned());
            new = new.message(interned::CATEGORIES, &entry(category, named.category));
        }
        let next = self.named.len() as u64 + 1;
        let name = *self.named.entry(named.number).or_insert(next);
        if name == next {
            new = new.message(interned::NAMES, &entry(name, named.name));
        }
        let mut event = Message::default()
            .number(event::CATEGORY, category)
            .number(event::TYPE, event::BEGIN)
            .number(event::NAME, name)
            .number(event::TRACK, thread_uuid(task));
        for (name, value) in named.arguments {
            let named = Message::default().bytes(annotation::NAME, name.as_bytes());
            event = event.message(event::ANNOTATIONS, &named.bytes(annotation::TEXT, value.as_bytes()));
        }
        let mut packet = Message::default().number(packet::TIMESTAMP, time_ns);
        if !new.0.is_empty() {
            packet = packet.message(packet::INTERNED, &new);
        }
        self.packet(packet.message(packet::TRACK_EVENT, &event))
    }

    fn end(&mut self, task: PidTid, time_ns: u64) -> io::Result<()> {
        let event =
            Message::default().number(event::TYPE, event::END).number(event::TRACK, thread_uuid(task));
        self.packet(
            Message::default().number(packet::TIMESTAMP, time_ns).message(packet::TRACK_EVENT, &event),
        )
    }

    fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn process_uuid(pid: u32) -> u64 {
    1 << 63 | u64::from(pid)
}

fn thread_uuid(task: PidTid) -> u64 {
    u64::from(task.pid & 0x7fff_ffff) << 32 | u64::from(task.tid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_varints_and_messages_carry_their_length() {
        let inner = Message::default().number(1, 300);
        assert_eq!(inner.0, [0x08, 0xac, 0x02]);
        assert_eq!(Message::default().message(2, &inner).0, [0x12, 3, 0x08, 0xac, 0x02]);
    }

    #[test]
    fn a_name_is_written_once() {
        let mut bytes = Vec::new();
        let mut trace = Perfetto::new(&mut bytes);
        let named = NamedSpan { number: 7, name: "main_function", category: "call", arguments: &[] };
        for at in [10, 30] {
            trace.begin(PidTid { pid: 1, tid: 2 }, named, at).unwrap();
            trace.end(PidTid { pid: 1, tid: 2 }, at + 5).unwrap();
        }
        trace.finish().unwrap();
        let found = bytes.windows(13).filter(|window| *window == b"main_function").count();
        assert_eq!(found, 1);
    }
}
