//! Two trees as one: the widths of the current side, and next to each node its value before.

use super::{NameId, Node, NodeId, Tree};
use crate::grow::Grow as _;
use crate::view::ranking::RankRows as _;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// The stacks of two recordings, merged by the names on their paths.
#[derive(Clone, Debug)]
pub struct ComparedTree {
    /// The current side's values. Stacks of the baseline alone are in it, with the value 0.
    pub tree: Tree,
    /// By node: what ends there in the baseline.
    before: Vec<SideSum>,
}

/// Value and samples of one side.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SideSum {
    /// In the tree's unit.
    pub value: u64,
    /// Number of samples; 0 if unknown.
    pub samples: u64,
}

/// One node on both sides, all below it included.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BothSides {
    /// In the baseline.
    pub before: SideSum,
    /// In the current recording.
    pub after: SideSum,
}

impl ComparedTree {
    /// Merges `before` into `after`. A function that is inlined on one side only is one function.
    #[must_use]
    pub fn new(before: &Tree, after: Tree) -> Self {
        let mut tree = after;
        let kinds: FxHashMap<String, NameId> =
            tree.name_ids().map(|id| (tree.name(id).to_owned(), id)).collect();
        let mut before_own = vec![SideSum::default(); tree.len()];
        let names: Vec<NameId> = (before.names())
            .map(|(name, kind)| kinds.get(name).copied().unwrap_or_else(|| tree.intern(name, kind)))
            .collect();
        for leaf in before.leaves() {
            let path = before.path(leaf);
            let node = path.iter().fold(Tree::ROOT, |node, name| tree.child(node, names[name.index()]));
            before_own.resize(tree.len(), SideSum::default());
            let Node { own, samples, .. } = *before.node(leaf);
            let sum = &mut before_own[node.index()];
            sum.value.grow(own);
            sum.samples.grow(samples);
        }
        Self { tree, before: before_own }
    }

    /// Baseline's value that ends in `node`.
    #[must_use]
    pub fn own_before(&self, node: NodeId) -> SideSum {
        self.before[node.index()]
    }

    /// Both sides of each node with all below it, in node order.
    #[must_use]
    pub fn totals(&self) -> Vec<BothSides> {
        let after = self.tree.totals().into_iter();
        let mut before = self.before.clone();
        for at in (1..before.len()).rev() {
            let SideSum { value, samples } = before[at];
            let parent = &mut before[self.tree.parent_index(at)];
            parent.value.grow(value);
            parent.samples.grow(samples);
        }
        let side = |(value, samples)| SideSum { value, samples };
        before
            .into_iter()
            .zip(after)
            .map(|(before, after)| BothSides { before, after: side(after) })
            .collect()
    }

    /// Functions of the baseline that the current side lacks everywhere, with the value that ended in them:
    /// largest first.
    #[must_use]
    pub fn gone(&self) -> Vec<(&str, u64)> {
        let mut own: BTreeMap<NameId, (u64, bool)> = BTreeMap::new();
        for (at, both) in self.totals().into_iter().enumerate() {
            let node = NodeId::from_index(at);
            let (sum, is_there) = own.entry(self.tree.node(node).name).or_default();
            sum.grow(self.own_before(node).value);
            *is_there |= both.after.value > 0;
        }
        let gone = own.into_iter().filter(|(_, (sum, is_there))| *sum > 0 && !is_there);
        let mut gone: Vec<_> = gone.map(|(name, (sum, _))| (self.tree.name(name), sum)).collect();
        gone.rank_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
        gone
    }
}

/// Divisor of both sides' values before they are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ChangeScale {
    /// The side's total: values are percent.
    #[default]
    Share,
    /// Nothing: values are in the tree's unit.
    Run,
}

/// How values of both sides are compared.
#[derive(Clone, Copy, Debug)]
pub struct ChangeOpts {
    /// Divisor of the values.
    pub scale: ChangeScale,
    /// Values are of samples taken at random, so that chance explains small changes of shares.
    pub is_sampled: bool,
}

