//! The call that is worth most after an answer.

use super::stacks::hottest;
use super::tools::{McpTool, ToolCall, USUAL_FILE};
use serde_json::{Map, Value};

/// The next tool with its arguments, such as `why {"finding":1}`, and its purpose. `text` is the answer, of a tree its
/// folded stacks.
pub fn next_call(call: &ToolCall, text: &str) -> String {
    let (tool, argument, purpose) = match call.tool {
        McpTool::Record | McpTool::Verdict if has_findings(text) => {
            (McpTool::Why, Some(("finding", Value::from(1))), "evidence of the first finding")
        }
        McpTool::Record => (McpTool::Verdict, None, "findings in full"),
        McpTool::Verdict => (McpTool::Tree, None, "where the time goes"),
        McpTool::Why => after_why(text),
        McpTool::Tree if is_of_wall(call) => {
            (McpTool::Waits, None, "how long each thread waited, and for what")
        }
        McpTool::Tree => after_tree(text),
        McpTool::Callers => annotate(call.function.clone().unwrap_or_default()),
        McpTool::Annotate => {
            let function = call.function.clone().unwrap_or_default();
            (McpTool::Callers, Some(("function", Value::from(function))), "who calls it")
        }
        McpTool::Waits => (McpTool::Blame, None, "causes of the waits in other threads"),
        McpTool::Locks | McpTool::Blame => (McpTool::Tree, None, "where the running time goes"),
        McpTool::Diff => (McpTool::Tree, None, "the newer recording as a tree"),
    };
    let mut arguments = Map::new();
    arguments.extend(argument.map(|(key, value)| (key.to_owned(), value)));
    if call.recording != USUAL_FILE {
        arguments.insert("recording".to_owned(), call.recording.clone().into());
    }
    format!("{} {} ({purpose})", tool.name(), Value::Object(arguments))
}

type NextTool = (McpTool, Option<(&'static str, Value)>, &'static str);

fn annotate(function: String) -> NextTool {
    (
        McpTool::Annotate,
        Some(("function", Value::from(function))),
        "the lines or instructions that take the time",
    )
}

fn has_findings(text: &str) -> bool {
    text.contains("tally why 1") || text.contains("\n1. ")
}

/// The tool for the command that the evidence recommends.
fn after_why(text: &str) -> NextTool {
    let next =
        text.lines().find_map(|line| line.trim_start().strip_prefix("next: tally ")).unwrap_or_default();
    if let Some((_, rest)) = next.split_once("annotate ")
        && let Some((_, function)) = rest.split_once("-s ")
    {
        let function = match function.strip_prefix('\'') {
            Some(quoted) => quoted.split('\'').next(),
            None => function.split(' ').next(),
        };
        return annotate(function.unwrap_or_default().to_owned());
    }
    match next.split(' ').next() {
        Some("locks" | "lock") => (McpTool::Locks, None, "locks, their holders and waiters"),
        Some("report") if next.contains("--blame") || next.contains("--critical-path") => {
            (McpTool::Blame, None, "causes of the waits in other threads")
        }
        Some("report" | "timeline" | "io") if !next.contains("--no-children") => {
            (McpTool::Waits, None, "how long each thread waited, and for what")
        }
        Some("flame") if next.contains("--wakers") => {
            (McpTool::Blame, None, "causes of the waits in other threads")
        }
        Some("flame") if next.contains("--off-cpu") => {
            (McpTool::Tree, Some(("kind", Value::from("wall"))), "where the time goes, waits included")
        }
        _ => (McpTool::Tree, None, "where the running time goes"),
    }
}

fn is_of_wall(call: &ToolCall) -> bool {
    call.words.iter().any(|word| word == "--wall")
}

/// The lines of the hottest function, or its callers if its time is in system calls. `folded` are the tree's stacks.
fn after_tree(folded: &str) -> NextTool {
    match hottest(folded) {
        Some(hot) if hot.is_in_kernel => {
            (McpTool::Callers, Some(("function", Value::from(hot.name))), "who makes these system calls")
        }
        Some(hot) => annotate(hot.name),
        None => (McpTool::Waits, None, "waiting time"),
    }
}
