//! Requests by route as text: how many, how long, and where their wall clock went, in one table.

use super::{FollowedTextOpts, share};
use display::fit::{cut, hang};
use display::number::{count_of, duration_ns, grouped};
use display::term::{Paint, paint};
use profile::Profile;
use profile::view::ranking::RankRows as _;
use profile::view::spans::{SlowCall, SpanFunctionRow};
use profile::view::wall::{Part, part_name};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Columns of waits, those with most time: as many as leave room for a route.
fn waits_shown(width: usize) -> usize {
    const ROOM: usize = 62 + 20;
    (width.saturating_sub(ROOM) / 7).clamp(1, 6)
}

/// The table with a line for each route, and the looks that found nothing; empty without routes.
pub(super) fn table(profile: &Profile, rows: &[SpanFunctionRow], opts: FollowedTextOpts) -> String {
    let routes: Vec<&SpanFunctionRow> = rows.iter().filter(|row| row.unsure_ns.is_some()).collect();
    if routes.is_empty() {
        return String::new();
    }
    let columns = columns(&routes, waits_shown(opts.width));
    let width_of = |column: &str| short(column).chars().count().max(6);
    let heading = "ROUTES       requests that threads worked on, and where their wall clock went";
    let mut lines = vec![paint(&hang(heading, 13, opts.width), Paint::Bold, opts.colour)];
    let words: String =
        columns.iter().map(|column| format!(" {:>1$}", short(column), width_of(column))).collect();
    lines.push(format!("{:>8} {:>6} {:>8} {:>8} {:>8}{words}  route", "total", "count", "p50", "p90", "p99"));
    for row in routes.iter().take(opts.rows) {
        let [total, p50, p90, p99] =
            [row.latency.total_ns, row.latency.p50_ns, row.latency.p90_ns, row.latency.p99_ns]
                .map(duration_ns);
        let ns = times(row);
        let cell = |column: &&'static str| {
            let parts = ns.iter().filter(|(of, _)| column_of(of, &columns) == *column);
            let part: u64 = parts.map(|(_, ns)| ns).sum();
            let text = if part == 0 { "·".to_owned() } else { share(part, row.latency.total_ns) };
            format!(" {text:>0$}", width_of(column))
        };
        let shares: String = columns.iter().map(cell).collect();
        let count = grouped(row.calls);
        let text = format!("{total:>8} {count:>6} {p50:>8} {p90:>8} {p99:>8}{shares}  {}", row.name);
        lines.push(cut(&text, opts.width));
    }
    let more = routes.len().saturating_sub(opts.rows);
    if more > 0 {
        lines.push(format!("{} (--rows)", count_of(more as u64, "more route", "more routes")));
    }
    let unsure_ns = routes.iter().filter_map(|row| row.unsure_ns).max().unwrap_or(0);
    lines.push(hang(&unsure_words(unsure_ns), 2, opts.width));
    let damage = damage_words(profile);
    if !damage.is_empty() {
        lines.push(hang(&format!("not read: {damage}"), 2, opts.width));
    }
    lines.iter().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// Column of all waits that have none of their own.
const OTHER: &str = "other";

/// On the CPU, the run queue, and the waits with most time.
fn columns(routes: &[&SpanFunctionRow], most: usize) -> Vec<&'static str> {
    let mut waits: BTreeMap<&'static str, u64> = BTreeMap::new();
    for (name, ns) in routes.iter().flat_map(|row| times(row)) {
        *waits.entry(name).or_default() += ns;
    }
    let mut waits: Vec<_> = waits.into_iter().filter(|(name, ns)| *ns > 0 && !FIRST.contains(name)).collect();
    waits.rank_by_key(|(name, ns)| (Reverse(*ns), *name));
    let has_other = waits.len() > most;
    let named = waits.iter().take(most).map(|(name, _)| *name);
    FIRST.into_iter().chain(named).chain(has_other.then_some(OTHER)).collect()
}

