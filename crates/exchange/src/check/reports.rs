//! A check as JUnit XML, SARIF and Markdown, for the systems that run checks.

use super::wording::{change_text, cost_text, growth_text, headline, interval_text, limit_text, note_text};
use profile::view::check::{CheckOutcome, CheckResult, ComparedCost};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Functions in a report.
const MOST_FUNCTIONS: usize = 10;

/// A report: the result, and how a path of the debug information is called.
pub type ReportWriter = fn(&CheckOutcome, &dyn Fn(&str) -> String) -> String;

/// JUnit XML with one test case.
// Source: the schema that Jenkins, GitLab and GitHub's report actions read (testsuites/testsuite/testcase/failure).
#[must_use]
pub fn junit(outcome: &CheckOutcome, _: &dyn Fn(&str) -> String) -> String {
    let seconds: f64 = outcome.after.runs.iter().map(|run| run.wall_ns / 1e9).sum();
    let failed = outcome.result == Some(CheckResult::Grew);
    let skipped = outcome.result.is_none();
    let name = xml(&format!("{}: {}", outcome.after.name, outcome.deciding.name));
    let title = xml(&headline(outcome));
    let mut details = costs(outcome);
    for growth in outcome.growths.iter().take(MOST_FUNCTIONS) {
        let _ = writeln!(details, "{}", growth_text(outcome, growth));
    }
    let details = xml(&details);
    let body = match (failed, skipped) {
        (true, _) => format!("<failure type=\"slower\" message=\"{title}\">{details}</failure>"),
        (_, true) => format!("<skipped message=\"{title}\"/>"),
        _ => format!("<system-out>{title}\n{details}</system-out>"),
    };
    let counts = format!(
        "tests=\"1\" failures=\"{}\" errors=\"0\" skipped=\"{}\" time=\"{seconds:.3}\"",
        u8::from(failed),
        u8::from(skipped)
    );
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {counts}>\n<testsuite name=\"tally check\" {counts}>\n\
         <testcase classname=\"tally.check\" name=\"{name}\" time=\"{seconds:.3}\">{body}</testcase>\n\
         </testsuite>\n</testsuites>\n"
    )
}

/// SARIF 2.1.0: one result a function that costs more, with its place in the source; none if the check passed.
// Source: OASIS Static Analysis Results Interchange Format 2.1.0.
#[must_use]
pub fn sarif(outcome: &CheckOutcome, source_path: &dyn Fn(&str) -> String) -> String {
    let grew = outcome.result == Some(CheckResult::Grew);
    let headline = &headline(outcome);
    let result = |text: &str, source: Option<&(String, u32)>| {
        let mut result = json!({ "ruleId": "slower", "level": "error", "message": { "text": text } });
        if let Some((path, line)) = source {
            let place = json!({
                "artifactLocation": { "uri": uri_of(&source_path(path)) }, "region": { "startLine": line }
            });
            result["locations"] = json!([{ "physicalLocation": place }]);
        }
        result
    };
    let mut results: Vec<Value> = Vec::new();
    if grew {
        let functions = outcome.growths.iter().take(MOST_FUNCTIONS);
        results.extend(functions.map(|growth| {
            let text = format!("{} ({headline})", growth_text(outcome, growth));
            result(&text, growth.function.source.as_ref())
        }));
        if results.is_empty() {
            results.push(result(headline, None));
        }
    }
    let rule = json!({
        "id": "slower",
        "shortDescription": { "text": "The program costs more than the baseline allows" },
    });
    let mut driver = json!({ "name": "tally check", "version": env!("CARGO_PKG_VERSION"), "rules": [rule] });
    // A fork that has a page of its own names it in its manifest.
    if let Some(page) =
        [env!("CARGO_PKG_HOMEPAGE"), env!("CARGO_PKG_REPOSITORY")].into_iter().find(|uri| !uri.is_empty())
    {
        driver["informationUri"] = page.into();
    }
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{ "tool": { "driver": driver }, "results": results }],
    });
    serde_json::to_string_pretty(&log).unwrap_or_default() + "\n"
}

/// A path as SARIF has it: relative to the folder of the sources, or whole with its scheme.
fn uri_of(path: &str) -> String {
    let mut uri = if path.starts_with('/') { "file://".to_owned() } else { String::new() };
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'-' | b'~' | b'+' => {
                uri.push(byte as char);
            }
            _ => {
                let _ = write!(uri, "%{byte:02X}");
            }
        }
    }
    uri
}

