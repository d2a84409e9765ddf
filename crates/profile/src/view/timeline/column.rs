//! One column of a thread's strip.

use super::strip::Activity;
use crate::grow::{Grow as _, GrownSum as _};
use crate::view::ranking::RankRows as _;
use crate::view::wall::Part;

/// A thread's time in one column, by state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Column {
    parts: Vec<(Part, u64)>,
    /// By state and number of the name.
    targets: Vec<((Part, u32), u64)>,
}

impl Column {
    /// A column with these parts.
    #[must_use]
    pub fn of(parts: &[(Part, u64)]) -> Self {
        let mut column = Self::default();
        parts.iter().for_each(|&(part, ns)| column.add(part.into(), ns));
        column
    }

    /// Adds ns of a state.
    pub(super) fn add(&mut self, of: Activity, ns: u64) {
        let part = of.part;
        if let Some(target) = of.target.filter(|_| ns > 0) {
            match self.targets.iter_mut().find(|(other, _)| *other == (part, target)) {
                Some((_, sum)) => sum.grow(ns),
                None => self.targets.push(((part, target), ns)),
            }
        }
        match self.parts.iter_mut().find(|(other, _)| *other == part) {
            Some((_, sum)) => sum.grow(ns),
            None if ns > 0 => self.parts.push((part, ns)),
            None => {}
        }
    }

    /// Takes ns of a state away, which it has.
    pub(super) fn take(&mut self, part: Part, ns: u64) {
        if let Some((_, sum)) = self.parts.iter_mut().find(|(other, _)| *other == part) {
            *sum = sum.saturating_sub(ns);
        }
        self.parts.retain(|&(_, ns)| ns > 0);
    }

    /// The states in it with their ns, most first.
    #[must_use]
    pub fn parts(&self) -> Vec<(Part, u64)> {
        let mut parts = self.parts.clone();
        parts.rank_by_key(|&(part, ns)| (std::cmp::Reverse(ns), part));
        parts
    }

    /// ns by state and number of what it was for.
    pub(super) fn targets(&self) -> &[((Part, u32), u64)] {
        &self.targets
    }

    /// ns of one state.
    #[must_use]
    pub fn ns(&self, part: Part) -> u64 {
        self.parts.iter().find(|(other, _)| *other == part).map_or(0, |(_, ns)| *ns)
    }

    /// ns of all states: less than the column's length where the thread began or ended.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        self.parts.iter().map(|(_, ns)| *ns).grown_sum()
    }

    /// True where the thread was not alive.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The state that took at least three quarters of the thread's time in it; `None` if none did.
    #[must_use]
    pub fn main(&self) -> Option<Part> {
        let total = u128::from(self.total_ns());
        let most = self.parts.iter().max_by_key(|&&(part, ns)| (ns, part))?;
        (u128::from(most.1) * 4 >= total * 3).then_some(most.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_mixed_unless_one_state_has_three_quarters_of_it() {
        let column = |on, preempted| Column::of(&[(Part::On, on), (Part::Preempted, preempted)]);
        assert_eq!(column(75, 25).main(), Some(Part::On));
        assert_eq!(column(74, 26).main(), None);
        assert_eq!(column(0, 5).main(), Some(Part::Preempted));
        assert!(Column::default().is_empty() && Column::default().main().is_none());
        assert_eq!(column(10, 30).parts(), [(Part::Preempted, 30), (Part::On, 10)]);
    }
}
