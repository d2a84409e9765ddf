//! Questions to a ClickHouse server that has the tables `samples` and `recordings`, over HTTP.

use super::merge::OFF_CPU;
use super::{FleetFilter, FleetProfiles, Ledger};
use crate::http::{HttpPost, HttpUrl};
use crate::import::{ImportError, StackRow};
use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Read, Write};

/// The scheme of such a server's address: `clickhouse://HOST`, port 8123 and database `tally` without others.
pub const SCHEME: &str = "clickhouse://";

const PORT: u16 = 8123;
const DATABASE: &str = "tally";

/// A server with its database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClickHouse {
    /// Its address; the path is the request's.
    pub url: HttpUrl,
    database: String,
}

impl ClickHouse {
    /// The server of `clickhouse://HOST:PORT/DATABASE`; `None` for other text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut url = HttpUrl::parse(text, SCHEME, PORT)?;
        let database = std::mem::take(&mut url.path);
        let is_name = database.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let database = if database.is_empty() { DATABASE.to_owned() } else { database };
        is_name.then_some(Self { url, database })
    }

    /// The rows of a query, as lines of values separated by tabs.
    ///
    /// # Errors
    /// The server can't be reached, or refuses the query: with its first line.
    pub fn ask(&self, stream: impl Read + Write, query: &str) -> io::Result<String> {
        let mut headers = Vec::new();
        if let Some((name, password)) = &self.url.user {
            headers = vec![("X-ClickHouse-User", name.as_str()), ("X-ClickHouse-Key", password.as_str())];
        }
        let answer = HttpPost { url: &self.url, headers: &headers, body: query.as_bytes() }.send(stream)?;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        if answer.status != 200 {
            let first = text.lines().next().unwrap_or("no reason");
            return Err(io::Error::other(format!("status {}: {first}", answer.status)));
        }
        Ok(text)
    }

    /// Sums of all stacks that a question is about.
    #[must_use]
    pub fn stacks_query(&self, filter: &FleetFilter) -> String {
        let columns = "host, service, comm, kind, unit, state, stack, modules";
        format!(
            "SELECT {columns}, sum(value), sum(samples) FROM {}.samples{}{} GROUP BY {columns} FORMAT TabSeparated",
            self.database,
            condition(filter, true),
            kind_condition(filter)
        )
    }

    /// Number of intervals that a question is about.
    #[must_use]
    pub fn intervals_query(&self, filter: &FleetFilter) -> String {
        let condition = condition(filter, true);
        format!("SELECT uniqExact(host, time) FROM {}.samples{condition} FORMAT TabSeparated", self.database)
    }

    /// Rows of the agents' notes, oldest first.
    #[must_use]
    pub fn notes_query(&self, filter: &FleetFilter) -> String {
        format!(
            "SELECT host, kind, total, agent_cpu_ns, agent_age_ns, left_out FROM {}.recordings{} ORDER BY time \
             FORMAT TabSeparated",
            self.database,
            condition(filter, false)
        )
    }
}

fn condition(filter: &FleetFilter, with_services: bool) -> String {
    let mut conditions = Vec::new();
    let services = if with_services { filter.services.as_slice() } else { &[] };
    for (column, names) in [("service", services), ("host", &filter.hosts)] {
        if !names.is_empty() {
            let names: Vec<String> = names.iter().map(|name| quoted(name)).collect();
            conditions.push(format!("{column} IN ({})", names.join(", ")));
        }
    }
    for (relation, moment) in [(">=", &filter.since), ("<", &filter.until)] {
        if let Some(moment) = moment {
            conditions.push(format!("time {relation} toDateTime({}, 'UTC')", quoted(&with_colons(moment))));
        }
    }
    let mut text = String::new();
    for (at, condition) in conditions.iter().enumerate() {
        let _ = write!(text, "{} {condition}", if at == 0 { " WHERE" } else { " AND" });
    }
    text
}

/// Rows of the kind of value; those of the wall clock have the time off the CPU.
fn kind_condition(filter: &FleetFilter) -> String {
    let kind = filter.kind.as_deref().map(|kind| if kind == OFF_CPU { "wall" } else { kind });
    // Each query has a condition at most: a subquery would read all columns.
    let word = if condition(filter, true).is_empty() { "WHERE" } else { "AND" };
    kind.map_or_else(String::new, |kind| format!(" {word} kind = {}", quoted(kind)))
}

