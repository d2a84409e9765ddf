//! Inlined C++ functions have the scopes that source code gives them. The program is built here with g++.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use dso::{DebugSearch, LineResolver, ObjectFile, Svma, SymbolTable};

const SOURCE: &str = "\
volatile int sink;
namespace shop {
  struct Vat { int rate; int operator()(int n) const { for (int i = 0; i < n; i++) sink += i * rate; return sink; } };
  template <class T> static inline T twice(T n) { for (T i = 0; i < n; i++) sink += i * 2; return sink; }
}
namespace { inline int hidden(int n) { for (int i = 0; i < n; i++) sink += i * 3; return sink; } }
struct Outer { struct Inner { static int deep(int n) { for (int i = 0; i < n; i++) sink += i * 5; return sink; } }; };
int main(int argc, char **) {
  auto local = [](int n) { for (int i = 0; i < n; i++) sink += i * 7; return (int)sink; };
  return shop::Vat{argc}(argc) + shop::twice(argc) + hidden(argc) + Outer::Inner::deep(argc) + local(argc);
}
";

fn build(folder: &Path) -> Option<PathBuf> {
    std::fs::write(folder.join("t.cpp"), SOURCE).ok()?;
    let built = Command::new("g++")
        .args(["-std=c++17", "-g", "-O2", "t.cpp", "-o", "t"])
        .current_dir(folder)
        .status();
    built.ok()?.success().then(|| folder.join("t"))
}

/// The names of all functions inlined into `main`.
fn inlined_names(program: &Path) -> BTreeSet<String> {
    let object = ObjectFile::open(program).expect("a program");
    let symbols = SymbolTable::load(&object, None);
    let main = symbols.by_name("main").next().expect("main");
    let mut lines = LineResolver::open(&object, &DebugSearch::default()).expect("sound").expect("with DWARF");
    let (mut names, mut frames) = (BTreeSet::new(), Vec::new());
    for address in main.start.0..main.end.0 {
        frames.clear();
        if lines.frames(Svma(address), &mut frames).is_ok() {
            frames.pop();
            names.extend(
                frames.iter().filter_map(|f| Some(dso::demangle(f.function.as_deref()?).into_owned())),
            );
        }
    }
    names
}

#[test]
fn inlined_functions_are_named_with_their_scopes() {
    let folder = std::env::temp_dir().join(format!("tally-inlined-names-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let names = build(&folder).map(|program| inlined_names(&program));
    std::fs::remove_dir_all(&folder).expect("ours");
    let Some(names) = names else { return println!("skipped: no working g++") };
    for wanted in
        ["shop::Vat::operator()", "shop::twice<int>", "(anonymous namespace)::hidden", "Outer::Inner::deep"]
    {
        assert!(names.contains(wanted), "no {wanted} in {names:?}");
    }
    assert!(names.iter().any(|name| name.starts_with("main") && name.ends_with("operator()")), "{names:?}");
}
