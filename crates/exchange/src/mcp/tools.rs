//! The tools: purpose, arguments, and the `tally` command that each runs.

use super::arguments::{BadParams, ToolArguments};
use serde_json::{Value, json};

/// Tokens of an answer unless the call asks for others.
const USUAL_TOKENS: u64 = 1200;
/// Fewest and most tokens that a call may ask for.
const TOKENS: std::ops::RangeInclusive<u64> = 100..=20_000;
/// Longest recording, in seconds.
const MOST_SECONDS: u64 = 60;
/// Time for a view, in seconds.
const VIEW_SECONDS: u64 = 120;
/// The recording if none is named.
pub(super) const USUAL_FILE: &str = "perf.data";

/// Whether commands may be run and processes recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunRights {
    /// Recordings are read only.
    ReadOnly,
    /// The tool `record` is offered.
    MayRun,
}

/// A tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum McpTool {
    /// Records a command or a process.
    Record,
    /// Findings in short.
    Verdict,
    /// Evidence of one finding.
    Why,
    /// Functions from the outside in.
    Tree,
    /// Callers of a function.
    Callers,
    /// Source lines of a function.
    Annotate,
    /// Wall-clock time by state.
    Waits,
    /// Causes of waits, through other threads.
    Blame,
    /// Locks with holders.
    Locks,
    /// Two recordings compared.
    Diff,
}

/// Each tool with its name, purpose, and arguments besides `recording` and `max_tokens`.
const TOOLS: [(McpTool, &str, &str, &[&str]); 10] = [
    (
        McpTool::Record,
        "record",
        "Record a command, or a running process for some seconds, and show where its time went, with findings. \
         Writes perf.data.",
        &["command", "pid", "seconds"],
    ),
    (
        McpTool::Verdict,
        "verdict",
        "Findings of a recording: why it is slow, with shares, stacks and remedies.",
        &[],
    ),
    (
        McpTool::Why,
        "why",
        "Evidence of one finding of verdict: numbers, stacks, counter-checks.",
        &["finding"],
    ),
    (McpTool::Tree, "tree", "Call tree of the recording from the outside in, in percent.", &["kind"]),
    (McpTool::Callers, "callers", "Who calls a function, in percent of its time.", &["function", "kind"]),
    (
        McpTool::Annotate,
        "annotate",
        "Source lines and instructions of a function with their share.",
        &["function"],
    ),
    (
        McpTool::Waits,
        "waits",
        "Wall-clock time of threads by state (running, lock, disk, sleep …) and longest waits.",
        &[],
    ),
    (
        McpTool::Blame,
        "blame",
        "What the main thread's time was spent on, followed through waits for other threads.",
        &[],
    ),
    (McpTool::Locks, "locks", "Locks with waiting time, waiters, and who released them.", &[]),
    (McpTool::Diff, "diff", "Functions that changed from one recording to another.", &["before"]),
];

/// A call of a tool, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// The tool.
    pub tool: McpTool,
    /// Words of the `tally` command, without `tally`.
    pub words: Vec<String>,
    /// Recordings that it reads.
    pub reads: Vec<String>,
    /// The recording that it writes.
    pub writes: Option<String>,
    /// After this time it is ended, in seconds.
    pub seconds: u64,
    /// Most tokens of the answer.
    pub tokens: usize,
    /// The recording that the answer is about.
    pub recording: String,
    /// The function asked for.
    pub function: Option<String>,
}

/// The tools with their JSON schemas.
pub(super) fn list(rights: RunRights) -> Vec<Value> {
    let offered = TOOLS.iter().filter(|(tool, ..)| *tool != McpTool::Record || rights == RunRights::MayRun);
    offered.map(|(tool, name, purpose, own)| schema(*tool, name, purpose, own)).collect()
}

fn schema(tool: McpTool, name: &str, purpose: &str, own: &[&str]) -> Value {
    let mut properties = serde_json::Map::new();
    for key in own.iter().copied().chain(["recording", "max_tokens"]) {
        properties.insert(key.to_owned(), property(key));
    }
    let required: &[&str] = match tool {
        McpTool::Callers | McpTool::Annotate => &["function"],
        McpTool::Diff => &["before"],
        _ => &[],
    };
    json!({
        "name": name,
        "description": purpose,
        "inputSchema": {
            "type": "object", "properties": properties, "required": required, "additionalProperties": false,
        },
        "annotations": { "readOnlyHint": tool != McpTool::Record },
    })
}

fn property(key: &str) -> Value {
    match key {
        "command" => json!({
            "type": "array", "items": { "type": "string" }, "description": "The command's words. Or give pid",
        }),
        "pid" => json!({ "type": "integer", "description": "The running process" }),
        "seconds" => json!({
            "type": "integer", "minimum": 1, "maximum": MOST_SECONDS,
            "description": "Longest time to record; 10 if not given. A command still running then is ended",
        }),
        "finding" => {
            json!({ "type": "integer", "minimum": 1, "description": "Number of the finding, 1 if not given" })
        }
        "function" => json!({ "type": "string", "description": "Name of the function" }),
        "kind" => json!({
            "enum": ["cpu", "wall"], "description": "Running time only (the default), or waiting as well",
        }),
        "before" => json!({ "type": "string", "description": "The older recording" }),
        "recording" => json!({ "type": "string", "description": "The recording; perf.data if not given" }),
        _ => json!({
            "type": "integer", "minimum": TOKENS.start(), "maximum": TOKENS.end(),
            "description": "Size of the answer; 1200 if not given",
        }),
    }
}

