//! Where each frame of a flame graph is: depth, offset and width in value units.

use super::{NodeId, Tree};

/// One drawn frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlameCell {
    /// The node.
    pub node: NodeId,
    /// 0 is the root.
    pub depth: u32,
    /// Sum of the values left of it.
    pub start: u64,
    /// Value, all below included.
    pub value: u64,
    /// Samples, all below included.
    pub samples: u64,
}

/// Tree to lay out.
#[derive(Clone, Copy, Debug)]
pub struct LayoutOpts {
    /// The node drawn over the whole width.
    pub root: NodeId,
    /// Frames of a smaller value are left out, with all they call.
    pub min_value: u64,
}

/// The frames of a graph, callers before what they call, siblings by name.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The frames.
    pub cells: Vec<FlameCell>,
    /// Rows the graph has.
    pub rows: u32,
    /// Value of the whole graph.
    pub total: u64,
    /// Number of frames left out as too small, without those they call.
    pub hidden: usize,
    /// Frames left out, by the drawn frame that calls them.
    pub small: Vec<Small>,
}

/// A frame that is too small to draw.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Small {
    /// Index of the drawn frame it is in, among [`Layout::cells`].
    pub cell: usize,
    /// Depth below that frame, from 1.
    pub below: u32,
    /// The node.
    pub node: NodeId,
    /// Value, all below included.
    pub value: u64,
}

impl Layout {
    /// Lays out the part of `tree` below `opts.root`.
    pub fn new(tree: &Tree, opts: LayoutOpts) -> Self {
        let totals = tree.totals();
        let children = sorted_children(tree);
        let total = totals[opts.root.0 as usize].0;
        let mut layout = Self { cells: Vec::new(), rows: 0, total, hidden: 0, small: Vec::new() };
        // Each frame still to be laid out, with the drawn frame it is in if it is left out.
        let mut open = vec![(opts.root, 0u32, 0u64, None)];
        let mut drawn_at: Vec<usize> = Vec::new();
        while let Some((node, depth, start, inside)) = open.pop() {
            let (value, samples) = totals[node.0 as usize];
            if inside.is_some() || value < opts.min_value.max(1) {
                layout.hidden += usize::from(inside.is_none() && value > 0);
                let (cell, drawn_depth) = inside.unwrap_or_else(|| {
                    let caller = depth.saturating_sub(1);
                    (drawn_at.get(caller as usize).copied().unwrap_or(0), caller)
                });
                if value > 0 && !layout.cells.is_empty() {
                    layout.small.push(Small { cell, below: depth - drawn_depth, node, value });
                    let below = children.of(node).iter().rev();
                    open.extend(below.map(|&child| (child, depth + 1, 0, Some((cell, drawn_depth)))));
                }
                continue;
            }
            drawn_at.truncate(depth as usize);
            drawn_at.push(layout.cells.len());
            layout.cells.push(FlameCell { node, depth, start, value, samples });
            layout.rows = layout.rows.max(depth + 1);
            // Pushed from right to left, so that the leftmost is laid out next.
            let mut end = start.saturating_add(value).saturating_sub(tree.node(node).own);
            for &child in children.of(node).iter().rev() {
                end = end.saturating_sub(totals[child.0 as usize].0);
                open.push((child, depth + 1, end, None));
            }
        }
        layout
    }
}

/// Children lists of all nodes in one array.
struct Children {
    starts: Vec<u32>,
    list: Vec<NodeId>,
}

impl Children {
    fn of(&self, node: NodeId) -> &[NodeId] {
        let at = node.0 as usize;
        &self.list[self.starts[at] as usize..self.starts[at + 1] as usize]
    }
}

/// Every node's children, sorted by name so that equal inputs draw equal pictures.
fn sorted_children(tree: &Tree) -> Children {
    let mut list: Vec<NodeId> = (1..tree.nodes.len()).map(|i| NodeId(i as u32)).collect();
    list.sort_by(|&a, &b| {
        let (a, b) = (tree.node(a), tree.node(b));
        a.parent
            .cmp(&b.parent)
            .then_with(|| tree.names[a.name.0 as usize].cmp(&tree.names[b.name.0 as usize]))
    });
    let mut starts = vec![0u32; tree.nodes.len() + 1];
    for &child in &list {
        starts[tree.node(child).parent.0 as usize + 1] += 1;
    }
    for i in 1..starts.len() {
        starts[i] += starts[i - 1];
    }
    Children { starts, list }
}

#[cfg(test)]
mod tests {
    use super::super::{FrameKind, Unit};
    use super::*;

    #[test]
    fn siblings_stand_side_by_side_inside_their_caller() {
        let mut tree = Tree::new(Unit::Samples);
        for (stack, count) in [("a;z", 2), ("a;b", 3), ("a", 5), ("c", 1)] {
            let path: Vec<_> = stack.split(';').map(|name| tree.intern(name, FrameKind::Program)).collect();
            tree.add_path(&path, count, count);
        }
        let layout = Layout::new(&tree, LayoutOpts { root: Tree::ROOT, min_value: 2 });
        let shown: Vec<_> = layout
            .cells
            .iter()
            .map(|c| (tree.name(tree.node(c.node).name), c.depth, c.start, c.value))
            .collect();
        assert_eq!(shown, [("all", 0, 0, 11), ("a", 1, 0, 10), ("b", 2, 0, 3), ("z", 2, 3, 2)]);
        assert_eq!((layout.rows, layout.hidden), (3, 1));
        let small: Vec<_> = layout.small.iter().map(|s| (s.cell, s.below, s.value)).collect();
        assert_eq!((tree.name(tree.node(layout.small[0].node).name), &small[..]), ("c", &[(0, 1, 1)][..]));
    }

    #[test]
    fn what_is_too_small_to_draw_is_kept_below_the_drawn_frame_that_calls_it() {
        let mut tree = Tree::new(Unit::Samples);
        for (stack, count) in [("a;b;x;y", 1), ("a;b;x;z", 2), ("a;b", 50), ("a;c;y", 3), ("a;d", 60)] {
            let path: Vec<_> = stack.split(';').map(|name| tree.intern(name, FrameKind::Program)).collect();
            tree.add_path(&path, count, count);
        }
        let layout = Layout::new(&tree, LayoutOpts { root: Tree::ROOT, min_value: 10 });
        let name = |node| tree.name(tree.node(node).name);
        let small: Vec<_> = layout
            .small
            .iter()
            .map(|s| (name(layout.cells[s.cell].node), s.below, name(s.node), s.value))
            .collect();
        assert_eq!(
            small,
            [("b", 1, "x", 3), ("b", 2, "y", 1), ("b", 2, "z", 2), ("a", 1, "c", 3), ("a", 2, "y", 3)]
        );
        assert_eq!(layout.hidden, 2);
    }
}
