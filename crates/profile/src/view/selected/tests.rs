//! Selections of a small page.

use super::*;
use crate::view::flame::{FrameKind, Unit};
use crate::view::page::{PageThread, Waker};

/// Stacks, root first; those in capitals are the kernel's.
const STACKS: [&str; 4] = [
    "main;parse",
    "main;serve;wait;SYSCALL;__x64_sys_futex;SLEEP",
    "main;log;wait;SYSCALL;__x64_sys_futex;SLEEP",
    "main;serve;serve",
];

/// Two threads of 100 ticks of 1 µs: the first runs 40 µs and waits for a lock at 10 to 30 and at 50 to 70, the second
/// runs 5 µs and is idle for the rest.
fn page() -> PageData {
    let mut tree = Tree::new(Unit::Nanoseconds);
    let mut nodes = Vec::new();
    for stack in STACKS {
        let kernel = |name: &str| name.starts_with("__x64") || name.chars().all(|c| c.is_uppercase());
        let kind = |name: &str| if kernel(name) { FrameKind::Kernel } else { FrameKind::Program };
        let path: Vec<_> = stack.split(';').map(|name| tree.intern(name, kind(name))).collect();
        nodes.push(path.into_iter().fold(Tree::ROOT, |node, name| tree.child(node, name)));
    }
    let mut data = PageData::of_tree(tree, "wall clock");
    data.states = ["on CPU", "futex", "idle"].map(str::to_owned).to_vec();
    let thread = |tid: i32| PageThread {
        pid: 1,
        tid,
        comm: format!("t{tid}"),
        title: None,
        life: (0, 100),
        is_idle: tid == 2,
        strip: Vec::new(),
    };
    (data.threads, data.ticks) = (vec![thread(1), thread(2)], 100);
    data.wakers = vec![Waker { name: "t2".to_owned(), node: Tree::ROOT }];
    let item = |thread, node, state, since, length, amount| PageItem {
        thread,
        node,
        state,
        since,
        length,
        longest: length,
        amount,
        count: 1,
        waker: u32::from(state == 1),
    };
    data.sets[0].is_wall = true;
    data.sets[0].items = vec![
        item(0, nodes[0], 0, None, 0, 40_000),
        item(0, nodes[1], 1, Some(10), 20, 20_000),
        item(0, nodes[2], 1, Some(50), 20, 40_000),
        item(1, nodes[3], 0, Some(5), 0, 5_000),
        item(1, Tree::ROOT, 2, Some(6), 94, 94_000),
    ];
    data
}

fn of(selection: &Selection) -> (u64, Vec<u64>, Vec<u64>) {
    let data = page();
    let selected = Selected::of(&data, &data.sets[0], selection);
    (selected.total, selected.states, selected.threads)
}

