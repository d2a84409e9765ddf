//! Which profiler wrote a file, by its content, and the recording it becomes.

use super::error::{ImportError, ImportFormat};
use super::gathered::Gathered;
use super::protobuf::{Content, ProtoFields};
use super::{
    Stacks, TextFormat, chrome, firefox, folded, json, of_tree, parquet, perf_script, pprof, speedscope,
    text_format,
};
use crate::parquet::MAGIC as PARQUET;
use flate2::read::MultiGzDecoder;
use serde_json::Value;
use std::borrow::Cow;
use std::io::Read;

/// The most decompressed bytes that are read. What they become takes up to ten times as much memory.
pub const MOST_BYTES: usize = 256 << 20;

const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Reads a file of another profiler; `None` if it is none of those known here.
///
/// # Errors
/// If it is one, and can't be read.
pub fn gather(bytes: &[u8]) -> Result<Option<Gathered>, ImportError> {
    let content: &[u8] = &decompressed(bytes)?;
    let first = content.iter().find(|byte| !byte.is_ascii_whitespace());
    let found = match first {
        Some(b'{' | b'[') => Some(of_json(content)?),
        Some(_) if content.starts_with(PARQUET) => Some(parquet::read(content)?),
        Some(_) if is_pprof(content) => Some(pprof::read(content)?),
        Some(_) => of_text(content)?,
        None => None,
    };
    if found.is_none() && bytes.starts_with(&GZIP) {
        return Err(ImportError::Unsupported(
            "gzip of no format that is read (pprof, JSON of profilers, stacks)",
        ));
    }
    Ok(found)
}

fn decompressed(bytes: &[u8]) -> Result<Cow<'_, [u8]>, ImportError> {
    let most = MOST_BYTES;
    if !bytes.starts_with(&GZIP) {
        let is_native = bytes.starts_with(b"PERFILE2") || bytes.starts_with(b"2ELIFREP");
        let too_large = bytes.len() > most && !is_native && matches!(bytes.first(), Some(b'{' | b'['));
        return match too_large {
            true => Err(ImportError::TooLarge { format: ImportFormat::Json, most }),
            false => Ok(Cow::Borrowed(bytes)),
        };
    }
    let mut content = Vec::new();
    let mut reader = MultiGzDecoder::new(bytes).take(most as u64 + 1);
    if reader.read_to_end(&mut content).is_err() {
        return Err(ImportError::at(
            ImportFormat::Gzip,
            "no valid data after what decompresses to",
            content.len(),
        ));
    }
    if content.len() > most {
        return Err(ImportError::TooLarge { format: ImportFormat::Gzip, most });
    }
    Ok(Cow::Owned(content))
}

/// True for a protocol buffer whose first fields are those of pprof, in any order. A damaged one still is.
fn is_pprof(bytes: &[u8]) -> bool {
    /// ProtoFields that are looked at.
    const FIRST: usize = 64;
    let mut fields = ProtoFields::of_file(bytes, ImportFormat::Pprof);
    let mut has_type = false;
    for _ in 0..FIRST {
        let Ok(Some(field)) = fields.next() else { break };
        match (field.number, field.content) {
            (1..=6 | 11 | 13, Content::Bytes(_)) | (7..=15, Content::Number(_)) => {}
            _ => return false,
        }
        has_type |= field.number == 1;
    }
    // Texts have no such bytes, and a field's tag is one.
    let is_control = |byte: &u8| *byte < b' ' && !byte.is_ascii_whitespace();
    has_type && bytes.iter().take(FIRST).any(is_control)
}

/// True for files of bytes: recordings, compressed files and protocol buffers.
pub(super) fn is_binary(bytes: &[u8]) -> bool {
    let magics: [&[u8]; 4] = [b"PERFILE2", b"2ELIFREP", &GZIP, PARQUET];
    is_pprof(bytes) || magics.iter().any(|magic| bytes.starts_with(magic))
}

fn of_json(text: &[u8]) -> Result<Gathered, ImportError> {
    let value = json::parse(text)?;
    let has = |key: &str| value.get(key).is_some();
    let is_list_of_events = || value.get(0).is_some_and(|first| first.get("ph").is_some());
    match &value {
        _ if has("profiles") && has("shared") => speedscope::read(&value),
        _ if has("meta") && has("threads") => firefox::read(&value),
        _ if has("traceEvents") => chrome::read_trace(&value),
        Value::Array(_) if is_list_of_events() => chrome::read_trace(&value),
        _ if has("nodes") && has("samples") => chrome::read_profile(&value),
        _ => Err(ImportError::UnknownJson),
    }
}

/// Text whose first line is a stack or a sample's header.
fn of_text(text: &[u8]) -> Result<Option<Gathered>, ImportError> {
    let Some(stacks) = stacks_of_text(text).filter(|stacks| !stacks.tree.is_empty()) else { return Ok(None) };
    of_tree::gather(&stacks.tree, &stacks.notes.event).map(Some)
}

fn stacks_of_text(text: &[u8]) -> Option<Stacks> {
    if text.len() > MOST_BYTES || text.iter().take(4096).any(|&byte| byte == 0) {
        return None;
    }
    match text_format(text) {
        TextFormat::PerfScript => Some(perf_script::read(text, &perf_script::CollapseOpts::default())),
        TextFormat::Folded => {
            let mut lines = text.split(|&b| b == b'\n').map(<[u8]>::trim_ascii);
            let first = lines.find(|line| !line.is_empty() && line[0] != b'#')?;
            let (stack, _) = folded::parse_line(std::str::from_utf8(first).ok()?)?;
            // One word and a number may be anything.
            stack.contains(';').then(|| folded::read(text))
        }
    }
}
