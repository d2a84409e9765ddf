//! Chrome's trace event format (JSON), which Perfetto and speedscope read.
//!
//! Spans are pairs of "B" and "E" events, written in the order in which they happen. Complete events ("X") would need
//! viewers to add a start and a length in floating-point µs. That sum can be after the start of a call that begins in
//! the very nanosecond in which another ends, and viewers then nest the two.
//!
//! speedscope puts a thread's ends in order by themselves, and matches them to begins by time, name and arguments. So an
//! end repeats the name and arguments, and events of one nanosecond are some picoseconds from each other.
//
// Source: the document "Trace Event Format" of the catapult project: times in µs.

use super::{NamedSpan, TimelineWriter};
use perfdata::PidTid;
use rustc_hash::FxHashMap;
use serde_json::Value;
use std::io::{self, Write};

/// Writes events one by one.
pub struct Chrome<W> {
    out: W,
    spelled: fn(&Value) -> String,
    first: bool,
    threads: FxHashMap<PidTid, Thread>,
}

/// One thread's open spans and its last event.
#[derive(Default)]
struct Thread {
    /// Name and arguments of each, as fields in JSON.
    open: Vec<String>,
    last_ns: Option<u64>,
    /// Events before the last one in the same nanosecond.
    before: u32,
}

impl Thread {
    /// The time of the next event in µs: later than all before it.
    fn time_of(&mut self, ns: u64) -> String {
        let is_same = self.last_ns == Some(ns);
        self.before = if is_same { self.before + 1 } else { 0 };
        self.last_ns = Some(ns);
        let micros = format!("{}.{:03}", ns / 1000, ns % 1000);
        if is_same { format!("{micros}{:03}", self.before.min(999)) } else { micros }
    }
}

impl<W: Write> Chrome<W> {
    /// Begins the file. `spelled` writes text as JSON on one line.
    ///
    /// # Errors
    /// If writing fails.
    pub fn new(mut out: W, spelled: fn(&Value) -> String) -> io::Result<Self> {
        out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
        Ok(Self { out, spelled, first: true, threads: FxHashMap::default() })
    }

    fn event(&mut self, text: &str) -> io::Result<()> {
        let comma = if std::mem::take(&mut self.first) { "\n" } else { ",\n" };
        self.out.write_all(comma.as_bytes())?;
        self.out.write_all(text.as_bytes())
    }
}

impl<W: Write> TimelineWriter for Chrome<W> {
    fn thread(&mut self, task: PidTid, process: &str) -> io::Result<()> {
        let PidTid { pid, tid } = task;
        let spelled = self.spelled;
        for (kind, name) in [("process_name", process.to_owned()), ("thread_name", format!("thread {tid}"))] {
            let name = spelled(&name.into());
            self.event(&format!(
                "{{\"ph\":\"M\",\"name\":\"{kind}\",\"pid\":{pid},\"tid\":{tid},\"args\":{{\"name\":{name}}}}}"
            ))?;
        }
        Ok(())
    }

    fn begin(&mut self, task: PidTid, named: NamedSpan<'_>, time_ns: u64) -> io::Result<()> {
        let PidTid { pid, tid } = task;
        let spelled = self.spelled;
        let text = |text: &str| spelled(&text.into());
        let (name, category) = (text(named.name), named.category);
        let pairs: Vec<String> =
            named.arguments.iter().map(|(name, value)| format!("{}:{}", text(name), text(value))).collect();
        let args =
            if pairs.is_empty() { String::new() } else { format!(",\"args\":{{{}}}", pairs.join(",")) };
        let thread = self.threads.entry(task).or_default();
        let (at, fields) = (thread.time_of(time_ns), format!("\"name\":{name}{args}"));
        let event = format!(
            "{{\"ph\":\"B\",\"cat\":\"{category}\",\"pid\":{pid},\"tid\":{tid},\"ts\":{at},{fields}}}"
        );
        thread.open.push(fields);
        self.event(&event)
    }

    fn end(&mut self, task: PidTid, time_ns: u64) -> io::Result<()> {
        let PidTid { pid, tid } = task;
        let thread = self.threads.entry(task).or_default();
        let at = thread.time_of(time_ns);
        let fields = thread.open.pop().map_or_else(String::new, |fields| format!(",{fields}"));
        self.event(&format!("{{\"ph\":\"E\",\"pid\":{pid},\"tid\":{tid},\"ts\":{at}{fields}}}"))
    }

    fn finish(mut self) -> io::Result<()> {
        self.out.write_all(b"\n]}\n")?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASK: PidTid = PidTid { pid: 1, tid: 2 };

    #[test]
    fn what_is_written_is_json_whatever_the_names() {
        let mut bytes = Vec::new();
        let mut chrome = Chrome::new(&mut bytes, Value::to_string).unwrap();
        chrome.thread(TASK, "a \"b\"\n").unwrap();
        let arguments = [("s\"".to_owned(), "\"x\"".to_owned())];
        let named =
            NamedSpan { number: 1, name: "std::f<\\>\u{1b}", category: "call", arguments: &arguments };
        chrome.begin(TASK, named, 1_234_567).unwrap();
        chrome.end(TASK, 1_234_575).unwrap();
        chrome.finish().unwrap();
        let json: Value = serde_json::from_slice(&bytes).unwrap();
        let (span, end) = (&json["traceEvents"][2], &json["traceEvents"][3]);
        assert_eq!((span["ts"].as_f64(), end["ts"].as_f64()), (Some(1234.567), Some(1234.575)));
        assert_eq!((&span["ph"], &end["ph"]), (&"B".into(), &"E".into()));
        assert_eq!(span["args"]["s\""], "\"x\"");
        assert_eq!(span["name"], "std::f<\\>\u{1b}");
        assert_eq!((&end["name"], &end["args"]), (&span["name"], &span["args"]));
    }

    #[test]
    fn events_of_one_nanosecond_keep_their_order() {
        let mut bytes = Vec::new();
        let mut chrome = Chrome::new(&mut bytes, Value::to_string).unwrap();
        let named = |name| NamedSpan { number: 1, name, category: "call", arguments: &[] };
        chrome.begin(TASK, named("outer"), 5).unwrap();
        chrome.begin(TASK, named("inner"), 5).unwrap();
        chrome.begin(PidTid { pid: 1, tid: 3 }, named("other"), 5).unwrap();
        chrome.end(TASK, 5).unwrap();
        chrome.end(TASK, 6).unwrap();
        chrome.finish().unwrap();
        let json: Value = serde_json::from_slice(&bytes).unwrap();
        let of = |event: &Value| (event["name"].clone(), event["ts"].as_f64().unwrap());
        let events: Vec<_> = json["traceEvents"].as_array().unwrap().iter().map(of).collect();
        let expected = [
            ("outer", 0.005),
            ("inner", 0.005_001),
            ("other", 0.005),
            ("inner", 0.005_002),
            ("outer", 0.006),
        ];
        assert_eq!(events, expected.map(|(name, ts)| (name.into(), ts)));
    }
}
