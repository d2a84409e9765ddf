//! The stacks of a flame graph as JSON.

use super::{SCHEMA_VERSION, split};
use profile::view::flame::{NodeId, Tree};
use profile::view::ranking::RankRows as _;
use serde_json::{Value, json};

/// Stacks, root first, largest first; at most `most` of them (0: all). Values of all add up to `total`.
#[must_use]
pub fn flame(tree: &Tree, most: usize) -> Value {
    let mut leaves: Vec<NodeId> = tree.leaves().filter(|&node| tree.node(node).own > 0).collect();
    leaves.rank_by_key(|&node| std::cmp::Reverse(tree.node(node).own));
    let sum = |nodes: &[NodeId]| nodes.iter().map(|&node| tree.node(node).own).sum::<u64>();
    let (shown, others) = split(&leaves, most);
    let stacks: Vec<Value> = shown.iter().map(|&node| stack_value(tree, node)).collect();
    json!({
        "schema_version": SCHEMA_VERSION, "view": "flame", "unit": tree.unit.name(), "total": sum(&leaves),
        "stacks": stacks, "stacks_left_out": others.len(), "left_out": sum(others),
    })
}

fn stack_value(tree: &Tree, node: NodeId) -> Value {
    let frames: Vec<&str> = tree.path(node).into_iter().map(|name| tree.name(name)).collect();
    let stack = tree.node(node);
    json!({ "frames": frames, "value": stack.own, "samples": stack.samples })
}
