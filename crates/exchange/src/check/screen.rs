//! The screen of `tally check`: the decision, costs before and now, functions to blame. At most 28 lines.

use super::wording::{change_text, cost_text, headline, interval_text, note_text};
use display::fit::{cut, wrap};
use display::number::count_of;
use display::term::{Paint, paint};
use perfdata::text::harmless;
use profile::view::check::{CheckOutcome, CheckResult, ComparedCost, FunctionGrowth};

/// Functions shown.
const MOST_FUNCTIONS: usize = 8;
/// Lines of notes shown.
const MOST_NOTES: usize = 6;
/// Widest screen.
const WIDEST: usize = 100;

/// Settings of the screen.
#[derive(Clone, Copy, Debug)]
pub struct CheckScreen {
    /// Columns.
    pub width: usize,
    /// With colours.
    pub colour: bool,
}

/// The screen with a line end after each line.
#[must_use]
pub fn draw(outcome: &CheckOutcome, on: CheckScreen) -> String {
    let CheckScreen { width, colour } = on;
    let width = width.clamp(40, WIDEST);
    let hue = match outcome.result {
        Some(CheckResult::Grew) => Paint::Red,
        Some(CheckResult::WithinLimit) => Paint::Green,
        _ => Paint::Yellow,
    };
    let mut lines: Vec<String> = Vec::new();
    for line in wrap(&format!("tally check: {}", harmless(&headline(outcome))), width) {
        lines.push(paint(&line, hue, colour));
    }
    lines.push(String::new());
    lines.extend(costs(outcome));
    lines.push(String::new());
    lines.push(cut(&sides(outcome), width));
    if !outcome.growths.is_empty() {
        lines.extend([String::new(), "Functions that cost more (own time per run)".to_owned()]);
        let shown = outcome.growths.iter().take(MOST_FUNCTIONS);
        lines.extend(shown.map(|growth| cut(&function(outcome, growth), width)));
        let more = outcome.growths.len().saturating_sub(MOST_FUNCTIONS);
        lines.extend((more > 0).then(|| format!("  and {}", count_of(more as u64, "other", "others"))));
    }
    let notes: Vec<String> = notes(outcome).iter().flat_map(|note| wrap(&harmless(note), width)).collect();
    if !notes.is_empty() {
        lines.push(String::new());
        lines.extend(notes.into_iter().take(MOST_NOTES));
    }
    lines.join("\n") + "\n"
}

/// A heading, and a line for each cost.
fn costs(outcome: &CheckOutcome) -> Vec<String> {
    let row = |cost: &ComparedCost| {
        format!(
            "  {:<13}{:>14}{:>14}{:>10}   {}",
            cut(&harmless(&cost.name), 13),
            cost_text(cost.before, cost.unit),
            cost_text(cost.after, cost.unit),
            change_text(cost),
            interval_text(cost)
        )
    };
    let heading = format!("  {:<13}{:>14}{:>14}{:>10}   95 % interval", "", "before", "now", "change");
    let rows = std::iter::once(&outcome.deciding).chain(&outcome.others).map(row);
    std::iter::once(heading).chain(rows).map(|line| line.trim_end().to_owned()).collect()
}

fn sides(outcome: &CheckOutcome) -> String {
    let runs = |count: usize| count_of(count as u64, "run", "runs");
    let (before, after) = (&outcome.before, &outcome.after);
    let sides =
        format!("before: {} of {}; now: {}", runs(before.runs.len()), before.name, runs(after.runs.len()));
    format!("  {}", harmless(&format!("{sides} of {}", after.name)))
}

fn function(outcome: &CheckOutcome, growth: &FunctionGrowth) -> String {
    let text = |cost: f64| cost_text(cost, outcome.growth_unit);
    let function = &growth.function;
    let place = match &function.source {
        Some((path, line)) => format!("{}:{line}", path.rsplit('/').next().unwrap_or(path)),
        None => function.dso.clone(),
    };
    let place = if place.is_empty() { String::new() } else { format!(" ({place})") };
    let was = if growth.before > 0.0 { format!(", was {}", text(growth.before)) } else { ", new".to_owned() };
    let grown = format!("+{}", text(growth.grown()));
    harmless(&format!("  {grown:>12}  {}{place}: {}{was}", function.name, text(function.cost))).into_owned()
}

fn notes(outcome: &CheckOutcome) -> Vec<String> {
    let mut notes: Vec<String> =
        outcome.notes.iter().map(|note| format!("Note: {}.", note_text(note))).collect();
    if outcome.result == Some(CheckResult::TooNoisy)
        && let Some(runs) = outcome.runs_needed()
    {
        notes.push(format!("Note: about {runs} runs on each side would decide it (-r {runs})."));
    }
    if outcome.result.is_none() {
        notes.push("Note: give several recordings a side: tally check A1,A2,A3 : B1,B2,B3".to_owned());
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::wording::tests::{plan, side};
    use profile::view::check::{CheckNote, CheckedSide, MachineDifference};

    fn outcome(before: CheckedSide, after: CheckedSide) -> CheckOutcome {
        CheckOutcome::of(before, after, &plan()).expect("comparable")
    }

    #[test]
    fn the_screen_begins_with_the_decision_and_names_the_function() {
        let before = side("base.json", 1000.0, &[("parse", 600.0), ("hash", 20.0)]);
        let after = side("./app", 1120.0, &[("parse", 602.0), ("hash", 135.0)]);
        let text = draw(&outcome(before, after), CheckScreen { width: 80, colour: false });
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "tally check: slower: CPU time grew by 12.0 % (limit 5 %)");
        assert!(text.contains("\n  CPU time            1.000 s       1.120 s   +12.0 %   +11."), "{text}");
        assert!(text.contains("+115.0 ms  hash (table.c:88): 135.0 ms, was 20.00 ms\n"), "{text}");
        assert!(!text.contains("parse"), "{text}");
    }

    #[test]
    fn the_screen_has_at_most_28_lines_of_80_columns() {
        let names: Vec<String> = (0..40).map(|n| format!("function_with_a_long_name_{n}")).collect();
        let functions: Vec<(&str, f64)> = names.iter().map(|name| (name.as_str(), 50.0)).collect();
        let after = side(&"./app with many words ".repeat(9), 3000.0, &functions);
        let mut outcome = outcome(side("base.json", 1000.0, &[]), after);
        let other = MachineDifference::Cpu("a long name ".repeat(20), String::new());
        outcome.notes = vec![CheckNote::OtherMachine(other); 4];
        let text = draw(&outcome, CheckScreen { width: 80, colour: false });
        assert!(text.lines().count() <= 28, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}
