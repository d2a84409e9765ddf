//! The server of `tally mcp`: reads messages, runs the commands of tools, writes replies.
//!
//! Each tool runs in a process of its own, so that a view that fails or takes long doesn't end the server.

use anyhow::{Context, bail};
use exchange::mcp::{
    CommandOutput, McpStep, McpTool, NO_REQUEST, RunRights, ToolCall, ToolResult, answer, error_reply,
    handle, tool_reply,
};
use record::session::bounded_command;
use std::io::{self, BufRead, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Longest message, in bytes.
const MAX_MESSAGE: u64 = 4 << 20;

/// Recordings that tools may read and write.
pub enum ServedFiles {
    /// All that the user may.
    Any,
    /// Those below this folder, a path without links.
    Below(PathBuf),
}

impl ServedFiles {
    /// Those below the current folder.
    ///
    /// # Errors
    /// The folder is gone.
    pub fn below_current_folder() -> anyhow::Result<Self> {
        let here = std::env::current_dir().and_then(|here| here.canonicalize());
        Ok(Self::Below(here.context("can't find the current folder")?))
    }

    /// Refuses a call that reads or writes other files.
    fn check(&self, call: &ToolCall) -> anyhow::Result<()> {
        for name in &call.reads {
            let path = Path::new(name).canonicalize();
            self.check_path(name, &path.with_context(|| format!("can't open {name}"))?)?;
        }
        let Some(name) = &call.writes else { return Ok(()) };
        let path = Path::new(name);
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).canonicalize();
        self.check_path(name, &folder.with_context(|| format!("can't write {name}"))?)?;
        // A link could lead elsewhere.
        match path.is_symlink() {
            true => bail!("{name} is a link"),
            false => Ok(()),
        }
    }

    fn check_path(&self, name: &str, path: &Path) -> anyhow::Result<()> {
        match self {
            Self::Below(folder) if !path.starts_with(folder) => {
                bail!("{name} is outside of {}: start tally mcp with --allow-any-path", folder.display())
            }
            _ => Ok(()),
        }
    }
}

/// Answers messages until standard input ends.
///
/// # Errors
/// Standard input or output fails.
pub fn serve(rights: RunRights, files: &ServedFiles) -> anyhow::Result<()> {
    let mut input = io::stdin().lock();
    let mut out = io::stdout();
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.by_ref().take(MAX_MESSAGE).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let reply = if line.last() != Some(&b'\n') && line.len() as u64 == MAX_MESSAGE {
            input.skip_until(b'\n')?;
            error_reply(&serde_json::Value::Null, NO_REQUEST, "the message is longer than 4 MiB")
        } else if line.trim_ascii().is_empty() {
            continue;
        } else {
            match handle(&line, rights) {
                McpStep::Silence => continue,
                McpStep::Reply(reply) => reply,
                McpStep::Call(id, call) => tool_reply(&id, &called(&call, files)),
            }
        };
        // Replies are JSON without line ends: no byte of a name can begin another message.
        writeln!(out, "{reply}")?;
        out.flush()?;
    }
}

fn called(call: &ToolCall, files: &ServedFiles) -> ToolResult {
    match files.check(call).and_then(|()| run(call)) {
        Ok(output) => answer(call, &output),
        Err(error) => ToolResult::Failed(crate::in_one_line(&error)),
    }
}

/// Runs the command of a call, this program once more.
fn run(call: &ToolCall) -> anyhow::Result<CommandOutput> {
    let program = std::env::current_exe().context("can't find this program")?;
    let mut command = Command::new(program);
    command.args(&call.words).env("COLUMNS", "130").env("NO_COLOR", "1");
    // A recording of a process ends by its own command after that time.
    let grace = if call.tool == McpTool::Record { Duration::from_secs(2) } else { Duration::ZERO };
    let ended = bounded_command::run(command, Duration::from_secs(call.seconds) + grace)
        .context("can't run this program")?;
    Ok(CommandOutput::of_bytes(&ended.stdout, &ended.stderr, ended.status))
}
