//! Functions by the names that a file gives them.

use super::uprobes::no_uprobes;
use super::{build, counts_of_program, counts_of_report, report_of, tally};

#[test]
#[ignore = "live: records on this machine"]
fn a_function_is_found_under_each_of_its_names_and_what_is_not_probed_is_told() {
    let Some(program) = build("aliases.c", "names", "gcc", &["-O1", "-rdynamic"]) else { return };
    let folder = program.with_extension("calls");
    for name in ["counted", "also_counted"] {
        let mut command = tally();
        command.args(["calls", "record", "--uprobes", "-P", name, "-P", "chosen", "-P", "neither", "-o"]);
        let ran = command.arg(&folder).arg("--").arg(&program).output().expect("tally starts");
        let notes = String::from_utf8_lossy(&ran.stderr).into_owned();
        if no_uprobes(&notes) {
            return;
        }
        assert!(notes.contains("left out: 1 function whose name selects one of several"), "{notes}");
        assert!(notes.contains("-P neither: matches no function"), "{notes}");
        let own = counts_of_program(&String::from_utf8_lossy(&ran.stdout));
        let got = counts_of_report(&report_of(&folder));
        assert_eq!(got.values().collect::<Vec<_>>(), [&own["counted"]], "{name}: {got:?}");
    }
}
