//! The result of a check in words and numbers with units, the same in every report.

use display::number::{duration_ns, grouped};
use profile::view::check::{
    CheckNote, CheckOutcome, CheckResult, ComparedCost, CostUnit, FunctionGrowth, MachineDifference,
};

/// `CPU time grew by 12.3 %`.
#[must_use]
pub fn change(outcome: &CheckOutcome) -> String {
    let name = &outcome.deciding.name;
    match percent(ratio_of(&outcome.deciding)) {
        change if change >= 0.05 => format!("{name} grew by {change:.1} %"),
        change if change <= -0.05 => format!("{name} fell by {:.1} %", -change),
        _ => format!("{name} did not change"),
    }
}

/// A sentence with the decision.
#[must_use]
pub fn headline(outcome: &CheckOutcome) -> String {
    let (change, limit) = (change(outcome), format!("limit {}", limit_text(outcome.limit)));
    match outcome.result {
        Some(CheckResult::Grew) => format!("slower: {change} ({limit})"),
        Some(CheckResult::WithinLimit) => format!("ok: {change} ({limit})"),
        Some(CheckResult::TooNoisy) => {
            format!("not slower, but the runs vary too much to exclude it: {change} ({limit})")
        }
        None => format!("not decided: single runs don't show the noise ({limit})"),
    }
}

/// A limit of the comparison, without its full stop.
#[must_use]
pub fn note_text(note: &CheckNote) -> String {
    match note {
        CheckNote::OtherMachine(MachineDifference::Cpu(old, new)) => {
            format!("another CPU: {old} before, {new} now")
        }
        CheckNote::OtherMachine(MachineDifference::Kernel(old, new)) => {
            format!("another kernel: {old} before, {new} now")
        }
        CheckNote::OtherMachine(MachineDifference::CpuCount(old, new)) => {
            format!("another number of CPUs: {old} before, {new} now")
        }
        CheckNote::OtherTime => {
            "time also grows while the machine is slower: alternate runs (--against COMMAND) exclude that"
                .to_owned()
        }
        CheckNote::NoFunction(Some(nearest)) => {
            let [grown, certain] =
                [nearest.grown, nearest.certain].map(|cost| cost_text(cost as f64, nearest.unit));
            format!(
                "no function grew by more than the samples can show: {} comes nearest with +{grown}, and +{certain} \
                 would be certain; more runs (-r) or longer ones show smaller growths",
                nearest.function
            )
        }
        CheckNote::NoFunction(None) => {
            "no function costs more in the samples: they were taken at another time than the measured runs"
                .to_owned()
        }
        CheckNote::NotSampledBefore => {
            "no functions are compared: the runs before were not sampled (--no-functions, or too short)"
                .to_owned()
        }
        CheckNote::OtherEvent(old, new) => format!("functions are not compared: {old} before, {new} now"),
    }
}

/// One function's growth: `hash: 20 ms -> 121 ms per run`.
#[must_use]
pub fn growth_text(outcome: &CheckOutcome, growth: &FunctionGrowth) -> String {
    let text = |cost: f64| cost_text(cost, outcome.growth_unit);
    let before = if growth.before > 0.0 { text(growth.before) } else { "0".to_owned() };
    format!("{}: {before} -> {} per run", growth.function.name, text(growth.function.cost))
}

/// `+12.3 %`.
#[must_use]
pub fn change_text(cost: &ComparedCost) -> String {
    signed_percent(ratio_of(cost))
}

/// `+10.9 % .. +13.8 %`; empty if unknown.
#[must_use]
pub fn interval_text(cost: &ComparedCost) -> String {
    cost.ratio.map_or_else(String::new, |ratio| [ratio.low, ratio.high].map(signed_percent).join(" .. "))
}

/// A cost in its unit: `1.204 s`, `1,204,331`.
#[must_use]
pub fn cost_text(value: f64, unit: CostUnit) -> String {
    let whole = value.max(0.0).round() as u64;
    match unit {
        CostUnit::Nanoseconds => duration_ns(whole),
        CostUnit::Count => grouped(whole),
    }
}

