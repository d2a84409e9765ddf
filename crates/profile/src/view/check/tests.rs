use super::*;

/// A small generator: the simulated runs must be the same on every machine.
struct SplitMix(u64);

impl SplitMix {
    /// Uniform in 0 to 1.
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let (a, b) = (self.uniform().max(1e-300), self.uniform());
        (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    }

    /// CPU time of a run as shared machines have it: 2 % of spread, and one run of ten slowed down by up to 20 %.
    fn run(&mut self) -> f64 {
        let slowed = if self.uniform() < 0.1 { 1.0 + 0.2 * self.uniform() } else { 1.0 };
        1e9 * (0.02 * self.normal()).exp() * slowed
    }

    fn runs(&mut self, count: usize, factor: f64) -> Vec<f64> {
        (0..count).map(|_| factor * self.run()).collect()
    }
}

const TRIALS: u32 = 4000;

fn run_costs(costs: &[f64]) -> Vec<RunCost> {
    costs.iter().map(|cost| RunCost { cpu: *cost, ..RunCost::default() }).collect()
}

/// The result of a check that looks at half of the runs, and at all of them where half don't decide.
fn result_of(before: &[f64], after: &[f64], plan: &CheckPlan) -> CheckResult {
    let [old, new] = [before, after].map(run_costs);
    let half = old.len() / 2;
    let runs = if plan.is_undecided(&old[..half], &new[..half]) { old.len() } else { half };
    let side = |costs: &[RunCost]| CheckedSide { runs: costs[..runs].to_vec(), ..CheckedSide::default() };
    let outcome = CheckOutcome::of(side(&old), side(&new), plan).expect("all have CPU time");
    outcome.result.expect("enough runs")
}

fn plan_of(order: RunOrder, limit: f64) -> CheckPlan {
    CheckPlan { measure: None, limit, order, event: None }
}

/// How many checks of 100 fail, if the new program costs `factor` times as much.
fn failures_pct(runs: usize, factor: f64, limit: f64) -> f64 {
    let (mut random, plan) = (SplitMix(7), plan_of(RunOrder::Separate, limit));
    let failed = (0..TRIALS).filter(|_| {
        let (before, after) = (random.runs(2 * runs, 1.0), random.runs(2 * runs, factor));
        result_of(&before, &after, &plan) == CheckResult::Grew
    });
    100.0 * failed.count() as f64 / f64::from(TRIALS)
}

#[test]
fn an_unchanged_program_fails_in_at_most_one_check_of_twenty() {
    for runs in [2, 3, 5, 10, 30] {
        let at_zero = failures_pct(runs, 1.0, 0.0);
        assert!(at_zero <= 5.0, "{runs} runs: {at_zero} % at limit 0");
        let at_five = failures_pct(runs, 1.0, 0.05);
        assert!(at_five <= 1.0, "{runs} runs: {at_five} % at limit 5 %");
    }
}

#[test]
fn a_growth_of_twice_the_limit_is_found() {
    let found = failures_pct(10, 1.10, 0.05);
    assert!(found > 90.0, "{found} %");
}

#[test]
fn a_growth_is_found_next_to_disturbed_runs() {
    // One run of ten takes up to three times as long.
    let mut random = SplitMix(17);
    let mut runs = |factor: f64| -> Vec<f64> {
        let mut run = || {
            let slowed = if random.uniform() < 0.1 { 1.0 + 2.0 * random.uniform() } else { 1.0 };
            factor * (0.02 * random.normal()).exp() * slowed
        };
        (0..20).map(|_| run()).collect()
    };
    let plan = plan_of(RunOrder::Separate, 0.05);
    let mut failures_pct = |factor: f64| {
        let failed = (0..TRIALS).filter(|_| result_of(&runs(1.0), &runs(factor), &plan) == CheckResult::Grew);
        100.0 * failed.count() as f64 / f64::from(TRIALS)
    };
    let (found, alarms) = (failures_pct(1.10), failures_pct(1.0));
    assert!(found > 90.0 && alarms <= 1.0, "{found} % found, {alarms} % false alarms");
}

