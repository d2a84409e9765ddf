//! The page's data as columns, pruned to a size if need be.
//
// Layout: docs/formats/page.md.

use super::columns::Columns;
use super::pruning::{Order, coarser, joined, shares};
use perfdata::text::harmless;
use profile::view::flame::FrameKind;
use profile::view::page::{ItemSet, PageData, PageItem, PageThread, STRIP_SHARES};
use profile::view::ranking::RankRows as _;
use rustc_hash::FxHashMap;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::io;

/// Data ready for the page.
#[derive(Debug)]
pub struct Encoded {
    /// Columns, deflated, in base64.
    pub packed: String,
    /// Counts and names that a reader needs before the columns.
    pub counts: Value,
    /// Functions left out, and the largest share of a set that one of them had; their time counts for their callers.
    pub pruned: Option<(usize, f64)>,
}

/// Encodes the data in at most `most_bytes`, if pruning makes that possible. Sums are those of the data in any case.
///
/// # Errors
/// None: writing to memory.
pub fn encode(data: &PageData, most_bytes: usize) -> io::Result<Encoded> {
    let whole = pruned(data, &[], 0.0)?;
    if whole.packed.len() <= most_bytes {
        return Ok(whole);
    }
    let (data, shares) = (coarser(data), shares(data));
    let mut least = LEAST_SHARE;
    let mut encoded = pruned(&data, &shares, least)?;
    while encoded.packed.len() > most_bytes && least < MOST_SHARE {
        least *= STEP;
        encoded = pruned(&data, &shares, least)?;
    }
    // Smaller shares between the last two: as little as possible is left out.
    let mut step = STEP;
    for _ in 0..REFINED {
        step = step.sqrt();
        let finer = pruned(&data, &shares, least / step)?;
        if finer.packed.len() <= most_bytes {
            (encoded, least) = (finer, least / step);
        }
    }
    Ok(encoded)
}

/// The first share that pruning tries, and the one at which it ends.
const LEAST_SHARE: f64 = 1e-5;
const MOST_SHARE: f64 = 0.01;
/// From one share to the next.
const STEP: f64 = 4.0;
/// Shares tried between the last two.
const REFINED: usize = 3;

/// The data without functions that have less than `least` of every set, by their `shares`.
fn pruned(data: &PageData, shares: &[f64], least: f64) -> io::Result<Encoded> {
    let order = Order::of(data, shares, least);
    if order.pruned == 0 {
        let packed = columns(data, &order).packed()?;
        return Ok(Encoded { packed, counts: counts(data, &order), pruned: None });
    }
    let sets = data.sets.iter().map(|set| joined(set, &order, data.tick_ns)).collect();
    let data = PageData { sets, ..data.clone() };
    let packed = columns(&data, &order).packed()?;
    Ok(Encoded { packed, counts: counts(&data, &order), pruned: Some((order.pruned, least)) })
}

fn columns(data: &PageData, order: &Order) -> Columns {
    let mut columns = Columns::default();
    let tree = &data.tree;
    let all: Vec<(String, u8, u32)> = tree
        .names()
        .zip(&data.name_files)
        .map(|((name, kind), &file)| (harmless(name).into_owned(), kind_number(kind), file))
        .collect();
    let mut used = vec![false; all.len()];
    order.nodes.iter().for_each(|&(id, _)| used[tree.node(id).name.index()] = true);
    let mut names: Vec<usize> = (0..all.len()).filter(|&at| used[at]).collect();
    names.rank_by(|&a, &b| all[a].cmp(&all[b]));
    let mut new_name = vec![0u64; all.len()];
    names.iter().enumerate().for_each(|(new, &old)| new_name[old] = new as u64);
    columns.front_coded(names.iter().map(|&at| all[at].0.as_str()));
    columns.bytes(names.iter().map(|&at| all[at].1));
    columns.numbers(names.iter().map(|&at| u64::from(all[at].2)));
    let mut before = 0i64;
    columns.numbers(order.nodes.iter().map(|&(_, depth)| {
        let up = before + 1 - i64::from(depth);
        before = i64::from(depth);
        up.max(0) as u64
    }));
    columns.numbers(order.nodes.iter().map(|&(id, _)| new_name[tree.node(id).name.index()]));
    columns.numbers(data.wakers.iter().map(|waker| u64::from(order.place[waker.node.index()])));
    for set in &data.sets {
        set_columns(&mut columns, set, order, &SetCoding { tick_ns: data.tick_ns, alike: alike(data, set) });
    }
    let strips = data.threads.iter().filter(|thread| !thread.strip.is_empty());
    columns.bytes(strips.flat_map(|thread| &thread.strip).flat_map(|column| {
        let parts = column.iter().flat_map(|&(state, share)| [state, share]);
        [column.len() as u8].into_iter().chain(parts).collect::<Vec<u8>>()
    }));
    columns
}