/// `5 %`, `2.5 %`.
#[must_use]
pub fn limit_text(limit: f64) -> String {
    let text = format!("{:.2}", 100.0 * limit);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

fn ratio_of(cost: &ComparedCost) -> f64 {
    cost.ratio.map_or(cost.after / cost.before, |ratio| ratio.ratio)
}

fn percent(ratio: f64) -> f64 {
    if ratio.is_finite() { 100.0 * (ratio - 1.0) } else { 0.0 }
}

fn signed_percent(ratio: f64) -> String {
    format!("{:+.1} %", percent(ratio))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use profile::view::check::{
        CheckPlan, CheckedSide, FunctionCost, MachineFacts, RunCost, RunOrder, SampledCosts, SampledRuns,
    };

    /// A side whose runs cost about `ms` of CPU time, and its functions with theirs.
    pub fn side(name: &str, ms: f64, functions: &[(&str, f64)]) -> CheckedSide {
        let run = |n: i32| RunCost {
            instructions: None,
            cpu: ms * 1e6 * (1.0 + 0.002 * f64::from(n)),
            wall_ns: ms * 1.1e6 * (1.0 + 0.01 * f64::from(n)),
        };
        let function = |(name, ms): &(&str, f64)| FunctionCost {
            name: (*name).to_owned(),
            dso: "app".to_owned(),
            source: Some(("src/table.c".to_owned(), 88)),
            cost: ms * 1e6,
        };
        let functions: Vec<FunctionCost> = functions.iter().map(function).collect();
        let costs = SampledCosts { samples: 3000, total: ms * 1e6, functions };
        CheckedSide {
            name: name.to_owned(),
            runs: [-1, 1, 0, 1, -1].map(run).to_vec(),
            sampled: Some(SampledRuns { event: "cpu-clock".to_owned(), costs }),
            machine: MachineFacts { cpu: "A".to_owned(), kernel: "6.1".to_owned(), cpus: 2 },
        }
    }

    /// A plan with a limit of 5 %.
    pub fn plan() -> CheckPlan {
        CheckPlan { measure: None, limit: 0.05, order: RunOrder::Separate, event: None }
    }

    /// A program that became slower.
    pub fn slower() -> CheckOutcome {
        let before = side("baseline.json", 1000.0, &[("parse", 600.0), ("hash<int>", 20.0)]);
        let after = side("./app", 1120.0, &[("parse", 602.0), ("hash<int>", 135.0)]);
        CheckOutcome::of(before, after, &plan()).expect("comparable")
    }

    #[test]
    fn growth_names_cost_functions_and_decision() {
        let outcome = slower();
        assert_eq!(outcome.result, Some(CheckResult::Grew));
        assert_eq!(headline(&outcome), "slower: CPU time grew by 12.0 % (limit 5 %)");
        assert_eq!(outcome.growths[0].function.name, "hash<int>");
        assert_eq!(cost_text(outcome.deciding.after, CostUnit::Nanoseconds), "1.120 s");
        assert_eq!(
            (outcome.growth_unit, &outcome.notes[..]),
            (CostUnit::Nanoseconds, &[CheckNote::OtherTime][..])
        );
    }

    #[test]
    fn growth_without_a_function_comes_with_the_reason() {
        let before = side("base.json", 1000.0, &[("parse", 600.0), ("hash", 400.0)]);
        let after = side("./app", 1120.0, &[("parse", 630.0), ("hash", 400.0)]);
        let outcome = CheckOutcome::of(before.clone(), after.clone(), &plan()).expect("comparable");
        let reason = note_text(outcome.notes.last().expect("a reason"));
        assert!(
            reason.contains("parse comes nearest with +30.00 ms, and +6") && outcome.growths.is_empty(),
            "{reason}"
        );
        let unsampled = CheckedSide { sampled: None, ..before };
        let outcome = CheckOutcome::of(unsampled.clone(), after.clone(), &plan()).expect("comparable");
        assert_eq!(outcome.notes.last(), Some(&CheckNote::NotSampledBefore));
        // With --no-functions no reason is needed.
        let outcome = CheckOutcome::of(unsampled, CheckedSide { sampled: None, ..after }, &plan());
        assert_eq!(outcome.expect("comparable").notes, [CheckNote::OtherTime]);
    }

    #[test]
    fn runs_by_turns_need_no_doubt_about_the_machine() {
        let CheckOutcome { before, after, .. } = slower();
        let plan = CheckPlan { order: RunOrder::Alternating, ..plan() };
        let outcome = CheckOutcome::of(before, after, &plan).expect("comparable");
        assert_eq!((outcome.result, &outcome.notes[..]), (Some(CheckResult::Grew), &[][..]));
    }

    #[test]
    fn single_runs_are_not_decided() {
        let mut before = side("a", 1000.0, &[]);
        let mut after = side("b", 1500.0, &[]);
        before.runs.truncate(1);
        after.runs.truncate(1);
        let outcome = CheckOutcome::of(before, after, &plan()).expect("comparable");
        assert_eq!(outcome.result, None);
        assert!(headline(&outcome).starts_with("not decided"));
    }

    #[test]
    fn another_machine_is_noted() {
        let mut before = side("a", 1000.0, &[]);
        before.machine.cpu = "B".to_owned();
        let outcome = CheckOutcome::of(before, side("b", 1000.0, &[]), &plan()).expect("comparable");
        assert_eq!(outcome.notes.iter().map(note_text).collect::<Vec<_>>(), ["another CPU: B before, A now"]);
        assert_eq!(headline(&outcome), "ok: CPU time did not change (limit 5 %)");
    }
}
