//! A program without symbols: its functions have one name in every view, and every filter takes it.

use super::TALLY;
use record::scratch::ScratchFolder;
use std::path::Path;
use std::process::Command;

const SOURCE: &str = "
    __attribute__((noinline)) unsigned long hot(unsigned long n) {
        volatile unsigned long sum = 0;
        for (unsigned long i = 0; i < n; i++) sum += i * 7;
        return sum;
    }
    int main(int argc, char **argv) { return (int)(hot(400000000ul / argc) & 1); }
";

/// Output of a command, without its notes.
fn tally(folder: &Path, args: &[&str]) -> String {
    let run = Command::new(TALLY).args(args).current_dir(folder).output().expect("tally runs");
    assert!(run.status.success(), "{args:?}: {}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8_lossy(&run.stdout).into_owned()
}

/// A stripped program in `folder`; the address of its function `hot`.
fn build(folder: &Path) -> Option<u64> {
    std::fs::write(folder.join("t.c"), SOURCE).ok()?;
    let run = |program: &str, args: &[&str]| Command::new(program).args(args).current_dir(folder).output();
    run("gcc", &["-O1", "-o", "app", "t.c"]).ok()?.status.success().then_some(())?;
    let symbols = String::from_utf8(run("nm", &["app"]).ok()?.stdout).ok()?;
    let line = symbols.lines().find(|line| line.ends_with(" hot"))?;
    run("strip", &["app"]).ok()?.status.success().then_some(())?;
    u64::from_str_radix(line.split(' ').next()?, 16).ok()
}

#[test]
#[ignore = "live: records on this machine"]
fn a_function_without_a_symbol_has_one_name_in_every_view() {
    let folder = ScratchFolder::private("unnamed").expect("a folder");
    let folder = folder.path();
    let Some(hot) = build(folder) else { return println!("skipped: no working gcc and strip") };
    let name = format!("function {hot:#x}");
    let mut record = Command::new(TALLY);
    record.args(["run", "--json=run.json", "--", "./app"]).current_dir(folder);
    let recorded = record.output().expect("tally runs");
    if !folder.join("perf.data").is_file() {
        return println!("skipped: can't record: {}", String::from_utf8_lossy(&recorded.stderr));
    }
    let json = std::fs::read_to_string(folder.join("run.json")).expect("numbers");
    assert!(json.contains(&format!("\"function\": \"{name}\"")), "{json}");
    let has = |args: &[&str]| {
        let text = tally(folder, args);
        assert!(text.contains(&name), "{args:?}: {name} is not in:\n{text}");
    };
    has(&["flame", "--folded"]);
    has(&["flame"]);
    has(&["annotate", "--stdio", "-s", &name]);
    has(&["report", "--stdio", "--no-children", "-S", &name]);
    has(&["report", "--stdio", "--no-children", &name]);
    tally(folder, &["report", "--html", "page.html"]);
    let page = std::fs::read_to_string(folder.join("page.html")).expect("a page");
    assert!(page.contains(&name), "{page}");
    // In the form of perf code without a symbol has its address.
    let report = tally(folder, &["report", "--stdio", "--no-children", "--sort", "sym"]);
    assert!(!report.contains("function 0x"), "{report}");
}