/// The moments of a set with times that aren't waits: the samples.
fn samples(set: &ItemSet) -> impl Iterator<Item = &PageItem> {
    set.items.iter().filter(|item| item.since.is_some() && item.length == 0)
}

/// By item of a set, whether it is at the time and place of a sample of the wall clock: those aren't repeated. All
/// false unless each of those samples is an item of the set.
fn alike(data: &PageData, set: &ItemSet) -> Vec<bool> {
    let key = |item: &PageItem| (item.thread, item.node, item.state, item.since, item.length, item.waker);
    let wall = data.sets.first().filter(|first| first.is_wall && !set.is_wall);
    let mut coming = wall.into_iter().flat_map(samples).map(key).peekable();
    let alike = set.items.iter().map(|item| coming.next_if_eq(&key(item)).is_some()).collect();
    if coming.peek().is_some() { vec![false; set.items.len()] } else { alike }
}

/// A kind's number in the column `kinds`. Numbers of the format never change, whatever order the program declares.
fn kind_number(kind: FrameKind) -> u8 {
    match kind {
        FrameKind::Task => 0,
        FrameKind::Program => 1,
        FrameKind::Library => 2,
        FrameKind::Kernel => 3,
        FrameKind::Jit => 4,
        FrameKind::Python => 5,
        FrameKind::Inlined => 6,
        FrameKind::Waiting => 7,
        FrameKind::Unknown => 8,
    }
}

/// How the items of a set are written.
struct SetCoding {
    tick_ns: u64,
    /// By item: it is that of a sample of the first set, and only its amount and count are written.
    alike: Vec<bool>,
}

/// A set's places (node and state) and its items column by column.
fn set_columns(columns: &mut Columns, set: &ItemSet, order: &Order, coding: &SetCoding) {
    let place = |item: &PageItem| (order.place[item.node.index()], item.state);
    let flags = || set.items.iter().zip(&coding.alike);
    let alike = flags().filter(|(_, is)| **is).map(|(item, _)| item);
    let mut placed: Vec<&PageItem> = flags().filter(|(_, is)| !**is).map(|(item, _)| item).collect();
    let places = places(&placed, order);
    let index: FxHashMap<(u32, u8), u64> = places.iter().zip(0..).map(|(&place, at)| (place, at)).collect();
    if !is_timed(&placed) {
        placed.sort_by_key(|item| (item.thread, index[&place(item)]));
    }
    let all: Vec<&PageItem> = alike.chain(placed.iter().copied()).collect();
    columns.signed(steps(places.iter().map(|&(node, _)| i64::from(node))));
    columns.bytes(places.iter().map(|&(_, state)| state));
    let each: Vec<u64> = placed.iter().map(|item| index[&place(item)]).collect();
    let is_counted = each.iter().zip(0..).all(|(&place, at)| place == at);
    columns.numbers(each.into_iter().filter(|_| !is_counted));
    columns.numbers(thread_runs(&placed));
    columns.numbers(begins(&placed));
    columns.numbers(placed.iter().map(|item| length(item, coding.tick_ns)));
    let (waits, others): (Vec<&PageItem>, Vec<&PageItem>) = all.iter().partition(|item| item.length > 0);
    columns.numbers(waits.iter().map(|item| item.amount));
    columns.numbers(others.iter().map(|item| item.amount));
    columns.numbers(all.iter().map(|item| item.count));
    columns.numbers(placed.iter().map(|item| u64::from(item.waker)));
    let longest: Vec<i64> = placed.iter().map(|item| longest(item, coding.tick_ns)).collect();
    let is_known = longest.iter().any(|&step| step != 0);
    columns.signed(longest.into_iter().filter(|_| is_known));
}