/// The first columns.
const FIRST: [&str; 2] = ["on CPU", "runnable"];

fn column_of(name: &'static str, columns: &[&'static str]) -> &'static str {
    if columns.contains(&name) { name } else { OTHER }
}

/// Time by kind of state. Preempted threads are runnable.
fn times(row: &SpanFunctionRow) -> Vec<(&'static str, u64)> {
    let name = |part: Part| match part {
        Part::Preempted => part_name(Part::Runnable),
        part => part_name(part),
    };
    row.states.iter().flatten().map(|of| (name(of.state.part), of.ns)).collect()
}

/// Heading of a column.
fn short(column: &str) -> &str {
    match column {
        "on CPU" => "on",
        "runnable" => "runq",
        other => other,
    }
}

/// Note that begins and ends aren't exact.
fn unsure_words(unsure_ns: u64) -> String {
    format!(
        "threads are looked at 1,000 times per second and at switches: begin and end of a request are taken from the \
         middle between two looks, together off by up to {} (median); shorter requests may be missing",
        duration_ns(unsure_ns)
    )
}

/// When a slow call was: `at 1.203 s`, or for a request when it was seen.
pub(super) fn when(call: &SlowCall) -> String {
    let Some(seen) = call.seen else { return format!("at {}", duration_ns(call.at_ns)) };
    let since = |ns: u64| duration_ns((ns + call.at_ns).saturating_sub(call.begin_ns));
    let ids = if seen.trace == [0; 16] { String::new() } else { format!(", trace {}", hex(&seen.trace)) };
    format!("seen from {} to {}{ids}", since(seen.from_ns), since(seen.to_ns))
}

/// `4bf92f35…`.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Looks and changes that gave nothing, by reason; empty if there are none.
fn damage_words(profile: &Profile) -> String {
    let of = &profile.spans.contexts;
    let parts = [
        (of.lost, "changes lost (too many at once)"),
        (of.unreadable, "looks at a pointer that leads nowhere"),
        (of.invalid, "looks at a record that is neither valid nor invalid"),
        (of.cut, "contexts with too many attributes"),
        (of.damaged, "contexts with damaged attributes"),
    ];
    let words = parts.iter().filter(|(count, _)| *count > 0);
    words.map(|(count, what)| format!("{} {what}", grouped(*count))).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::off_cpu::WaitReason;
    use profile::view::spans::{CallLatency, SpanState, SpanStateRow};

    fn route(name: &str, states: &[(Part, u64)]) -> SpanFunctionRow {
        let row = |&(part, ns): &(Part, u64)| SpanStateRow {
            state: SpanState { part, target: None },
            ns,
            slowest_ns: ns,
        };
        let total_ns = states.iter().map(|(_, ns)| ns).sum();
        SpanFunctionRow {
            name: name.to_owned(),
            unsure_ns: Some(400_000),
            calls: 2,
            latency: CallLatency { total_ns, p50_ns: total_ns / 2, ..CallLatency::default() },
            states: Some(states.iter().map(row).collect()),
            ..SpanFunctionRow::default()
        }
    }

    #[test]
    fn each_route_has_a_line_with_its_shares() {
        let rows = [
            route("/a", &[(Part::On, 60), (Part::Preempted, 10), (Part::Blocked(WaitReason::Futex), 30)]),
            route("/b", &[(Part::Blocked(WaitReason::Futex), 50)]),
        ];
        let opts = FollowedTextOpts { width: 120, colour: false, rows: 10 };
        let text = table(&Profile::default(), &rows, opts);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1][lines[1].len() - 4..], ["on", "runq", "futex", "route"], "{text}");
        assert_eq!(lines[2][lines[2].len() - 4..], ["60.0%", "10.0%", "30.0%", "/a"], "{text}");
        assert_eq!(lines[3][lines[3].len() - 4..], ["·", "·", "100.0%", "/b"], "{text}");
        assert_eq!(table(&Profile::default(), &[SpanFunctionRow::default()], opts), "");
    }
}
