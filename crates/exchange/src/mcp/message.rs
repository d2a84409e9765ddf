//! JSON-RPC 2.0 messages.

use serde_json::{Value, json};

/// JSON-RPC's code for text that isn't JSON.
const NOT_JSON: i32 = -32700;
/// JSON-RPC's code for a message that is no request.
pub const NO_REQUEST: i32 = -32600;

/// A message of the client.
#[derive(Clone, Debug, PartialEq)]
pub enum ClientMessage {
    /// It expects a reply.
    Request {
        /// To be repeated in the reply: a string or a number.
        id: Value,
        /// Request to serve.
        method: String,
        /// Parameters; `Null` without.
        params: Value,
    },
    /// A notification, or a reply to nothing that we asked: ignored.
    Notification,
}

/// Why a line is no message, as the reply needs it.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageError {
    /// The id of the request, `Null` if it isn't known.
    pub id: Value,
    /// JSON-RPC's code.
    pub code: i32,
    /// The reason; for malformed JSON with line and column.
    pub text: String,
}

/// Reads one line.
///
/// # Errors
/// It isn't JSON, or no request of JSON-RPC 2.0.
pub fn parse_message(line: &[u8]) -> Result<ClientMessage, MessageError> {
    let bad = |id: Value, code, text: String| MessageError { id, code, text };
    let value: Value = serde_json::from_slice(line)
        .map_err(|error| bad(Value::Null, NOT_JSON, format!("not JSON: {error}")))?;
    let Some(fields) = value.as_object() else {
        return Err(bad(Value::Null, NO_REQUEST, "a message is one JSON object".to_owned()));
    };
    let id = fields.get("id").filter(|id| id.is_string() || id.is_number()).cloned();
    let of_reply = id.clone().unwrap_or(Value::Null);
    if fields.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(bad(of_reply, NO_REQUEST, "jsonrpc must be \"2.0\"".to_owned()));
    }
    let Some(method) = fields.get("method") else {
        let is_reply = fields.contains_key("result") || fields.contains_key("error");
        return match is_reply {
            true => Ok(ClientMessage::Notification),
            false => Err(bad(of_reply, NO_REQUEST, "there is no method".to_owned())),
        };
    };
    let Some(method) = method.as_str() else {
        return Err(bad(of_reply, NO_REQUEST, "the method is not a string".to_owned()));
    };
    match (id, fields.contains_key("id")) {
        (Some(id), _) => {
            let params = fields.get("params").cloned().unwrap_or(Value::Null);
            Ok(ClientMessage::Request { id, method: method.to_owned(), params })
        }
        (None, true) => Err(bad(Value::Null, NO_REQUEST, "an id is a string or a number".to_owned())),
        (None, false) => Ok(ClientMessage::Notification),
    }
}

/// The reply to a request that worked, as one line.
#[must_use]
pub fn result_reply(id: &Value, result: Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string()
}

/// The reply to a request that can't be served, as one line.
#[must_use]
pub fn error_reply(id: &Value, code: i32, text: &str) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": text } }).to_string()
}

/// Result of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolResult {
    /// Answer.
    Answer(String),
    /// It failed; the reason.
    Failed(String),
}

/// The reply to a call of a tool, as one line.
#[must_use]
pub fn tool_reply(id: &Value, result: &ToolResult) -> String {
    let (text, failed) = match result {
        ToolResult::Answer(text) => (text, false),
        ToolResult::Failed(why) => (why, true),
    };
    result_reply(id, json!({ "content": [{ "type": "text", "text": text }], "isError": failed }))
}
