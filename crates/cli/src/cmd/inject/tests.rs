//! A made recording and jitdump file, rewritten and read again.

use super::*;
use perfdata::{Order, PerfData, Record};
use std::ops::ControlFlow;
use std::path::Path;

/// A jitdump file with one function: `name` at `address`, loaded at `time`.
fn jitdump(time: u64, address: u64, name: &str) -> Vec<u8> {
    let code = [0x90; 16];
    let mut bytes = Vec::new();
    let mut words = |values: &[u32]| values.iter().for_each(|value| bytes.extend(value.to_le_bytes()));
    // Header: magic, version, size, machine, padding, process.
    words(&[0x4a69_5444, 1, 40, 62, 0, 7]);
    bytes.extend([0; 16]);
    let size = 16 + 8 + 32 + name.len() + 1 + code.len();
    bytes.extend(0u32.to_le_bytes());
    bytes.extend((size as u32).to_le_bytes());
    bytes.extend(time.to_le_bytes());
    bytes.extend([7u32, 7].iter().flat_map(|id| id.to_le_bytes()));
    bytes.extend([address, address, 16, 0].iter().flat_map(|value| value.to_le_bytes()));
    bytes.extend(name.as_bytes());
    bytes.push(0);
    bytes.extend(code);
    bytes
}

/// Mappings and samples by time, as `map PATH` and `sample`.
fn records(path: &Path) -> Vec<String> {
    let bytes = std::fs::read(path).expect("the copy");
    let file = PerfData::open(&bytes).expect("a perf.data");
    let mut lines = Vec::new();
    file.visit(Order::File, |item| {
        match &item.record {
            Record::Mmap(map) => lines.push(format!("map {}", String::from_utf8_lossy(map.filename))),
            Record::Sample(_) => lines.push("sample".to_owned()),
            Record::FinishedRound => lines.push("round".to_owned()),
            _ => {}
        }
        ControlFlow::Continue(())
    });
    lines
}

#[test]
fn code_of_a_jitdump_is_mapped_at_its_time_in_a_file_with_its_name() {
    let folder = std::env::temp_dir().join(format!("tally-inject-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let dump = folder.join("jit-7.dump");
    std::fs::write(&dump, jitdump(20, 0x5000, "square")).expect("written");
    let text = format!(
        "event cpu-clock type=1 config=0 period=1000 ids=7\n\
         comm 7/7 t=1 exec app\n\
         mmap2 7/7 t=2 [0x1000,0x2000) off=0x0 {}\n\
         mmap2 7/7 t=3 [0x5000,0x6000) off=0x0 //anon\n\
         sample 7/7 t=10 cpu=0 period=10 chain=user,0x5004\n\
         round\n\
         sample 7/7 t=30 cpu=0 period=10 chain=user,0x5004\n",
        dump.display()
    );
    let recording = perfdata::text::to_perf_data(&text).expect("session text");
    let (input, output) = (folder.join("in.data"), folder.join("out.data"));
    std::fs::write(&input, recording).expect("written");
    let args =
        Args { input, output: output.clone(), jit: true, build_ids: false, force: false, verbose: false };
    run(args).expect("a copy");
    let code = folder.join("jitted-7-0.so");
    // The times of this recording are of no known clock: the code is there from the dump's mapping on.
    assert_eq!(records(&output), [format!("map {}", code.display()), "sample".into(), "sample".into()]);
    let object = dso::ObjectFile::open(&code).expect("an ELF file");
    let table = dso::SymbolTable::load(&object, None);
    let name = table.find(dso::Svma(dso::elf::code_object::TEXT_OFFSET + 4)).map(|s| s.name.to_owned());
    assert_eq!(name.as_deref(), Some("square"));
    std::fs::remove_dir_all(&folder).expect("removed");
}

#[test]
fn nothing_to_add_is_an_error_and_the_recording_is_never_overwritten() {
    let args = |jit, output: &str| Args {
        input: "Cargo.toml".into(),
        output: output.into(),
        jit,
        build_ids: false,
        force: false,
        verbose: false,
    };
    assert!(run(args(false, "out.data")).is_err_and(|why| why.to_string().contains("name -j")));
    assert!(run(args(true, "Cargo.toml")).is_err_and(|why| why.to_string().contains("the recording itself")));
}
