//! Names and lines from all possible places: separate files, compressed sections, split DWARF, PLT.
//!
//! Programs are built here with gcc and binutils; without them the tests print "skipped" and pass.

use std::path::{Path, PathBuf};
use std::process::Command;

use dso::{BuildId, DebugSearch, LineResolver, ObjectFile, SourceFrame, Svma, SymbolSource, SymbolTable};

const SOURCE: &str = "\
#include <stdio.h>
#include <stdlib.h>
static inline __attribute__((always_inline)) int twice(int n) {
  return n * rand();
}
static __attribute__((noinline)) int hidden(int n) {
  return twice(n) + 1;
}
int main(int argc, char **argv) {
  printf(\"%d\\n\", hidden(argc));
  return 0;
}
";

/// A folder of its own for one test, removed at the end.
struct Folder(PathBuf);

impl Folder {
    /// With the program built by gcc with `flags`; `None` (and a word) if gcc or binutils are missing.
    fn with_program(name: &str, flags: &[&str]) -> Option<Self> {
        let folder = Self(std::env::temp_dir().join(format!("tally-debug-{name}-{}", std::process::id())));
        std::fs::create_dir_all(&folder.0).ok()?;
        std::fs::write(folder.path("prog.c"), SOURCE).ok()?;
        let built = folder.run("gcc", &[&["-g", "-O1", "prog.c", "-o", "prog"], flags].concat());
        if !built || !folder.run("objcopy", &["--version"]) {
            println!("skipped: gcc {flags:?} or binutils are not here");
            return None;
        }
        Some(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn run(&self, program: &str, args: &[&str]) -> bool {
        Command::new(program).args(args).current_dir(&self.0).output().is_ok_and(|o| o.status.success())
    }

    fn open(&self, name: &str) -> ObjectFile {
        ObjectFile::open(&self.path(name)).unwrap()
    }

    /// Moves the DWARF and the symbols of `prog` to `prog.debug`, linked by name.
    fn split(&self) {
        assert!(self.run("objcopy", &["--only-keep-debug", "prog", "prog.debug"]));
        assert!(self.run("strip", &["prog"]));
        assert!(self.run("objcopy", &["--add-gnu-debuglink=prog.debug", "prog"]));
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn address_of(table: &SymbolTable, name: &str) -> Option<Svma> {
    table.by_name(name).next().map(|s| s.start)
}

/// The frames of the call to rand inside `twice`, inlined into `hidden`: the first address of two frames.
fn inlined(object: &ObjectFile, search: &DebugSearch, hidden: Svma) -> Vec<(Option<String>, Option<u32>)> {
    let mut lines = LineResolver::open(object, search).unwrap().expect("there is DWARF");
    let at = |offset: u64| {
        let mut frames: Vec<SourceFrame> = Vec::new();
        lines.frames(Svma(hidden.0 + offset), &mut frames).ok()?;
        (frames.len() == 2).then_some(frames)
    };
    let frames = (0..64).find_map(at).expect("an inlined call");
    frames.into_iter().map(|f| (f.function, f.line)).collect()
}

fn expected() -> Vec<(Option<String>, Option<u32>)> {
    vec![(Some("twice".into()), Some(4)), (Some("hidden".into()), Some(7))]
}

#[test]
fn a_debug_file_next_to_the_program_is_found_by_its_link() {
    let Some(folder) = Folder::with_program("link", &[]) else { return };
    folder.split();
    let (object, search) = (folder.open("prog"), DebugSearch::default());
    assert!(!object.has_symtab() && !object.has_dwarf());
    let table = SymbolTable::load(&object, search.find_debug(&object).as_ref());
    assert_eq!(table.source(), SymbolSource::Symtab);
    assert_eq!(inlined(&object, &search, address_of(&table, "hidden").unwrap()), expected());
}

#[test]
fn a_debug_file_of_another_build_is_refused() {
    let Some(folder) = Folder::with_program("crc", &["-Wl,--build-id=none"]) else { return };
    folder.split();
    let (object, search) = (folder.open("prog"), DebugSearch::default());
    assert!(search.find_debug(&object).is_some());
    let mut bytes = std::fs::read(folder.path("prog.debug")).unwrap();
    bytes.push(0);
    std::fs::write(folder.path("prog.debug"), bytes).unwrap();
    assert!(search.find_debug(&object).is_none(), "the checksum differs");
}

#[test]
fn debug_files_and_copies_are_found_by_build_id() {
    let Some(folder) = Folder::with_program("id", &["-Wl,--build-id=sha1"]) else { return };
    folder.split();
    let object = folder.open("prog");
    let id = object.build_id().unwrap().clone();
    let split = id.split_path().unwrap();
    let by_id = folder.path("debug/.build-id").join(split.with_extension("debug"));
    std::fs::create_dir_all(by_id.parent().unwrap()).unwrap();
    std::fs::rename(folder.path("prog.debug"), &by_id).unwrap();
    let search = DebugSearch { debug_dirs: vec![folder.path("debug")], ..DebugSearch::default() };
    let table = SymbolTable::load(&object, search.find_debug(&object).as_ref());
    assert_eq!(inlined(&object, &search, address_of(&table, "hidden").unwrap()), expected());

    // perf's cache: .build-id/ab/cdef is a folder with the file as `elf`.
    let cached = folder.path("cache/.build-id").join(&split);
    std::fs::create_dir_all(&cached).unwrap();
    std::fs::copy(folder.path("prog"), cached.join("elf")).unwrap();
    let search = DebugSearch { build_id_cache: Some(folder.path("cache")), ..DebugSearch::default() };
    let path = Path::new("/prog");
    assert!(search.find_copy(&id, path).is_some());
    assert!(search.find_copy(&BuildId::from_bytes(&[7; 20]).unwrap(), path).is_none());
}

#[test]
fn a_copy_of_another_users_file_is_used_only_for_files_of_that_user() {
    let Some(folder) = Folder::with_program("foreign", &["-Wl,--build-id=sha1"]) else { return };
    let id = folder.open("prog").build_id().unwrap().clone();
    // As recorded at /home/other/prog, and kept by root with its owner.
    let kept = folder.path("cache").join("home/other/prog").join(id.to_string());
    let link = folder.path("cache/.build-id").join(id.split_path().unwrap());
    std::fs::create_dir_all(&kept).unwrap();
    std::fs::create_dir_all(link.parent().unwrap()).unwrap();
    std::fs::copy(folder.path("prog"), kept.join("elf")).unwrap();
    std::os::unix::fs::symlink(format!("../../home/other/prog/{id}"), &link).unwrap();
    assert!(folder.run("strip", &["prog"]));
    let search = DebugSearch { build_id_cache: Some(folder.path("cache")), ..DebugSearch::default() };
    let is_debug_file = || search.find_debug(&folder.open("prog")).is_some();
    let is_copy = |path: &str| search.find_copy(&id, Path::new(path)).is_some();
    assert!(is_debug_file() && is_copy("/usr/bin/prog"));
    let nobody = Some(65534);
    if std::os::unix::fs::chown(kept.join("elf"), nobody, None).is_err() {
        return println!("skipped: only root can give files away");
    }
    assert_eq!((is_debug_file(), is_copy("/usr/bin/prog")), (false, false));
    assert!(is_copy("/home/other/prog"));
    std::os::unix::fs::chown(folder.path("prog"), nobody, None).unwrap();
    assert!(is_debug_file());
}

#[test]
fn compressed_sections_are_read() {
    for flag in ["-gz=zlib", "-Wa,--compress-debug-sections=zstd"] {
        let Some(folder) = Folder::with_program("gz", &[flag]) else { continue };
        let object = folder.open("prog");
        let table = SymbolTable::load(&object, None);
        let hidden = address_of(&table, "hidden").unwrap();
        assert_eq!(inlined(&object, &DebugSearch::default(), hidden), expected());
    }
}

#[test]
fn split_dwarf_is_read_from_its_dwo_and_from_a_dwp() {
    let Some(folder) = Folder::with_program("dwo", &["-gsplit-dwarf"]) else { return };
    let object = folder.open("prog");
    let hidden = address_of(&SymbolTable::load(&object, None), "hidden").unwrap();
    assert_eq!(inlined(&object, &DebugSearch::default(), hidden), expected());

    // binutils 2.40's dwp knows DWARF 4 only.
    let Some(folder) = Folder::with_program("dwp", &["-gsplit-dwarf", "-gdwarf-4"]) else { return };
    let object = folder.open("prog");
    if !folder.run("dwp", &["-e", "prog", "-o", "prog.dwp"]) {
        return println!("skipped: no dwp");
    }
    let dwo = std::fs::read_dir(&folder.0).unwrap().flatten().map(|e| e.path());
    dwo.filter(|p| p.extension().is_some_and(|e| e == "dwo")).for_each(|p| std::fs::remove_file(p).unwrap());
    assert_eq!(inlined(&object, &DebugSearch::default(), hidden), expected());
}

#[test]
fn names_left_in_gnu_debugdata_are_read() {
    let Some(folder) = Folder::with_program("mini", &[]) else { return };
    let packed = folder.run("objcopy", &["-S", "-K", "hidden", "-K", "main", "prog", "mini"])
        && folder.run("xz", &["mini"])
        && folder.run("strip", &["prog"])
        && folder.run("objcopy", &["--add-section", ".gnu_debugdata=mini.xz", "prog"]);
    if !packed {
        return println!("skipped: no xz");
    }
    let table = SymbolTable::load(&folder.open("prog"), None);
    assert_eq!(table.source(), SymbolSource::DebugData);
    assert!(address_of(&table, "hidden").is_some(), "{table:?}");
}

/// objdump's names of the stubs.
fn stubs_by_objdump(program: &Path) -> Vec<(u64, String)> {
    let mut objdump = Command::new("objdump");
    objdump.args(["-d", "-j", ".plt", "-j", ".plt.sec", "-j", ".plt.got"]).arg(program);
    let output = objdump.output().unwrap();
    let label = |line: &str| {
        let (address, name) = line.strip_suffix(">:")?.split_once(" <")?;
        Some((u64::from_str_radix(address, 16).ok()?, name.strip_suffix("@plt")?.to_owned()))
    };
    String::from_utf8_lossy(&output.stdout).lines().filter_map(label).collect()
}

#[test]
fn plt_stubs_have_the_names_objdump_gives_them() {
    for flags in
        [&["-Wl,-z,lazy"][..], &["-fcf-protection", "-Wl,-z,ibtplt", "-Wl,-z,lazy"], &["-static-pie"]]
    {
        let Some(folder) = Folder::with_program("plt", flags) else { continue };
        let theirs = stubs_by_objdump(&folder.path("prog"));
        let ours = dso::elf::plt::stubs(&folder.open("prog"));
        for (address, name) in theirs.iter().filter(|(_, name)| !name.starts_with('*')) {
            let stub = ours.iter().find(|s| s.start.0 == *address);
            assert_eq!(stub.map(|s| s.name.as_str()), Some(format!("{name}@plt").as_str()), "{flags:?}");
        }
        println!("{flags:?}: {} stubs", ours.len());
    }
}
