//! The probe grammar, and definitions equal to perf's on a program built with and without optimization.

use std::path::{Path, PathBuf};
use std::process::Command;

use dso::dwarf::probe::{Access, AccessStep};

use calls::probing::definition::spec::{Arg, ProbePlace, ProbePoint, ProbeSpec, SpecError, What};
use calls::probing::definition::{Definition, Program};
use record::event::probe_list::{ProbeSpace, check_definition, install};

fn spec(text: &str) -> ProbeSpec {
    ProbeSpec::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn function(name: &str, file: Option<&str>, at: ProbePoint) -> ProbePlace {
    ProbePlace::Function { name: name.to_owned(), file: file.map(str::to_owned), at }
}

#[test]
fn places_are_functions_lines_and_addresses() {
    for (text, expected) in [
        ("add", function("add", None, ProbePoint::Entry)),
        ("add:0", function("add", None, ProbePoint::Entry)),
        ("add:12", function("add", None, ProbePoint::Line(12))),
        ("add+0x10", function("add", None, ProbePoint::Offset(16))),
        ("add%return", function("add", None, ProbePoint::Return)),
        ("add@a.c", function("add", Some("a.c"), ProbePoint::Entry)),
        ("add@src/a.c:3", function("add", Some("src/a.c"), ProbePoint::Line(3))),
        ("a::b:3", function("a::b", None, ProbePoint::Line(3))),
        ("a.c:34", ProbePlace::Line("a.c".to_owned(), 34)),
        ("src/main.rs:7", ProbePlace::Line("src/main.rs".to_owned(), 7)),
        ("0x1139", ProbePlace::Address(0x1139)),
    ] {
        assert_eq!(ProbePlace::parse(text), Ok(expected), "{text}");
    }
    assert_eq!(ProbePlace::parse("add%retrun"), Err(SpecError::Percent("retrun".to_owned())));
    assert_eq!(ProbePlace::parse("add:x"), Err(SpecError::Number("x".to_owned())));
    let of = "add".to_owned();
    assert_eq!(ProbePlace::parse("add;a=*"), Ok(ProbePlace::Pattern { of, pattern: "a=*".to_owned() }));
    assert_eq!(ProbePlace::parse("add;"), Err(SpecError::Lazy("add;".to_owned())));
    assert_eq!(ProbeSpec::parse(" "), Err(SpecError::Empty));
}

#[test]
fn events_and_groups_can_be_named() {
    let named = spec("g:e=add");
    assert_eq!((named.group.as_deref(), named.event.as_deref()), (Some("g"), Some("e")));
    assert_eq!(spec("e=add a=b").event.as_deref(), Some("e"));
    assert_eq!(ProbeSpec::parse("1e=add"), Err(SpecError::Name("1e".to_owned())));
}

#[test]
fn arguments_are_variables_registers_and_all_that_is_there() {
    let arg = |text: &str| spec(&format!("add {text}")).args.remove(0);
    let variable = |name: &str, steps: &[AccessStep]| {
        What::Variable(Access { variable: name.to_owned(), steps: steps.to_vec() })
    };
    assert_eq!(arg("$vars").what, What::AllVariables);
    assert_eq!(arg("$params").what, What::AllParameters);
    assert_eq!(
        arg("n=%ax:u32"),
        Arg { name: Some("n".to_owned()), what: What::Raw("%ax".to_owned()), kind: Some("u32".to_owned()) }
    );
    let steps =
        [AccessStep::Arrow("at".to_owned()), AccessStep::Member("x".to_owned()), AccessStep::Index(2)];
    assert_eq!(arg("list->at.x[2]").what, variable("list", &steps));
    for (text, name) in [("a", "a"), ("a:x32", "a_x32"), ("l->at.x", "x"), ("v[0]:string", "v"), ("q=a", "q")]
    {
        assert_eq!(arg(text).default_name().as_deref(), Some(name), "{text}");
    }
    assert_eq!(ProbeSpec::parse("add l-"), Err(SpecError::Access("l-".to_owned())));
    assert_eq!(ProbeSpec::parse("add l[x]"), Err(SpecError::Access("l[x]".to_owned())));
}

const SOURCE: &str = r#"
#include <stdio.h>
#include <string.h>
struct point { int x, y; };
struct node { struct node *next; struct point at; char name[16]; unsigned char flag; unsigned bits:3; const char *label; };
enum color { RED, GREEN = 5 };
long counter = 7;
int table[4] = {1, 2, 3, 4};
struct node head;
__attribute__((noinline)) int add(int a, int b) {
    int sum = a + b;
    counter += sum;
    return sum;
}
__attribute__((noinline)) unsigned long walk(struct node *list, const char *what, enum color c)
{
    unsigned long total = 0;
    while (list) {
        total += list->at.x * list->at.y + (unsigned)c;
        if (what && what[0] == list->name[0])
            total += list->flag;
        list = list->next;
    }
    return total;
}
static inline int square(int v) { int r = v * v; return r + 3; }
__attribute__((noinline)) int caller(char **argv, unsigned char uc, short s, unsigned long long big)
{
    int k, acc = 0;
    for (k = 0; k < 3; k++) {
        struct point p = { k, k + 1 };
        acc += square(p.x) + uc + s;
    }
    puts(argv[0]);
    return acc + (int)big + table[acc & 3];
}
int main(int argc, char **argv)
{
    strcpy(head.name, "n0");
    head.at.x = argc;
    head.label = "hello";
    int r = add(argc, 2);
    r += walk(&head, argv[0], GREEN);
    r += caller(argv, 1, 2, 3);
    return r & 1;
}
"#;

/// Probes that perf and tally both get; both may refuse, but then both must.
const PROBES: &[&str] = &[
    "add",
    "add a b",
    "add:1",
    "add:2 sum",
    "add:3",
    "add%return $retval",
    "add+4",
    "add@t.c",
    "add x=a",
    "g:e=add",
    "add a:x32 b:u8",
    "add $comm",
    "add arg1=%ax",
    "add:9",
    "add:99",
    "ad*",
    "walk $vars",
    "walk:3",
    "walk:4",
    "walk:5 total",
    "walk:7 list",
    "walk list->at.x list->name what:string c",
    "walk list->flag",
    "walk list->label:string",
    "walk list->next->at.y",
    "walk list->nomember",
    "walk nosuch",
    "caller argv uc s big",
    "caller $params",
    "caller:3",
    "caller:5 p.x k",
    "caller:7",
    "caller p",
    "main",
    "main argv[0]:string",
    "main:3",
    "main:5",
    "t.c:10",
    "t.c:12",
    "t.c:18",
    "t.c:22",
    "t.c:34",
    "nofunc",
];

#[test]
fn definitions_are_perfs_byte_for_byte() {
    if Command::new("perf").arg("--version").output().is_err() {
        return eprintln!("skipped: no perf");
    }
    for level in ["-O0", "-O2"] {
        let folder = std::env::temp_dir().join(format!("tally-probe-{}{level}", std::process::id()));
        let Some(program) = build(&folder, level) else { return eprintln!("skipped: no working C compiler") };
        let mut compared = 0;
        for probe in PROBES {
            let theirs = by_perf(&program, probe);
            if theirs.is_empty() && level == "-O2" && probe.contains("$vars") {
                continue; // perf gives all up for one variable that has no place
            }
            assert_eq!(by_tally(&program, probe), theirs, "{level}: {probe}");
            compared += usize::from(!theirs.is_empty());
        }
        std::fs::remove_dir_all(&folder).expect("our own folder");
        assert!(compared > 15, "{level}: perf defined only {compared}");
    }
}

fn build(folder: &Path, level: &str) -> Option<PathBuf> {
    std::fs::create_dir_all(folder).ok()?;
    std::fs::write(folder.join("t.c"), SOURCE).ok()?;
    let program = folder.join("t");
    let mut compiler = Command::new("gcc");
    let built = compiler.args(["-g", level, "-o", "t", "t.c"]).current_dir(folder).output().ok()?;
    built.status.success().then_some(program)
}

fn by_perf(program: &Path, probe: &str) -> String {
    let output = Command::new("perf").arg("probe").arg("-x").arg(program).args(["-D", probe]).output();
    String::from_utf8_lossy(&output.expect("perf runs").stdout).into_owned()
}

/// Empty when tally refuses.
fn by_tally(program: &Path, probe: &str) -> String {
    let spec = ProbeSpec::parse(probe).expect("a good probe");
    let mut program = Program::open(program).expect("our own program");
    let definitions = program.define(&spec, true).unwrap_or_default();
    definitions.iter().map(|d| format!("{d}\n")).collect()
}

/// Differs from perf, which has no form of a global that uprobes take, and no bit fields of DWARF 5.
#[test]
fn globals_and_bit_fields_have_definitions_that_uprobes_take() {
    let folder = std::env::temp_dir().join(format!("tally-probe-globals-{}", std::process::id()));
    let Some(program) = build(&folder, "-O0") else { return eprintln!("skipped: no working C compiler") };
    let global = by_tally(&program, "add counter");
    assert!(global.contains(" counter=@+0x") && global.trim_end().ends_with(":s64"), "{global}");
    let bits = by_tally(&program, "walk list->bits");
    assert!(bits.trim_end().ends_with("bits=+32(-24(%bp)):b3@8/32"), "{bits}");
    std::fs::remove_dir_all(&folder).expect("our own folder");
}

#[test]
fn a_definition_is_one_line_of_words() {
    let of = |path: &str| Definition {
        is_return: false,
        group: "probe_a".to_owned(),
        event: "main".to_owned(),
        path: PathBuf::from(path),
        offset: 0x10,
        args: Vec::new(),
        place: "main".to_owned(),
    };
    let check = |definition: Definition| check_definition(&definition.path, &definition.to_string());
    assert!(check(of("/usr/bin/größe:1")).is_ok());
    for path in ["/tmp/a:0x1\np:second/main", "/tmp/a b", "/tmp/a#b", "/tmp/a\tb"] {
        let refused = check(of(path)).expect_err(path).to_string();
        assert!(
            refused.contains("contains '")
                && refused.ends_with("without it") | refused.ends_with("to the file"),
            "{refused}"
        );
        assert!(install(&of(path).to_string(), ProbeSpace::User).is_err(), "{path}");
    }
}
