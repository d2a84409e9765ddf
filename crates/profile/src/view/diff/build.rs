//! Rows of a diff, out of the members' sums.

use super::align::{Aligned, Files, SLICES, Side};
use super::stats::{ConfidenceInterval, Draws, Estimate};
use super::{Change, ComparedValue, Diff, DiffOpts, DiffPath, DiffRow, DiffSection, Norm};
use crate::profile::{Profile, Sums};
use crate::view::ranking::RankRows as _;
use crate::view::report::{ReportOpts, SortKey, path_rows, report};

pub(super) fn build(baseline: &[Profile], current: &[Profile], opts: &DiffOpts) -> Diff {
    let aligned = Aligned::new(baseline, current, files_of(&opts.report));
    let grouping = ReportOpts { group: true, children: false, graph: None, ..opts.report.clone() };
    let grouped = report(&aligned.profile, &grouping);
    let mut diff = Diff::default();
    for (index, section) in grouped.sections.iter().enumerate() {
        let name = &aligned.names[index];
        let has = |side: &[Profile]| side.iter().any(|p| p.events.iter().any(|e| e.name == *name));
        if !has(baseline) || !has(current) {
            diff.unmatched_events.push(name.clone());
            continue;
        }
        let work = match &opts.norm {
            Norm::Work(event) => {
                let at = aligned.names.iter().position(|n| n == event);
                at.map(|at| grouped.sections[at].totals.clone())
            }
            _ => None,
        };
        let context = Context::new(&aligned, &opts.norm, &section.totals, work.as_deref());
        let mut rows: Vec<DiffRow> = (section.rows.iter())
            .map(|row| DiffRow {
                values: row.values.clone(),
                own: context.compare(&row.own),
                sums: context.side_sums(&row.own),
            })
            .collect();
        rows.rank_by(|a, b| b.own.delta.abs().total_cmp(&a.own.delta.abs()));
        let noise_floor = context.noise_floor(rows.iter().map(|row| &row.own));
        let judged = rows.iter().filter(|row| is_judged(row)).count();
        let paths =
            if opts.paths { path_comparisons(&aligned, &grouping, index, &context) } else { Vec::new() };
        diff.sections.push(DiffSection {
            event: name.clone(),
            keys: section.keys.clone(),
            rows,
            paths,
            total: context.total(&section.totals),
            runs: context.run_sums(&section.totals),
            noise_floor,
            judged,
            normalised: !matches!(opts.norm, Norm::Work(_)) || work.is_some(),
        });
    }
    if opts.paths {
        diff.chain_entries = path_rows(&aligned.profile, &grouping, &[]).1;
    }
    diff.is_baseline = aligned.baseline_events();
    diff.profile = aligned.profile;
    diff
}

/// Rows by function alone, without a wish for files: `app-old` and `app-new` have the same functions.
fn files_of(opts: &ReportOpts) -> Files {
    let by_name = opts.sort.contains(&SortKey::Symbol) && !opts.sort.contains(&SortKey::Dso);
    if by_name && opts.filter.dsos.is_empty() { Files::Merge } else { Files::Differ }
}

/// Fewer samples than this on both sides together are never beyond chance.
const LEAST_SAMPLES: u64 = 6;

fn is_judged(row: &DiffRow) -> bool {
    row.own.interval.is_some() && row.sums.0.count + row.sums.1.count >= LEAST_SAMPLES
}

fn path_comparisons(
    aligned: &Aligned,
    grouping: &ReportOpts,
    event: usize,
    context: &Context<'_>,
) -> Vec<DiffPath> {
    let members: Vec<usize> = aligned.members_of(event).collect();
    let (rows, _) = path_rows(&aligned.profile, grouping, &members);
    let mut paths: Vec<DiffPath> = rows
        .into_iter()
        .map(|mut row| {
            row.entries.reverse();
            let (own, sums) = (context.compare(&row.own), context.side_sums(&row.own));
            DiffPath { entries: row.entries, own, sums }
        })
        .collect();
    paths.rank_by(|a, b| b.own.delta.abs().total_cmp(&a.own.delta.abs()));
    paths
}

