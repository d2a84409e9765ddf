//! Stacks that are hard to follow, of programs that know their own chains.

use super::TALLY;
use record::scratch::ScratchFolder;
use std::path::Path;
use std::process::Command;

/// All its time is in `on_own_stack`, on a stack of its own, called through `interrupted`.
const HANDLER: &str = "
    #define _GNU_SOURCE
    #include <signal.h>
    #include <stdlib.h>
    volatile unsigned long sum;
    __attribute__((noinline)) void on_own_stack(void) { for (int i = 0; i < 200000000; i++) sum += i * 3; }
    void handler(int signal) { on_own_stack(); }
    __attribute__((noinline)) void interrupted(void) { raise(SIGUSR1); sum++; }
    int main(void) {
        stack_t stack = { .ss_sp = malloc(65536), .ss_size = 65536 };
        struct sigaction action = { .sa_handler = handler, .sa_flags = SA_ONSTACK };
        sigaltstack(&stack, 0);
        sigaction(SIGUSR1, &action, 0);
        for (int i = 0; i < 4; i++) interrupted();
    }
";

/// Nearly all its time is in a C library that may have no unwind tables.
const LIBRARY: &str = "
    #include <stdio.h>
    #include <stdlib.h>
    static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
    static int values[5000];
    static char text[200];
    __attribute__((noinline)) void sorting(void) {
        for (int i = 0; i < 5000; i++) values[i] = i * 7919 % 5003;
        qsort(values, 5000, sizeof(int), compare);
    }
    __attribute__((noinline)) void printing(void) {
        for (int i = 0; i < 2000; i++) snprintf(text, 200, \"%d %s %f\", i, \"text\", i / 3.0);
    }
    int main(void) { for (int i = 0; i < 150; i++) { sorting(); printing(); } }
";

/// Samples whose leaf is user code, as lines of `script`, of a recording of the program; `None` with the reason on the
/// screen where that can't be had.
fn chains(folder: &Path, compiler: &str, source: &str) -> Option<Vec<String>> {
    std::fs::write(folder.join("app.c"), source).ok()?;
    let build = Command::new(compiler).args(["-O1", "-g", "-o", "app", "app.c"]).current_dir(folder).output();
    if !build.is_ok_and(|build| build.status.success()) {
        println!("skipped: no working {compiler}");
        return None;
    }
    let mut record = Command::new(TALLY);
    let recorded = record.args(["record", "-F", "999", "--", "./app"]).current_dir(folder).output();
    let recorded = recorded.expect("tally runs");
    if !recorded.status.success() {
        println!("skipped: can't record: {}", String::from_utf8_lossy(&recorded.stderr));
        return None;
    }
    let mut script = Command::new(TALLY);
    let script =
        script.args(["script", "-F", "ip,sym,dso"]).current_dir(folder).output().expect("tally runs");
    let text = String::from_utf8_lossy(&script.stdout).into_owned();
    let is_user = |chain: &&str| chain.lines().next().is_some_and(|leaf| !leaf.contains("[kernel"));
    Some(
        text.split("\n\n")
            .filter(|chain| !chain.trim().is_empty())
            .filter(is_user)
            .map(str::to_owned)
            .collect(),
    )
}

/// Number of chains with each of these functions, in this order from the leaf.
fn with(chains: &[String], functions: &[&str]) -> usize {
    let has_all = |chain: &&String| {
        let mut names = chain.lines().filter_map(|line| line.split_whitespace().nth(1));
        functions.iter().all(|function| names.any(|name| name == *function))
    };
    chains.iter().filter(has_all).count()
}

#[test]
#[ignore = "live: records on this machine"]
fn a_handler_on_its_own_stack_has_the_interrupted_callers() {
    let folder = ScratchFolder::private("own-stack").expect("a folder");
    let Some(chains) = chains(folder.path(), "gcc", HANDLER) else { return };
    let handled = with(&chains, &["on_own_stack", "handler"]);
    let whole = with(&chains, &["on_own_stack", "handler", "interrupted", "main"]);
    // The stack is read while the handler runs, but for samples right before its end, and for those that wait to be
    // unwound when the program ends.
    let last = chains.last();
    assert!(handled >= 20 && whole * 2 >= handled, "{whole} of {handled} are whole: {last:?}");
}

#[test]
#[ignore = "live: records on this machine"]
fn code_without_unwind_tables_has_its_callers() {
    let folder = ScratchFolder::private("no-tables").expect("a folder");
    let Some(chains) = chains(folder.path(), "musl-gcc", LIBRARY) else { return };
    let whole = with(&chains, &["sorting", "main"]) + with(&chains, &["printing", "main"]);
    let last = chains.last();
    // snprintf has an array of several pages of which it touches the ends: the kernel's copy ends there the first time.
    assert!(chains.len() >= 20 && whole * 20 >= chains.len() * 19, "{whole} of {}: {last:?}", chains.len());
}
