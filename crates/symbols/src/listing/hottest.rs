//! Code of the functions that ran most, and the part of it around the lines that were hit.

use super::{CodeLine, Line, Listing, ListingOpts, Sources, listings};
use crate::Recording;
use profile::grow::GrownSum as _;
use profile::profile::Sums;
use profile::view::annotate::{AnnotateFunction, AnnotateOpts, annotate};
use std::cmp::Reverse;
use std::vec;

/// Until these functions have so many percent of the samples.
const PERCENT: u64 = 95;

/// Annotated functions of one event, hottest first, until they have most of its samples.
pub struct HottestCode<'r> {
    recording: &'r Recording,
    event: usize,
    functions: vec::IntoIter<AnnotateFunction>,
    sources: Sources,
    covered: u64,
}

impl<'r> HottestCode<'r> {
    /// Hottest functions of the event with this index; no more than `most`.
    #[must_use]
    pub fn new(recording: &'r Recording, event: usize, most: usize) -> Self {
        let mut functions = annotate(&recording.profile, &AnnotateOpts::default());
        functions.retain(|function| function.totals[event].period > 0);
        functions.sort_by_key(|function| Reverse(function.totals[event].period));
        functions.truncate(most);
        Self { recording, event, functions: functions.into_iter(), sources: Sources::new(None), covered: 0 }
    }
}

impl Iterator for HottestCode<'_> {
    /// Listings of one function that have samples and code; none if its code is not on this machine.
    type Item = Vec<Listing>;

    fn next(&mut self) -> Option<Self::Item> {
        let Recording { profile, files, .. } = self.recording;
        let whole = profile.total(self.event).period.max(1);
        if self.covered.saturating_mul(100) >= whole.saturating_mul(PERCENT) {
            return None;
        }
        let function = self.functions.next()?;
        self.covered = self.covered.saturating_add(function.totals[self.event].period);
        let opts = ListingOpts { source: true, ..ListingOpts::default() };
        let mut found = listings(profile, files, &self.sources, &function, &opts);
        found.retain(|listing| listing.no_code.is_none());
        Some(found)
    }
}

/// Lines of a listing with most samples.
pub struct HottestLines<'l> {
    /// In the listing's order.
    pub lines: Vec<&'l Line>,
    /// Number of the others.
    pub left_out: usize,
    /// Their sums, by event.
    pub left_out_sums: Vec<Sums>,
}

impl Listing {
    /// At most so many lines (0: all), those with most samples of all events.
    #[must_use]
    pub fn hottest_lines(&self, most: usize) -> HottestLines<'_> {
        let events = 0..self.totals.len();
        let samples = |line: &Line| events.clone().map(|event| line.sums(event).count).grown_sum();
        let mut hottest: Vec<(usize, &Line)> = self.lines.iter().enumerate().collect();
        hottest.sort_by_key(|(_, line)| Reverse(samples(line)));
        let others = hottest.split_off(if most == 0 { hottest.len() } else { most.min(hottest.len()) });
        hottest.sort_by_key(|(at, _)| *at);
        let sum_of = |event| {
            let mut sum = Sums::default();
            others.iter().for_each(|(_, line)| sum.add(line.sums(event)));
            sum
        };
        let left_out_sums = events.clone().map(sum_of).collect();
        let lines = hottest.into_iter().map(|(_, line)| line).collect();
        HottestLines { lines, left_out: others.len(), left_out_sums }
    }
}

/// A piece of a listing's excerpt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excerpt<'l> {
    /// A line near one that was hit.
    Line(&'l Line),
    /// Number of lines left out here.
    Cut(usize),
}

impl Line {
    /// Period of `event` on this line; 0 for lines without code.
    #[must_use]
    pub fn period(&self, event: usize) -> u64 {
        self.sums(event).period
    }

    /// Samples of `event` on this line; none for lines without code.
    #[must_use]
    pub fn sums(&self, event: usize) -> Sums {
        match self {
            Self::Code(CodeLine { sums, .. }) | Self::Statement { sums, .. } => {
                sums.get(event).copied().unwrap_or_default()
            }
            _ => Sums::default(),
        }
    }
}

impl Listing {
    /// Is it of source alone, which an interpreter ran?
    #[must_use]
    pub fn is_of_source(&self) -> bool {
        self.lines.iter().any(|line| matches!(line, Line::Statement { .. }))
    }

    /// The lines no more than `context` lines from one with samples of `event`.
    #[must_use]
    pub fn excerpt(&self, event: usize, context: usize) -> Vec<Excerpt<'_>> {
        let hits: Vec<usize> = (0..self.lines.len()).filter(|&at| self.lines[at].period(event) > 0).collect();
        let is_near = |at: usize| {
            let next = hits.partition_point(|&hit| hit + context < at);
            hits.get(next).is_some_and(|&hit| hit <= at + context)
        };
        let mut pieces = Vec::new();
        for (at, line) in self.lines.iter().enumerate() {
            match pieces.last_mut() {
                _ if is_near(at) => pieces.push(Excerpt::Line(line)),
                Some(Excerpt::Cut(lines)) => *lines += 1,
                _ => pieces.push(Excerpt::Cut(1)),
            }
        }
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dso::Svma;

    #[test]
    fn lines_far_from_any_hit_are_left_out_and_counted() {
        let code = |at: u64| {
            let hit = u64::from(at == 4);
            let sums = vec![Sums { count: hit, period: hit, ..Sums::default() }];
            Line::Code(CodeLine {
                svma: Svma(at),
                len: 1,
                text: String::new(),
                branch: None,
                sums,
                place: None,
            })
        };
        let listing = Listing {
            name: "f".to_owned(),
            dso: "app".to_owned(),
            path: None,
            section: String::new(),
            start: Svma(0),
            totals: Vec::new(),
            lines: (0..8).map(code).collect(),
            no_code: None,
        };
        let shown: Vec<String> = listing
            .excerpt(0, 1)
            .iter()
            .map(|piece| match piece {
                Excerpt::Line(Line::Code(code)) => format!("{:x}", code.svma.0),
                Excerpt::Line(_) => "?".to_owned(),
                Excerpt::Cut(lines) => format!("-{lines}"),
            })
            .collect();
        assert_eq!(shown, ["-3", "3", "4", "5", "-2"]);
    }
}
