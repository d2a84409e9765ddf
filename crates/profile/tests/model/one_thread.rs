//! Views of one thread, by a name that it had or by its id.

use super::{by, profile_of, rows};
use profile::view::flame::{Tree, TreeOpts};
use profile::view::report::{ReportOpts, RowFilter, SortKey};

const TEXT: &str = "comm 7/7 app
     comm 7/8 python3
     mmap 7/7 0x0 0x9000 /bin/app
     sample 7/7 period=60 chain=0x110
     sample 7/8 period=10 chain=0x210
     comm 7/8 feeder
     sample 7/8 period=30 chain=0x310";

#[test]
fn a_report_and_a_flame_graph_have_the_samples_of_the_thread_asked_for() {
    let profile = profile_of(TEXT);
    let shown = |thread: &str| {
        let filter = RowFilter { thread: Some(thread.to_owned()), ..RowFilter::default() };
        let rows = rows(&profile, &ReportOpts { filter, ..by(&[SortKey::Symbol]) });
        (rows, Tree::of_thread(&profile, TreeOpts::default(), Some(thread)).totals()[0].0)
    };
    let of_thread: Vec<String> = ["30.00% [.] f3", "10.00% [.] f2"].map(str::to_owned).to_vec();
    for name in ["feeder", "8"] {
        assert_eq!(shown(name), (of_thread.clone(), 40), "{name}");
    }
    assert_eq!(shown("python3"), (of_thread[1..].to_vec(), 10), "samples under its former name");
    assert_eq!(shown("app"), (vec!["60.00% [.] f1".to_owned()], 60));
    assert_eq!(shown("other"), (Vec::new(), 0));
    assert_eq!(Tree::of_profile(&profile, TreeOpts::default()).totals()[0].0, 100);
}
