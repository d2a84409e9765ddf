//! Rows as JSON add up to what the recording holds.

use exchange::rows;
use perfdata::PerfData;
use profile::session::SessionOpts;
use profile::view::report::{ReportOpts, SortKey, report};
use std::path::Path;
use symbols::LoadOpts;

#[test]
fn rows_and_what_is_left_out_add_up_to_the_whole() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/recordings/events.data");
    let bytes = std::fs::read(file).expect("in the repository");
    let file = PerfData::open(&bytes).expect("a recording");
    let loaded = symbols::load(&file, LoadOpts { session: SessionOpts::default(), ..LoadOpts::default() });
    let opts = ReportOpts { sort: vec![SortKey::Comm, SortKey::Symbol], ..ReportOpts::default() };
    let found = report(&loaded.profile, &opts);
    for most in [0, 1, 2] {
        let value = rows::report(&loaded.profile, &found, most);
        let sections = value["sections"].as_array().expect("a list");
        assert_eq!(sections.len(), loaded.profile.events.len());
        for section in sections {
            let number = |value: &serde_json::Value| value.as_u64().expect("a number");
            let shown = section["rows"].as_array().expect("a list");
            let sum: u64 = shown.iter().map(|row| number(&row["self"]["period"])).sum();
            assert_eq!(sum + number(&section["left_out_self_period"]), number(&section["period"]), "{most}");
            assert!(most == 0 || shown.len() <= most, "{section}");
            assert!(
                shown.iter().all(|row| row["comm"].is_string() && row["symbol"].is_string()),
                "{section}"
            );
        }
    }
}
