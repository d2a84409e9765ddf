//! Code made at run time: its names are kept with the recording.

use super::TALLY;
use record::scratch::ScratchFolder;
use std::path::Path;
use std::process::Command;

/// Makes the same loop twice, names both alike in its perf map, and runs both.
const SOURCE: &str = r#"
    #include <stdio.h>
    #include <string.h>
    #include <sys/mman.h>
    #include <unistd.h>
    int main(void) {
        static const unsigned char loop[] = {0x48, 0xc7, 0xc1, 0, 0, 0, 0x20, 0x48, 0xff, 0xc9, 0x75, 0xfb, 0xc3};
        unsigned char *code = mmap(0, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        char path[64];
        snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
        FILE *map = fopen(path, "w");
        if (code == MAP_FAILED || !map) return 1;
        for (int at = 0; at <= 4096; at += 4096) {
            memcpy(code + at, loop, sizeof loop);
            fprintf(map, "%lx %lx made_at_run_time\n", (long)(code + at), (long)sizeof loop);
        }
        fclose(map);
        ((void (*)(void))code)();
        ((void (*)(void))(code + 4096))();
        puts(path);
        return 0;
    }
"#;

fn tally(folder: &Path, args: &[&str]) -> String {
    let run = Command::new(TALLY).args(args).current_dir(folder).output().expect("tally runs");
    String::from_utf8_lossy(&run.stdout).into_owned()
}

#[test]
#[ignore = "live: records on this machine"]
fn names_of_jit_code_outlive_its_map() {
    let folder = ScratchFolder::private("jit").expect("a folder");
    let folder = folder.path();
    std::fs::write(folder.join("t.c"), SOURCE).expect("written");
    let built = Command::new("gcc").args(["-O1", "-o", "app", "t.c"]).current_dir(folder).status();
    if !cfg!(target_arch = "x86_64") || !built.is_ok_and(|status| status.success()) {
        return println!("skipped: no working gcc for x86-64");
    }
    let map = tally(folder, &["record", "--", "./app"]);
    let map = map.lines().find(|line| line.starts_with("/tmp/perf-"));
    let removed = map.is_some_and(|map| std::fs::remove_file(map).is_ok());
    if !removed || !folder.join("perf.data").is_file() {
        return println!("skipped: can't record here");
    }
    let folded = tally(folder, &["flame", "--folded"]);
    assert!(folded.contains("made_at_run_time"), "{folded}");
    let report = tally(folder, &["report", "--stdio", "--no-children", "--sort", "sym"]);
    assert!(report.contains("made_at_run_time"), "{report}");
}
