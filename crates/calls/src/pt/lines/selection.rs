//! Which branches are printed, and which fields of them.

use super::super::kinds::Kinds;
use crate::error::bail;

/// The fields, in perf's order.
const FIELDS: [&str; 13] =
    ["comm", "pid", "tid", "cpu", "time", "period", "event", "flags", "ip", "sym", "symoff", "dso", "addr"];

/// Those printed unless asked otherwise.
const USUAL: [&str; 10] = ["comm", "tid", "cpu", "time", "period", "event", "ip", "sym", "symoff", "dso"];

/// Which fields.
#[derive(Clone, Debug)]
pub(super) struct Fields(Vec<&'static str>);

impl Fields {
    pub(super) fn parse(texts: &[String]) -> crate::Result<Self> {
        let mut fields = Self(USUAL.into_iter().chain(["addr"]).collect());
        for text in texts {
            let text = text.strip_prefix("hw:").unwrap_or(text);
            if !text.starts_with(['+', '-']) {
                fields.0.clear();
            }
            for word in text.split(',').filter(|word| !word.is_empty()) {
                let (on, name) = match word.strip_prefix('-') {
                    Some(name) => (false, name),
                    None => (true, word.strip_prefix('+').unwrap_or(word)),
                };
                let Some(known) = FIELDS.iter().find(|known| **known == name) else {
                    bail!("-F {name}: branches of a trace have {}", FIELDS.join(", "));
                };
                fields.0.retain(|field| field != known);
                if on {
                    fields.0.push(known);
                }
            }
        }
        Ok(fields)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains(&name)
    }
}

/// Digits of a time after the point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeDigits {
    /// Six.
    Micros,
    /// Nine.
    Nanos,
}

impl TimeDigits {
    /// As `--ns` asks for.
    #[must_use]
    pub fn of_flag(ns: bool) -> Self {
        if ns { Self::Nanos } else { Self::Micros }
    }
}

/// Selection of lines to print.
#[derive(Clone, Debug)]
pub struct LineSelection {
    /// Which events.
    pub kinds: Kinds,
    pub(super) fields: Fields,
    pub(super) digits: TimeDigits,
    /// Only these processes, threads, names, CPUs, times; all if empty.
    pub pids: Vec<u32>,
    /// See `pids`.
    pub tids: Vec<u32>,
    /// See `pids`.
    pub comms: Vec<String>,
    /// See `pids`.
    pub cpus: Option<Vec<i32>>,
    /// First and last, ns.
    pub times: Option<(u64, u64)>,
    /// Width of the longest event's name in the file.
    pub name_width: usize,
}

impl LineSelection {
    /// All threads and times.
    ///
    /// # Errors
    /// Unknown letters or fields.
    pub fn new(kinds: &str, fields: &[String], digits: TimeDigits) -> crate::Result<Self> {
        Ok(Self {
            kinds: Kinds::parse(kinds)?,
            fields: Fields::parse(fields)?,
            digits,
            pids: Vec::new(),
            tids: Vec::new(),
            comms: Vec::new(),
            cpus: None,
            times: None,
            name_width: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_added_taken_away_and_set() {
        let has = |texts: &[&str], name| {
            let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
            Fields::parse(&texts).unwrap().has(name)
        };
        assert!(has(&[], "addr") && !has(&[], "flags"));
        assert!(has(&["-event,+flags"], "flags") && !has(&["-event,+flags"], "event"));
        assert!(!has(&["tid,ip"], "time"));
        assert!(Fields::parse(&["brstack".to_owned()]).is_err());
    }
}
