//! `annotate`: the percentage of every address of the hottest function.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

use super::{Case, Pair};
use crate::score::Score;

/// Only fresh recordings have their binaries here.
pub fn compare(pair: &Pair, case: &Case) -> Result<Score> {
    if !case.name.starts_with("fp-") && !case.name.starts_with("plain-") {
        return Ok(Score::default());
    }
    let file = case.file.to_string_lossy().into_owned();
    let Some(symbol) = hottest(pair, &file)? else { return Ok(Score::default()) };
    let args = ["annotate", "--stdio", "-i", &file, "-s", &symbol];
    let perf = pair.perf(&args)?;
    if !perf.ok() {
        return Ok(Score::default());
    }
    let tally = pair.tally(&args)?;
    if !tally.ok() {
        bail!("tally {}: {}\n{}", args.join(" "), tally.how(), tally.tail(5));
    }
    let (perf, tally) = (by_address(&perf.text()), by_address(&tally.text()));
    let off: Vec<String> = perf
        .keys()
        .chain(tally.keys())
        .filter(|address| perf.get(*address) != tally.get(*address))
        .map(|address| format!("{address}: perf {:?} tally {:?}", perf.get(address), tally.get(address)))
        .collect();
    if !off.is_empty() {
        println!("annotate {} {symbol}: {} addresses differ", case.name, off.len());
        off.iter().take(6).for_each(|line| println!("    {line}"));
    }
    Ok(Score::of(off.is_empty()))
}

/// The user-space function with the most samples.
fn hottest(pair: &Pair, file: &str) -> Result<Option<String>> {
    let rows =
        pair.perf(&["report", "--stdio", "-i", file, "--no-children", "-g", "none", "-F", "overhead,sym"])?;
    let text = rows.text();
    let names =
        text.lines().filter_map(|line| line.split_once("[.] ").map(|(_, name)| name.trim().to_owned()));
    Ok(names.into_iter().find(|name| !name.starts_with("0x") && !name.contains(' ')))
}

/// Address → percentage, summed over the events' sections; lines of ` 1.23 : 401136: insn`.
fn by_address(text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for line in text.lines() {
        let mut parts = line.split(':').map(str::trim);
        let (Some(percent), Some(address)) = (parts.next(), parts.next()) else { continue };
        let is_address = !address.is_empty() && address.chars().all(|c| c.is_ascii_hexdigit());
        if is_address && percent.parse::<f64>().is_ok_and(|value| value > 0.0) {
            found.insert(address.to_owned(), percent.to_owned());
        }
    }
    found
}
