//! The first screen of `tally run` as text: the answer, where the time goes, how sure, what next. At most 28 lines of 80
//! columns.

mod function_names;

use crate::terminal::out::harmless;
use crate::verdict::first_screen::{FirstScreen, Headline};
use display::bar::{eighths, heat, of_eighths};
use display::fit::{cut, cut_name, keep_units, wrap, wrap_evenly};
use display::number::{brief_bytes, count_of, duration_ns};
use display::palette::StateClass;
use display::term::{self, Paint, paint};
use profile::verdict::FEW_SAMPLES;
use record::summary::RunSummary;

use function_names::{brief, in_steps, label};

/// Lines of the screen, unless the terminal is too narrow for them.
const LINES: usize = 28;
/// Columns left free at the left.
const INDENT: usize = 2;
/// Widest screen: names far from their numbers are hard to read.
const WIDEST: usize = 100;
/// Fewest and most rows of functions.
const ROWS: (usize, usize) = (3, 6);
/// Begin and end are no thread's time, and in a shorter run they are much of it: its shares would not fit together.
const SHORT_NS: u64 = 10_000_000;
/// Above the functions that have a row for what they call.
const CALLERS: &str = "mostly in what they call";
/// Most lines of a warning: a remedy is a command, which is of use only as a whole.
const WARNING_LINES: usize = 4;

/// The screen with a line end after each line: whole, or as short as a narrow terminal needs it. `colour`: with colours.
#[must_use]
pub fn draw(screen: &FirstScreen, width: usize, colour: bool) -> String {
    let at = |brevity| draw_at(screen, &Pen { width: width.clamp(20, WIDEST) - INDENT, colour, brevity });
    let shortest = Brevity::ALL[Brevity::ALL.len() - 1];
    Brevity::ALL
        .into_iter()
        .map(at)
        .find(|text| text.lines().count() <= LINES)
        .unwrap_or_else(|| at(shortest))
}

/// Parts that are left out, each with all of those before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Brevity {
    Whole,
    NoGaps,
    NoBars,
    NoGraph,
    NoDetails,
    OneFix,
    TwoFindings,
}

impl Brevity {
    const ALL: [Self; 7] = [
        Self::Whole,
        Self::NoGaps,
        Self::NoBars,
        Self::NoGraph,
        Self::NoDetails,
        Self::OneFix,
        Self::TwoFindings,
    ];
}

