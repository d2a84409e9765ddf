//! Calls of recorded spans as text: how long they took, where their time went, which were the slowest and why.

use super::{FollowedTextOpts, place_words, share};
use display::fit::{cut, hang, wrap};
use display::number::{count_of, duration_ns, grouped};
use display::term::{Paint, paint};
use profile::Profile;
use profile::view::blame::{causes, thread_name};
use profile::view::ranking::RankRows as _;
use profile::view::spans::{NotCounted, SlowCall, SpanFunctionRow, SpanState, SpanStateRow};

/// A state with less than one of so many parts of both times is shown with all such.
const LEAST: u64 = 200;
/// States of a slow call that are shown.
const STATES_OF_CALL: usize = 3;
/// Causes in other threads that are shown, and the least share of the call that they have.
const CAUSES_OF_CALL: (usize, u64) = (2, 50);

/// The text about all functions, with a line end after each line.
#[must_use]
pub fn text(profile: &Profile, rows: &[SpanFunctionRow], opts: FollowedTextOpts) -> String {
    let each: Vec<String> =
        rows.iter().map(|row| SpanText { profile, row, opts, lines: Vec::new() }.text()).collect();
    let routes = super::routes::table(profile, rows, opts);
    if routes.is_empty() { each.join("\n") } else { routes + "\n" + &each.join("\n") }
}

/// Why calls are in no sum: `2 in progress at the end, 1 without its begin`; empty if all are.
#[must_use]
pub fn not_counted_words(of: &NotCounted) -> String {
    let parts = [
        (of.open, "in progress at the end"),
        (of.before_window, "without an end, begun before the window"),
        (of.without_begin, "without a begin (it was before the recording or its window)"),
        (of.left, "left without return (exception, longjmp, end of the thread)"),
        (of.nested, "inside another call of it"),
    ];
    let words = parts.iter().filter(|(count, _)| *count > 0);
    words.map(|(count, what)| format!("{} {what}", grouped(*count))).collect::<Vec<_>>().join(", ")
}

/// A function's calls in two sentences: how long they took, and where the slowest spent their time. The second is empty if
/// that isn't known.
#[must_use]
pub fn sentences(row: &SpanFunctionRow) -> [String; 2] {
    /// Least share of a state that is worth a word, in percent.
    const LEAST: u64 = 10;
    let (calls, latency) = (count(row), row.latency);
    if row.calls == 0 {
        let others = not_counted_words(&row.not_counted);
        let others = if others.is_empty() { "was it called?".to_owned() } else { others };
        return [format!("{}: no whole call ({others})", row.name), String::new()];
    }
    let [p50, p99, max] = [latency.p50_ns, latency.p99_ns, latency.max_ns].map(duration_ns);
    let claim = format!("{}: {calls}, p50 {p50}, p99 {p99}, longest {max}", row.name);
    let mut states: Vec<(&SpanState, u64)> =
        row.states.iter().flatten().map(|of| (&of.state, of.slowest_ns)).collect();
    states.rank_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let total: u64 = states.iter().map(|(_, ns)| ns).sum();
    let large =
        states.iter().filter(|(_, ns)| u128::from(*ns) * 100 >= u128::from(total) * u128::from(LEAST));
    let words = large
        .take(STATES_OF_CALL)
        .filter(|(_, ns)| *ns > 0)
        .map(|(state, ns)| format!("{:.0} % {}", *ns as f64 * 100.0 / total as f64, state.words()));
    let words = words.collect::<Vec<_>>().join(", ");
    let detail = if words.is_empty() { words } else { format!("the slowest 1 %: {words}") };
    [claim, detail]
}

/// `3 calls`, or `3 requests` of a route.
fn count(row: &SpanFunctionRow) -> String {
    let [one, many] = if row.unsure_ns.is_some() { ["request", "requests"] } else { ["call", "calls"] };
    count_of(row.calls, one, many)
}

struct SpanText<'a> {
    profile: &'a Profile,
    row: &'a SpanFunctionRow,
    opts: FollowedTextOpts,
    lines: Vec<String>,
}