/// Each item's begin plus one, or zero for a sum, less that of the item before of its thread.
fn begins<'i>(items: &'i [&PageItem]) -> impl Iterator<Item = u64> + 'i {
    let mut before = (0, 0);
    items.iter().map(move |item| {
        let since = item.since.map_or(0, |since| since + 1);
        let last = if before.0 == item.thread { before.1 } else { 0 };
        before = (item.thread, since);
        since.saturating_sub(last)
    })
}

/// A wait's length as its difference from its amount, plus one: mostly one. Zero for items without a length.
fn length(item: &PageItem, tick_ns: u64) -> u64 {
    if item.length == 0 {
        return 0;
    }
    let amount = i64::try_from(item.amount.div_ceil(tick_ns)).unwrap_or(i64::MAX);
    let step = i64::try_from(item.length).unwrap_or(i64::MAX) - amount;
    ((step << 1) ^ (step >> 63)).cast_unsigned() + 1
}

/// A wait's longest as its difference from what its length and amount let expect: mostly zero.
fn longest(item: &PageItem, tick_ns: u64) -> i64 {
    let ticks = |ticks: u64| i64::try_from(ticks).unwrap_or(i64::MAX);
    ticks(item.longest) - ticks(item.length.min(item.amount / tick_ns.max(1)))
}

fn is_timed(items: &[&PageItem]) -> bool {
    items.iter().any(|item| item.since.is_some())
}

/// The items' places: most frequent first if items have times, else in the order of the frames.
fn places(items: &[&PageItem], order: &Order) -> Vec<(u32, u8)> {
    let mut uses: FxHashMap<(u32, u8), u64> = FxHashMap::default();
    items.iter().for_each(|item| *uses.entry((order.place[item.node.index()], item.state)).or_default() += 1);
    let mut places: Vec<((u32, u8), u64)> = uses.into_iter().collect();
    let is_timed = is_timed(items);
    places.rank_by_key(|&(place, uses)| (Reverse(if is_timed { uses } else { 0 }), place));
    places.into_iter().map(|(place, _)| place).collect()
}

/// Differences from one value to the next.
fn steps(values: impl Iterator<Item = i64>) -> impl Iterator<Item = i64> {
    let mut before = 0;
    values.map(move |value| value - std::mem::replace(&mut before, value))
}

/// Pairs of a thread and the number of its items.
fn thread_runs<'i>(items: &'i [&PageItem]) -> impl Iterator<Item = u64> + 'i {
    items.chunk_by(|a, b| a.thread == b.thread).flat_map(|run| [u64::from(run[0].thread), run.len() as u64])
}

fn counts(data: &PageData, order: &Order) -> Value {
    let set = |set: &ItemSet| json!({ "name": harmless(&set.name), "unit": harmless(set.unit.name()), "wall": set.is_wall, "items": set.items.len(), "alike": alike(data, set).into_iter().filter(|is| *is).count() });
    let threads: Vec<Value> = data.threads.iter().map(thread).collect();
    json!({
        "nodes": order.nodes.len(),
        "tick_ns": data.tick_ns, "ticks": data.ticks, "columns": data.columns, "shares": STRIP_SHARES,
        "states": data.states,
        "files": data.files.iter().map(|file| harmless(file)).collect::<Vec<_>>(),
        "threads": threads,
        "wakers": data.wakers.iter().map(|waker| harmless(&waker.name)).collect::<Vec<_>>(),
        "sets": data.sets.iter().map(set).collect::<Vec<_>>(),
    })
}

