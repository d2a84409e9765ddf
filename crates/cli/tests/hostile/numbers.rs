//! Recordings whose numbers overflow when they are added.

use super::{folder, outlived};
use std::path::{Path, PathBuf};

/// A recording of sums whose counts and times are the largest numbers, of a file mapped from its last bytes on.
fn recording(dir: &Path) -> PathBuf {
    let path = dir.join("sums");
    std::fs::create_dir_all(&path).expect("target is writable");
    let most = u64::MAX;
    let function = |at: u32| format!("{at:x} {most} {most} {most} {most} 0 {most} {most} {most} 3:{most}\n");
    let map = format!("1000-2000 r-xp ffffffffffffff00 00:00 1 {}\n", env!("CARGO_BIN_EXE_tally"));
    let files: [(&str, Vec<u8>); 4] = [
        (tracer::layout::sleds::NAME, tracer::layout::sleds::MAGIC.to_vec()),
        ("0-0.maps", format!("tsc 1 monotonic_ns {most}\n{map}").into_bytes()),
        ("info", format!("command x\nstatus 0\nwall_ns {most}\nback_end uprobes\n").into_bytes()),
        ("totals", (function(0x1150) + &function(0x1250)).into_bytes()),
    ];
    for (name, bytes) in files {
        std::fs::write(path.join(name), bytes).expect("target is writable");
    }
    path
}

#[test]
fn sums_of_calls_end_at_the_largest_number() {
    let path = recording(&folder("numbers"));
    let input = path.to_str().expect("ASCII");
    for view in
        [&["report"][..], &["graph"], &["flame"], &["flame", "--folded"], &["flame", "--counts"], &["info"]]
    {
        let (shown, notes) = outlived(&[&["calls"], view, &["-i", input]].concat());
        let holds_most = [&shown, &notes].iter().any(|text| text.contains("18,446,744,073,709,551,615"));
        assert!(
            holds_most || view.contains(&"--folded") || view.contains(&"--counts"),
            "{view:?}: {shown}{notes}"
        );
    }
    outlived(&["calls", "diff", input, input]);
}
