//! Files that are truncated in place while tally reads them through a mapping.

use super::machine::{Ran, TALLY, folder, is_refused, run, unharmed};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The program `shrinks` and the library that it cuts off; `None` (and reported) without a compiler.
fn shrinks(folder: &Path) -> Option<(PathBuf, PathBuf)> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/shrinks.c");
    let (program, library) = (folder.join("shrinks"), folder.join("libshrinks.so"));
    let build = |flags: &[&str], to: &Path| {
        let mut compiler = Command::new("cc");
        compiler.args(["-O2", "-g", "-fomit-frame-pointer"]).args(flags).arg("-o").arg(to).arg(&source);
        compiler.arg("-ldl").stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    // A new inode each time: an earlier program may map the old one yet.
    let _ = std::fs::remove_file(&library);
    let built = build(&[], &program) && build(&["-shared", "-fPIC", "-DLIBRARY"], &library);
    if !built {
        println!("skipped: no C compiler");
    }
    built.then_some((program, library))
}

fn words(options: &[&str], program: &Path, library: &Path) -> Vec<String> {
    let paths = ["--".to_owned(), program.display().to_string(), library.display().to_string()];
    options.iter().map(ToString::to_string).chain(paths).collect()
}

/// The program's output and end are its own; tally names the file.
fn assert_unharmed(ran: &Ran, what: &str) {
    ran.assert_orderly(what);
    assert!(ran.status.code() == Some(7) && ran.out.contains("done\n"), "{what}: {ran:#?}");
    assert!(ran.notes.contains("libshrinks.so was truncated while it was read"), "{what}: {ran:#?}");
}

#[test]
#[ignore = "live: records on this machine"]
fn a_library_that_shrinks_ends_no_recording_that_unwinds_through_it() {
    let here = folder("shrinking-library");
    let data = here.join("perf.data").display().to_string();
    let ways: [(&str, &[&str]); 4] = [
        ("record", &["record", "--call-graph", "live", "-o", &data]),
        ("off-cpu", &["record", "--off-cpu", "-o", &data]),
        ("system-wide", &["record", "-a", "--call-graph", "live", "-o", &data]),
        ("run", &["run", "-o", &data]),
    ];
    for (what, options) in ways {
        let Some((program, library)) = shrinks(&here) else { return };
        let ran = run("", &words(options, &program, &library));
        if is_refused(&ran) {
            continue;
        }
        assert_unharmed(&ran, what);
        // The stacks below the library end there, and that is the reason given.
        let report = run("", &["report", "--stdio", "-i", &data]);
        let messages = format!("{}{}{}", ran.notes, ran.out, report.notes);
        assert!(report.status.success() && messages.contains("became shorter"), "{what}: {messages}");
    }
}

/// Views of a recording whose file, or whose program's file, is cut off after `delay`.
fn views_of_shrinking(
    victim: &Path,
    original: &Path,
    data: &str,
    delay: impl Fn(u64) -> Duration,
    times: u64,
) {
    const VIEWS: [&[&str]; 6] = [
        &["report", "--stdio", "-i"],
        &["script", "-i"],
        &["flame", "-o", "/dev/null", "-i"],
        &["annotate", "--stdio", "-i"],
        &["report", "--stdio", "-s", "srcline", "-i"],
        &["report", "--wall", "-i"],
    ];
    let bytes = std::fs::metadata(original).expect("it was made").len();
    for time in 0..times {
        std::fs::copy(original, victim).expect("copied");
        let view = VIEWS[time as usize % VIEWS.len()];
        let cut = std::thread::spawn({
            let (victim, delay) = (victim.to_owned(), delay(time));
            move || {
                std::thread::sleep(delay);
                let file = std::fs::File::options().write(true).open(victim).expect("it is there");
                file.set_len(bytes * (time % 7) / 16).expect("cut off");
            }
        });
        let ran = run("export TALLY_CACHE=off", &[view, &[data]].concat());
        cut.join().expect("cut off");
        ran.assert_orderly(&format!("{view:?} cut after {:?}", delay(time)));
    }
}

/// Records `command` with copied stacks, some MB of them, and cuts off the recording and its program while they are
/// read.
fn shrink(here: &Path, original: &Path, command: &[&str], times: u64) {
    let (program, data, copy) = (here.join("program"), here.join("original.data"), here.join("copy.data"));
    std::fs::copy(original, &program).expect("copied");
    let path = |path: &Path| path.display().to_string();
    let (program_path, data_path) = (path(&program), path(&data));
    let options =
        ["record", "-F", "2000", "--call-graph", "dwarf,32768", "-o", &data_path, "--", &program_path];
    let ran = run("", &[&options, command].concat());
    if is_refused(&ran) {
        return;
    }
    let delay = |time: u64| Duration::from_millis(time * 37 % 400);
    views_of_shrinking(&copy, &data, &path(&copy), delay, times);
    views_of_shrinking(&program, original, &data_path, delay, times);
}

#[test]
#[ignore = "live: records on this machine"]
fn files_that_shrink_while_they_are_read_end_no_view() {
    let here = folder("shrinking");
    // So large that it is mapped.
    let Some(program) = unharmed(&here, &["-static"]) else { return };
    shrink(&here, &program, &["50000000", "0"], 6);
}

#[test]
#[ignore = "heavy: 240 runs"]
fn large_files_that_shrink_while_they_are_read_end_no_view() {
    shrink(&folder("shrinking-often"), Path::new(TALLY), &["doctor"], 120);
}