impl SpanText<'_> {
    fn text(mut self) -> String {
        self.head();
        self.states();
        self.slowest();
        self.lines.iter().map(|line| line.trim_end().to_owned() + "\n").collect()
    }

    fn heading(&mut self, text: &str) {
        let text = hang(text, 13, self.opts.width);
        self.lines.push(String::new());
        self.lines.push(paint(&text, Paint::Bold, self.opts.colour));
    }

    fn head(&mut self) {
        let (row, latency) = (self.row, self.row.latency);
        let mean = latency.total_ns.checked_div(row.calls).unwrap_or(0);
        let mut head = format!("{}: {}", row.name, count(row));
        if row.calls > 0 {
            let threads = count_of(row.threads as u64, "thread", "threads");
            head +=
                &format!(" in {threads}, mean {}, sum {}", duration_ns(mean), duration_ns(latency.total_ns));
        }
        self.lines.push(hang(&head, 2, self.opts.width));
        if row.calls > 0 {
            let [p50, p90, p99, max] =
                [latency.p50_ns, latency.p90_ns, latency.p99_ns, latency.max_ns].map(duration_ns);
            let text = format!("latency: p50 {p50}, p90 {p90}, p99 {p99}, longest {max}");
            self.lines.push(hang(&text, 2, self.opts.width));
        }
        let others = not_counted_words(&row.not_counted);
        if !others.is_empty() {
            self.lines.push(hang(&format!("not counted: {others}"), 2, self.opts.width));
        }
    }

    fn states(&mut self) {
        let row = self.row;
        let Some(states) = row.states.as_deref().filter(|_| row.calls > 0) else {
            if row.calls > 0 {
                let text = "no times of threads in the recording: where the time went is not known";
                self.lines.push(hang(text, 2, self.opts.width));
            }
            return;
        };
        let calls = if row.unsure_ns.is_some() { "requests" } else { "calls" };
        self.heading(&format!("STATES       where the time of the {calls} went, and of the slowest 1 %"));
        self.lines.push(format!("{:>9} {:>7} {:>7}  state", "mean", "all", "slowest"));
        let (all, slowest): (u64, u64) =
            (states.iter().map(|row| row.ns).sum(), states.iter().map(|row| row.slowest_ns).sum());
        let line = |ns: u64, slowest_ns: u64, what: &str| {
            let mean = duration_ns(ns / row.calls);
            format!("{mean:>9} {:>7} {:>7}  {what}", share(ns, all), share(slowest_ns, slowest))
        };
        // A share that no column shows has no row of its own.
        let is_seen = |row: &SpanStateRow| row.ns * LEAST >= all || row.slowest_ns * LEAST >= slowest;
        let seen = states.iter().rposition(is_seen).map_or(0, |at| at + 1);
        // A single one takes no more room than its number.
        let seen = if seen + 1 == states.len() { states.len() } else { seen };
        let (shown, rest) = states.split_at(seen.min(self.opts.rows));
        for state in shown {
            let text = line(state.ns, state.slowest_ns, &state.state.words());
            self.lines.push(cut(&text, self.opts.width));
        }
        if !rest.is_empty() {
            let how = if seen > self.opts.rows { " (--rows)" } else { "" };
            let what = format!("{}{how}", count_of(rest.len() as u64, "more", "more"));
            let text =
                line(rest.iter().map(|row| row.ns).sum(), rest.iter().map(|row| row.slowest_ns).sum(), &what);
            self.lines.push(cut(&text, self.opts.width));
        }
    }

    fn slowest(&mut self) {
        let row = self.row;
        if row.slowest.is_empty() {
            return;
        }
        self.heading("SLOWEST      each with its states; below, what threads did that it waited for");
        for call in &row.slowest {
            let length = duration_ns(call.length_ns);
            let length = if call.is_open { format!("> {length}") } else { length };
            let task = self.profile.task(call.task);
            let open = if call.is_open { ", still in progress" } else { "" };
            let at = super::routes::when(call);
            let thread = thread_name(self.profile, call.task);
            let states = states_words(&call.states, call.length_ns);
            let text = format!("{length:>9}  {at}, {thread} {}{open}: {states}", task.tid);
            self.lines.push(hang(&text, 11, self.opts.width));
            self.causes(call);
        }
    }

    /// Adds the doings of other threads that this call waited for.
    fn causes(&mut self, call: &SlowCall) {
        let rows = causes(self.profile, &call.causes);
        let is_large = |ns: u64| ns.saturating_mul(CAUSES_OF_CALL.1) >= call.length_ns;
        let others = rows.iter().filter(|row| row.chain.len() > 1 && is_large(row.ns));
        for row in others.take(CAUSES_OF_CALL.0) {
            let place = place_words(&row.function, row.line.as_deref());
            let (share, chain) = (share(row.ns, call.length_ns), row.chain[1..].join(" ← "));
            let text = format!("← {share} {chain}: {}{place}", row.state_words(self.profile));
            let lines = wrap(&text, self.opts.width.saturating_sub(13).max(20));
            for (at, line) in lines.iter().enumerate() {
                self.lines.push(format!("{:indent$}{line}", "", indent = if at == 0 { 11 } else { 13 }));
            }
        }
    }
}

/// `90.1% lock in put(), 9.1% on CPU`.
fn states_words(states: &[(SpanState, u64)], length_ns: u64) -> String {
    let words = states.iter().take(STATES_OF_CALL);
    words
        .map(|(state, ns)| format!("{} {}", share(*ns, length_ns), state.words()))
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::off_cpu::WaitReason;
    use profile::view::spans::{CallLatency, SpanStateRow};
    use profile::view::wall::Part;

    fn row() -> SpanFunctionRow {
        let state = |part, target: Option<&str>, slowest_ns| SpanStateRow {
            state: SpanState { part, target: target.map(str::to_owned) },
            ns: 0,
            slowest_ns,
        };
        let latency = CallLatency {
            p50_ns: 1_200_000,
            p99_ns: 48_000_000,
            max_ns: 61_000_000,
            ..CallLatency::default()
        };
        let lock = state(Part::Blocked(WaitReason::Futex), Some("lock in put()"), 90);
        let states = Some(vec![state(Part::On, None, 9), lock, state(Part::Runnable, None, 1)]);
        SpanFunctionRow {
            name: "handle".to_owned(),
            calls: 1203,
            latency,
            states,
            ..SpanFunctionRow::default()
        }
    }

    #[test]
    fn two_sentences_are_about_how_long_and_why() {
        let [claim, detail] = sentences(&row());
        assert_eq!(claim, "handle: 1,203 calls, p50 1.200 ms, p99 48.00 ms, longest 61.00 ms");
        assert_eq!(detail, "the slowest 1 %: 90 % lock in put()");
        assert_eq!(sentences(&SpanFunctionRow { states: None, ..row() })[1], "");
    }

    #[test]
    fn without_a_whole_call_the_sentence_has_the_reason() {
        let others = NotCounted { left: 1200, open: 1, ..NotCounted::default() };
        let row = SpanFunctionRow { calls: 0, not_counted: others, ..row() };
        let words =
            "1 in progress at the end, 1,200 left without return (exception, longjmp, end of the thread)";
        assert_eq!(sentences(&row)[0], format!("handle: no whole call ({words})"));
    }
}
