//! Every recorder under every fault: the program ends as always, or it does not begin and tally reports why.

use super::machine::{SmallDisk, folder, is_refused, run};
use super::recorders::{Recorder, output, program, recorder};

/// A fault: lines for the shell before tally starts, for each level (`N`), and words one of which names it.
struct Fault {
    limits: &'static str,
    /// From the hardest on. By default, one is tried.
    levels: [u32; 5],
    names: &'static [&'static str],
}

const FAULTS: [Fault; 4] = [
    Fault { limits: "ulimit -f N", levels: [0, 100, 1, 8, 32], names: &["File too large", "ulimit -f"] },
    Fault {
        limits: "ulimit -n N",
        levels: [8, 24, 14, 40, 80],
        names: &["Too many open files", "ulimit -n", "os error 24"],
    },
    Fault { limits: "ulimit -v $((N * 1024))", levels: [66, 160, 90, 110, 260], names: &["ulimit -v"] },
    Fault {
        limits: "ulimit -l N; exec setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock -- \"$0\" \"$@\"",
        levels: [0, 64, 8, 512, 1500],
        names: &["ulimit -l", "mlock"],
    },
];
/// KiB of file systems.
const DISKS: [u64; 5] = [12, 300, 40, 120, 1_000];

fn assert_unharmed(recorder: &Recorder, levels: usize) {
    let here = folder(&format!("matrix-{}", recorder.name));
    let Some(program) = program(&here) else { return };
    let out = output(&here);
    let arguments = recorder.arguments(&program, &out);
    if is_refused(&run("", &arguments)) {
        return;
    }
    for fault in &FAULTS {
        for level in &fault.levels[..levels] {
            let limits = fault.limits.replace('N', &level.to_string());
            let ran = run(&limits, &arguments);
            if !recorder.ran_unharmed(&ran, &limits) {
                let is_named = fault.names.iter().any(|name| ran.notes.contains(name));
                assert!(is_named, "{} under {limits}: no word of the fault: {ran:#?}", recorder.name);
            }
            recorder.assert_readable(&out, &limits);
        }
    }
    for kib in &DISKS[..levels] {
        let Some(disk) = SmallDisk::new(&format!("matrix-{}-disk", recorder.name), *kib) else { return };
        let out = disk.path.join("out");
        let what = format!("a disk of {kib} KiB");
        let limits = format!("export TMPDIR='{}'", disk.path.display());
        let ran = run(&limits, &recorder.arguments(&program, &out));
        if !recorder.ran_unharmed(&ran, &what) {
            let is_named =
                ["No space left on device", "temporary folder"].iter().any(|name| ran.notes.contains(name));
            assert!(is_named, "{} on {what}: no word of the fault: {ran:#?}", recorder.name);
        }
        recorder.assert_readable(&out, &what);
    }
}

/// Two tests of each: the usual levels, and all.
macro_rules! faults_of {
    ($($module:ident $name:literal)*) => {$(
        mod $module {
            #[test]
            #[ignore = "live: records on this machine"]
            fn faults_harm_no_program() {
                super::assert_unharmed(super::recorder($name), 1);
            }

            #[test]
            #[ignore = "heavy: 25 faults"]
            fn no_fault_harms_a_program() {
                super::assert_unharmed(super::recorder($name), 5);
            }
        }
    )*};
}

super::recorders::for_each_recorder!(faults_of);
