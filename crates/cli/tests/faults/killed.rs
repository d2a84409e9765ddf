//! Tally killed at any moment: the program goes on to its own end, and nothing of ours stays.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::machine::{TALLY, folder, is_refused, run};
use super::recorders::{LAST_WORDS, Recorder, output, program, recorder};

/// Kills with SIGKILL and waits for all that is left; `None` (and reported) without a compiler.
fn killer(here: &Path) -> Option<String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/kills.c");
    let killer = here.join("kills");
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-g", "-o"]).arg(&killer).arg(source).stderr(Stdio::null());
    let built = compiler.status().is_ok_and(|status| status.success());
    if !built {
        println!("skipped: no C compiler");
    }
    built.then(|| killer.display().to_string())
}

/// Moments spread over a run: µs from its start, none of them asserted about.
fn moments(run_us: u64, number: u64) -> impl Iterator<Item = u64> {
    // Weyl's sequence by the golden ratio: even, and without a pattern.
    (1..=number).map(move |at| ((at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) * run_us) >> 32)
}

/// Instances of tracefs that are ours.
fn instances() -> Vec<String> {
    let entries = fs::read_dir("/sys/kernel/tracing/instances").into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("tally")).collect()
}

fn assert_survives(recorder: &Recorder, number: u64) {
    let here = folder(&format!("killed-{}", recorder.name));
    let (Some(program), Some(killer)) = (program(&here), killer(&here)) else { return };
    let (out, temporary) = (output(&here), here.join("tmp"));
    fs::create_dir_all(&temporary).expect("ours");
    let arguments = recorder.arguments(&program, &out);
    let begin = std::time::Instant::now();
    if is_refused(&run("", &arguments)) {
        return;
    }
    let run_us = begin.elapsed().as_micros() as u64;
    for moment in moments(run_us, number) {
        let what = format!("{} killed after {moment} µs of {run_us}", recorder.name);
        let mut command = Command::new("timeout");
        command.args(["-k", "5", "100", &killer, &moment.to_string(), TALLY]).args(&arguments);
        let ended = command.env("TMPDIR", &temporary).output().expect("timeout is there");
        let messages = String::from_utf8_lossy(&ended.stdout).into_owned();
        assert!(ended.status.success(), "{what}: {messages}");
        let of_program: Vec<&str> =
            messages.lines().filter(|line| line.starts_with("ended unharmed")).collect();
        assert!(of_program.iter().all(|line| *line == "ended unharmed code 7"), "{what}: {messages}");
        assert!(of_program.is_empty() || messages.contains(LAST_WORDS), "{what}: {messages}");
        recorder.assert_readable(&out, &what);
        // The folder of a killed `live` is swept by the next one; all else has no name.
        let left = fs::read_dir(&temporary).expect("ours").flatten();
        let left: Vec<_> = left.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        let is_swept = |name: &String| recorder.name.starts_with("live") && name.starts_with("tally-live-");
        assert!(left.len() <= 1 && left.iter().all(is_swept), "{what}: {left:?}");
    }
    // The next one works as if nothing had been, and sweeps.
    let after = run(&format!("export TMPDIR='{}'", temporary.display()), &arguments);
    assert!(recorder.ran_unharmed(&after, "the run after kills"), "{after:#?}");
    recorder.assert_readable(&out, "the run after kills");
    assert_eq!(fs::read_dir(&temporary).expect("ours").count(), 0, "{}", recorder.name);
    assert_eq!(instances(), Vec::<String>::new(), "{}", recorder.name);
}

/// Two tests of each: a few moments, and many.
macro_rules! kills_of {
    ($($module:ident $name:literal)*) => {$(
        mod $module {
            #[test]
            #[ignore = "live: records on this machine"]
            fn killed_tally_leaves_the_program_alone() {
                super::assert_survives(super::recorder($name), 4);
            }

            #[test]
            #[ignore = "heavy: 100 kills"]
            fn often_killed_tally_leaves_the_program_alone() {
                super::assert_survives(super::recorder($name), 100);
            }
        }
    )*};
}

super::recorders::for_each_recorder!(kills_of);
