//! Functions of Python where timers in the program take the samples.

use std::path::Path;

use super::{denied_tally, folder, output_of, program, share_with_callees};

#[test]
#[ignore = "live: records under a filter of system calls"]
fn python_functions_have_their_shares_where_timers_take_the_samples() {
    let folder = folder("python");
    let Some(filter) = program("as_in_docker", &folder, &[]) else { return };
    let python = Path::new("/usr/bin/python3");
    if cfg!(not(target_arch = "x86_64")) || !python.exists() {
        println!("skipped: no {} on x86-64", python.display());
        return;
    }
    let split = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/runtimes/split.py");
    for kind in ["plain", "threads", "generators"] {
        let split = split.to_string_lossy();
        let command = ["record", "-o", "perf.data", "--", "/usr/bin/python3", &split, kind, "2"];
        assert!(denied_tally(&filter, &folder, &command).status.success());
        for (function, share) in [("alpha", 50.0), ("beta", 30.0), ("gamma", 20.0)] {
            let shown = share_with_callees(function, &folder);
            assert!((shown - share).abs() < 6.0, "{kind}: {function} {shown} %, and {share} % are true");
        }
    }
}

#[test]
#[ignore = "live: records under a filter of system calls"]
fn a_python_thread_waits_in_the_function_that_sleeps() {
    let folder = folder("python-waits");
    let Some(filter) = program("as_in_docker", &folder, &[]) else { return };
    if cfg!(not(target_arch = "x86_64")) || !Path::new("/usr/bin/python3").exists() {
        println!("skipped: no /usr/bin/python3 on x86-64");
        return;
    }
    let script = "import time\ndef rest(): time.sleep(0.6)\ndef nap(): time.sleep(0.3)\nrest(); nap()\n";
    std::fs::write(folder.join("waits.py"), script).expect("a file below target/");
    let command = ["record", "--off-cpu", "-o", "perf.data", "--", "/usr/bin/python3", "waits.py"];
    assert!(denied_tally(&filter, &folder, &command).status.success());
    let folded = output_of(&folder, &["flame", "--off-cpu", "--folded"]);
    let time_of = |function: &str| -> u64 {
        let lines = folded.lines().filter(|line| line.contains(&format!(";{function} (")));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    };
    let (rest, nap) = (time_of("rest"), time_of("nap"));
    assert!(rest > 0 && nap > 0, "{folded}");
    let part = rest as f64 / (rest + nap) as f64;
    assert!((part - 2.0 / 3.0).abs() < 0.08, "{part} of {rest} and {nap}: {folded}");
}
