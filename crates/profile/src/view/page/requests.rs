//! The page of requests to disks: time in the queue and in the device by the functions that cause them.

use crate::profile::Sums;
use crate::view::flame::{FrameKind, Tree, Unit};
use crate::view::io::{Io, Submitter};
use crate::view::page::{PageData, PageItem};
use crate::view::ranking::RankRows as _;

/// States of the page's amounts.
const STATES: [&str; 2] = ["in the queue", "in the device"];

/// The page's data.
#[must_use]
pub fn of_requests(view: &Io) -> PageData {
    let mut tree = Tree::new(Unit::Nanoseconds);
    let mut items: Vec<PageItem> = view.submitters.iter().flat_map(|row| submitter(&mut tree, row)).collect();
    items.rank_by_key(|item| (item.node, item.state));
    PageData::of_time(tree, &STATES, "requests", items)
}

/// The time of one submitter's requests, below its thread, its functions and the kernel's cause.
fn submitter(tree: &mut Tree, row: &Submitter) -> impl Iterator<Item = PageItem> + use<> {
    let comm = tree.intern(&row.comm, FrameKind::Task);
    let mut node = tree.child(Tree::ROOT, comm);
    for function in row.functions.iter().rev() {
        let name = tree.intern(function, FrameKind::Program);
        node = tree.child(node, name);
    }
    for cause in row.cause.split(" → ").filter(|cause| !cause.is_empty()) {
        let name = tree.intern(cause, FrameKind::Kernel);
        node = tree.child(node, name);
    }
    let op = tree.intern(row.op.name(), FrameKind::Waiting);
    node = tree.child(node, op);
    let queue = Sums { period: row.latencies.queue_total_ns, ..Sums::default() };
    let device = Sums { count: row.requests, period: row.latencies.device_total_ns, ..Sums::default() };
    let items = [PageItem::of_sum(node, 0, queue), PageItem::of_sum(node, 1, device)];
    items.into_iter().filter(|item| item.amount > 0)
}
