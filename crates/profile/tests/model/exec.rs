//! A program replaced by another: which samples are whose.

use super::{by, profile_of, rows};
use profile::view::report::{ReportOpts, ReportRow, SortKey, report};

#[test]
fn comm_after_exec_names_only_later_samples_and_takes_the_mappings_away() {
    let profile = profile_of(
        "comm 7/7 sh
         mmap 7/7 0x1000 0x1000 /bin/sh
         mmap 7/7 0x8000 0x1000 /lib/old.so
         sample 7/7 period=10 chain=0x1010
         comm 7/7 ls exec
         mmap 7/7 0x1000 0x1000 /bin/ls
         sample 7/7 period=30 chain=0x1010
         sample 7/7 period=60 chain=0x8010",
    );
    let got = rows(&profile, &by(&[SortKey::Comm, SortKey::Dso]));
    assert_eq!(got, ["60.00% ls [unknown]", "30.00% ls ls", "10.00% sh sh"]);
}

#[test]
fn samples_within_exec_are_of_the_program_that_calls_it() {
    const IN_KERNEL: &str = "chain=0xffffffffffffff80,0xffffffff81000010,0xfffffffffffffe00";
    let profile = profile_of(&format!(
        "mmap 4294967295/0 0xffffffff81000000 0x1000000 [kernel.kallsyms]_text kernel
         comm 7/7 sh
         mmap 7/7 0x1000 0x1000 /bin/sh
         mmap 7/7 0x8000 0x1000 /lib/old.so
         comm 7/7 ls exec
         sample 7/7 kernel period=1 {IN_KERNEL},0x8010
         comm 7/7 ls exec
         mmap 7/7 0x1000 0x1000 /bin/ls
         sample 7/7 kernel period=2 {IN_KERNEL},0x8010
         mmap 7/7 0x4000 0x1000 /lib/ld.so
         sample 7/7 kernel period=4 {IN_KERNEL},0x4010
         sample 7/7 kernel period=8 {IN_KERNEL},0x8010
         comm 7/7 cc exec
         sample 7/7 kernel period=16 {IN_KERNEL},0x4010
         sample 7/7 kernel period=32 {IN_KERNEL},0x8010
         mmap 7/7 0x6000 0x1000 /bin/cc
         fork 8/8 7/7
         sample 8/8 kernel period=64 {IN_KERNEL},0x4010
         sample 7/7 kernel period=128 {IN_KERNEL},0x4010"
    ));
    let opts = ReportOpts { children: true, ..by(&[SortKey::Comm, SortKey::Dso]) };
    let got = report(&profile, &opts);
    let section = &got.sections[0];
    let text = |row: &ReportRow| {
        let values = section.keys.iter().zip(&row.values);
        let words: Vec<String> =
            values.map(|(key, value)| profile.value_text(key, value).trim().to_owned()).collect();
        format!("{} {}", row.children[0].period, words.join(" "))
    };
    let rows: Vec<String> = section.rows.iter().map(text).filter(|row| !row.contains("kernel")).collect();
    assert_eq!(rows, ["224 cc [unknown]", "16 cc ld.so", "8 ls [unknown]", "4 ls ld.so", "3 ls old.so"]);
    assert!(profile.diagnostics.is_conserved());
}
