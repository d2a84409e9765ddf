//! Filters that no sample matches: the names there are.

use crate::text::present::listed;
use profile::profile::Profile;
use profile::view::report::{Report, RowFilter};

/// Why a report has no rows though there are samples; `None` if it has some, or no filter is to blame.
pub fn no_rows(profile: &Profile, report: &Report, filter: &RowFilter) -> Option<String> {
    let is_empty = report.sections.iter().all(|section| section.rows.is_empty());
    if !is_empty || profile.diagnostics.samples_attributed == 0 {
        return None;
    }
    let ids = |ids: &[i32]| ids.iter().map(i32::to_string).collect::<Vec<_>>().join(",");
    let tasks = || profile.tasks().iter();
    let asked = [
        ("--comms", filter.comms.join(","), listed(tasks().map(|task| profile.strings.of(task.comm)))),
        (
            "--thread",
            filter.thread.clone().unwrap_or_default(),
            listed(tasks().map(|task| profile.strings.of(task.comm))),
        ),
        (
            "--dsos",
            filter.dsos.join(","),
            listed(profile.dsos.iter().map(|(_, dso)| dso.short_name.as_str())),
        ),
        ("--pid", ids(&filter.pids), numbers(tasks().map(|task| task.pid))),
        ("--tid", ids(&filter.tids), numbers(tasks().map(|task| task.tid))),
    ];
    let mut given = asked
        .iter()
        .filter(|(_, asked, _)| !asked.is_empty())
        .map(|(flag, asked, there)| format!("no sample matches {flag} {asked} (recorded: {there})"));
    let symbols: Vec<&str> =
        filter.symbols.iter().chain(&filter.symbol_contains).map(String::as_str).collect();
    let by_name = || {
        let symbols = symbols.join(",");
        (!symbols.is_empty())
            .then(|| format!("no sampled function matches {symbols} (tally report --sort sym lists them)"))
    };
    given.next().or_else(by_name)
}

fn numbers(ids: impl Iterator<Item = i32>) -> String {
    let ids: Vec<String> = ids.map(|id| id.to_string()).collect();
    listed(ids.iter().map(String::as_str))
}
