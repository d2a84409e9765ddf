//! A sum of calls as the data of the page: exact time by path, on and off the CPU.

use crate::model::{CallNode, CallProfile, CallStats, NodeId as CallNodeId};
use crate::recording::functions::Functions;
use profile::profile::Sums;
use profile::view::flame::{FrameKind, NodeId, Tree, Unit};
use profile::view::page::{PageData, PageItem};

/// States of the page's amounts.
const STATES: [&str; 2] = ["on CPU", "off CPU"];

/// The page's data.
#[must_use]
pub fn page_data(sum: &CallProfile, functions: &Functions) -> PageData {
    let mut tree = Tree::new(Unit::Nanoseconds);
    let mut places: Vec<NodeId> = Vec::with_capacity(sum.nodes().len());
    let mut items = Vec::new();
    for CallNode { parent, function, stats } in sum.nodes() {
        let name = tree.intern(&functions.of(*function).name, FrameKind::Program);
        let above = parent.map_or(Tree::ROOT, |CallNodeId(id)| places[id as usize]);
        let node = tree.child(above, name);
        places.push(node);
        items.extend(own_time(node, stats));
    }
    PageData::of_time(tree, &STATES, "traced calls", items)
}

/// Own time on and off the CPU of the calls of one path.
fn own_time(node: NodeId, stats: &CallStats) -> impl Iterator<Item = PageItem> + use<> {
    let on = Sums { count: stats.calls(), period: stats.self_on_ns(), ..Sums::default() };
    let off = Sums { period: stats.self_off_ns, ..Sums::default() };
    let items = [PageItem::of_sum(node, 0, on), PageItem::of_sum(node, 1, off)];
    items.into_iter().filter(|item| item.amount > 0)
}