/// The same for runs that alternate on a machine whose speed drifts by 20 % while they run.
fn failures_by_turns_pct(runs: usize, factor: f64, limit: f64) -> f64 {
    let (mut random, plan) = (SplitMix(13), plan_of(RunOrder::Alternating, limit));
    let failed = (0..TRIALS).filter(|_| {
        let (mut before, mut after) = (random.runs(2 * runs, 1.0), random.runs(2 * runs, factor));
        for (at, (before, after)) in before.iter_mut().zip(&mut after).enumerate() {
            let drift = 1.0 + 0.2 * at as f64 / runs as f64;
            (*before, *after) = (*before * drift, *after * drift);
        }
        result_of(&before, &after, &plan) == CheckResult::Grew
    });
    100.0 * failed.count() as f64 / f64::from(TRIALS)
}

#[test]
fn an_unchanged_program_that_alternates_with_itself_fails_in_at_most_one_check_of_twenty() {
    for runs in [2, 3, 5, 10, 30] {
        let alarms = failures_by_turns_pct(runs, 1.0, 0.0);
        assert!(alarms <= 5.0, "{runs} runs: {alarms} %");
    }
}

#[test]
fn slow_downs_of_2_5_and_10_percent_are_found_by_enough_runs() {
    for (factor, runs, limit) in [(1.10, 10, 0.05), (1.05, 30, 0.02), (1.02, 150, 0.0)] {
        for found in [failures_pct(runs, factor, limit), failures_by_turns_pct(runs, factor, limit)] {
            assert!(found > 90.0, "{factor} in {runs} runs at limit {limit}: {found} %");
        }
    }
}

#[test]
fn intervals_contain_the_true_ratio_in_95_of_100_cases() {
    let mut random = SplitMix(11);
    let normal = |random: &mut SplitMix, factor: f64| -> Vec<f64> {
        (0..8).map(|_| factor * (0.05 * random.normal()).exp()).collect()
    };
    let (mut by_runs, mut by_pairs) = (0, 0);
    for _ in 0..TRIALS {
        let (before, after) = (normal(&mut random, 1.0), normal(&mut random, 1.3));
        let holds = |ratio: Option<RatioInterval>| ratio.is_some_and(|r| r.low <= 1.3 && r.high >= 1.3);
        by_runs += u32::from(holds(ComparedRuns::of_runs(&before, &after).ratio));
        by_pairs += u32::from(holds(ComparedRuns::of_pairs(&before, &after).ratio));
    }
    for held in [by_runs, by_pairs] {
        let pct = 100.0 * f64::from(held) / f64::from(TRIALS);
        assert!((93.8..=96.2).contains(&pct), "{pct} %");
    }
}

#[test]
fn pairs_are_free_of_drift() {
    // The machine slows down by 3 % from pair to pair.
    let drift = |factor: f64| -> Vec<f64> { (0..8).map(|n| factor * 1.03f64.powi(n)).collect() };
    let (before, after) = (drift(1.0), drift(1.08));
    let paired = ComparedRuns::of_pairs(&before, &after).ratio.expect("pairs");
    assert!((paired.ratio - 1.08).abs() < 1e-9 && paired.low > 1.079, "{paired:?}");
    assert_eq!(judge(paired, 0.05), CheckResult::Grew);
    let unpaired = ComparedRuns::of_runs(&before, &after).ratio.expect("runs");
    assert_eq!(judge(unpaired, 0.05), CheckResult::TooNoisy);
}

#[test]
fn single_runs_and_costs_of_zero_have_no_ratio() {
    let of_runs = |before: &[f64], after: &[f64]| ComparedRuns::of_runs(before, after).ratio;
    assert_eq!(of_runs(&[1.0], &[1.0, 2.0]), None);
    assert_eq!(of_runs(&[1.0, 0.0], &[1.0, 2.0]), None);
    assert_eq!(ComparedRuns::of_pairs(&[1.0, 2.0], &[1.0]).ratio, None);
    let same = of_runs(&[5.0, 5.0], &[5.0, 5.0]).expect("two runs");
    assert_eq!((same.ratio, same.low, same.high), (1.0, 1.0, 1.0));
    assert_eq!(judge(same, 0.0), CheckResult::WithinLimit);
}

