//! An assistant's requests (Model Context Protocol): messages, tools, answers within a budget.
//!
//! Text in, text out: nothing is run or opened here. [`handle`] turns a line into a reply, or into the words of a
//! `tally` command whose output [`answer()`] makes an answer of.
//
// Source: modelcontextprotocol.io, specification 2025-06-18: JSON-RPC 2.0, one message a line over standard streams.

mod answer;
mod arguments;
mod message;
mod next_call;
mod sections;
mod stacks;
mod tools;

pub use answer::{CommandOutput, answer, cut_to_budget};
pub use message::{NO_REQUEST, ToolResult, error_reply, parse_message, tool_reply};
pub use tools::{McpTool, RunRights, ToolCall};

use message::{ClientMessage, MessageError, result_reply};
use serde_json::{Value, json};

/// Versions of the protocol that this server speaks, latest first.
const VERSIONS: [&str; 3] = ["2025-06-18", "2025-03-26", "2024-11-05"];
/// JSON-RPC's code for a method that isn't there.
const NO_METHOD: i32 = -32601;
/// JSON-RPC's code for wrong parameters.
const BAD_PARAMS: i32 = -32602;

const INSTRUCTIONS: &str = "\
Find out why a program is slow. Start with record (if it is offered) or verdict, then follow the next call that each answer \
ends with. Recordings are perf.data files.";

/// Reaction to a line of input.
#[derive(Clone, Debug, PartialEq)]
pub enum McpStep {
    /// Write this line.
    Reply(String),
    /// A notification: no reply.
    Silence,
    /// Run this, then reply to the request of this id.
    Call(Value, Box<ToolCall>),
}

/// Reads a line. Malformed input is answered with a typed error.
#[must_use]
pub fn handle(line: &[u8], rights: RunRights) -> McpStep {
    let (id, method, params) = match parse_message(line) {
        Ok(ClientMessage::Request { id, method, params }) => (id, method, params),
        Ok(ClientMessage::Notification) => return McpStep::Silence,
        Err(MessageError { id, code, text }) => return McpStep::Reply(error_reply(&id, code, &text)),
    };
    match method.as_str() {
        "initialize" => McpStep::Reply(result_reply(&id, initialized(&params))),
        "ping" => McpStep::Reply(result_reply(&id, json!({}))),
        "tools/list" => McpStep::Reply(result_reply(&id, json!({ "tools": tools::list(rights) }))),
        "tools/call" => match ToolCall::of_params(&params, rights) {
            Ok(call) => McpStep::Call(id, Box::new(call)),
            Err(why) => McpStep::Reply(error_reply(&id, BAD_PARAMS, &why.0)),
        },
        other => McpStep::Reply(error_reply(&id, NO_METHOD, &format!("no method {other}"))),
    }
}

fn initialized(params: &Value) -> Value {
    let wanted = params["protocolVersion"].as_str().unwrap_or_default();
    let version = VERSIONS.into_iter().find(|version| *version == wanted).unwrap_or(VERSIONS[0]);
    json!({
        "protocolVersion": version,
        "capabilities": { "tools": {} },
        "serverInfo": { "name": "tally", "version": env!("CARGO_PKG_VERSION") },
        "instructions": INSTRUCTIONS,
    })
}

#[cfg(test)]
mod tests;
