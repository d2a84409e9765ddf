//! The page: one HTML file that shows where the time went. It needs no network and nothing next to it.
//!
//! ```text
//!   recording ─ gather ─→ PageData ─ encode ─→ columns (deflate, base64) ─┐
//!             ─ about ──→ head, findings, locks, notes (JSON, deflate) ───┼─→ page: script with style, plain tables
//!   web/*.ts ─ cargo xtask web ─→ bundle ─────────────────────────────────┘
//! ```

mod about;
mod code;
mod of_calls;
mod of_diff;
mod of_io;
mod page_file;
mod plain;

pub use about::{About, PageSource, head, recorded_command};
pub use code::{Code, code};
pub use exchange::page::{Encoded, encode};
pub use of_calls::{SLOWEST, of_calls};
pub use of_diff::{ComparedFiles, of_diff};
pub use of_io::of_io;
pub use page_file::{keep_times, of_recording, write_file, write_recording};
pub use profile::view::page::PageData;

use crate::terminal::foreign::{self, xml};
use exchange::page::{self, base64, base91, deflated};
use serde_json::{Value, json};
use std::io::{self, Write};

/// A script of the page, deflated, and its digest.
type Script = (&'static [u8], &'static str);
/// Built by `cargo xtask web` from the folder `web`; they have the page's style in them.
const SCRIPT: Script = (include_bytes!("bundle/page.js.deflate"), include_str!("bundle/page.js.sha256"));
/// The same with the views of calls, requests and comparisons in place of those of times.
const SUMS: Script = (include_bytes!("bundle/sums.js.deflate"), include_str!("bundle/sums.js.sha256"));
/// The same without the views of what a page with nothing but stacks lacks: half of a small page's size, and of its start.
const STACKS: Script = (include_bytes!("bundle/stacks.js.deflate"), include_str!("bundle/stacks.js.sha256"));
/// Unpacks the script, which is in the page deflated: it is most of a small page.
const LOADER: &str = include_str!("bundle/loader.js");
/// Style of the first view, and of the tables without a script.
const STYLE: &str = include_str!("bundle/plain.css");
/// Digests of them for the page's security policy.
const LOADER_DIGEST: &str = include_str!("bundle/loader.js.sha256");
const STYLE_DIGEST: &str = include_str!("bundle/plain.css.sha256");

/// Size of a page's head, loader and style, and of a thread's name, about.
const HEAD_BYTES: usize = 3_000;
const THREAD_BYTES: usize = 30;

/// Largest size of a page's data, in bytes.
pub const MOST_BYTES: usize = 5_000_000;

/// Writes the page.
///
/// # Errors
/// `out` can't be written.
pub fn write(out: &mut impl Write, data: &PageData, about: &About, most_bytes: usize) -> io::Result<()> {
    let is_short = has_only_stacks(data, about);
    let script = if data.threads.is_empty() { SUMS } else { SCRIPT };
    let (code, script) = if is_short { STACKS } else { script };
    // Browsers decode base64 themselves, so a small page is there sooner; the other is shorter.
    let (code, encoding) = if is_short { (base64(code), "data") } else { (base91(code), "base91") };
    let sources = match about.code.functions.as_slice() {
        [] => None,
        functions => Some(deflated(foreign::json(&Value::Array(functions.to_vec())).as_bytes())?),
    };
    let (first, tables) = (plain::first_view(data, about), plain::tables(data, about));
    let texts = deflated(foreign::json(&about.to_json()).as_bytes())?;
    let parts =
        [&code, sources.as_ref().unwrap_or(&String::new()), &first, &tables, &texts].map(|text| text.len());
    let others = parts.iter().sum::<usize>() + HEAD_BYTES + THREAD_BYTES * data.threads.len();
    let encoded = encode(data, page::most_bytes(data, others, most_bytes))?;
    let value = meta(about, &encoded);
    let (script, loader, style) = (script.trim(), LOADER_DIGEST.trim(), STYLE_DIGEST.trim());
    writeln!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'sha256-{script}' 'sha256-{loader}'; \
         style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n<style>{STYLE}</style></head>\n<body>",
        xml(&about.title),
    )?;
    writeln!(out, "{first}\n<noscript>{tables}</noscript>")?;
    write_packed(out, "about", "data", &deflated(foreign::json(&value).as_bytes())?)?;
    write_packed(out, "columns", "data", &encoded.packed)?;
    if let Some(sources) = sources {
        write_packed(out, "sources", "data", &sources)?;
    }
    write_packed(out, "code", encoding, &code)?;
    writeln!(out, "<script>{LOADER}</script></body></html>")
}

/// Without times, findings, code or calls, as of folded stacks.
fn has_only_stacks(data: &PageData, about: &About) -> bool {
    let parts = [&about.calls, &about.io, &about.compare, &about.blame, &about.critical_path];
    data.threads.is_empty()
        && data.sets.iter().all(|set| !set.is_wall)
        && parts.iter().all(|part| part.is_null())
        && about.findings.is_empty()
        && about.no_verdict.is_none()
        && about.code.functions.is_empty()
        && about.locks.is_empty()
        && about.lengths.is_empty()
}

fn write_packed(out: &mut impl Write, id: &str, encoding: &str, packed: &str) -> io::Result<()> {
    writeln!(out, "<script type=\"{encoding}\" id=\"{id}\">{packed}</script>")
}

fn meta(about: &About, encoded: &Encoded) -> Value {
    let mut value = about.to_json();
    value["data"] = encoded.counts.clone();
    value["pruned"] = match encoded.pruned {
        Some((functions, share)) => json!({ "functions": functions, "share": share }),
        None => Value::Null,
    };
    value
}

#[cfg(test)]
mod tests;
