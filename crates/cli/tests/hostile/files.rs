//! Files that recordings, folders of calls and debug information name: pipes, devices, endless and planted ones.

use super::{folder, outlived};
use perfdata::abi::*;
use perfdata::record::{Comm, FileId, Mmap};
use perfdata::{
    Attr, AttrFlags, Avma, CpuMode, Event, Features, Record, Sample, SampleId, Writer, WriterOpts,
};
use std::fs::File;
use std::os::unix::fs::{FileExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A process number that no process has: above `PID_MAX_LIMIT`.
const PID: u32 = 4_200_000;

/// Every view that opens what a recording names.
const VIEWS: &[&[&str]] = &[
    &["report", "--stdio", "-i"],
    &["report", "--stdio", "--wall", "-i"],
    &["report", "--stdio", "--sort", "sym,srcline", "-i"],
    &["script", "-i"],
    &["script", "--json", "-i"],
    &["flame", "--folded", "-i"],
    &["annotate", "--stdio", "-i"],
    &["timeline", "-i"],
    &["locks", "-i"],
    &["buildid-list", "-H", "-i"],
    &["diff"],
];

/// A recording in which `PID` has `mapped` as code, with a sample in it.
fn recording(dir: &Path, mapped: &str) -> String {
    let bits = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
    let attr = Attr {
        type_: PERF_TYPE_SOFTWARE,
        config: PERF_COUNT_SW_CPU_CLOCK,
        sample_period: 1000,
        sample_type: bits,
        flags: AttrFlags::SAMPLE_ID_ALL | AttrFlags::MMAP2 | AttrFlags::COMM,
        ..Attr::default()
    };
    let events = vec![Event { attr, ids: vec![7], name: "cpu-clock".into() }];
    let path = dir.join("perf.data");
    let mut file = File::create(&path).expect("our folder");
    let opts = WriterOpts { events, ..WriterOpts::default() };
    let mut writer = Writer::file(&mut file, opts).expect("a header");
    let id = |time_ns| SampleId { pid_tid: Some((PID, PID)), time_ns: Some(time_ns), ..SampleId::default() };
    let mut write = |record: &Record<'_>, id: &SampleId| writer.write_record(0, record, id).expect("written");
    write(&Record::Comm(Comm { pid: PID, tid: PID, comm: b"app", exec: true }), &id(1));
    let map = Mmap {
        pid: PID,
        tid: PID,
        addr: Avma(0x40_0000),
        len: 0x1000,
        pgoff: 0,
        filename: mapped.as_bytes(),
        file_id: FileId::Inode { major: 8, minor: 1, inode: 42, generation: 1 },
        prot_flags: Some((5, 2)),
        cpu_mode: CpuMode::User,
        is_data: false,
        parse_timeout: false,
    };
    write(&Record::Mmap(map), &id(2));
    let sample = Sample {
        misc: PERF_RECORD_MISC_USER,
        ip: Some(Avma(0x40_0010)),
        pid_tid: Some((PID, PID)),
        time_ns: Some(3),
        ..Sample::default()
    };
    write(&Record::Sample(sample), &SampleId::default());
    writer.finish(&Features::default(), &[]).expect("written");
    path.to_str().expect("ASCII").to_owned()
}

/// Runs every view; what `report` wrote to standard output and standard error.
fn viewed(file: &str) -> (String, String) {
    let view = |args: &&[&str]| outlived(&[args, &[file][..]].concat());
    VIEWS.iter().map(view).collect::<Vec<_>>().swap_remove(0)
}

fn make_pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo runs").success());
}

/// A file of 6 GB with a beginning, of which nearly nothing exists.
fn make_sparse(path: &Path, start: &[u8]) {
    let file = File::create(path).expect("our folder");
    file.write_at(start, 0).and_then(|_| file.set_len(6 << 30)).expect("sparse");
}

#[test]
fn mapped_paths_that_are_no_regular_files_are_not_opened() {
    let dir = folder("mapped");
    let pipe = dir.join("pipe");
    make_pipe(&pipe);
    let mapped = |path: &Path| viewed(&recording(&dir, path.to_str().expect("ASCII")));
    for path in [&pipe, &dir, Path::new("/dev/full")] {
        let (table, notes) = mapped(path);
        assert!(table.contains("100.00%") && notes.contains("not a regular file"), "{table}{notes}");
    }
    let (table, _) = mapped(Path::new("/proc/self/pagemap"));
    assert!(table.contains("100.00%"), "{table}");
    let sparse = dir.join("sparse");
    make_sparse(&sparse, &std::fs::read(env!("CARGO_BIN_EXE_tally")).expect("ours")[..1 << 20]);
    let (table, notes) = mapped(&sparse);
    assert!(table.contains("100.00%") && notes.contains("sparse"), "{table}{notes}");
}

/// `/tmp/perf-PID.map`, which is removed at the end.
struct PerfMap(PathBuf);

impl PerfMap {
    fn new() -> Self {
        let map = Self(format!("/tmp/perf-{PID}.map").into());
        let _ = std::fs::remove_file(&map.0);
        map
    }
}

