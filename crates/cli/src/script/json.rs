//! One sample as a line of JSON.

use super::line::LineStyle;
use super::row::Row;
use crate::terminal::foreign;
use exchange::text::sample_json::{frame_json, labels_json};
use profile::profile::Profile;
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// Appends one row as an object on one line. The stack is leaf first; addresses are hexadecimal strings.
pub fn write_json(out: &mut String, style: &LineStyle<'_>, profile: &Profile, row: &Row<'_>) {
    let ((_, event), s) = (style.of(row), &row.sample);
    let mut o = Map::new();
    let mut put = |key: &str, value: Value| {
        o.insert(key.into(), value);
    };
    put("comm", json!(profile.strings.of(row.comm)));
    if let Some((pid, tid)) = s.pid_tid {
        put("pid", json!(pid.cast_signed()));
        put("tid", json!(tid.cast_signed()));
    }
    if let Some(time_ns) = s.time_ns {
        put("time_ns", json!(time_ns));
    }
    if let Some(cpu) = s.cpu {
        put("cpu", json!(cpu));
    }
    if let Some(note) = &row.note {
        put("record", json!(note));
        let _ = writeln!(out, "{}", foreign::json(&Value::Object(o)));
        return;
    }
    put("event", json!(event.name));
    put("period", json!(s.period.unwrap_or(event.attr.sample_period)));
    row.labels.iter().for_each(|set| put("labels", labels_json(profile, *set)));
    if let Some(ip) = s.ip {
        put("ip", json!(ip.to_string()));
    }
    if let Some(addr) = s.addr {
        put("addr", json!(addr.to_string()));
    }
    if let (Some(raw), Some(format)) = (s.raw, style.formats.and_then(|f| f.of(event.attr.config))) {
        let mut text = String::new();
        format.print_with(raw, &|addr| style.kernel.name(profile, addr), &mut text);
        put("trace", json!(text));
        let fields = format.values(raw).into_iter().map(|(name, value)| (name.to_owned(), json!(value)));
        put("fields", Value::Object(fields.collect()));
    }
    let leaf = row.leaf.filter(|_| row.chain.is_none());
    let frames = row.chain.as_deref().unwrap_or_default().iter().chain(&leaf);
    put("stack", frames.flat_map(|frame| frame_json(profile, *frame)).collect());
    out.push_str(&foreign::json(&Value::Object(o)));
    out.push('\n');
}
