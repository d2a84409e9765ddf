//! Findings that are over limits, as text: `lock-contention 85 %: Lock contention: …`.

use profile::verdict::RuleLimit;
use serde_json::Value;

/// A line for each finding, as `tally why --json` has it, that passes one of the limits.
#[must_use]
pub fn lines_over(limits: &[RuleLimit], findings: &[Value]) -> String {
    let line = |finding: &Value| {
        let (name, share, claim) =
            (finding["name"].as_str()?, finding["share"].as_f64()?, finding["claim"].as_str()?);
        let is_over = limits.iter().any(|limit| limit.is_passed(name, share));
        is_over.then(|| format!("{name} {:.0} %: {claim}\n", share * 100.0))
    };
    findings.iter().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn findings_over_a_limit_have_a_line_each() {
        let finding = |name, share| json!({ "name": name, "share": share, "claim": format!("It is {name}") });
        let findings = [finding("disk", 0.51), finding("convoy", 0.3), finding("polling", 0.2)];
        let limits = |texts: &[&str]| -> Vec<RuleLimit> {
            texts.iter().map(|text| RuleLimit::parse(text).expect("a rule")).collect()
        };
        let lines = lines_over(&limits(&["disk > 50%", "convoy > 30%", "polling"]), &findings);
        assert_eq!(lines, "disk 51 %: It is disk\npolling 20 %: It is polling\n");
        assert_eq!(lines_over(&limits(&["slow-peer"]), &findings), "");
    }
}
