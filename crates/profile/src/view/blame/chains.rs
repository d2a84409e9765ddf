//! Blame by chain of threads, and in each chain by state: where the time went, short enough for a sentence.

use super::causes::EndFunctions;
use super::{Blame, BlamePath, state_words};
use crate::grow::Grow as _;
use crate::profile::{Profile, TaskId};
use crate::view::ranking::RankRows as _;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A name with its part of the time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedTime {
    /// Name of a thread, a file, a function.
    pub name: String,
    /// ns.
    pub ns: u64,
}

/// Time of one chain in one state of its last thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainState {
    /// In words, without the name of what was waited for.
    pub state: String,
    /// ns.
    pub ns: u64,
    /// The target with most of the time, or who ran instead.
    pub target: Option<NamedTime>,
    /// The function with most of the time; `None` if none has a name.
    pub function: Option<NamedTime>,
    /// The recording doesn't show the cause.
    pub lacks_evidence: bool,
}

/// Time that went to one chain of waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlameChain {
    /// From the thread whose time it is to the one that did what the time went to. Neighbours of one name are one.
    pub names: Vec<String>,
    /// ns.
    pub ns: u64,
    /// Most time first; they add up to `ns`.
    pub states: Vec<ChainState>,
}

/// Chains by time, most first. They add up to [`Blame::total_ns`]. `name_of` names the threads.
#[must_use]
pub fn blame_chains(profile: &Profile, blame: &Blame, name_of: &dyn Fn(TaskId) -> String) -> Vec<BlameChain> {
    let mut functions = EndFunctions::of(profile);
    let mut by_chain: BTreeMap<Vec<String>, BTreeMap<String, StateSums>> = BTreeMap::new();
    for path in &blame.paths {
        let state = state_words(profile, &path.end.without_name());
        let states = by_chain.entry(names(blame, path, name_of)).or_default();
        states.entry(state).or_default().add(path, &functions.find(path.callsite, &path.end).0);
    }
    let mut chains: Vec<BlameChain> =
        by_chain.into_iter().map(|(names, states)| chain(names, states)).collect();
    chains.rank_by_key(|chain| Reverse(chain.ns));
    chains
}

fn names(blame: &Blame, path: &BlamePath, name_of: &dyn Fn(TaskId) -> String) -> Vec<String> {
    let mut names = vec![name_of(path.root)];
    names.extend(blame.links(path).iter().map(|link| name_of(link.waited_for)));
    names.dedup();
    names
}

fn chain(names: Vec<String>, states: BTreeMap<String, StateSums>) -> BlameChain {
    let mut states: Vec<ChainState> = states.into_iter().map(|(state, sums)| sums.finish(state)).collect();
    states.rank_by_key(|state| Reverse(state.ns));
    let mut ns = 0u64;
    states.iter().for_each(|state| ns.grow(state.ns));
    BlameChain { names, ns, states }
}

#[derive(Default)]
struct StateSums {
    ns: u64,
    lacks_evidence: bool,
    targets: BTreeMap<String, u64>,
    functions: BTreeMap<String, u64>,
}

impl StateSums {
    fn add(&mut self, path: &BlamePath, function: &str) {
        self.ns.grow(path.ns);
        self.lacks_evidence |= path.end.lacks_evidence();
        if let Some(name) = path.end.name().filter(|name| !name.is_empty()) {
            self.targets.entry(name.to_owned()).or_default().grow(path.ns);
        }
        // A file in brackets is no function.
        if !function.is_empty() && !function.starts_with('[') {
            self.functions.entry(function.to_owned()).or_default().grow(path.ns);
        }
    }

    fn finish(self, state: String) -> ChainState {
        let most = |of: BTreeMap<String, u64>| {
            let first = of.into_iter().max_by_key(|(name, ns)| (*ns, Reverse(name.clone())));
            first.map(|(name, ns)| NamedTime { name, ns })
        };
        ChainState {
            state,
            ns: self.ns,
            target: most(self.targets),
            function: most(self.functions),
            lacks_evidence: self.lacks_evidence,
        }
    }
}
