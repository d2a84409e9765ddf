//! Findings with all their evidence, as text: numbers, stacks with shares, checks, the next command.

use crate::terminal::out::harmless;
use crate::verdict::Judgement;
use display::fit::{keep_units, wrap, wrap_evenly};
use display::term::{Paint, paint};
use serde_json::Value;
use std::fmt::Write as _;

/// Columns of the numbers before the findings.
const INDENT: usize = 4;

/// The findings of [`crate::verdict::to_json`], numbered from `first`.
#[must_use]
pub fn draw(findings: &[Value], first: usize, width: usize, colour: bool) -> String {
    let mut pen = Pen { text: String::new(), width: width.max(24), colour };
    for (at, finding) in findings.iter().enumerate() {
        if at > 0 {
            pen.text.push('\n');
        }
        pen.finding(first + at, finding);
    }
    pen.text
}

/// A list of warnings and notes about the recording, in full; empty if there is none.
#[must_use]
pub fn warnings(warnings: &[&str], width: usize, colour: bool) -> String {
    let mut pen = Pen { text: String::new(), width: width.max(24), colour };
    for (at, warning) in warnings.iter().enumerate() {
        if at == 0 {
            let _ = writeln!(pen.text, "\n{}", paint("About the recording:", Paint::Bold, colour));
        }
        pen.warning(warning);
    }
    pen.text
}

/// A text and the command at its end. Empty, if there is none.
fn command_apart(text: &str) -> (&str, &str) {
    text.rfind(": tally ").map_or((text, ""), |at| (&text[..=at], &text[at + 2..]))
}

/// States of the whole in one line, for the long screen; empty without off-CPU data.
#[must_use]
pub fn wall_clock(judgement: &Judgement, width: usize, colour: bool) -> String {
    if judgement.wall.source.is_none() {
        return String::new();
    }
    let shares = super::wall::shares(&judgement.wall.whole, false);
    let parts: Vec<String> = shares
        .iter()
        .filter(|(_, percent)| *percent >= 0.05)
        .map(|(name, percent)| format!("{name} {percent:.1} %").replace(' ', "\u{a0}"))
        .collect();
    let whole = &judgement.wall.whole;
    let idle = whole.idle_ns as f64 * 100.0 / whole.total_ns().max(1) as f64;
    let left_out = if idle < 0.05 { String::new() } else { format!(" (idle left out: {idle:.1} % of all)") };
    let mut text = String::new();
    for (at, line) in wrap(&(parts.join("\u{a0}· ") + &left_out), width.saturating_sub(11)).iter().enumerate()
    {
        let label = format!("{:<10}", if at == 0 { "wall clock" } else { "" });
        let _ = writeln!(text, "{} {line}", paint(&label, Paint::Bold, colour));
    }
    text
}

/// A stack for people, innermost first: a function that calls itself appears once.
fn without_repetition(stack: &str) -> String {
    let frames: Vec<&str> = stack.split(" < ").collect();
    let runs = frames.chunk_by(|one, next| one == next);
    let one = |run: &[&str]| match run {
        [one] => (*one).to_owned(),
        [first, ..] => format!("{first} (recursive)"),
        [] => String::new(),
    };
    runs.map(one).collect::<Vec<_>>().join(" ← ")
}

struct Pen {
    text: String,
    width: usize,
    colour: bool,
}

impl Pen {
    fn finding(&mut self, number: usize, finding: &Value) {
        let text = |key: &str| finding[key].as_str().unwrap_or_default();
        let list = |key: &str| finding[key].as_array().into_iter().flatten().filter_map(Value::as_str);
        self.lines(&format!("{number}."), text("claim"), Some(Paint::Bold));
        if !text("detail").is_empty() {
            self.lines("", text("detail"), None);
        }
        if !text("fix").is_empty() {
            self.lines("", &format!("→ {}", text("fix")), None);
        }
        for evidence in list("evidence") {
            self.lines("  ·", evidence, None);
        }
        self.stacks(finding);
        let against: Vec<&str> = list("checked_against").collect();
        if !against.is_empty() {
            self.lines("", &format!("also measured: {}", against.join("; ")), None);
        }
        // In one line, however long: it is there to be copied.
        let next = harmless(text("next"));
        let _ = writeln!(self.text, "{:INDENT$}next: {}", "", paint(&next, Paint::Cyan, self.colour));
        self.lines("", &format!("      {}", text("advice")), None);
    }

    /// A command that would be broken has a line of its own, however long: it is there to be copied.
    fn warning(&mut self, warning: &str) {
        let (text, command) = command_apart(warning);
        if command.is_empty() || INDENT + warning.chars().count() <= self.width {
            return self.lines("  ·", warning, None);
        }
        self.lines("  ·", text, None);
        let _ = writeln!(self.text, "{:INDENT$}{}", "", paint(&harmless(command), Paint::Cyan, self.colour));
    }

    fn stacks(&mut self, finding: &Value) {
        let stacks = finding["stacks"].as_array().map(Vec::as_slice).unwrap_or_default();
        let Some(first) = stacks.first() else {
            let why = finding["no_stacks"].as_str().unwrap_or("none was recorded");
            return self.lines("  ·", &format!("no stack: {why}"), None);
        };
        let text = |stack: &Value, key: &str| stack[key].as_str().unwrap_or_default().to_owned();
        self.lines("  ·", &format!("{}, share of {}:", text(first, "what"), text(first, "of")), None);
        for stack in stacks {
            let share = stack["share"].as_f64().unwrap_or_default();
            let path = without_repetition(&text(stack, "stack"));
            self.lines("", &format!("  {:>5.1} %  {path}", share * 100.0), None);
        }
    }

    fn lines(&mut self, label: &str, text: &str, with: Option<Paint>) {
        // A number stays with its sign.
        let text = keep_units(&harmless(text));
        let inner = text.len() - text.trim_start().len();
        let room = self.width.saturating_sub(INDENT + inner).max(16);
        for (at, line) in wrap_evenly(text.trim_start(), room).iter().enumerate() {
            let label = if at == 0 { label } else { "" };
            let hang = if at > 0 && inner > 0 { inner + 2 } else { inner };
            let line = with.map_or_else(|| line.clone(), |with| paint(line, with, self.colour));
            let _ = writeln!(self.text, "{label:<INDENT$}{:hang$}{line}", "");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_that_calls_itself_appears_once_in_a_stack() {
        assert_eq!(without_repetition("fib < fib < fib < main"), "fib (recursive) ← main");
        assert_eq!(without_repetition("leaf < main"), "leaf ← main");
    }

    #[test]
    fn warnings_are_a_list_of_their_own() {
        assert_eq!(warnings(&[], 80, false), "");
        let text = warnings(&["few samples", "no line rows in ./app"], 80, false);
        assert_eq!(text, "\nAbout the recording:\n  · few samples\n  · no line rows in ./app\n");
    }

    #[test]
    fn the_command_of_a_warning_is_never_broken() {
        let command =
            format!("tally run -F 4990 -- go build -o built /home/me/{}/primes.go", "source/".repeat(9));
        let text = warnings(&[&format!("few samples; for more: {command}")], 80, false);
        assert_eq!(text, format!("\nAbout the recording:\n  · few samples; for more:\n    {command}\n"));
        let short = warnings(&["few samples; for more: tally run -F 4990 -- ls"], 80, false);
        assert!(short.ends_with("  · few samples; for more: tally run -F 4990 -- ls\n"), "{short}");
    }
}