fn draw_at(screen: &FirstScreen, pen: &Pen) -> String {
    let is = |brevity| pen.brevity >= brevity;
    let gap = (!is(Brevity::NoGaps)).then(String::new);
    let mut before: Vec<String> = vec![String::new()];
    let shown = if is(Brevity::TwoFindings) { 2 } else { screen.headlines.len() };
    for (at, headline) in screen.headlines.iter().take(shown).enumerate() {
        before.extend(pen.headline(headline, at == 0));
    }
    before.extend(screen.headlines.get(shown).map(|next| format!("one more: {}", next.why)));
    before.push(String::new());
    before.extend(pen.fitting(&totals(screen), "   "));
    before.extend(pen.states(screen));
    before.extend(pen.threads(&screen.threads).filter(|_| !is(Brevity::NoBars)));
    before.extend(gap.clone());
    let has_shares = screen.hot.samples >= FEW_SAMPLES;
    let has_path = has_shares && !is(Brevity::NoGraph);
    let mut after = if has_path { pen.hot_path(&screen.hot.trunk) } else { Vec::new() };
    after.extend(gap);
    after.extend(pen.fitting(&screen.quality, " · "));
    let file = pen.file(screen);
    let most_rows = pen.functions(screen, ROWS.1).len();
    let taken = before.len() + after.len() + file.len() + most_rows;
    after.extend(pen.warning(screen, LINES.saturating_sub(taken).clamp(2, WARNING_LINES)));
    after.extend(file);
    let has_callers = !is(Brevity::TwoFindings) && screen.hot.functions.iter().any(|row| row.is_caller);
    let heads = 1 + usize::from(has_callers);
    let rows = LINES.saturating_sub(before.len() + after.len() + heads).clamp(ROWS.0, ROWS.1);
    let functions = pen.functions(screen, rows);
    let mut text = String::new();
    for line in before.into_iter().chain(functions).chain(after) {
        let line = if line.is_empty() { line } else { format!("{:INDENT$}{line}", "") };
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// One state with its bar, or the note about all of them. `columns`: without colours.
#[derive(Clone)]
struct StatePart {
    /// The state; `None` for a note.
    name: Option<&'static str>,
    columns: usize,
    is_large: bool,
    text: String,
}

/// Without the columns at the left.
struct Pen {
    width: usize,
    colour: bool,
    brevity: Brevity,
}

impl Pen {
    fn paint(&self, text: &str, with: Paint) -> String {
        paint(text, with, self.colour)
    }

    /// Claim, numbers, remedy, and at the right the command with the evidence.
    fn headline(&self, headline: &Headline, is_first: bool) -> Vec<String> {
        let mut lines: Vec<(String, Option<Paint>)> = Vec::new();
        let mut add = |text: &str, with| {
            // A number stays with its sign.
            let parts = wrap_evenly(&keep_units(&spelled(&harmless(text))), self.width);
            lines.extend(parts.into_iter().map(|part| (part, with)));
        };
        add(&headline.claim, Some(Paint::Bold));
        if !headline.detail.is_empty() && self.brevity < Brevity::NoDetails {
            add(&headline.detail, None);
        }
        if !headline.fix.is_empty() && (is_first || self.brevity < Brevity::OneFix) {
            add(&format!("→ {}", headline.fix), None);
        }
        let room = lines.last().map_or(0, |(last, _)| self.width.saturating_sub(last.chars().count() + 2));
        let why = harmless(&headline.why).into_owned();
        let painted = |(text, with): &(String, Option<Paint>)| {
            with.map_or_else(|| text.clone(), |with| self.paint(text, with))
        };
        let mut drawn: Vec<String> = lines.iter().map(painted).collect();
        if why.is_empty() {
            return drawn;
        }
        let columns = why.chars().count();
        let why = self.paint(&why, Paint::Cyan);
        match drawn.last_mut().filter(|_| columns <= room) {
            Some(last) => {
                *last += &format!("{:1$}{why}", "", room + 2 - columns);
            }
            None => drawn.push(format!("{:1$}{why}", "", self.width.saturating_sub(columns))),
        }
        drawn
    }

    /// Parts on as few lines as have room for them.
    fn fitting(&self, parts: &[String], between: &str) -> Vec<String> {
        let parts = parts.iter().map(|part| cut(part, self.width));
        self.lines_of(parts.map(|part| (part.chars().count(), part)), between)
    }

    /// Parts, each with its columns, on as few lines as have room for them.
    fn lines_of(&self, parts: impl Iterator<Item = (usize, String)>, between: &str) -> Vec<String> {
        let mut lines: Vec<(usize, String)> = Vec::new();
        for (columns, part) in parts {
            let more = between.chars().count() + columns;
            match lines.last_mut().filter(|(taken, _)| *taken + more <= self.width) {
                Some((taken, line)) => (*taken, *line) = (*taken + more, format!("{line}{between}{part}")),
                None => lines.push((columns, part)),
            }
        }
        lines.into_iter().map(|(_, line)| line).collect()
    }

    /// One bar for all states. In one line as long as the large states have room there, without the small ones that
    /// have none. Else the states and the notes about them take several lines.
    fn states(&self, screen: &FirstScreen) -> Vec<String> {
        if screen.totals.wall_ns < SHORT_NS && screen.hot.samples < FEW_SAMPLES {
            return Vec::new();
        }
        /// Columns of the bars of all states together.
        const LENGTHS: [f64; 3] = [20.0, 14.0, 9.0];
        /// The same where small states make room.
        const SHORTER: [f64; 4] = [14.0, 9.0, 5.0, 3.0];
        /// Percent from which a state always has room.
        const LARGE: f64 = 5.0;
        let shown = screen.states.iter().filter(|(name, percent)| *percent >= 0.5 || *name == "on CPU");
        let draw = |length: f64| {
            let parts = shown.clone().map(|(name, percent)| {
                let has_bar = self.brevity < Brevity::NoBars && length > 0.0;
                let bar = if has_bar { bar(*percent, length) } else { String::new() };
                let text = format!("{name} {percent:.0} %");
                StatePart {
                    name: Some(*name),
                    columns: text.chars().count() + 1 + bar.chars().count(),
                    is_large: *percent >= LARGE,
                    text: format!("{text} {}", self.paint(&bar, Paint::State(StateClass::of(name)))),
                }
            });
            // Wider than a narrow screen: on two lines.
            let notes = states_note(screen).into_iter().flat_map(|note| wrap(&note, self.width));
            let notes = notes.map(|note| StatePart {
                name: None,
                columns: note.chars().count(),
                is_large: true,
                text: self.paint(&note, Paint::Dim),
            });
            parts.chain(notes).collect::<Vec<_>>()
        };
        let fits =
            |parts: &[StatePart]| parts.iter().map(|part| part.columns + 2).sum::<usize>() <= self.width + 2;
        let mut lengths = LENGTHS.into_iter().map(draw);
        // Small states give way to their sum, for which bars give way, too: shares add up.
        let small: f64 = screen.states.iter().map(|(_, percent)| *percent).filter(|of| *of < LARGE).sum();
        let mut shorter = || {
            [true, false].into_iter().take(if small < 2.0 { 2 } else { 1 }).find_map(|has_sum| {
                let whole = |parts: &[StatePart]| {
                    if has_sum { with_others(&screen.states, parts) } else { parts.to_vec() }
                };
                let large =
                    |length| draw(length).into_iter().filter(|part| part.is_large).collect::<Vec<_>>();
                let mut lengths = SHORTER.into_iter().chain(has_sum.then_some(0.0));
                let length = lengths.find(|&length| fits(&whole(&large(length))))?;
                let mut parts = draw(length);
                while !fits(&whole(&parts))
                    && let Some(last) = parts.iter().rposition(|part| !part.is_large)
                {
                    parts.remove(last);
                }
                Some(whole(&parts))
            })
        };
        let parts = lengths.find(|parts| fits(parts)).or_else(&mut shorter);
        let several_lines = || {
            let large: Vec<_> = draw(LENGTHS[1]).into_iter().filter(|part| part.is_large).collect();
            with_others(&screen.states, &large)
        };
        let parts = parts.unwrap_or_else(several_lines);
        self.lines_of(parts.into_iter().map(|part| (part.columns, part.text)), "  ")
    }

    fn threads(&self, threads: &[(String, f64)]) -> Option<String> {
        const REST: &str = " · others under 0.01 each";
        let mut line = String::new();
        for (name, percent) in threads.iter().take_while(|(_, percent)| *percent >= 1.0) {
            let text = format!("{} {:.2}", cut(&harmless(name), 24), percent / 100.0);
            let between = if line.is_empty() { "CPUs used: " } else { " · " };
            if line.chars().count() + between.chars().count() + text.chars().count() > self.width {
                break;
            }
            line += &format!("{between}{text}");
        }
        let has_rest = threads.last().is_some_and(|(_, percent)| *percent < 1.0);
        if has_rest && !line.is_empty() && line.chars().count() + REST.chars().count() <= self.width {
            line += REST;
        }
        Some(line).filter(|line| !line.is_empty())
    }

    fn functions(&self, screen: &FirstScreen, rows: usize) -> Vec<String> {
        let hot = &screen.hot;
        if hot.functions.is_empty() {
            return vec![format!("no samples: {}", RunSummary::why_unsampled(screen.totals.cpu_ns))];
        }
        if hot.samples < FEW_SAMPLES {
            let hit = hot.functions.iter().filter(|row| row.own > 0.0).take(3);
            let names: Vec<String> = hit.map(|row| brief(&row.name)).collect();
            let taken = count_of(hot.samples, "sample", "samples");
            let text = format!("{taken} (in {}), too few for a table", names.join(", "));
            return wrap(&harmless(&text), self.width);
        }
        // "100.0 %" and "100.0 %" with two columns before each.
        const NUMBERS: usize = 18;
        const BAR: usize = 10;
        let shown = hot.best(rows);
        let has_bars = self.width >= 60;
        let most = self.width.saturating_sub(NUMBERS + if has_bars { BAR + 2 } else { 0 });
        let labels: Vec<(String, String)> = shown.iter().map(|row| label(row, most)).collect();
        let columns = |label: &(String, String)| label.0.chars().count() + 2 + label.1.chars().count();
        let room = labels.iter().map(columns).max().unwrap_or(0).clamp(20.min(most), most);
        let head = format!("{:room$}  {:>7}  {:>7}", cut("where CPU time goes", room), "self", "total");
        let mut lines = vec![self.paint(&head, Paint::Bold)];
        let first_caller = shown.iter().position(|row| row.is_caller);
        for (at, (row, label)) in shown.into_iter().zip(&labels).enumerate() {
            if first_caller == Some(at) && self.brevity < Brevity::TwoFindings {
                lines.push(self.paint(CALLERS, Paint::Bold));
            }
            let (own, total, gap) = (row.own * 100.0, row.total * 100.0, room.saturating_sub(columns(label)));
            let name = format!("{}  {}{:gap$}", label.0, self.paint(&label.1, Paint::Dim), "");
            let bar = self.paint(&bar(own, BAR as f64), heat(own));
            let bar = if has_bars && own >= 0.05 { format!("  {bar}") } else { String::new() };
            lines.push(format!("{name}  {own:>5.1} %  {total:>5.1} %{bar}"));
        }
        lines
    }

    fn hot_path(&self, trunk: &[String]) -> Vec<String> {
        /// Shown at most, from the inside.
        const STEPS: usize = 8;
        let names: Vec<String> = in_steps(trunk).iter().map(|name| cut_name(&harmless(name), 40)).collect();
        if names.len() < 2 {
            return Vec::new();
        }
        let left_out = names.len().saturating_sub(STEPS);
        let begin = if left_out > 0 { "… → " } else { "" };
        let text = spelled(&format!("hot path: {begin}{}", names[left_out..].join(" → ")));
        let mut lines = wrap(&text, self.width);
        if lines.len() > 2 {
            // The inner part is the more useful one.
            let fits = |names: &[String]| {
                wrap(&spelled(&format!("hot path: … → {}", names.join(" → "))), self.width)
            };
            let from = (left_out..names.len()).find(|&from| fits(&names[from..]).len() <= 2);
            lines = fits(&names[from.unwrap_or(names.len() - 1)..]);
        }
        lines
    }

    /// The first warning or note, in at most `most` lines, and how many more there are.
    fn warning(&self, screen: &FirstScreen, most: usize) -> Vec<String> {
        let [warnings, notes] = [&screen.warnings, &screen.notes];
        let Some(first) = warnings.first().or(notes.first()) else { return Vec::new() };
        let all = format!("tally why{}", screen.file.input);
        let more = match warnings.len() + notes.len() {
            1 => String::new(),
            count => format!(" ({}: {all})", count_of(count as u64 - 1, "more note", "more notes")),
        };
        // A mark is for what can be mended.
        let mark = if warnings.is_empty() { "" } else { "! " };
        let text = format!("{mark}{}{more}", spelled(&in_short(&harmless(first), self.width)));
        let mut lines = wrap_evenly(&text, self.width);
        if lines.len() > most {
            lines.truncate(most);
            let more = if more.is_empty() { format!(" (in full: {all})") } else { more };
            let end = format!(" …{more}");
            let last = cut(&lines[most - 1], self.width.saturating_sub(end.chars().count()));
            // Nor is half a command, or half a remark in brackets.
            let last = last.trim_end_matches(['…', ' ']).trim_end_matches(": apt install");
            let open = last.rfind('(').filter(|&open| !last[open..].contains(')'));
            lines[most - 1] = last[..open.unwrap_or(last.len())].trim_end().to_owned() + &end;
        }
        let with = if warnings.is_empty() { Paint::Dim } else { Paint::Yellow };
        lines.iter().map(|line| self.paint(line, with)).collect()
    }

    fn file(&self, screen: &FirstScreen) -> Vec<String> {
        let file = &screen.file;
        let name = harmless(&file.path).into_owned();
        let graph = format!("graph: tally flame{} -o out.svg", file.input);
        let has_graph =
            screen.hot.samples > 0 && self.brevity < Brevity::NoGraph && graph.chars().count() <= self.width;
        let waits = format!("waits: tally report --wall{}", file.input);
        let parts = [
            Some(format!("{name} {}", brief_bytes(file.bytes))),
            Some(format!("browse: tally report{}", file.input)),
            Some(graph).filter(|_| has_graph),
            Some(waits).filter(|_| !screen.states.is_empty()),
        ];
        // A cut command is of no use: one that is too long for the screen gets a line to itself.
        self.lines_of(parts.into_iter().flatten().map(|part| (part.chars().count(), part)), "   ")
    }
}

/// The text as it gets to a terminal that knows only ASCII, so that its columns can be counted.
fn spelled(text: &str) -> String {
    if !term::is_ascii() {
        return text.to_owned();
    }
    text.chars().map(|c| term::in_ascii(c).map_or_else(|| c.to_string(), str::to_owned)).collect()
}

/// A warning whose command would not fit into one line, with its target left out: half a command is of no use.
fn in_short(warning: &str, width: usize) -> String {
    let Some((before, _)) = warning.split_once("tally run ").filter(|_| warning.chars().count() + 2 > width)
    else {
        return warning.to_owned();
    };
    let command = &warning[before.len()..];
    let options = command.find(" -- ").map_or(command, |at| &command[..at]);
    format!("{before}{options} …")
}

/// Idle time that the states don't include, whether the reasons are exact, and futex waits that are not for locks.
/// `None`: nothing to note.
fn states_note(screen: &FirstScreen) -> Option<String> {
    let is_state = screen.states.iter().any(|(name, _)| *name == "idle");
    let idle = Some(screen.idle_percent).filter(|percent| *percent >= 0.5 && !is_state);
    let idle = idle.map(|percent| format!("+ idle {percent:.0} % of all"));
    let estimated = screen.are_reasons_estimated.then(|| "reasons estimated".to_owned());
    let notes: Vec<String> = estimated.into_iter().chain(futex_note(screen)).chain(idle).collect();
    Some(format!("({})", notes.join("; "))).filter(|_| !notes.is_empty())
}

/// Not worth words below a twentieth of the time.
fn futex_note(screen: &FirstScreen) -> Option<String> {
    let futex = screen.states.iter().find(|(name, _)| *name == "futex")?.1;
    let for_work = Some(screen.futex_for_work_percent).filter(|percent| *percent >= 5.0)?;
    let part =
        if for_work > 0.95 * futex { String::new() } else { format!("{for_work:.0} of {futex:.0} % ") };
    Some(format!("{part}futex: for other threads' work, not a lock"))
}

fn totals(screen: &FirstScreen) -> Vec<String> {
    let totals = &screen.totals;
    let used = match totals.cpus {
        _ if totals.wall_ns < SHORT_NS => String::new(),
        0 => format!(" ({:.2} CPUs)", totals.cpus_used),
        cpus => format!(" ({:.2} of {})", totals.cpus_used, count_of(cpus.into(), "CPU", "CPUs")),
    };
    let mut parts = vec![
        format!("{} wall", duration_ns(totals.wall_ns)),
        format!("{} CPU{used}", duration_ns(totals.cpu_ns)),
    ];
    if totals.threads > 0 {
        let processes = count_of(totals.processes, "process", "processes");
        parts.push(format!("{}, {processes}", count_of(totals.threads, "thread", "threads")));
    }
    parts.extend(totals.exit_code.map(|code| format!("exit status {code}")));
    parts
}

/// These parts, with one for the states that are not among them: all shares add up.
fn with_others(states: &[(&'static str, f64)], parts: &[StatePart]) -> Vec<StatePart> {
    let is_left_out = |name: &str| !parts.iter().any(|part| part.name == Some(name));
    let percent: f64 = states.iter().filter(|(name, _)| is_left_out(name)).map(|(_, percent)| percent).sum();
    let mut parts = parts.to_vec();
    if percent >= 0.5 {
        let text = format!("others {percent:.0} %");
        let end = parts.iter().position(|part| part.name.is_none()).unwrap_or(parts.len());
        parts.insert(
            end,
            StatePart { name: Some("others"), columns: text.chars().count(), is_large: true, text },
        );
    }
    parts
}

/// `columns` for 100 percent; at least the thinnest line.
fn bar(percent: f64, columns: f64) -> String {
    of_eighths(eighths(percent, columns).max(1))
}

#[cfg(test)]
mod tests;