impl McpTool {
    /// Name in calls.
    #[must_use]
    pub fn name(self) -> &'static str {
        TOOLS.iter().find(|(tool, ..)| *tool == self).map_or("", |(_, name, ..)| name)
    }
}

impl ToolCall {
    /// The call in the parameters of `tools/call`.
    pub(super) fn of_params(params: &Value, rights: RunRights) -> Result<Self, BadParams> {
        let name = params["name"].as_str().ok_or_else(|| BadParams::because("name is needed"))?;
        let tool = TOOLS.iter().find(|(_, known, ..)| *known == name);
        let (tool, _, _, own) = *tool.ok_or_else(|| BadParams(format!("no tool {name}")))?;
        if tool == McpTool::Record && rights == RunRights::ReadOnly {
            return Err(BadParams::because("record is off: start the server with tally mcp --allow-run"));
        }
        let known = [own, &["recording", "max_tokens"]].concat();
        let arguments = ToolArguments::of(&params["arguments"], &known)?;
        let recording = file_name(arguments.text("recording")?.unwrap_or(USUAL_FILE))?;
        let tokens = arguments.number("max_tokens", TOKENS)?.unwrap_or(USUAL_TOKENS);
        let mut call = Self {
            tool,
            words: Vec::new(),
            reads: vec![recording.clone()],
            writes: None,
            seconds: VIEW_SECONDS,
            tokens: usize::try_from(tokens).unwrap_or(usize::MAX),
            recording,
            function: None,
        };
        call.fill(&arguments)?;
        Ok(call)
    }

    fn fill(&mut self, arguments: &ToolArguments<'_>) -> Result<(), BadParams> {
        let input = format!("--input={}", self.recording);
        self.words = match self.tool {
            McpTool::Record => return self.fill_record(arguments),
            McpTool::Verdict => owned(["why", "--json", &input]),
            McpTool::Why => {
                let number = arguments.number("finding", 1..=100)?.unwrap_or(1);
                owned(["why", &input, &number.to_string()])
            }
            McpTool::Tree | McpTool::Callers => {
                if self.tool == McpTool::Callers {
                    self.function = Some(arguments.needed_text("function")?.to_owned());
                }
                match arguments.text("kind")? {
                    None | Some("cpu") => owned(["flame", "--folded", "--kernel", &input]),
                    Some("wall") => owned(["flame", "--folded", "--kernel", "--wall", &input]),
                    Some(_) => return Err(BadParams::because("kind must be cpu or wall")),
                }
            }
            McpTool::Annotate => {
                let function = arguments.needed_text("function")?;
                self.function = Some(function.to_owned());
                owned(["annotate", "--stdio", &input, &format!("--symbol={function}")])
            }
            McpTool::Waits => owned(["report", "--wall", "--stdio", &input]),
            McpTool::Blame => owned(["report", "--blame", "--stdio", &input]),
            McpTool::Locks => owned(["locks", &input]),
            McpTool::Diff => {
                let before = file_name(arguments.needed_text("before")?)?;
                self.reads.push(before.clone());
                let options = ["diff", "--sort", "symbol", "--percent-limit", "0.5", "--"];
                owned(options).into_iter().chain([before, self.recording.clone()]).collect()
            }
        };
        Ok(())
    }

    fn fill_record(&mut self, arguments: &ToolArguments<'_>) -> Result<(), BadParams> {
        let seconds = arguments.number("seconds", 1..=MOST_SECONDS)?.unwrap_or(10);
        let output = format!("--output={}", self.recording);
        let words = |rest: Vec<String>| [vec!["run".to_owned(), output.clone()], rest].concat();
        if !self.recording.ends_with(".data") {
            return Err(BadParams::because("the name of a new recording must end in .data"));
        }
        self.words = match (arguments.words("command")?, arguments.number("pid", 1..=u64::from(u32::MAX))?) {
            (Some(command), None) => words([vec!["--".to_owned()], command].concat()),
            (None, Some(pid)) => {
                let rest = ["-p".to_owned(), pid.to_string(), "--".to_owned(), "sleep".to_owned()];
                words([rest.to_vec(), vec![seconds.to_string()]].concat())
            }
            _ => return Err(BadParams::because("give either command or pid")),
        };
        let writes = std::mem::take(&mut self.reads).pop();
        (self.writes, self.seconds) = (writes, seconds);
        Ok(())
    }
}

fn owned<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

/// A file's name: not empty, and no list of names.
fn file_name(text: &str) -> Result<String, BadParams> {
    let is_name = !text.is_empty() && !text.contains([',', '\0']) && text != "-" && text != ":";
    is_name
        .then(|| text.to_owned())
        .ok_or_else(|| BadParams(format!("'{text}' is not the name of a recording")))
}
