//! Names of files and folders: `samples/date=2026-11-27/host=h1/030500.parquet`. Readers of such folders (DuckDB, Spark,
//! ClickHouse) take the parts before `=` for columns, and open only those that a question is about.

use perfdata::text::UtcTime;
use std::fmt::Write as _;

/// Ending of an interval's file.
const ENDING: &str = ".parquet";
/// Beginning of a day's folder.
const DAY_FOLDER: &str = "date=";
/// Beginning of a machine's folder.
const HOST_FOLDER: &str = "host=";

const DAY_S: u64 = 86_400;

/// The table of stacks, and that of what they add up to: the outermost folders.
pub const SAMPLES: &str = "samples";
/// The table of sums.
pub const RECORDINGS: &str = "recordings";

/// One machine, for the seconds that one recording took.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct IntervalKey {
    /// The machine.
    pub host: String,
    /// When it began, UTC: `2026-11-27 030500`. Sorts by time.
    pub moment: String,
}

impl IntervalKey {
    /// The names of its folders below a table's, outermost first.
    #[must_use]
    pub fn folders(&self) -> [String; 2] {
        let date = self.moment.split(' ').next().unwrap_or_default();
        [format!("{DAY_FOLDER}{date}"), format!("{HOST_FOLDER}{}", escaped(&self.host))]
    }

    /// The name of its file.
    #[must_use]
    pub fn file(&self) -> String {
        format!("{}{ENDING}", self.moment.split(' ').nth(1).unwrap_or_default())
    }

    /// The key by the names of folders and file; `None` if they are of something else.
    #[must_use]
    pub fn of_names(folders: [&str; 2], file: &str) -> Option<Self> {
        let time = file.strip_suffix(ENDING).filter(|time| time.len() == 6)?;
        if !time.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        Some(Self {
            host: unescaped(folders[1].strip_prefix(HOST_FOLDER)?)?,
            moment: format!("{} {time}", folders[0].strip_prefix(DAY_FOLDER)?),
        })
    }

    /// When it began, us since 1970; `None` for a date that is none.
    #[must_use]
    pub fn start_us(&self) -> Option<i64> {
        unix_us(&self.moment)
    }
}

/// Which intervals a question is about. Empty lists and `None` let all pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetFilter {
    /// Services.
    pub services: Vec<String>,
    /// Machines.
    pub hosts: Vec<String>,
    /// The earliest moment, as in [`IntervalKey::moment`].
    pub since: Option<String>,
    /// The first moment after the last one.
    pub until: Option<String>,
    /// The kind of value: `cpu`, `wall`, `off_cpu` or an event's name. Intervals without it count, too.
    pub kind: Option<String>,
    /// Values that are added up.
    pub sums: FleetSums,
}

/// Sums that a question needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FleetSums {
    /// One for each machine.
    #[default]
    ByHost,
    /// One of all machines: it has fewer stacks than theirs together.
    OfAll,
}

impl FleetFilter {
    /// False for a folder in which nothing can pass: it needs not be listed.
    #[must_use]
    pub fn enters(&self, folder: &str) -> bool {
        let Some((key, value)) = folder.split_once('=') else { return false };
        let named =
            |list: &[String]| unescaped(value).is_some_and(|value| list.is_empty() || list.contains(&value));
        match key {
            "host" => named(&self.hosts),
            "date" => {
                let day_of = |moment: &String| moment.split(' ').next().unwrap_or_default().to_owned();
                self.since.as_ref().is_none_or(|since| value >= day_of(since).as_str())
                    && self.until.as_ref().is_none_or(|until| value <= day_of(until).as_str())
            }
            _ => false,
        }
    }

    /// True for a service that the question is about.
    #[must_use]
    pub fn takes_service(&self, service: &str) -> bool {
        self.services.is_empty() || self.services.iter().any(|known| known == service)
    }

    /// True for a kind of value that the question is about.
    #[must_use]
    pub fn takes_kind(&self, kind: &str) -> bool {
        self.kind.as_ref().is_none_or(|known| known == kind)
    }

    /// True for an interval that the question is about.
    #[must_use]
    pub fn takes(&self, key: &IntervalKey) -> bool {
        let named = |list: &[String], name: &String| list.is_empty() || list.contains(name);
        named(&self.hosts, &key.host)
            && self.since.as_ref().is_none_or(|since| key.moment >= *since)
            && self.until.as_ref().is_none_or(|until| key.moment < *until)
    }
}

/// The moment as text, of seconds since 1970 (UTC).
#[must_use]
pub fn moment_text(unix_s: u64) -> String {
    let UtcTime { year, month, day, hour, minute, second } = UtcTime::from_seconds(unix_s);
    format!("{year:04}-{month:02}-{day:02} {hour:02}{minute:02}{second:02}")
}