/// Markdown for a comment or a job's summary.
#[must_use]
pub fn markdown(outcome: &CheckOutcome, source_path: &dyn Fn(&str) -> String) -> String {
    let mut text = format!("**tally check** {}\n\n", markdown_text(&headline(outcome)));
    text += "| | before | now | change | 95 % interval |\n|---|---:|---:|---:|---|\n";
    for cost in std::iter::once(&outcome.deciding).chain(&outcome.others) {
        let (before, after) = values(cost);
        let (change, interval) = (change_text(cost), interval_text(cost));
        let _ = writeln!(text, "| {} | {before} | {after} | {change} | {interval} |", cost.name);
    }
    if !outcome.growths.is_empty() {
        text += "\n| function that costs more | before | now | source |\n|---|---:|---:|---|\n";
    }
    for growth in outcome.growths.iter().take(MOST_FUNCTIONS) {
        let cost = |cost: f64| cost_text(cost, outcome.growth_unit);
        let source = growth.function.source.as_ref();
        let source = source.map_or_else(String::new, |(path, line)| format!("{}:{line}", source_path(path)));
        let (name, before, now) =
            (code(&growth.function.name), cost(growth.before), cost(growth.function.cost));
        let _ = writeln!(text, "| {name} | {before} | {now} | {} |", markdown_text(&source));
    }
    let (runs, limit) = (outcome.after.runs.len(), limit_text(outcome.limit));
    let before = (outcome.before.runs.len(), markdown_text(&outcome.before.name));
    let _ = writeln!(
        text,
        "\n{runs} runs of {}, compared with {} runs of {}; limit {limit}.",
        code(&outcome.after.name),
        before.0,
        before.1
    );
    for note in &outcome.notes {
        let _ = writeln!(text, "\nNote: {}.", markdown_text(&note_text(note)));
    }
    text
}

/// Both means with their unit.
fn values(cost: &ComparedCost) -> (String, String) {
    (cost_text(cost.before, cost.unit), cost_text(cost.after, cost.unit))
}

/// The costs, one a line.
fn costs(outcome: &CheckOutcome) -> String {
    let mut text = String::new();
    for cost in std::iter::once(&outcome.deciding).chain(&outcome.others) {
        let (before, after) = values(cost);
        let interval = interval_text(cost);
        let _ = writeln!(text, "{}: {before} -> {after}, {} ({interval})", cost.name, change_text(cost));
    }
    text
}

/// Text as XML: markup is spelled out, and characters that XML forbids are left out.
fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\n' | '\t' => out.push(c),
            c if c < ' ' || c == '\u{fffe}' || c == '\u{ffff}' => {}
            c => out.push(c),
        }
    }
    out
}

/// A name as code in a table's cell.
fn code(text: &str) -> String {
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    format!("`{}`", text.replace('`', "'").replace('|', "\\|"))
}

fn markdown_text(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars().filter(|c| !c.is_control()) {
        if "\\`*_[]<>|#".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::wording::tests::{plan, side, slower};

    fn same(path: &str) -> String {
        path.to_owned()
    }

    #[test]
    fn junit_has_one_failed_case_with_escaped_names() {
        let text = junit(&slower(), &same);
        assert!(text.contains("tests=\"1\" failures=\"1\""), "{text}");
        assert!(
            text.contains(
                "<failure type=\"slower\" message=\"slower: CPU time grew by 12.0 % (limit 5 %)\">"
            )
        );
        assert!(text.contains("hash&lt;int&gt;: 20.00 ms -&gt; 135.0 ms per run"), "{text}");
        let passed = CheckOutcome::of(side("a", 1000.0, &[]), side("b", 1000.0, &[]), &plan()).expect("one");
        let text = junit(&passed, &same);
        assert!(text.contains("failures=\"0\"") && !text.contains("<failure"), "{text}");
    }

    #[test]
    fn sarif_has_relative_paths_and_uris_of_absolute_ones() {
        assert_eq!(uri_of("src/a b.c"), "src/a%20b.c");
        assert_eq!(uri_of("/src/ü#.c"), "file:///src/%C3%BC%23.c");
    }

    #[test]
    fn sarif_names_the_function_with_its_line() {
        let log: Value = serde_json::from_str(&sarif(&slower(), &same)).expect("JSON");
        let result = &log["runs"][0]["results"][0];
        assert_eq!(result["ruleId"], log["runs"][0]["tool"]["driver"]["rules"][0]["id"]);
        let place = &result["locations"][0]["physicalLocation"];
        assert_eq!(place["artifactLocation"]["uri"], "src/table.c");
        assert_eq!(place["region"]["startLine"], 88);
        let passed = CheckOutcome::of(side("a", 1000.0, &[]), side("b", 1000.0, &[]), &plan()).expect("one");
        let log: Value = serde_json::from_str(&sarif(&passed, &same)).expect("JSON");
        assert_eq!(log["runs"][0]["results"], json!([]));
    }

    #[test]
    fn markdown_has_a_row_for_each_cost_and_function() {
        let text = markdown(&slower(), &same);
        assert!(text.contains("| CPU time | 1.000 s | 1.120 s | +12.0 % |"), "{text}");
        assert!(text.contains("| `hash<int>` | 20.00 ms | 135.0 ms | src/table.c:88 |"), "{text}");
        assert!(!text.contains("parse"), "{text}");
    }
}
