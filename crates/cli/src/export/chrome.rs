//! Chrome's trace event format (JSON), which Perfetto, chrome://tracing and speedscope read.
//
// Source: the document "Trace Event Format" of the catapult project: complete events ("X"), times in µs.

use crate::foreign::json;
use std::io::{self, Write};

/// Writes events one by one.
pub struct Chrome<W> {
    out: W,
    first: bool,
}

impl<W: Write> Chrome<W> {
    /// Begins the file.
    ///
    /// # Errors
    /// If writing fails.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
        Ok(Self { out, first: true })
    }

    fn event(&mut self, text: &str) -> io::Result<()> {
        let comma = if std::mem::take(&mut self.first) { "\n" } else { ",\n" };
        self.out.write_all(comma.as_bytes())?;
        self.out.write_all(text.as_bytes())
    }

    /// Names a thread and its process.
    ///
    /// # Errors
    /// If writing fails.
    pub fn thread(&mut self, pid: u32, tid: u32, process: &str) -> io::Result<()> {
        let text = |name: &str| json(&name.into());
        for (kind, name) in [("process_name", process.to_owned()), ("thread_name", format!("thread {tid}"))] {
            let name = text(&name);
            self.event(&format!(
                "{{\"ph\":\"M\",\"name\":\"{kind}\",\"pid\":{pid},\"tid\":{tid},\"args\":{{\"name\":{name}}}}}"
            ))?;
        }
        Ok(())
    }

    /// A span of a thread; times in ns since the trace's beginning; names and values of arguments.
    ///
    /// # Errors
    /// If writing fails.
    pub fn span(
        &mut self,
        thread: (u32, u32),
        name: &str,
        category: &str,
        times: (u64, u64),
        arguments: &[(String, String)],
    ) -> io::Result<()> {
        let text = |text: &str| json(&text.into());
        let name = text(name);
        let pairs: Vec<String> =
            arguments.iter().map(|(name, value)| format!("{}:{}", text(name), text(value))).collect();
        let args =
            if pairs.is_empty() { String::new() } else { format!(",\"args\":{{{}}}", pairs.join(",")) };
        let ((pid, tid), (start_ns, length_ns)) = (thread, times);
        let (start, length) = (micros(start_ns), micros(length_ns));
        self.event(&format!(
            "{{\"ph\":\"X\",\"name\":{name},\"cat\":\"{category}\",\"pid\":{pid},\"tid\":{tid},\"ts\":{start},\"dur\":{length}{args}}}"
        ))
    }

    /// Ends the file.
    ///
    /// # Errors
    /// If writing fails.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.write_all(b"\n]}\n")?;
        self.out.flush()
    }
}

/// ns as µs, no digit lost.
fn micros(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_json_whatever_the_names() {
        let mut bytes = Vec::new();
        let mut chrome = Chrome::new(&mut bytes).unwrap();
        chrome.thread(1, 2, "a \"b\"\n").unwrap();
        chrome
            .span((1, 2), "std::f<\\>\u{1b}", "call", (1_234_567, 8), &[("s\"".into(), "\"x\"".into())])
            .unwrap();
        chrome.finish().unwrap();
        let json: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        let span = &json["traceEvents"][2];
        assert_eq!((span["ts"].as_f64(), span["dur"].as_f64()), (Some(1234.567), Some(0.008)));
        assert_eq!(span["args"]["s\""], "\"x\"");
        assert_eq!(span["name"], "std::f<\\>\u{1b}");
    }
}