fn thread(thread: &PageThread) -> Value {
    let mut about = json!({
        "pid": thread.pid, "tid": thread.tid, "comm": harmless(&thread.comm),
        "from": thread.life.0, "to": thread.life.1, "idle": thread.is_idle, "strip": !thread.strip.is_empty(),
    });
    if let Some(title) = &thread.title {
        about["title"] = harmless(title).into();
    }
    about
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::view::flame::Tree;

    /// Kinds with their words in docs/formats/page.md and in web/src/data.ts.
    const KINDS: [(FrameKind, u8, &str, &str); 9] = [
        (FrameKind::Task, 0, "process", "Task"),
        (FrameKind::Program, 1, "program", "Program"),
        (FrameKind::Library, 2, "library", "Library"),
        (FrameKind::Kernel, 3, "kernel", "Kernel"),
        (FrameKind::Jit, 4, "run-time code", "Jit"),
        (FrameKind::Python, 5, "Python", "Python"),
        (FrameKind::Inlined, 6, "inlined", "Inlined"),
        (FrameKind::Waiting, 7, "waiting", "Waiting"),
        (FrameKind::Unknown, 8, "no name", "Unknown"),
    ];

    #[test]
    fn numbers_of_kinds_are_those_of_the_format_and_of_the_script() {
        let format = include_str!("../../../../docs/formats/page.md");
        let script = include_str!("../../../../web/src/data.ts");
        for (kind, number, word, name) in KINDS {
            assert_eq!(kind_number(kind), number, "{name}");
            assert!(format.contains(&format!("{number} {word}")), "{word} in docs/formats/page.md");
            assert!(script.contains(&format!(" {name} = {number}")), "{name} in web/src/data.ts");
        }
        let words: Vec<String> =
            KINDS.iter().map(|(_, number, _, name)| format!("{name} = {number}")).collect();
        assert!(
            script.contains(&format!("enum Kind {{ {} }}", words.join(", "))),
            "other kinds in the script"
        );
    }

    #[test]
    fn bytes_of_a_page_are_those_of_the_format() {
        let mut tree = Tree::new(profile::view::flame::Unit::Samples);
        let path = [tree.intern("main", FrameKind::Program), tree.intern("read", FrameKind::Library)];
        tree.add_path(&path, 5, 2);
        let data = PageData::of_tree(tree, "e");
        let mut expected = Columns::default();
        expected.front_coded(["all", "main", "read"].into_iter());
        expected.bytes([0, 1, 2].into_iter());
        // Files, levels and names of frames, wakers.
        for column in [&[0, 0, 0][..], &[1, 0, 0], &[0, 1, 2], &[]] {
            expected.numbers(column.iter().copied());
        }
        // Place frames, then states, then items.
        expected.numbers([4].into_iter());
        expected.bytes([0].into_iter());
        for column in [&[][..], &[0, 1], &[0], &[0], &[], &[5], &[2], &[0], &[]] {
            expected.numbers(column.iter().copied());
        }
        expected.bytes([].into_iter());
        let encoded = encode(&data, usize::MAX).expect("in memory");
        assert_eq!(encoded.packed, expected.packed().expect("in memory"));
    }

    #[test]
    fn the_longest_of_several_waits_is_written_where_it_differs_from_the_kept_one() {
        let of = |length, longest, amount| {
            let sums = profile::profile::Sums { count: 1, period: amount, ..Default::default() };
            super::longest(&PageItem { length, longest, ..PageItem::of_sum(Tree::ROOT, 0, sums) }, 1000)
        };
        // A sample; a wait; one that represents others, shorter ones and longer ones; a sum whose longest is known.
        assert_eq!(of(0, 0, 5_000_000), 0);
        assert_eq!(of(3, 2, 2_500), 0);
        assert_eq!(of(3, 2, 9_500), -1);
        assert_eq!((of(3, 7, 9_500), of(0, 7, 9_500)), (4, 7));
    }

    #[test]
    fn samples_of_the_wall_clock_are_written_once() {
        let mut tree = Tree::new(profile::view::flame::Unit::Nanoseconds);
        let main = tree.intern("main", FrameKind::Program);
        let main = tree.child(Tree::ROOT, main);
        let item = |thread, since, length, amount| PageItem {
            thread,
            since,
            length,
            ..PageItem::of_sum(
                main,
                0,
                profile::profile::Sums { count: 1, period: amount, ..Default::default() },
            )
        };
        let wall =
            vec![item(0, None, 0, 9), item(0, Some(5), 0, 7), item(0, Some(8), 2, 6), item(1, Some(2), 0, 3)];
        let mut data = PageData::of_time(tree, &["on CPU"], "wall clock", wall);
        // A thread that the wall clock leaves out comes between the samples.
        let event = vec![item(0, Some(5), 0, 10), item(0, Some(6), 0, 10), item(1, Some(2), 0, 10)];
        data.sets.push(ItemSet { is_wall: false, items: event, ..data.sets[0].clone() });
        assert_eq!(alike(&data, &data.sets[1]), [true, false, true]);
        assert_eq!(alike(&data, &data.sets[0]), [false; 4]);
        // A set that lacks one of the samples has all of its own.
        data.sets[1].items.pop();
        assert_eq!(alike(&data, &data.sets[1]), [false; 2]);
    }
}
