//! Answers: what a command printed, shortened to what matters, within a budget of tokens, with the next call.

use super::message::ToolResult;
use super::next_call::next_call;
use super::sections::waits_in_short;
use super::stacks::{call_tree, callers};
use super::tools::{McpTool, ToolCall};
use serde_json::Value;
use std::fmt::Write as _;

/// Characters of a token, about.
const TOKEN_CHARS: usize = 4;
/// Share of a function's samples, in percent, from which an instruction is shown.
const HOT_PERCENT: f64 = 1.0;
/// Lines of a failed command that are repeated.
const WHY_LINES: usize = 12;

/// Result of a command.
#[derive(Clone, Debug, Default)]
pub struct CommandOutput {
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// Exit status; `None` if a signal ended it.
    pub status: Option<i32>,
}

impl CommandOutput {
    /// From what was read; bytes that are no text are replaced.
    #[must_use]
    pub fn of_bytes(stdout: &[u8], stderr: &[u8], status: Option<i32>) -> Self {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        Self { stdout: text(stdout), stderr: text(stderr), status }
    }
}

/// The answer to a call from the output of its command.
#[must_use]
pub fn answer(call: &ToolCall, output: &CommandOutput) -> ToolResult {
    let screen = screen_of(&output.stderr);
    // The status of a recording is that of the recorded command.
    let has_worked = match call.tool {
        McpTool::Record => !screen.is_empty(),
        _ => output.status == Some(0),
    };
    if !has_worked {
        let lines: Vec<&str> = output.stderr.lines().filter(|line| !line.trim().is_empty()).collect();
        let why = lines[lines.len().saturating_sub(WHY_LINES)..].join("\n");
        let why = if why.is_empty() { "the command printed nothing".to_owned() } else { why };
        return ToolResult::Failed(cut_to_budget(&why, call.tokens));
    }
    let text = match call.tool {
        McpTool::Record => recorded(call, output, &screen),
        McpTool::Verdict => findings(&output.stdout),
        McpTool::Tree => call_tree(&output.stdout),
        McpTool::Callers => callers(&output.stdout, call.function.as_deref().unwrap_or_default()),
        McpTool::Waits => waits_in_short(&output.stdout),
        McpTool::Annotate => hot_lines(&output.stdout),
        _ => output.stdout.clone(),
    };
    let shown = if call.tool == McpTool::Tree { &output.stdout } else { &text };
    let next = format!("next: {}", next_call(call, shown));
    let room = call.tokens.saturating_sub(next.chars().count().div_ceil(TOKEN_CHARS));
    ToolResult::Answer(format!("{}\n{next}", cut_to_budget(text.trim_end(), room)))
}

/// As many whole lines from the beginning as fit, and a line about the others.
#[must_use]
pub fn cut_to_budget(text: &str, tokens: usize) -> String {
    let most = tokens.saturating_mul(TOKEN_CHARS);
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let (mut kept, mut chars) = (Vec::new(), 0);
    // Room for the line about the rest.
    let room = most.saturating_sub(100);
    let all = text.lines().count();
    for line in text.lines() {
        chars += line.chars().count() + 1;
        if chars > room {
            break;
        }
        kept.push(line);
    }
    let left = all - kept.len();
    let more = tokens.saturating_mul(2);
    format!("{}\n[{left} of {all} lines left out; max_tokens: {more} shows more]", kept.join("\n"))
}

/// The screen of `tally run` in its standard error: from its first indented line on.
fn screen_of(stderr: &str) -> String {
    let lines: Vec<&str> = stderr.lines().collect();
    let last_own = lines.iter().rposition(|line| !line.is_empty() && !line.starts_with("  "));
    let screen = lines[last_own.map_or(0, |at| at + 1)..].join("\n");
    if screen.contains(" wall ") { screen } else { String::new() }
}

fn recorded(call: &ToolCall, output: &CommandOutput, screen: &str) -> String {
    let status = match output.status {
        Some(0) => String::new(),
        Some(status) => format!("\nThe command ended with status {status}."),
        None => "\nThe command was ended by a signal.".to_owned(),
    };
    format!("Recorded in {}.{status}\n{screen}", call.recording)
}

/// Findings of `tally why --json`: claim, numbers, remedy and first stack of each.
fn findings(json: &str) -> String {
    let note: Value = serde_json::from_str(json).unwrap_or_default();
    let mut text = String::new();
    let command = note["command"].as_str().unwrap_or_default();
    let _ = writeln!(text, "{command}");
    let list = note["findings"].as_array().map_or(&[][..], Vec::as_slice);
    for (at, finding) in list.iter().enumerate() {
        let field = |key: &str| finding[key].as_str().filter(|text| !text.is_empty());
        let _ = writeln!(text, "{}. {}", at + 1, field("claim").unwrap_or_default());
        for line in [field("detail"), field("fix")].into_iter().flatten() {
            let _ = writeln!(text, "   {line}");
        }
        let stack = &finding["stacks"][0];
        if let (Some(stack), Some(share)) = (stack["stack"].as_str(), stack["share"].as_f64()) {
            let of = finding["stacks"][0]["of"].as_str().unwrap_or("it");
            let _ = writeln!(text, "   {:.0} % of {of}: {stack}", 100.0 * share);
        }
    }
    if list.is_empty() {
        let why = note["no_verdict"].as_str().unwrap_or("nothing stands out");
        let _ = writeln!(text, "no finding: {why}");
    }
    text
}

/// Lines of `tally annotate` with a share, each after its line of source; the others are counted.
fn hot_lines(text: &str) -> String {
    let (mut out, mut source, mut left) = (String::new(), None, 0u32);
    for (at, line) in text.lines().enumerate() {
        let Some((share, code)) = line.split_once(':').filter(|_| at > 1) else {
            let _ = writeln!(out, "{line}");
            continue;
        };
        match share.trim().parse::<f64>() {
            Ok(percent) if percent >= HOT_PERCENT => {
                if let Some(source) = source.take() {
                    let _ = writeln!(out, "{source}");
                }
                let _ = writeln!(out, "{percent:6.2} :{code}");
            }
            Ok(_) => left += 1,
            Err(_) => source = Some(line).filter(|_| !code.trim().is_empty()),
        }
    }
    let _ = writeln!(out, "[{left} instructions below {HOT_PERCENT} % left out]");
    out
}
