//! `tally export --to autofdo`: a program's real branches, as a processor would record them, become counts of lines that
//! LLVM reads and its compiler uses.

use super::TALLY;
use perfdata::abi::*;
use perfdata::record::{Comm, FileId, Mmap};
use perfdata::{
    Attr, AttrFlags, Avma, BranchStack, CpuMode, Event, Features, Record, Sample, SampleId, Writer,
    WriterOpts,
};
use record::scratch::ScratchFolder;
use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::Path;
use std::process::Command;

/// `fold` runs five times with forty rounds each: line 2 of it 150 times, line 4 fifty times.
const SOURCE: &str = "\
static volatile unsigned long most, few;
__attribute__((noinline)) void fold(unsigned long n) {
    for (unsigned long i = 0; i < n; i++) {
        if (i % 4 != 0)
            most += i * 5;
        else
            few ^= i;
    }
}
int main(void) {
    for (int round = 0; round < 5; round++)
        fold(40);
    return 0;
}
";

/// Steps through main() and prints each branch that is taken.
const STEPS: &str = "\
import gdb
gdb.execute('break *main')
gdb.execute('run', to_string=True)
arch, lengths = gdb.selected_frame().architecture(), {}
def number(register):
    return int(gdb.parse_and_eval('(unsigned long)' + register))
at, top = number('$pc'), number('$sp')
while number('$sp') <= top:
    gdb.execute('stepi', to_string=True)
    to = number('$pc')
    if at not in lengths:
        lengths[at] = arch.disassemble(at)[0]['length']
    if to != at + lengths[at]:
        print('branch %x %x' % (at, to))
    at = to
gdb.execute('kill')
";

/// Branches in a stack of the processor.
const DEPTH: usize = 32;

/// The output of a tool; `None` where it isn't there or fails, which is printed.
fn output_of(folder: &Path, tool: &str, args: &[&str]) -> Option<String> {
    let run = Command::new(tool).args(args).current_dir(folder).output().ok();
    let text = run.filter(|run| run.status.success());
    if text.is_none() {
        println!("skipped: {tool} is not on this machine, or fails: {args:?}");
    }
    text.map(|run| String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr))
}

/// All branches of a run of `./code`, oldest first.
fn branches(folder: &Path) -> Option<Vec<(u64, u64)>> {
    let flags =
        ["-O1", "-g", "-fdebug-info-for-profiling", "-no-pie", "-fno-unroll-loops", "code.c", "-o", "code"];
    output_of(folder, "clang", &flags)?;
    let text = output_of(folder, "gdb", &["-q", "-batch", "-nx", "-x", "steps.py", "./code"])?;
    let number = |word: Option<&str>| word.and_then(|word| u64::from_str_radix(word, 16).ok());
    let branch = |line: &str| {
        let mut words = line.strip_prefix("branch ")?.split(' ');
        Some((number(words.next())?, number(words.next())?))
    };
    let found: Vec<_> = text.lines().filter_map(branch).collect();
    if found.len() < 200 {
        println!("skipped: gdb steps no program here: {text}");
    }
    (found.len() >= 200).then_some(found)
}

/// A recording with these branches. Each stack begins with the last branch of the one before, so that each stretch between
/// two branches is in one of them.
fn recording(folder: &Path, branches: &[(u64, u64)]) {
    let attr = Attr {
        type_: PERF_TYPE_HARDWARE,
        sample_period: 31,
        sample_type: PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_BRANCH_STACK,
        branch_sample_type: PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_ANY,
        flags: AttrFlags::SAMPLE_ID_ALL | AttrFlags::COMM,
        ..Attr::default()
    };
    let events = vec![Event { attr, ids: vec![1], name: "cycles".into() }];
    let mut file = Cursor::new(Vec::new());
    let mut writer =
        Writer::file(&mut file, WriterOpts { events, ..WriterOpts::default() }).expect("a header");
    let id = SampleId { pid_tid: Some((9, 9)), time_ns: Some(1), ..SampleId::default() };
    let program = folder.join("code");
    let code = Mmap {
        pid: 9,
        tid: 9,
        addr: Avma(0x40_1000),
        len: 0x1000,
        pgoff: 0x1000,
        filename: program.as_os_str().as_encoded_bytes(),
        file_id: FileId::None,
        prot_flags: None,
        cpu_mode: CpuMode::User,
        is_data: false,
        parse_timeout: false,
    };
    let comm = Comm { pid: 9, tid: 9, comm: b"code", exec: true };
    for record in [Record::Comm(comm), Record::Mmap(code)] {
        writer.write_record(0, &record, &id).expect("written");
    }
    let mut start = 0;
    while start + 1 < branches.len() {
        let end = branches.len().min(start + DEPTH);
        let newest_first = branches[start..end].iter().rev();
        let words: Vec<u64> = newest_first.flat_map(|&(from, to)| [from, to, 0]).collect();
        let sample = Sample {
            misc: PERF_RECORD_MISC_USER,
            ip: Some(Avma(branches[end - 1].1)),
            pid_tid: Some((9, 9)),
            time_ns: Some(2 + start as u64),
            branches: Some(BranchStack::from_words(None, &words, None)),
            ..Sample::default()
        };
        writer.write_record(0, &Record::Sample(sample), &SampleId::default()).expect("written");
        start = end - 1;
    }
    let features = Features { arch: Some("x86_64".into()), ..Features::default() };
    writer.finish(&features, &[]).expect("written");
    std::fs::write(folder.join("perf.data"), file.into_inner()).expect("is written");
}

