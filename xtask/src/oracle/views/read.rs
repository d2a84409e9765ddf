//! Reads names and shares back from the forms of the views.

mod page;

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde_json::Value;

use super::in_percent;
use page::text;
pub use page::{Page, about, pages};

/// Per cent by function.
pub type Shares = BTreeMap<String, f64>;

/// Whether a name is only a place: an address, a function without a symbol, a file.
fn is_place(name: &str) -> bool {
    let is_address = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_hexdigit());
    name.starts_with("function 0x")
        || name.starts_with('[')
        || is_address(name.strip_prefix("0x").unwrap_or(""))
        || (name.len() == 16 && is_address(name))
}

/// Shares with one row for everything without a name: perf's forms have a row per address there, ours one per function.
pub fn joined(shares: &Shares) -> Shares {
    let mut joined = Shares::new();
    for (name, share) in shares {
        let name = if is_place(name) { "(without a name)" } else { name };
        *joined.entry(name.to_owned()).or_default() += share;
    }
    joined
}

/// Shares of functions, those without a symbol as well.
pub fn functions(shares: &Shares) -> Shares {
    let is_function = |name: &str| name.starts_with("function 0x") || !is_place(name);
    shares.iter().filter(|(name, _)| is_function(name)).map(|(name, share)| (name.clone(), *share)).collect()
}

/// Shares of named functions.
pub fn named(shares: &Shares) -> Shares {
    shares.iter().filter(|(name, _)| !is_place(name)).map(|(name, share)| (name.clone(), *share)).collect()
}

/// Rows `share|…|[k] name` of the table that belongs to `event`.
pub fn rows(text: &str, event: &str) -> Vec<(String, f64)> {
    let mut found = Vec::new();
    let quoted = format!("'{event}'");
    let mut is_ours = true;
    for line in text.lines() {
        if line.starts_with("# Samples:") {
            is_ours = line.ends_with(&quoted);
        }
        let mut cells = line.split('|');
        if line.starts_with('#') || !is_ours {
            continue;
        }
        let (Some(share), Some(name)) = (cells.next().and_then(percent), cells.next_back()) else { continue };
        found.push((plain(name), share));
    }
    found
}

/// The rows of one name in several files add up.
pub fn sums(rows: &[(String, f64)]) -> Shares {
    let mut shares = Shares::new();
    for (name, share) in rows {
        *shares.entry(name.clone()).or_default() += share;
    }
    shares
}

/// Shares with callees. A name that has several rows (in two files, called and inlined) may be in a stack twice: then
/// any share from the largest row to their sum fits `truth`.
pub fn with_callees(rows: &[(String, f64)], truth: &Shares) -> Shares {
    let mut ranges: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for (name, share) in rows {
        let (most, sum) = ranges.entry(name).or_default();
        *most = share.max(*most);
        *sum += share;
    }
    let fit =
        |name: &str, (most, sum): (f64, f64)| truth.get(name).map_or(most, |share| share.clamp(most, sum));
    ranges.into_iter().map(|(name, range)| (name.to_owned(), fit(name, range))).collect()
}

/// Own shares by `script --json`: the first name of each sample's stack.
pub fn script(text: &str, event: &str) -> Shares {
    let mut amounts: BTreeMap<String, u64> = BTreeMap::new();
    for (leaf, period) in script_samples(text, event) {
        *amounts.entry(leaf).or_default() += period;
    }
    in_percent(amounts)
}

/// Sum of the periods in `script --json`.
pub fn script_total(text: &str, event: &str) -> u64 {
    script_samples(text, event).map(|(_, period)| period).sum()
}

fn script_samples(text: &str, event: &str) -> impl Iterator<Item = (String, u64)> {
    let samples = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    samples.filter(move |sample| sample["event"] == *event).map(|sample| {
        let leaf = sample["stack"].get(0).unwrap_or(&sample)["sym"].as_str().unwrap_or("[unknown]");
        (leaf.to_owned(), sample["period"].as_u64().unwrap_or(1))
    })
}

fn percent(cell: &str) -> Option<f64> {
    cell.trim().strip_suffix('%').and_then(|number| number.trim().parse().ok())
}

/// A name without perf's `[k]` before it and `(inlined)` after it.
fn plain(name: &str) -> String {
    let name = name.trim();
    let marked = name.len() > 4 && name.starts_with('[') && name[2..].starts_with("] ");
    let name = if marked { &name[4..] } else { name };
    name.trim_end_matches(" (inlined)").to_owned()
}

/// `diff`'s rows of `event`: the share before.
pub fn diff(text: &str, event: &str) -> Shares {
    let head = format!("# Event '{event}'");
    let part =
        text.split("# Event ").find(|part| format!("# Event {part}").starts_with(&head)).unwrap_or_default();
    let mut shares = Shares::new();
    for line in part.lines().filter(|line| !line.starts_with('#')) {
        let Some((share, rest)) = line.trim_start().split_once('%') else { continue };
        let (Ok(share), Some(at)) = (share.trim().parse::<f64>(), rest.find('[')) else { continue };
        *shares.entry(plain(&rest[at..])).or_default() += share;
    }
    shares
}

/// Sums of folded stacks.
pub struct Folded {
    pub own: Shares,
    pub all: Shares,
    pub total: u64,
}