impl Drop for PerfMap {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn perf_maps_are_read_if_they_are_files_of_a_user_who_may_write_them() {
    let dir = folder("perf-map");
    let file = recording(&dir, "//anon");
    let map = PerfMap::new();
    std::fs::write(&map.0, "400000 1000 jitted\n").expect("/tmp is writable");
    let (table, notes) = viewed(&file);
    assert!(table.contains("jitted") && !notes.contains("perf-"), "{table}{notes}");
    if chown(&map.0, Some(65534), None).is_ok() {
        let (table, notes) = viewed(&file);
        assert!(!table.contains("jitted") && notes.contains("owned by another user"), "{table}{notes}");
        assert!(outlived(&["report", "-f", "--stdio", "-i", &file]).0.contains("jitted"));
    } else {
        println!("skipped: only root can give files away");
    }
    std::fs::rename(&map.0, dir.join("map")).or_else(|_| std::fs::remove_file(&map.0)).expect("ours");
    make_pipe(&map.0);
    assert!(viewed(&file).1.contains("not a regular file"));
    std::fs::remove_file(&map.0).expect("ours");
    symlink("/dev/zero", &map.0).expect("a link");
    assert!(viewed(&file).1.contains("not a regular file"));
    std::fs::remove_file(&map.0).expect("ours");
    make_sparse(&map.0, b"400000 1000 jitted\n");
    let (table, notes) = viewed(&file);
    assert!(table.contains("100.00%") && notes.contains("too large"), "{table}{notes}");
}

/// Views of a folder of calls.
const CALLS_VIEWS: &[&[&str]] = &[
    &["calls", "report", "-i"],
    &["calls", "graph", "-i"],
    &["calls", "replay", "-i"],
    &["calls", "flame", "--folded", "-i"],
    &["calls", "info", "-i"],
    &["calls", "export", "-o", "/dev/null", "-i"],
];

#[test]
fn files_inside_a_folder_of_calls_are_regular_and_no_links() {
    let dir = folder("calls");
    let calls = dir.join("calls");
    for name in ["info", "functions", "values", "lost", "1-0.maps", "1-1-0.calls", "switches.data"] {
        for kind in ["pipe", "link", "sparse"] {
            let _ = std::fs::remove_dir_all(&calls);
            std::fs::create_dir(&calls).expect("our folder");
            std::fs::write(calls.join("sleds"), "").expect("our folder");
            let path = calls.join(name);
            match kind {
                "pipe" => make_pipe(&path),
                "link" => symlink("/dev/zero", &path).expect("a link"),
                _ => make_sparse(&path, b"tally"),
            }
            for view in CALLS_VIEWS {
                outlived(&[view, &[calls.to_str().expect("ASCII")][..]].concat());
            }
        }
    }
}

/// Builds a program whose debug information names `source` as its source; `None` (and reported) without gcc.
fn program_of(dir: &Path, source: &Path) -> Option<PathBuf> {
    let text = "volatile int x;\nint hot(int n)\n{ for (int i = 0; i < n; i++) x += i;\nreturn x; }\n\
                int main() { for (int i = 0; i < 300; i++) hot(300000); return 0; }\n";
    let (code, program) = (dir.join("code.c"), dir.join("program"));
    std::fs::write(&code, format!("# 1 \"{}\"\n{text}", source.display())).expect("our folder");
    let gcc = Command::new("gcc").args(["-g", "-O1"]).arg(&code).arg("-o").arg(&program).status();
    if !gcc.is_ok_and(|status| status.success()) {
        println!("skipped: no working gcc");
        return None;
    }
    Some(program)
}

#[test]
#[ignore = "live: records on this machine"]
fn root_is_not_shown_a_private_file_that_debug_information_calls_source() {
    let dir = folder("source");
    let secret = dir.join("secret");
    std::fs::write(&secret, "the secret word\n".repeat(9)).expect("our folder");
    let Some(program) = program_of(&dir, &secret) else { return };
    let (run, data) = (program.to_str().expect("ASCII"), dir.join("perf.data"));
    let data = data.to_str().expect("ASCII");
    let (_, notes) = outlived(&["record", "-e", "cpu-clock:u", "-o", data, "--", run]);
    if !Path::new(data).exists() {
        return println!("skipped: can't record here: {notes}");
    }
    let shown = |args: &[&str]| outlived(args).0.contains("the secret word");
    let annotate: &[&str] = &["annotate", "--stdio", "-i", data, "hot"];
    let lines: &[&str] = &["probe", "-x", run, "-L", "hot"];
    assert!(shown(annotate) && shown(lines), "its own source is shown");
    let mode = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::set_permissions(&secret, mode(0o640)).expect("ours");
    if chown(&secret, Some(12345), None).is_err() {
        return println!("skipped: only root can give files away");
    }
    assert!(!shown(annotate) && !shown(lines));
    assert!(outlived(annotate).1.contains("source not shown"));
    chown(&program, Some(12345), None).expect("as before");
    assert!(shown(annotate), "the source of the user whose program it is");
}