/// Inputs shared by all rows of a section.
struct Context<'a> {
    runs: &'a [Side],
    /// Divisors of periods, by run and slice.
    divisors: Vec<Vec<f64>>,
    /// By run and round: the same as drawn; `None` for runs without times.
    drawn: Option<Vec<(Draws, Vec<f64>)>>,
    /// Values are this many times period / divisor.
    scale: f64,
    /// All samples, by run.
    totals: Vec<Sums>,
    /// Without divisors of its own, a run counts as one. Rounds carry no information about runs then.
    per_run: bool,
    share: bool,
}

impl<'a> Context<'a> {
    fn new(aligned: &'a Aligned, norm: &Norm, totals: &[Sums], work: Option<&[Sums]>) -> Self {
        let per_run = matches!(norm, Norm::Run) || (matches!(norm, Norm::Work(_)) && work.is_none());
        let divisor = |run: usize, slice: usize| -> f64 {
            let member = run * SLICES + slice;
            match (norm, work) {
                (Norm::Share, _) => totals[member].period as f64,
                (Norm::Work(_), Some(work)) => work[member].period as f64,
                (Norm::Time, _) => aligned.durations_ns[run] as f64 / 1e9 / SLICES as f64,
                _ => 1.0 / SLICES as f64,
            }
        };
        let divisors: Vec<Vec<f64>> = (0..aligned.runs.len())
            .map(|run| (0..SLICES).map(|slice| divisor(run, slice)).collect())
            .collect();
        let drawn = aligned.sliced.iter().all(|&sliced| sliced).then(|| {
            let draw = |(run, divisors): (usize, &Vec<f64>)| {
                let draws = Draws::new(run as u64 + 1);
                let sums = draws.sums(divisors);
                (draws, sums)
            };
            divisors.iter().enumerate().map(draw).collect()
        });
        let scale = if *norm == Norm::Share { 100.0 } else { 1.0 };
        let total = |run: usize| sum_of(&totals[run * SLICES..(run + 1) * SLICES]);
        let totals = (0..aligned.runs.len()).map(total).collect();
        Self { runs: &aligned.runs, divisors, drawn, scale, totals, per_run, share: *norm == Norm::Share }
    }

    fn compare(&self, members: &[Sums]) -> ComparedValue {
        let (baseline, current) =
            (self.estimate(members, Side::Baseline, true), self.estimate(members, Side::Current, true));
        let (before, after) = self.side_sums(members);
        comparison(&baseline, &current, before.count, after.count)
    }

    /// The section's total: the share would always be 100 %, so it is per run then.
    fn total(&self, members: &[Sums]) -> ComparedValue {
        if !self.share {
            return self.compare(members);
        }
        let divisors = vec![vec![1.0 / SLICES as f64; SLICES]; self.runs.len()];
        let ones = Self { divisors, drawn: None, totals: self.totals.clone(), ..*self };
        let ones = Self { scale: 1.0, per_run: true, share: false, ..ones };
        ones.compare(members)
    }

    fn estimate(&self, members: &[Sums], side: Side, with_rounds: bool) -> Estimate {
        let runs: Vec<usize> = (0..self.runs.len()).filter(|&run| self.runs[run] == side).collect();
        let periods: Vec<Vec<f64>> = (runs.iter())
            .map(|&run| members[run * SLICES..(run + 1) * SLICES].iter().map(|s| s.period as f64).collect())
            .collect();
        let sum = |values: &[f64]| values.iter().sum::<f64>();
        let divisor: f64 = runs.iter().map(|&run| sum(&self.divisors[run])).sum();
        let value = self.ratio(periods.iter().map(|p| sum(p)).sum(), divisor);
        let by_run: Vec<f64> = (runs.iter().zip(&periods))
            .map(|(&run, periods)| self.ratio(sum(periods), sum(&self.divisors[run])))
            .collect();
        let rounds = self.drawn.as_ref().filter(|_| with_rounds && !self.per_run).map(|drawn| {
            let mut above = Vec::new();
            let mut below = Vec::new();
            for (&run, periods) in runs.iter().zip(&periods) {
                add(&mut above, drawn[run].0.sums(periods));
                add(&mut below, drawn[run].1.clone());
            }
            above.iter().zip(&below).map(|(a, b)| self.ratio(*a, *b)).collect::<Vec<f64>>()
        });
        Estimate::new(value, &by_run, rounds.as_deref(), self.least_variance(members, &runs, divisor))
    }