/// Executions by function and line after the function's own; the largest of a line's parts.
fn lines_of(profile: &str) -> BTreeMap<(String, u32), u64> {
    let mut lines: BTreeMap<(String, u32), u64> = BTreeMap::new();
    let mut function = String::new();
    for text in profile.lines() {
        let Some(line) = text.strip_prefix(' ') else {
            text.split(':').next().unwrap_or_default().clone_into(&mut function);
            continue;
        };
        let (at, counts) = line.split_once(": ").expect("a line and its count");
        let line = at.split('.').next().and_then(|line| line.parse().ok()).expect("a line");
        let count = counts.split(' ').next().and_then(|count| count.parse::<u64>().ok()).expect("a count");
        let most = lines.entry((function.clone(), line)).or_default();
        *most = count.max(*most);
    }
    lines
}

/// The numbers after `branch_weights` in LLVM's intermediate code.
fn weights(code: &str) -> Vec<Vec<u64>> {
    let lists = code.lines().filter_map(|line| line.split_once("!\"branch_weights\""));
    let number = |word: &str| word.trim().strip_prefix("i32 ")?.trim_end_matches('}').parse().ok();
    lists.map(|(_, list)| list.split(',').filter_map(number).collect()).collect()
}

#[test]
#[ignore = "live: steps through a program in gdb"]
fn llvm_reads_the_counts_of_lines_and_its_compiler_uses_them() {
    let folder = ScratchFolder::private("autofdo").expect("a folder");
    let folder = folder.path();
    std::fs::write(folder.join("code.c"), SOURCE).expect("is written");
    std::fs::write(folder.join("steps.py"), STEPS).expect("is written");
    let Some(branches) = branches(folder) else { return };
    recording(folder, &branches);
    let export = ["export", "--to", "autofdo", "-i", "perf.data", "-o", "code.prof", "--binary", "code"];
    let note = output_of(folder, TALLY, &export).expect("it exports");
    assert!(note.contains(": 2 functions from ") && note.contains("left out: 0 of "), "{note}");
    let profile = std::fs::read_to_string(folder.join("code.prof")).expect("is there");
    let lines = lines_of(&profile);
    let count = |function: &str, line| lines.get(&(function.to_owned(), line)).copied();
    // The loop's own line may run once more for each call, and the first part of the trace has no branch before it.
    assert_eq!(
        [count("fold", 2), count("fold", 3), count("fold", 5)],
        [Some(200), Some(150), Some(50)],
        "{profile}"
    );
    assert!(matches!(count("main", 2), Some(4..=5)) && profile.contains(" fold:5"), "{profile}");

    if let Some(shown) = output_of(folder, "llvm-profdata", &["show", "--sample", "code.prof"]) {
        assert!(
            shown.contains("Function: fold: ") && shown.contains("Samples collected in the function's body")
        );
        for wanted in ["2: 200", "3: 150", "5: 50"] {
            assert!(shown.contains(&format!("  {wanted}")), "{wanted}: {shown}");
        }
    }
    let use_it = ["-O2", "-fprofile-sample-use=code.prof", "-S", "-emit-llvm", "code.c", "-o", "-"];
    let Some(code) = output_of(folder, "clang", &use_it) else { return };
    assert!(!code.contains("warning"), "{code}");
    // `i % 4 != 0` three times of four.
    let is_third = |list: &Vec<u64>| matches!(list[..], [a, b] if a.max(b) > 100 && a.max(b).abs_diff(3 * a.min(b)) <= 6);
    assert!(weights(&code).iter().any(is_third), "{:?}", weights(&code));
    assert!(code.contains("\"function_entry_count\""), "{code}");
}

#[test]
#[ignore = "live: steps through a program in gdb"]
fn a_file_without_branches_in_the_recording_is_refused_by_name() {
    let folder = ScratchFolder::private("autofdo-binary").expect("a folder");
    let folder = folder.path();
    recording(folder, &[(0x40_1010, 0x40_1000), (0x40_1010, 0x40_1000)]);
    let run = |binary: &str| {
        let args = ["export", "--to", "autofdo", "-i", "perf.data", "--binary", binary];
        let run = Command::new(TALLY).args(args).current_dir(folder).output().expect("tally runs");
        String::from_utf8_lossy(&run.stderr).into_owned()
    };
    assert!(run("nowhere").contains("nowhere: file not found"), "{}", run("nowhere"));
    let other = std::env::current_exe().expect("this program");
    let text = run(other.to_str().expect("UTF-8"));
    assert!(text.contains("no branch in the recording is in this file; there are code"), "{text}");
}