/// Sums by name; the first name of each line is the thread's.
pub fn folded(text: &str) -> Folded {
    let mut own: BTreeMap<String, u64> = BTreeMap::new();
    let mut all: BTreeMap<String, u64> = BTreeMap::new();
    let mut total = 0;
    for line in text.lines() {
        let Some((stack, amount)) = line.rsplit_once(' ') else { continue };
        let amount: u64 = amount.parse().unwrap_or(0);
        total += amount;
        let mut names: Vec<&str> = stack.split(';').skip(1).collect();
        if let Some(leaf) = names.last() {
            *own.entry((*leaf).to_owned()).or_default() += amount;
        }
        names.sort_unstable();
        names.dedup();
        names.into_iter().for_each(|name| *all.entry(name.to_owned()).or_default() += amount);
    }
    let share = |amount: u64| 100.0 * amount as f64 / total.max(1) as f64;
    let all = all.into_iter().map(|(name, amount)| (name, share(amount))).collect();
    Folded { own: in_percent(own), all, total }
}

/// Rows of the browsing table: the first share of each, with callees where it has both.
pub fn screen(text: &str) -> Vec<(String, f64)> {
    let mut found = Vec::new();
    for line in text.lines().take_while(|line| !line.starts_with("== q")) {
        let row = line.trim_start_matches(['+', '-', '>', ' ']);
        let Some((Ok(share), rest)) = row.split_once('%').map(|(share, rest)| (share.trim().parse(), rest))
        else {
            continue;
        };
        let marks = ["[k] ", "[.] ", "[g] ", "[u] ", "[H] "];
        let name = marks.iter().filter_map(|mark| rest.rfind(mark)).max().map(|at| plain(&rest[at..]));
        found.push((name.unwrap_or_default(), share));
    }
    found
}

/// Contents of `run --json`.
pub struct Run {
    pub own: Shares,
    pub all: Shares,
    pub states: Shares,
    /// By reason, idle left out.
    pub blocked_ns: BTreeMap<String, u64>,
    pub thread_ns: u64,
    pub has_wall_clock: bool,
}

pub fn run(text: &str) -> Result<Run> {
    let run: Value = serde_json::from_str(text)?;
    let shares = |key: &str| -> Shares {
        let rows = run[key].as_array().into_iter().flatten();
        rows.map(|row| (self::text(&row["function"]), row["percent"].as_f64().unwrap_or(0.0))).collect()
    };
    let clock = &run["wall_clock"];
    let ns = |value: &Value| value.as_u64().unwrap_or(0);
    let blocked_ns = clock["blocked_ns"].as_object().into_iter().flatten();
    let blocked_ns: BTreeMap<String, u64> =
        blocked_ns.map(|(reason, amount)| (reason.clone(), ns(amount))).collect();
    let blocked: u64 = blocked_ns.values().sum();
    let states = [
        ("on CPU", ns(&clock["on_ns"])),
        ("preempted", ns(&clock["preempted_ns"])),
        ("runnable", ns(&clock["runnable_ns"])),
        ("sleeping", blocked + ns(&clock["idle_ns"])),
    ];
    let thread_ns = states.iter().map(|(_, amount)| amount).sum();
    let states = states.into_iter().map(|(name, amount)| (name.to_owned(), amount)).collect();
    Ok(Run {
        own: shares("functions_self"),
        all: shares("functions_total"),
        states: in_percent(states),
        blocked_ns,
        thread_ns,
        has_wall_clock: clock["recorded"] == true,
    })
}

/// Contents of `report --wall`.
pub struct Wall {
    pub states: Shares,
    pub all: Shares,
}

pub fn wall(text: &str) -> Wall {
    let mut states = Shares::new();
    let mut all = Shares::new();
    let mut total = 0.0;
    let mut part = "";
    for line in text.lines() {
        if !line.starts_with(' ') {
            part = line;
        }
        if let Some(rest) = line.strip_prefix("WALL CLOCK") {
            total = seconds(rest).unwrap_or(0.0);
        } else if part.starts_with("WALL CLOCK") && line.starts_with("  on CPU") {
            for cell in line.split("   ").map(str::trim) {
                let Some((name, share)) = cell.trim_end_matches(" %").rsplit_once(' ') else { continue };
                let name =
                    if ["on CPU", "preempted", "runnable"].contains(&name) { name } else { "sleeping" };
                *states.entry(name.to_owned()).or_default() += share.parse::<f64>().unwrap_or(0.0);
            }
        } else if part.starts_with("FUNCTIONS    with the functions they call") {
            let cells: Vec<&str> = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
            let (Some(amount), [.., name, file]) = (seconds(line), &cells[..]) else { continue };
            // Rows that aren't functions ([no sample]) have no file.
            let name = if *name == "·" || name.ends_with('%') { file } else { name };
            *all.entry((*name).to_owned()).or_default() += 100.0 * amount / total;
        }
    }
    Wall { states, all }
}

/// The duration a line begins with.
pub fn seconds(line: &str) -> Option<f64> {
    let mut words = line.split_whitespace();
    let amount: f64 = words.next()?.parse().ok()?;
    let unit = match words.next()? {
        "s" => 1.0,
        "ms" => 1e-3,
        "µs" | "us" => 1e-6,
        "ns" => 1e-9,
        _ => return None,
    };
    Some(amount * unit)
}

/// Shares of the states over all threads.
pub fn timeline(text: &str) -> Result<Shares> {
    let timeline: Value = serde_json::from_str(text)?;
    let mut amounts: BTreeMap<String, f64> = BTreeMap::new();
    let mut total = 0.0;
    for thread in timeline["threads"].as_array().context("no threads")? {
        let life = thread["life_ns"].as_f64().unwrap_or(0.0);
        total += life;
        for (state, share) in thread["shares"].as_object().into_iter().flatten() {
            let state = if ["on CPU", "preempted", "runnable"].contains(&state.as_str()) {
                state
            } else {
                "sleeping"
            };
            *amounts.entry(state.to_owned()).or_default() += share.as_f64().unwrap_or(0.0) * life;
        }
    }
    Ok(amounts.into_iter().map(|(state, amount)| (state, 100.0 * amount / total)).collect())
}
