//! Reads the page (`--html`): its data, as its own script does.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde_json::Value;

use super::super::columns::{Columns, inflated};
use super::super::in_percent;
use super::Shares;

/// One event of the page's data: a tree of names with own amounts.
pub struct Page {
    pub event: String,
    /// Name and kind of each node's function, and its parent's index.
    nodes: Vec<(String, String, usize)>,
    own: Vec<u64>,
}

/// The kinds of names, in the order of their numbers.
const KINDS: [&str; 9] =
    ["task", "program", "library", "kernel", "jit", "python", "inlined", "waiting", "unknown"];

/// The events of a page, without its wall clock.
pub fn pages(html: &str) -> Result<Vec<Page>> {
    let about = about(html)?;
    let mut columns = Columns::unpack(element(html, "id=\"columns\">")?)?;
    let (names, kinds) = (columns.texts()?, columns.bytes()?);
    columns.numbers()?;
    let (ups, node_names) = (columns.numbers()?, columns.numbers()?);
    columns.numbers()?;
    let mut path: Vec<usize> = Vec::new();
    let mut nodes = Vec::new();
    for (at, (up, name)) in ups.into_iter().zip(node_names).enumerate() {
        // The root is one level up from nothing.
        let depth = (path.len() + usize::from(at == 0)).checked_sub(up as usize);
        path.truncate(depth.context("a frame above the root")?);
        let name = usize::try_from(name)?;
        let kind = KINDS[usize::from(*kinds.get(name).context("a name without a kind")?)];
        let text = names.get(name).context("a frame without a name")?.clone();
        nodes.push((text, kind.to_owned(), path.last().copied().unwrap_or(0)));
        path.push(at);
    }
    let (mut pages, mut first) = (Vec::new(), None);
    for set in about["data"]["sets"].as_array().context("no events")? {
        let items = items(&mut columns, first.as_ref().filter(|_| set["alike"] != 0))?;
        let own = own_amounts(&items, nodes.len())?;
        first = first.or(Some(items));
        if set["wall"] != Value::Bool(true) {
            pages.push(Page { event: text(&set["name"]), nodes: nodes.clone(), own });
        }
    }
    Ok(pages)
}

/// Words of the page: findings, locks, notes.
pub fn about(html: &str) -> Result<Value> {
    Ok(serde_json::from_slice(&inflated(element(html, "id=\"about\">")?)?)?)
}

/// The content of an element.
fn element<'h>(html: &'h str, begin: &str) -> Result<&'h str> {
    let (_, data) = html.split_once(begin).with_context(|| format!("the page has no {begin}"))?;
    let (data, _) = data.split_once("</script>").context("the page's data has no end")?;
    Ok(data)
}

/// Where a set's items are, and their amounts.
struct Items {
    frames: Vec<usize>,
    amounts: Vec<u64>,
    /// A moment without a length.
    is_sample: Vec<bool>,
}

/// The columns of a set. The samples of a set it is like come first, with their amounts only.
fn items(columns: &mut Columns, alike: Option<&Items>) -> Result<Items> {
    let mut frame = 0i64;
    let mut next_frame = |step: u64| {
        let size = (step / 2) as i64;
        frame += if step & 1 == 0 { size } else { -size - 1 };
        Ok(usize::try_from(frame)?)
    };
    let place_frames: Result<Vec<usize>> = columns.numbers()?.into_iter().map(&mut next_frame).collect();
    let place_frames = place_frames?;
    columns.bytes()?;
    let mut places = columns.numbers()?;
    if places.is_empty() {
        places = (0..place_frames.len() as u64).collect();
    }
    let (threads, begins, lengths) = (columns.numbers()?, columns.numbers()?, columns.numbers()?);
    let (mut waits, mut others) = (columns.numbers()?.into_iter(), columns.numbers()?.into_iter());
    for _ in ["counts", "wakers", "longest"] {
        columns.numbers()?;
    }
    let mut first_of_thread = vec![false; lengths.len()];
    let mut at = 0usize;
    for run in threads.chunks(2) {
        first_of_thread[at] = true;
        at += usize::try_from(run[1])?;
    }
    let mut found = Items { frames: Vec::new(), amounts: Vec::new(), is_sample: Vec::new() };
    for (&frame, _) in
        alike.iter().flat_map(|all| all.frames.iter().zip(&all.is_sample)).filter(|(_, is)| **is)
    {
        found.frames.push(frame);
        found.amounts.push(others.next().context("a sample without an amount")?);
        found.is_sample.push(true);
    }
    let mut since = 0;
    for (item, &length) in lengths.iter().enumerate() {
        since = begins[item] + if first_of_thread[item] { 0 } else { since };
        let amount = if length > 0 { waits.next() } else { others.next() };
        found.amounts.push(amount.context("an item without an amount")?);
        found.is_sample.push(length == 0 && since > 0);
        let place = usize::try_from(places[item])?;
        found.frames.push(*place_frames.get(place).context("an unknown place")?);
    }
    Ok(found)
}

/// Sums by frame.
fn own_amounts(items: &Items, nodes: usize) -> Result<Vec<u64>> {
    let mut own = vec![0u64; nodes];
    for (&frame, amount) in items.frames.iter().zip(&items.amounts) {
        *own.get_mut(frame).context("an unknown frame")? += amount;
    }
    Ok(own)
}

pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl Page {
    pub fn total(&self) -> u64 {
        self.own.iter().sum()
    }

    /// Names of the kernel's functions.
    pub fn kernel_functions(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().filter(|(_, kind, _)| kind == "kernel").map(|(name, _, _)| name.as_str())
    }

    /// Whether a function has a caller.
    pub fn has_stacks(&self) -> bool {
        self.nodes.iter().any(|(_, kind, parent)| kind != "task" && self.nodes[*parent].1 != "task")
    }

    /// Own shares, with inlined functions counted separately.
    pub fn own(&self) -> Shares {
        self.sum(|at| at)
    }

    /// Own shares of functions with a symbol; inlined functions count for their caller.
    pub fn own_of_symbols(&self) -> Shares {
        self.sum(|mut at| {
            while self.nodes[at].1 == "inlined" {
                at = self.nodes[at].2;
            }
            at
        })
    }

    pub(super) fn sum(&self, owner: impl Fn(usize) -> usize) -> Shares {
        let mut amounts: BTreeMap<String, u64> = BTreeMap::new();
        for (at, own) in self.own.iter().enumerate().filter(|(_, own)| **own > 0) {
            *amounts.entry(self.nodes[owner(at)].0.clone()).or_default() += own;
        }
        in_percent(amounts)
    }

    /// Shares with callees, each function counted once per stack.
    pub fn with_callees(&self) -> Shares {
        let mut amounts: BTreeMap<&str, u64> = BTreeMap::new();
        for (mut at, own) in self.own.iter().enumerate().filter(|(_, own)| **own > 0) {
            let mut seen = BTreeSet::new();
            while self.nodes[at].1 != "task" {
                seen.insert(self.nodes[at].0.as_str());
                at = self.nodes[at].2;
            }
            seen.into_iter().for_each(|name| *amounts.entry(name).or_default() += own);
        }
        let total = self.total().max(1) as f64;
        amounts.into_iter().map(|(name, amount)| (name.to_owned(), 100.0 * amount as f64 / total)).collect()
    }
}