#[test]
fn more_runs_are_recommended_where_the_interval_is_wider_than_the_limit() {
    let wide = RatioInterval { ratio: 1.0, low: 0.9, high: 1.0 / 0.9 };
    assert_eq!(judge(wide, 0.05), CheckResult::TooNoisy);
    // 10.5 % of half width to 4.9 %: 4.66 times as many.
    assert_eq!(runs_needed(wide, 10, 0.05), Some(47));
    let narrow = RatioInterval { ratio: 1.0, low: 0.99, high: 1.01 };
    assert_eq!(runs_needed(narrow, 10, 0.05), None);
}

fn costs(samples: u64, functions: &[(&str, f64)]) -> SampledCosts {
    let function = |(name, cost): &(&str, f64)| FunctionCost {
        name: (*name).to_owned(),
        cost: *cost,
        ..FunctionCost::default()
    };
    let total = functions.iter().map(|(_, cost)| cost).sum();
    SampledCosts { samples, total, functions: functions.iter().map(function).collect() }
}

#[test]
fn only_functions_that_grew_beyond_chance_are_named() {
    let before = costs(1000, &[("parse", 600e6), ("print", 300e6), ("hash", 100e6)]);
    let after = costs(1300, &[("parse", 610e6), ("print", 290e6), ("hash", 350e6), ("log", 50e6)]);
    let grown = growths(&before, &after).found;
    let names: Vec<_> = grown.iter().map(|growth| (growth.function.name.as_str(), growth.before)).collect();
    assert_eq!(names, [("hash", 100e6), ("log", 0.0)]);
    assert_eq!(grown[0].grown(), 250e6);
    assert_eq!(growths(&before, &before), Growths::default());
}

#[test]
fn a_third_more_of_a_third_of_1200_samples_is_named() {
    // parse() of 133 in place of 100 rounds, three runs of 400 ms each.
    let before = costs(1202, &[("render", 178e6), ("layout", 110e6), ("parse", 110e6), ("irq", 1e6)]);
    let after = costs(1316, &[("render", 178e6), ("parse", 147e6), ("layout", 110e6), ("irq", 1e6)]);
    let found = growths(&before, &after).found;
    assert_eq!(found.iter().map(|growth| growth.function.name.as_str()).collect::<Vec<_>>(), ["parse"]);
}

#[test]
fn a_growth_that_may_be_chance_comes_with_the_one_that_would_not_be() {
    let before = costs(1000, &[("parse", 600e6), ("hash", 400e6)]);
    let after = costs(1050, &[("parse", 650e6), ("hash", 400e6)]);
    let Growths { found, nearest } = growths(&before, &after);
    let nearest = nearest.expect("one costs more");
    assert_eq!((found, nearest.growth.function.name.as_str()), (Vec::new(), "parse"));
    assert!((100e6..120e6).contains(&nearest.certain), "{}", nearest.certain);
}

#[test]
fn an_unchanged_program_has_a_function_that_grew_in_at_most_one_set_of_hundred() {
    const SETS: u32 = 2000;
    let mut random = SplitMix(23);
    // 60 functions, the last 119 times as often as the first.
    let mut sampled = || {
        let mut counts = [0u32; 60];
        (0..1800).for_each(|_| counts[(60.0 * random.uniform().max(random.uniform())) as usize] += 1);
        let function = |(at, count): (usize, &u32)| (format!("f{at}"), f64::from(*count));
        let named: Vec<(String, f64)> = counts.iter().enumerate().map(function).collect();
        costs(1800, &named.iter().map(|(name, cost)| (name.as_str(), *cost)).collect::<Vec<_>>())
    };
    let alarms = (0..SETS).filter(|_| !growths(&sampled(), &sampled()).found.is_empty()).count();
    assert!(alarms as u32 * 100 <= SETS, "{alarms} of {SETS}");
}
