//! Idle threads that share a name.

use super::ThreadRow;
use crate::grow::Grow as _;
use crate::view::ranking::RankRows as _;
use rustc_hash::FxHashMap;

/// Idle threads of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdleGroup {
    /// [`ThreadRow::own_name`].
    pub name: String,
    /// How many.
    pub threads: u64,
    /// Time in which they waited for work, ns.
    pub idle_ns: u64,
    /// Time that they lived, ns.
    pub life_ns: u64,
}

/// `rows` by name, most idle time first.
#[must_use]
pub fn idle_groups(rows: &[&ThreadRow]) -> Vec<IdleGroup> {
    let mut groups: FxHashMap<String, IdleGroup> = FxHashMap::default();
    for row in rows {
        let group = groups.entry(row.own_name()).or_default();
        group.threads += 1;
        group.idle_ns.grow(row.times.idle_ns);
        group.life_ns.grow(row.life_ns);
    }
    let named = groups.into_iter().map(|(name, group)| IdleGroup { name, ..group });
    let mut groups: Vec<IdleGroup> = named.collect();
    groups.rank_by(|a, b| b.idle_ns.cmp(&a.idle_ns).then_with(|| a.name.cmp(&b.name)));
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::wall::Times;

    #[test]
    fn threads_of_one_name_are_one_group_and_the_idlest_come_first() {
        let row = |comm: &str, idle_ns| ThreadRow {
            comm: comm.to_owned(),
            life_ns: 100,
            times: Times { idle_ns, ..Times::default() },
            pid: 1,
            tid: 1,
            title: None,
            start: None,
            switches: 0,
            kernel_idle_ns: 0,
            start_ns: 0,
            tasks: Vec::new(),
        };
        let rows = [row("b", 30), row("a", 30), row("pool", 50), row("pool", 40)];
        let groups = idle_groups(&rows.iter().collect::<Vec<_>>());
        let found: Vec<_> =
            groups.iter().map(|of| (of.name.as_str(), of.threads, of.idle_ns, of.life_ns)).collect();
        assert_eq!(found, [("pool", 2, 90, 200), ("a", 1, 30, 100), ("b", 1, 30, 100)]);
    }
}