/// `2026-11-27 030500` as `2026-11-27 03:05:00`.
fn with_colons(moment: &str) -> String {
    let (date, time) = moment.split_once(' ').unwrap_or((moment, ""));
    let part = |at: usize| time.get(at..at + 2).unwrap_or("00");
    format!("{date} {}:{}:{}", part(0), part(2), part(4))
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// Adds the answer to [`ClickHouse::stacks_query`].
///
/// # Errors
/// A line is of another form, or there are too many stacks.
pub fn add_stacks(text: &str, filter: &FleetFilter, profiles: &mut FleetProfiles) -> Result<(), ImportError> {
    for line in text.lines() {
        let values: Vec<Cow<'_, str>> = line.split('\t').map(unescaped).collect();
        let [host, service, comm, kind, unit, state, stack, modules, value, samples] = values.as_slice()
        else {
            return Err(ImportError::Unsupported("an answer of another form than the query's"));
        };
        let number = |text: &str| {
            text.parse().map_err(|_| ImportError::Unsupported("an answer with a sum that is no number"))
        };
        let (value, samples) = (number(value)?, number(samples)?);
        let ids = StackRow { host, service, comm, kind, unit, state, ..StackRow::default() };
        profiles.add(&StackRow { stack, modules, value, samples, ..ids }, filter)?;
    }
    Ok(())
}

/// The notes of each machine by the answer to [`ClickHouse::notes_query`]; lines of another form are left out.
#[must_use]
pub fn notes_of(text: &str) -> Vec<(String, Ledger)> {
    let note = |line: &str| {
        let values: Vec<Cow<'_, str>> = line.split('\t').map(unescaped).collect();
        let [host, kind, numbers @ ..] = values.as_slice() else { return None };
        let numbers: Vec<u64> = numbers.iter().map(|number| number.parse().ok()).collect::<Option<_>>()?;
        let [total, agent_cpu_ns, agent_age_ns, left_out] = *numbers.as_slice() else { return None };
        let kinds = [(kind.to_string(), total)].into();
        Some((host.to_string(), Ledger { kinds, agent_cpu_ns, agent_age_ns, left_out }))
    };
    text.lines().filter_map(note).collect()
}

/// A value without the marks of the format TabSeparated.
fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut plain = String::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        let marked = if c == '\\' { rest.next() } else { None };
        plain.push(match marked {
            None => c,
            Some('n') => '\n',
            Some('t') => '\t',
            Some('r') => '\r',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('0') => '\0',
            Some(other) => other,
        });
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_have_the_conditions_of_the_question_with_quoted_names() {
        let server = ClickHouse::parse("clickhouse://h").expect("an address");
        let filter = FleetFilter {
            services: vec!["it's".to_owned(), "b\\".to_owned()],
            since: Some("2026-11-27 030500".to_owned()),
            ..FleetFilter::default()
        };
        let query = server.intervals_query(&filter);
        assert!(
            query.contains("FROM tally.samples WHERE service IN ('it\\'s', 'b\\\\') AND time >= "),
            "{query}"
        );
        assert!(query.contains("toDateTime('2026-11-27 03:05:00', 'UTC')"), "{query}");
        assert!(!server.notes_query(&filter).contains("service"));
        let of_kind = FleetFilter { kind: Some("off_cpu".to_owned()), ..filter.clone() };
        assert!(server.stacks_query(&of_kind).contains("'UTC') AND kind = 'wall' GROUP"));
        assert_eq!(server.intervals_query(&of_kind), query);
        let of_kind = FleetFilter { kind: Some("cpu".to_owned()), ..FleetFilter::default() };
        assert!(server.stacks_query(&of_kind).contains("samples WHERE kind = 'cpu' GROUP"));
        assert_eq!(ClickHouse::parse("clickhouse://h/a;b"), None);
    }

    #[test]
    fn answers_become_stacks() {
        let mut profiles = FleetProfiles::default();
        let line = "h1\tweb\tnginx\twall\tnanoseconds\tfutex\tmain\\nlock\\n[futex]\t/a\\n/a\\n\t7\t0\n";
        let filter = FleetFilter::default();
        add_stacks(line, &filter, &mut profiles).expect("of the query's form");
        assert!(add_stacks("a\tb\n", &filter, &mut profiles).is_err());
        let (_, sums) = profiles.into_sums().next().expect("a machine");
        let bytes = sums.finish().expect("small sums").to_perf_data().expect("in memory");
        let file = perfdata::PerfData::open(&bytes).expect("of ours");
        let names: Vec<&str> = file.events().iter().map(|event| event.name.as_str()).collect();
        assert_eq!(names, ["wall", "off_cpu"]);
    }

    #[test]
    fn notes_keep_sums_and_cost() {
        let notes = notes_of("h1\tcpu\t5\t1\t100\t2\nodd\n");
        let kinds = [("cpu".to_owned(), 5)].into();
        let ledger = Ledger { kinds, agent_cpu_ns: 1, agent_age_ns: 100, left_out: 2 };
        assert_eq!(notes, [("h1".to_owned(), ledger)]);
    }
}