/// Microseconds since 1970 of a moment; `None` for a date that is none.
fn unix_us(moment: &str) -> Option<i64> {
    let (date, time) = moment.split_once(' ')?;
    let mut parts = date.split('-').map(str::parse::<i64>);
    let (year, month, day) = (parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?);
    if !(1970..10_000).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Years that begin in March end with the leap day.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 719_469;
    let time: i64 = time.parse().ok()?;
    Some((days * 86_400 + time / 10_000 * 3600 + time / 100 % 100 * 60 + time % 100) * 1_000_000)
}

/// The moment of `2026-11-27`, `2026-11-27T03:05`, `2026-11-27T03:05:10` (UTC), or of a time before now such as `90s`,
/// `30m`, `2h`, `7d`; `None` for other text.
#[must_use]
pub fn moment_of(text: &str, now_unix_s: u64) -> Option<String> {
    if let Some(ago) = seconds_of(text) {
        return Some(moment_text(now_unix_s.saturating_sub(ago)));
    }
    let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, "00:00"));
    let parts: Vec<&str> = date.split('-').collect();
    let is_number = |part: &&str, len: usize| part.len() == len && part.bytes().all(|b| b.is_ascii_digit());
    if parts.len() != 3 || !parts.iter().zip([4, 2, 2]).all(|(part, len)| is_number(part, len)) {
        return None;
    }
    let times: Vec<&str> = time.split(':').collect();
    if !(2..=3).contains(&times.len()) || !times.iter().all(|part| is_number(part, 2)) {
        return None;
    }
    Some(format!("{date} {}{}{}", times[0], times[1], times.get(2).unwrap_or(&"00")))
}

/// Seconds of `90s`, `30m`, `2h`, `7d`; `None` for other text.
#[must_use]
pub fn seconds_of(text: &str) -> Option<u64> {
    let unit = match text.chars().last()? {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => DAY_S,
        _ => return None,
    };
    text[..text.len() - 1].parse::<u64>().ok()?.checked_mul(unit)
}

/// A name that is one folder's: other characters as `%2F`.
fn escaped(name: &str) -> String {
    let mut text = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b'@' | b':' => {
                text.push(byte as char)
            }
            _ => {
                let _ = write!(text, "%{byte:02X}");
            }
        }
    }
    if text.is_empty() { "_".to_owned() } else { text }
}

fn unescaped(name: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = name.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first == b'%' {
            let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &rest[2..];
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(host: &str, moment: &str) -> IntervalKey {
        IntervalKey { host: host.to_owned(), moment: moment.to_owned() }
    }

    #[test]
    fn names_of_folders_lead_back_to_the_key() {
        for host in ["web-1.example.org", "a/b c", "../..", "ünï"] {
            let key = key(host, "2026-11-27 030500");
            let folders = key.folders();
            assert!(folders.iter().all(|folder| !folder.contains('/')), "{folders:?}");
            let names = [folders[0].as_str(), folders[1].as_str()];
            assert_eq!(IntervalKey::of_names(names, &key.file()), Some(key));
        }
        assert_eq!(IntervalKey::of_names(["date=2026-11-27", "host=b"], "x.tmp"), None);
    }

    #[test]
    fn moments_are_those_of_date() {
        assert_eq!(moment_text(0), "1970-01-01 000000");
        assert_eq!(moment_text(951_782_399), "2000-02-28 235959");
        assert_eq!(moment_text(951_782_400), "2000-02-29 000000");
        for unix_s in [0, 951_782_399, 951_782_400, 1_795_748_462, 4_102_444_799] {
            let start_us = key("h1", &moment_text(unix_s)).start_us();
            assert_eq!(start_us, Some(unix_s.cast_signed() * 1_000_000));
        }
        assert_eq!(key("h1", "2026-13-01 000000").start_us(), None);
        assert_eq!(moment_text(1_795_748_462), "2026-11-27 030102");
        assert_eq!(moment_of("2026-11-27T03:05", 0).as_deref(), Some("2026-11-27 030500"));
        assert_eq!(moment_of("2026-11-27", 0).as_deref(), Some("2026-11-27 000000"));
        assert_eq!(moment_of("2h", 951_782_400).as_deref(), Some("2000-02-28 220000"));
        assert_eq!(moment_of("yesterday", 0), None);
    }

    #[test]
    fn folders_outside_of_the_question_are_not_entered() {
        let filter = FleetFilter {
            hosts: vec!["web".to_owned()],
            since: Some("2026-11-26 120000".to_owned()),
            until: Some("2026-11-27 000000".to_owned()),
            ..FleetFilter::default()
        };
        let entered = ["host=web", "date=2026-11-26", "date=2026-11-27"];
        assert!(entered.iter().all(|folder| filter.enters(folder)));
        let others = ["host=db", "date=2026-11-25", "date=2026-11-28", "lost+found"];
        assert!(!others.iter().any(|folder| filter.enters(folder)));
        assert!(filter.takes(&key("web", "2026-11-26 120000")));
        assert!(!filter.takes(&key("web", "2026-11-26 115959")));
        assert!(!filter.takes(&key("web", "2026-11-27 000000")));
    }
}