impl ChangeOpts {
    /// Before and after, as compared.
    #[must_use]
    pub fn values(&self, both: BothSides, whole: BothSides) -> (f64, f64) {
        let value = |side: SideSum, whole: SideSum| match self.scale {
            ChangeScale::Share if whole.value == 0 => 0.0,
            ChangeScale::Share => side.value as f64 * 100.0 / whole.value as f64,
            ChangeScale::Run => side.value as f64,
        };
        (value(both.before, whole.before), value(both.after, whole.after))
    }

    /// From -1 (gone) to 1 (new), fainter for changes under 1 % of the whole; 0 where chance explains the change.
    #[must_use]
    pub fn size(&self, both: BothSides, whole: BothSides) -> f64 {
        if self.is_chance(both, whole) {
            return 0.0;
        }
        let (before, after) = self.values(both, whole);
        let (whole_before, whole_after) = self.values(whole, whole);
        let most = before.max(after).max(whole_before.max(whole_after) * 0.01);
        if most > 0.0 { (after - before) / most } else { 0.0 }
    }

    /// Whether chance explains the change. False where values are not compared as shares of samples.
    #[must_use]
    pub fn is_chance(&self, both: BothSides, whole: BothSides) -> bool {
        self.is_sampled && self.scale == ChangeScale::Share && both.is_chance(&whole)
    }
}

impl BothSides {
    /// Whether chance alone explains the difference of the shares: fewer than two standard deviations of the samples'
    /// numbers. False where the samples are not known.
    #[must_use]
    pub fn is_chance(&self, whole: &Self) -> bool {
        let share = |side: SideSum, all: SideSum| side.samples as f64 / all.samples as f64;
        let (all_before, all_after) = (whole.before.samples as f64, whole.after.samples as f64);
        if all_before < 1.0 || all_after < 1.0 || self.before.samples + self.after.samples == 0 {
            return false;
        }
        let delta = share(self.after, whole.after) - share(self.before, whole.before);
        let both = (self.before.samples + self.after.samples) as f64 / (all_before + all_after);
        let variance = both * (1.0 - both) * (1.0 / all_before + 1.0 / all_after);
        delta.abs() <= 2.0 * variance.sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::tree;
    use super::super::{FrameKind, Unit};
    use super::*;

    #[test]
    fn both_sides_of_a_function_include_what_it_calls() {
        let compared = ComparedTree::new(&tree(&[("a;b", 2), ("a;c", 3)]), tree(&[("a;b", 7), ("a;d", 1)]));
        let sides: Vec<(&str, u64, u64)> = (compared.totals().iter().enumerate())
            .map(|(at, both)| {
                let name = compared.tree.node(NodeId::from_index(at)).name;
                (compared.tree.name(name), both.before.value, both.after.value)
            })
            .collect();
        assert_eq!(sides, [("all", 5, 8), ("a", 5, 8), ("b", 2, 7), ("d", 0, 1), ("c", 3, 0)]);
    }

    #[test]
    fn gone_functions_are_those_that_no_stack_has_any_more() {
        let compared = ComparedTree::new(&tree(&[("a;b", 2), ("c;b", 1), ("c;x", 4)]), tree(&[("a;b", 7)]));
        assert_eq!(compared.gone(), [("x", 4)]);
    }

    #[test]
    fn a_function_that_is_inlined_on_one_side_is_one_function() {
        let mut after = Tree::new(Unit::Samples);
        let path = [after.intern("a", FrameKind::Inlined)];
        after.add_path(&path, 5, 5);
        assert_eq!(ComparedTree::new(&tree(&[("a", 2)]), after).tree.len(), 2);
    }

    #[test]
    fn few_samples_are_chance_and_many_are_not() {
        let both = |before, after| BothSides {
            before: SideSum { value: before, samples: before },
            after: SideSum { value: after, samples: after },
        };
        let whole = both(1000, 1000);
        assert!(both(5, 9).is_chance(&whole) && !both(50, 90).is_chance(&whole));
    }
}
