//! The page of requests to disks: time in the queue and in the device by the functions that cause them.

use super::about::About;
use crate::text::number::{bytes, count_of, duration_ns};
use profile::view::flame::{Kind, Tree, Unit};
use profile::view::io::{Io, Submitter};
use profile::view::page::{ItemSet, PageData, PageItem};
use serde_json::Value;

/// States of the page's amounts.
const STATES: [&str; 2] = ["in the queue", "in the device"];

/// Data and text of the page; `numbers` are those of `tally io --json`.
#[must_use]
pub fn of_io(view: &Io, numbers: Value, title: &str) -> (PageData, About) {
    let mut tree = Tree::new(Unit::Nanoseconds);
    let mut items: Vec<PageItem> = view.submitters.iter().flat_map(|row| submitter(&mut tree, row)).collect();
    items.sort_by_key(|item| (item.node, item.state));
    let set = ItemSet { name: "requests".to_owned(), unit: Unit::Nanoseconds, is_wall: true, items };
    let data = PageData {
        states: STATES.map(str::to_owned).to_vec(),
        sets: vec![set],
        ..PageData::of_tree(tree, "")
    };
    let whole = view.whole;
    let about = About {
        title: title.to_owned(),
        subtitle: format!(
            "{}, {}, in {}",
            count_of(whole.requests, "request", "requests"),
            bytes(whole.bytes),
            duration_ns(view.wall_ns)
        ),
        quality: format!("{} unfinished · {} failed", view.unfinished, view.failed),
        is_good: view.failed == 0,
        io: numbers,
        ..About::default()
    };
    (data, about)
}

/// The time of one submitter's requests, below its thread, its functions and the kernel's cause.
fn submitter(tree: &mut Tree, row: &Submitter) -> Vec<PageItem> {
    let comm = tree.intern(&row.comm, Kind::Task);
    let mut node = tree.child(Tree::ROOT, comm);
    for function in row.functions.iter().rev() {
        let name = tree.intern(function, Kind::Program);
        node = tree.child(node, name);
    }
    for cause in row.cause.split(" → ").filter(|cause| !cause.is_empty()) {
        let name = tree.intern(cause, Kind::Kernel);
        node = tree.child(node, name);
    }
    let op = tree.intern(row.op.name(), Kind::Waiting);
    node = tree.child(node, op);
    let times = [(0, row.latencies.queue_total_ns, 0), (1, row.latencies.device_total_ns, row.requests)];
    let item = |(state, amount, count)| PageItem {
        thread: 0,
        node,
        state,
        since: None,
        length: 0,
        amount,
        count,
        waker: 0,
    };
    times.into_iter().filter(|(_, amount, _)| *amount > 0).map(item).collect()
}
