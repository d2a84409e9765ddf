//! Functions and trunks of small profiles.

use super::*;
use crate::profile::{CellKey, EventInfo, ExtraDimensions, Sums, Task};
use crate::source::{DsoSource, NamedFrame, Want};
use crate::table::{Dso, DsoKind, Frame};

/// Names an address by its index in a list; `0x30` is a function without a symbol.
struct Names(Vec<&'static str>);

impl DsoSource for Names {
    fn symbolize(&self, _: &Dso, addrs: &[u64], _: Want) -> Vec<Result<Vec<NamedFrame>, dso::Missing>> {
        let named = |&addr: &u64| {
            let known = self.0[usize::try_from(addr).expect("small")];
            let name = if known.starts_with("0x") { format!("function {known}") } else { known.to_owned() };
            Ok(vec![NamedFrame { name, ..NamedFrame::default() }])
        };
        addrs.iter().map(named).collect()
    }
}

/// Paths of names, outermost first, with a period each. Names with a star are the kernel's, with a plus a library's.
fn profile(paths: &[(&'static str, u64)]) -> Profile {
    let mut profile = Profile::default();
    profile.events.push(EventInfo::default());
    let comm = profile.strings.intern("app");
    let task = profile.intern_task(Task { pid: 1, tid: 1, process: 0, comm });
    let extra = profile.intern_extra(ExtraDimensions::default());
    let mut names: Vec<&'static str> = Vec::new();
    for &(path, period) in paths {
        let mut frames = Vec::new();
        for name in path.split(' ').rev() {
            let at = names
                .iter()
                .position(|known| *known == name.trim_end_matches(['*', '+']))
                .unwrap_or(names.len());
            if at == names.len() {
                names.push(name.trim_end_matches(['*', '+']));
            }
            let (kind, path) = match name.chars().last() {
                Some('*') => (DsoKind::Kernel, "[kernel.kallsyms]"),
                Some('+') => (DsoKind::File, "/usr/lib/libc.so.6"),
                _ => (DsoKind::File, "app"),
            };
            let (path, short_name) = (path.to_owned(), file_name(path).to_owned());
            let dso = Dso { kind, path, short_name, build_id: None, level: '.', start_avma: 0 };
            let dso = profile.dsos.intern(dso);
            let addr = at as u64;
            frames.push(profile.frames.intern(Frame { dso, addr, lookup: addr, first_avma: addr }));
        }
        let callsite = profile.callsites.intern_leaf_first(&frames).expect("frames");
        let key = CellKey { event: 0, task, cpu: -1, callsite, extra };
        profile.add(key, Sums { count: period, period, weight: 0, ..Sums::default() });
    }
    profile.symbolize(&Names(names), Want::Lines);
    profile
}

#[test]
fn callers_of_all_samples_are_left_out_and_others_follow_the_hot_ones() {
    let profile = profile(&[
        ("_start main run parse lex", 30),
        ("_start main run parse parse lex", 20),
        ("_start main run print", 40),
        ("_start main run parse do_syscall_64* ksys_read* vfs_read*", 10),
    ]);
    let hot = hot_functions(&profile, 0, 6);
    let rows: Vec<(&str, f64, f64)> =
        hot.functions.iter().map(|row| (row.name.as_str(), row.own, row.total)).collect();
    let expected = [("lex", 0.5, 0.5), ("print", 0.4, 0.4), ("read", 0.1, 0.1), ("parse", 0.0, 0.6)];
    assert_eq!(rows, expected);
    assert_eq!((hot.samples, hot.trunk.join(" ")), (100, "run parse lex".to_owned()));
}

#[test]
fn a_path_through_a_stripped_program_names_each_function_but_start_and_main() {
    let path = "0x10 __libc_start_main@@GLIBC_2.34 __libc_start_call_main 0x20 0x30 0x40 step";
    let profile = profile(&[(path, 10)]);
    assert_eq!(hot_functions(&profile, 0, 6).trunk, ["function 0x30", "function 0x40", "step"]);
}

#[test]
fn a_profile_without_samples_has_no_functions() {
    let hot = hot_functions(&profile(&[]), 0, 6);
    assert_eq!(hot, HotFunctions::default());
}

#[test]
fn a_function_that_calls_nearly_all_others_is_not_where_the_time_goes() {
    let below = |outside: u64| {
        let paths = [
            ("main compile parse", 40),
            ("main compile fold", 40),
            ("main compile emit", 20),
            ("exec", outside),
        ];
        let (_, below) = crate::verdict::HotFunction::of(&profile(&paths));
        below.map(|below| below.name)
    };
    assert_eq!((below(2), below(20).as_deref()), (None, Some("compile")));
}

/// The caller by which a reader knows the hottest function of these paths.
fn caller(paths: &[(&'static str, u64)]) -> Option<String> {
    let (hottest, _) = crate::verdict::HotFunction::of(&profile(paths));
    hottest.expect("samples").named_caller.map(|caller| caller.name)
}

#[test]
fn a_hottest_function_without_a_symbol_has_the_nearest_caller_that_has_one() {
    let digest = "_start 0x20 md5_final 0x10 0x30";
    assert_eq!(caller(&[(digest, 60), ("_start 0x20 md5_update 0x30", 30)]).as_deref(), Some("md5_final"));
    assert_eq!(caller(&[(digest, 40), ("_start 0x20 md5_update 0x30", 60)]).as_deref(), Some("md5_update"));
    // Half of it below each: neither is the one.
    assert_eq!(caller(&[(digest, 50), ("_start 0x20 md5_update 0x30", 50)]), None);
    assert_eq!(caller(&[("_start main parse", 50)]), None);
}

#[test]
fn a_hottest_function_of_a_library_has_the_programs_function_that_calls_it() {
    let clear = "_start main clear calloc+ memset+";
    assert_eq!(caller(&[(clear, 60), ("_start main fill memset+", 30)]).as_deref(), Some("clear"));
    assert_eq!(caller(&[(clear, 50), ("_start main fill memset+", 50)]), None, "half of it below each");
    assert_eq!(caller(&[("memset+", 50)]), None, "without a stack there is no caller");
}

#[test]
fn rows_that_read_zero_in_the_first_column_are_in_the_order_of_the_second() {
    let row = |name: &str, own, total| HotFunctionRow {
        name: name.to_owned(),
        own,
        total,
        is_caller: own < 0.001,
        ..HotFunctionRow::default()
    };
    let functions = vec![row("leaf", 0.3, 0.3), row("pass", 0.000_2, 0.48), row("unit", 0.000_1, 0.52)];
    let hot = HotFunctions { functions, ..HotFunctions::default() };

    let names: Vec<&str> = hot.best(6).iter().map(|row| row.name.as_str()).collect();

    assert_eq!(names, ["leaf", "unit", "pass"]);
}

#[test]
fn functions_that_are_there_for_what_they_call_come_last() {
    let row = |name: &str, own, total, is_caller| HotFunctionRow {
        name: name.to_owned(),
        own,
        total,
        is_caller,
        ..HotFunctionRow::default()
    };
    let functions = vec![
        row("put", 0.09, 0.9, true),
        row("spin", 0.22, 0.32, false),
        row("work", 0.01, 0.95, true),
        row("format", 0.03, 0.03, false),
    ];
    let hot = HotFunctions { functions, ..HotFunctions::default() };

    let names: Vec<&str> = hot.best(4).iter().map(|row| row.name.as_str()).collect();

    assert_eq!(names, ["spin", "format", "put", "work"]);
}

#[test]
fn the_function_in_which_the_hot_path_ends_has_a_row_even_among_few() {
    let paths = [
        ("main run seek a", 9),
        ("main run seek b", 9),
        ("main run seek c", 9),
        ("main run seek d", 9),
        ("main run seek e", 9),
        ("main run seek f", 9),
        ("main run seek find g", 9),
        ("main run check h", 37),
    ];
    let hot = hot_functions(&profile(&paths), 0, MOST_FUNCTIONS);
    assert_eq!(hot.trunk, ["run", "seek"]);
    let names: Vec<&str> = hot.best(4).iter().map(|row| row.name.as_str()).collect();
    assert!(names.contains(&"seek"), "{names:?}");
    // Nor is it left out where others have more time of their own.
    let paths = [
        ("main run seek a", 14),
        ("main run seek", 13),
        ("main run seek b", 12),
        ("main run seek c", 11),
        ("main run check h", 50),
    ];
    let hot = hot_functions(&profile(&paths), 0, MOST_FUNCTIONS);
    let names: Vec<&str> = hot.best(3).iter().map(|row| row.name.as_str()).collect();
    assert!(hot.trunk.last().is_some_and(|end| names.contains(&end.as_str())), "{names:?} {:?}", hot.trunk);
    // A single function is no path: the screen doesn't show it.
    let alone = hot_functions(&profile(&[("_start main", 10)]), 0, MOST_FUNCTIONS);
    assert!(alone.functions.iter().all(|row| !row.ends_trunk));
}
