//! Pages and pictures of the same stacks in a real browser: size, first paint, hover, zoom, search, brush.
//!
//! Next to tally's page and SVG: flamegraph.pl, inferno, speedscope (`npm install -g speedscope`) and async-profiler's
//! `jfrconv`, each if it is on the PATH. web/test/bench.mjs measures.

use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};

use super::Bench;
use crate::process;
use crate::score::skip;
use crate::web::{browser, missing_tools};

const LIMIT: Duration = Duration::from_secs(30 * 60);

/// Other viewers of folded files, and their options.
const PEERS: [(&str, &str); 4] =
    [("flamegraph.pl", ""), ("inferno-flamegraph", "--minwidth=0.01"), ("jfrconv", ""), ("speedscope", "")];

/// The bench.
pub fn page(bench: &Bench) -> Result<()> {
    let Some(browser) = browser() else {
        let _ = skip("bench page", "no chromium on this machine");
        return Ok(());
    };
    if let Some(why) = missing_tools(&bench.root) {
        let _ = skip("bench page", &why);
        return Ok(());
    }
    let mut peers = serde_json::Map::new();
    for (name, option) in PEERS {
        match process::find(name) {
            Some(path) => {
                let words: Vec<String> = [path.to_string_lossy().into_owned(), option.to_owned()]
                    .into_iter()
                    .filter(|word| !word.is_empty())
                    .collect();
                peers.insert(name.to_owned(), words.into());
            }
            None => {
                let _ = skip("bench page", &format!("no {name} on the PATH"));
            }
        }
    }
    let mut node = Command::new("node");
    node.arg("test/bench.mjs").arg(browser).arg(&bench.tally).arg(bench.dir.join("page"));
    node.arg(serde_json::Value::Object(peers).to_string()).current_dir(bench.root.join("web"));
    if !process::passed_on(&mut node, LIMIT)? {
        bail!("the measurement failed");
    }
    Ok(())
}
