//! The time below a function, by the calls in it: for functions that no sample ends in.

use super::annotate::{AnnotateAddress, AnnotateFunction, AnnotateOpts, is_named};
use crate::grow::Grow as _;
use crate::off_cpu::Wait;
use crate::profile::{Profile, Sums};
use crate::table::{CallsiteId, FrameId, InlineFrame, SymbolId};
use crate::view::ranking::RankRows as _;
use std::collections::BTreeMap;

/// Unit of a listing's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallTime {
    /// Samples of what it calls.
    Sampled,
    /// ns of waits in what it calls.
    Waited,
}

/// The function `symbol`, or the one that it was most inlined into, with the samples below it: each counts at the call
/// that led to it. Without samples the waits below it. `None` if it is in no stack.
#[must_use]
pub fn annotate_calls(profile: &Profile, symbol: SymbolId) -> Option<(AnnotateFunction, CallTime)> {
    let events = profile.events.len().max(1);
    let sampled = profile.cells().iter().map(|(key, sums)| (key.callsite, key.event as usize, *sums));
    let waited = |wait: &Wait| {
        let sums = Sums { count: 1, period: wait.weight_ns, ..Sums::default() };
        // Waits are no event: whichever is looked at has them.
        wait.callsite
            .into_iter()
            .flat_map(move |callsite| (0..events).map(move |event| (callsite, event, sums)))
    };
    let of = |amounts: &[_], time| by_call(profile, symbol, amounts).map(|function| (function, time));
    of(&sampled.collect::<Vec<_>>(), CallTime::Sampled)
        .or_else(|| of(&profile.off_cpu.waits.iter().flat_map(waited).collect::<Vec<_>>(), CallTime::Waited))
}

impl CallTime {
    /// Base of the shares, for a sentence.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Sampled => "the samples in what it calls",
            Self::Waited => "the waits in what it calls",
        }
    }
}

/// The same of each function that `opts` names. If samples are below one, functions with waits alone are left out.
#[must_use]
pub fn annotate_calls_named(profile: &Profile, opts: &AnnotateOpts) -> Vec<(AnnotateFunction, CallTime)> {
    let named = profile.symbols.iter().map(|(symbol, _)| symbol).filter(|&id| is_named(profile, id, opts));
    let mut found: Vec<_> = named.filter_map(|symbol| annotate_calls(profile, symbol)).collect();
    if found.iter().any(|(_, time)| *time == CallTime::Sampled) {
        found.retain(|(_, time)| *time == CallTime::Sampled);
    }
    // A function that the compiler divided has a symbol for each part.
    found.rank_by_key(|(function, _)| (function.dso.index(), function.start));
    found.dedup_by_key(|(function, _)| (function.dso.index(), function.start));
    found
}

/// Place, event and amount of samples.
type Amount = (CallsiteId, usize, Sums);

fn by_call(profile: &Profile, symbol: SymbolId, amounts: &[Amount]) -> Option<AnnotateFunction> {
    let wanted = *profile.symbols.of(symbol);
    let is_it = |inline: &InlineFrame| {
        let own = profile.symbols.of(inline.symbol);
        (own.dso, own.name) == (wanted.dso, wanted.name)
    };
    // The innermost frame of each path counts: outer ones are recursion.
    let frame_of = |callsite| {
        profile.callsites.leaf_first(callsite).find(|&frame| profile.frame_names(frame).iter().any(is_it))
    };
    let found: Vec<(FrameId, usize, Sums)> = amounts
        .iter()
        .filter_map(|&(callsite, event, sums)| Some((frame_of(callsite)?, event, sums)))
        .collect();
    let holder_of = |frame| profile.frame_names(frame).last().map(|inline| inline.symbol);
    let mut holders: BTreeMap<SymbolId, u64> = BTreeMap::new();
    for (frame, _, sums) in &found {
        if let Some(holder) = holder_of(*frame) {
            holders.entry(holder).or_default().grow(sums.period);
        }
    }
    let (holder, _) = holders.into_iter().max_by_key(|(_, period)| *period)?;
    let events = profile.events.len().max(1);
    let mut by_address: BTreeMap<u64, Vec<Sums>> = BTreeMap::new();
    let mut totals = vec![Sums::default(); events];
    for &(frame, event, sums) in found.iter().filter(|(frame, ..)| holder_of(*frame) == Some(holder)) {
        let address = profile.frames.of(frame).lookup;
        by_address.entry(address).or_insert_with(|| vec![Sums::default(); events])[event].add(sums);
        totals[event].add(sums);
    }
    let range = profile.symbols.of(holder);
    Some(AnnotateFunction {
        dso: range.dso,
        name: Some(range.name),
        start: range.start,
        size: range.size,
        totals,
        addresses: by_address.into_iter().map(|(addr, sums)| AnnotateAddress { addr, sums }).collect(),
    })
}