fn states(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

#[test]
fn everything_is_selected_but_idle_time() {
    assert_eq!(of(&Selection::default()), (105_000, vec![45_000, 60_000, 94_000], vec![100_000, 5_000]));
    assert_eq!(of(&Selection { with_idle: true, ..Selection::default() }).0, 199_000);
}

#[test]
fn states_keep_their_sums_when_one_is_selected_and_threads_theirs() {
    let futex = Selection { states: states(&["futex"]), ..Selection::default() };
    assert_eq!(of(&futex), (60_000, vec![45_000, 60_000, 94_000], vec![60_000, 0]));
    let second = Selection { threads: vec![1], ..Selection::default() };
    assert_eq!(of(&second), (5_000, vec![5_000, 0, 94_000], vec![100_000, 5_000]));
}

#[test]
fn a_span_has_its_part_of_each_amount() {
    // A fifth of the sum over the life; half of the first wait; the second one's rest is spread over 30 to 50.
    let span = |from, to| Selection { span: Some((from, to)), ..Selection::default() };
    assert_eq!(of(&span(20, 40)).1, [8_000, 10_000 + 10_000, 20_000]);
    assert_eq!(of(&span(0, 100)).1, of(&Selection::default()).1);
    let parts: u64 = (0..10).map(|at| of(&span(at * 10, at * 10 + 10)).0).sum();
    assert_eq!(parts, of(&Selection::default()).0);
}

#[test]
fn a_focus_keeps_the_stacks_with_that_function() {
    let focus = Selection { focus: "serve".to_owned(), ..Selection::default() };
    assert_eq!(of(&focus), (25_000, vec![5_000, 20_000, 0], vec![20_000, 5_000]));
}

#[test]
fn functions_count_recursion_once_and_waits_for_the_caller_of_the_kernel() {
    let data = page();
    let selected = Selected::of(&data, &data.sets[0], &Selection::default());
    let rows = selected.functions();
    let row = |name: &str| {
        let row = rows.iter().find(|row| data.tree.name(row.name) == name).expect("the function has a row");
        (row.own, row.total, row.states.clone())
    };
    assert_eq!(row("serve"), (5_000, 25_000, vec![5_000, 20_000, 0]));
    assert_eq!(row("wait"), (60_000, 60_000, vec![0, 60_000, 0]));
    assert_eq!((row("SLEEP").0, row("main").1), (0, 105_000));
}

#[test]
fn waits_with_the_same_innermost_function_are_named_by_the_callers_in_which_they_differ() {
    let data = page();
    let waits = Selected::of(&data, &data.sets[0], &Selection::default()).waits();
    let idle = waits.iter().find(|wait| wait.state == 2);
    assert_eq!(idle, None);
    let rows: Vec<_> = waits
        .iter()
        .map(|wait| (wait.label.as_str(), wait.distinct.as_str(), wait.total, wait.max_ns))
        .collect();
    assert_eq!(
        rows,
        [("wait < log < main", "log", 40_000, 20_000), ("wait < serve < main", "serve", 20_000, 20_000)]
    );
    assert_eq!(waits[0].wakers, [("t2".to_owned(), 40_000)]);
}

#[test]
fn deep_places_are_named_by_where_they_differ() {
    let mut data = page();
    for last in ["insert", "update"] {
        let path = ["main", last, "a", "b", "c", "d", "poll"];
        let node = path.iter().fold(Tree::ROOT, |node, name| {
            let name = data.tree.intern(name, FrameKind::Program);
            data.tree.child(node, name)
        });
        let item = PageItem { node, ..data.sets[0].items[1] };
        data.sets[0].items.push(item);
    }
    let waits = Selected::of(&data, &data.sets[0], &Selection::default()).waits();
    let labels: Vec<&str> = waits.iter().map(|wait| wait.label.as_str()).collect();
    assert!(
        labels.contains(&"poll < … < a < insert") && labels.contains(&"poll < … < a < update"),
        "{labels:?}"
    );
}

#[test]
fn trees_have_states_and_one_frame_for_the_kernel() {
    let data = page();
    let selected = Selected::of(&data, &data.sets[0], &Selection::default());
    let paths = |order, fold| {
        let tree = selected.tree(order, fold);
        let path = |leaf| {
            let names: Vec<&str> = tree.path(leaf).into_iter().map(|name| tree.name(name)).collect();
            format!("{} {}", names.join(";"), tree.node(leaf).own)
        };
        tree.leaves().map(path).collect::<Vec<_>>()
    };
    let by_state = paths(StackOrder::StateFirst, true);
    assert!(by_state.contains(&"[futex];main;serve;wait;futex 20000".to_owned()), "{by_state:?}");
    assert!(by_state.contains(&"[on CPU];main;parse 40000".to_owned()), "{by_state:?}");
    let by_caller = paths(StackOrder::Caller, false);
    assert!(by_caller.contains(&"main;parse 40000".to_owned()), "{by_caller:?}");
    assert!(by_caller.iter().any(|path| path.ends_with("SLEEP;[futex] 40000")), "{by_caller:?}");
    let inverted = paths(StackOrder::Inverted, true);
    assert!(inverted.contains(&"[futex];futex;wait;log;main 40000".to_owned()), "{inverted:?}");
}

#[test]
fn a_finding_selects_the_states_it_is_about() {
    let data = page();
    assert_eq!(proof(&data, "lock-contention").states, ["futex"]);
    assert_eq!(
        proof(&data, "idle"),
        Selection { states: states(&["idle"]), with_idle: true, ..Selection::default() }
    );
    assert_eq!(proof(&data, "unheard-of"), Selection::default());
}

#[test]
fn the_way_into_the_kernel_is_no_work_of_it() {
    let fold = |stack: &'static str| {
        let kind = |name: &str| if name == "main" { FrameKind::Program } else { FrameKind::Kernel };
        let frames = stacks::folded(stack.split(';').map(|name| (name, kind(name))));
        frames.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";")
    };
    assert_eq!(
        fold("main;entry_SYSCALL_64_after_hwframe;do_syscall_64;__x64_sys_futex;futex_wait"),
        "main;futex"
    );
    assert_eq!(fold("main;entry_SYSCALL_64_after_hwframe;do_syscall_64;ksys_write;vfs_write"), "main;write");
    assert_eq!(
        fold("main;entry_SYSCALL_64_after_hwframe;do_syscall_64"),
        "main;entry_SYSCALL_64_after_hwframe"
    );
}
