//! Object files that ask for more memory than they justify.

use std::path::{Path, PathBuf};
use std::process::Command;

use dso::bounds::refusals;
use dso::{Bytes, Error, ObjectFile, SymbolTable};

/// Contents of a section other than its name.
struct Content {
    kind: u32,
    link: u32,
    entry: u64,
    bytes: Vec<u8>,
}

/// An ELF file of these sections; `names` are their offsets in the first, which has the strings.
// Layout: Elf64_Ehdr, the sections' bytes, Elf64_Shdr for each after an empty one. Source: <elf.h>.
fn elf(sections: &[Content], names: impl Fn(usize) -> u32) -> Bytes {
    let mut file = vec![0u8; 64];
    let mut headers = vec![0u8; 64];
    for (index, section) in sections.iter().enumerate() {
        let mut header = Vec::new();
        header.extend(names(index).to_le_bytes());
        header.extend(section.kind.to_le_bytes());
        let (at, size) = (file.len() as u64, section.bytes.len() as u64);
        [0, 0, at, size].iter().for_each(|word: &u64| header.extend(word.to_le_bytes()));
        header.extend(section.link.to_le_bytes());
        header.extend(1u32.to_le_bytes());
        [8, section.entry].iter().for_each(|word: &u64| header.extend(word.to_le_bytes()));
        headers.extend(header);
        file.extend(&section.bytes);
        file.resize(file.len().next_multiple_of(8), 0);
    }
    let table = file.len() as u64;
    file[..16].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    file[16..20].copy_from_slice(&[3, 0, 62, 0]);
    file[40..48].copy_from_slice(&table.to_le_bytes());
    file[58..60].copy_from_slice(&64u16.to_le_bytes());
    file[60..62].copy_from_slice(&(sections.len() as u16 + 1).to_le_bytes());
    file[62..64].copy_from_slice(&1u16.to_le_bytes());
    file.extend(headers);
    Bytes::from_vec(file)
}

fn strings(len: usize) -> Content {
    let mut bytes = vec![b'a'; len];
    bytes.extend(b"\0.symtab\0");
    Content { kind: 3, link: 0, entry: 0, bytes }
}

#[test]
fn symbols_that_share_one_long_name_end_where_the_file_stops_justifying_them() {
    const LONG: usize = 200_000;
    let symbols = (0..5_000u64).flat_map(|n| {
        let mut symbol = (n as u32).to_le_bytes().to_vec(); // each name is a tail of the same one
        symbol.extend([0x12, 0, 3, 0]); // global function, in .text
        [0x1000 + 16 * n, 16].iter().for_each(|word| symbol.extend(word.to_le_bytes()));
        symbol
    });
    let table = Content { kind: 2, link: 1, entry: 24, bytes: symbols.collect() };
    let text = Content { kind: 1, link: 0, entry: 0, bytes: vec![0x90; 64] };
    let bytes = elf(&[strings(LONG), table, text], |index| if index == 1 { LONG as u32 + 1 } else { 0 });
    let (size, object) = (bytes.len(), ObjectFile::parse(bytes).expect("an ELF file"));
    let names = SymbolTable::load(&object, None);
    assert!((10..4_000).contains(&names.len()), "{} symbols", names.len());
    assert!(names.as_bytes().len() < 80 * size, "{} of {size}", names.as_bytes().len());
    assert!(refusals().iter().any(|refusal| refusal.section == "symbol names"));
}

#[test]
fn sections_that_share_one_long_name_are_read_without_it() {
    const LONG: usize = 500_000;
    let empty = || Content { kind: 1, link: 0, entry: 0, bytes: Vec::new() };
    let mut sections = vec![strings(LONG)];
    sections.extend((0..5_000).map(|_| empty()));
    let bytes = elf(&sections, |index| index as u32);
    let (size, object) = (bytes.len(), ObjectFile::parse(bytes).expect("an ELF file"));
    let names: usize = object.sections().iter().map(|section| section.name.len()).sum();
    assert_eq!(object.sections().len(), 5_001);
    assert!(names < 70 * size, "{names} of {size}");
}

/// A program in a folder of its own; `None` (and a note) without a compiler.
fn program(name: &str) -> Option<PathBuf> {
    let dir = std::env::temp_dir().join(format!("tally-bounds-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&dir).ok()?;
    std::fs::write(dir.join("a.c"), "int main(void) { return 0; }").ok()?;
    std::fs::write(dir.join("zeros"), vec![0u8; 40 << 20]).ok()?;
    run(&dir, "gcc", &["-g", "a.c", "-o", "a"]).then_some(dir)
}

fn run(dir: &Path, program: &str, args: &[&str]) -> bool {
    let ran = Command::new(program).args(args).current_dir(dir).output();
    let is_done = ran.is_ok_and(|output| output.status.success());
    if !is_done {
        println!("skipped: {program} {args:?} is not to be had");
    }
    is_done
}

#[test]
fn a_debug_section_that_expands_a_thousandfold_is_refused_by_name() {
    let Some(dir) = program("zlib") else { return };
    let added = run(&dir, "objcopy", &["--remove-section", ".debug_str", "a"])
        && run(&dir, "objcopy", &["--add-section", ".debug_str=zeros", "a"])
        && run(&dir, "objcopy", &["--compress-debug-sections=zlib", "a"]);
    if added {
        let object = ObjectFile::open(&dir.join("a")).expect("an ELF file");
        let read = object.section_bytes(".debug_str");
        assert!(matches!(read, Err(Error::TooLarge { bytes: 41_943_040, .. })), "{read:?}");
        let is_ours = |refusal: &dso::bounds::Refusal| refusal.file.as_deref() == object.path();
        assert!(refusals().iter().any(|refusal| is_ours(refusal) && refusal.section == ".debug_str"));
        assert!(matches!(object.section_bytes(".debug_info"), Ok(Some(_))), "the others are read");
    }
    let _ = std::fs::remove_dir_all(&dir);
}

#[test]
fn symbols_packed_by_xz_are_refused_when_they_expand_without_measure() {
    let Some(dir) = program("xz") else { return };
    let added = run(&dir, "strip", &["a"])
        && run(&dir, "xz", &["-f", "zeros"])
        && run(&dir, "objcopy", &["--add-section", ".gnu_debugdata=zeros.xz", "a"]);
    if added {
        let object = ObjectFile::open(&dir.join("a")).expect("an ELF file");
        SymbolTable::load(&object, None);
        let is_ours = |refusal: &dso::bounds::Refusal| refusal.file.as_deref() == object.path();
        assert!(refusals().iter().any(|refusal| is_ours(refusal) && refusal.section == ".gnu_debugdata"));
    }
    let _ = std::fs::remove_dir_all(&dir);
}