    /// Variance from the number of samples alone: samples are random, and there could have been one more or none at
    /// all.
    fn least_variance(&self, members: &[Sums], runs: &[usize], divisor: f64) -> f64 {
        let row = runs.iter().map(|&run| sum_of(&members[run * SLICES..(run + 1) * SLICES]));
        let row = row.fold(Sums::default(), plus);
        let all = runs.iter().map(|&run| self.totals[run]).fold(Sums::default(), plus);
        let typical = if row.count > 0 { row } else { all };
        if typical.count == 0 {
            return 0.0;
        }
        let one = self.ratio(typical.period as f64 / typical.count as f64, divisor);
        // The rest of a share is as certain as the share: if it has all samples, nothing is random.
        let rest =
            if self.share { 1.0 - row.count as f64 / (all.count.max(row.count) + 1) as f64 } else { 1.0 };
        (row.count + 1) as f64 * rest * one.powi(2)
    }

    fn ratio(&self, period: f64, divisor: f64) -> f64 {
        if divisor > 0.0 { self.scale * period / divisor } else { 0.0 }
    }

    fn side_sums(&self, members: &[Sums]) -> (Sums, Sums) {
        let mut sides = (Sums::default(), Sums::default());
        for (run, side) in self.runs.iter().enumerate() {
            let sums = if *side == Side::Baseline { &mut sides.0 } else { &mut sides.1 };
            members[run * SLICES..(run + 1) * SLICES].iter().for_each(|s| sums.add(*s));
        }
        sides
    }

    fn run_sums(&self, members: &[Sums]) -> (Vec<Sums>, Vec<Sums>) {
        let mut sides = (Vec::new(), Vec::new());
        for (run, side) in self.runs.iter().enumerate() {
            let mut sums = Sums::default();
            members[run * SLICES..(run + 1) * SLICES].iter().for_each(|s| sums.add(*s));
            if *side == Side::Baseline { sides.0.push(sums) } else { sides.1.push(sums) }
        }
        sides
    }

    /// The half width that 95 % of the rows stay below, among rows of some weight.
    fn noise_floor<'r>(&self, rows: impl Iterator<Item = &'r ComparedValue>) -> Option<f64> {
        let mut halves: Vec<f64> = rows
            .filter_map(|row| row.interval)
            .map(|interval| (interval.high - interval.low) / 2.0)
            .collect();
        halves.rank_by(f64::total_cmp);
        let at = (halves.len() * 95).div_ceil(100).checked_sub(1)?;
        halves.get(at).copied()
    }
}

fn sum_of(members: &[Sums]) -> Sums {
    members.iter().copied().fold(Sums::default(), plus)
}

fn plus(mut sum: Sums, more: Sums) -> Sums {
    sum.add(more);
    sum
}

fn add(sums: &mut Vec<f64>, more: Vec<f64>) {
    if sums.is_empty() {
        *sums = more;
    } else {
        sums.iter_mut().zip(more).for_each(|(sum, x)| *sum += x);
    }
}

fn comparison(baseline: &Estimate, current: &Estimate, before: u64, after: u64) -> ComparedValue {
    let delta = current.value - baseline.value;
    let noise = baseline.noise(current);
    let interval = noise.map(|noise| ConfidenceInterval::around(delta, noise.half_width()));
    let change = match (before, after) {
        _ if !interval.is_some_and(|interval| interval.excludes_zero()) => Change::Unclear,
        (0, 1..) => Change::New,
        (1.., 0) => Change::Vanished,
        _ if delta > 0.0 => Change::More,
        _ => Change::Less,
    };
    let chance = noise.map(|noise| noise.chance_of(delta));
    ComparedValue { baseline: baseline.value, current: current.value, delta, interval, chance, change }
}
