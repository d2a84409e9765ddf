//! Keys in, screen text out.

use super::*;
use crate::Theme;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use profile::view::page::{PageItem, PageThread};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

/// A thread that runs 60 ms in parse and waits 40 ms for a lock in log.
fn explorer() -> Explorer {
    let tree = exchange::import::folded::read(b"main;parse 1\nmain;log;wait 1\n").tree;
    let nodes: Vec<_> = tree.leaves().collect();
    let mut page = PageData::of_tree(tree, "wall clock");
    page.states = vec!["on CPU".to_owned(), "futex".to_owned()];
    page.ticks = 100_000;
    let (comm, strip) = ("app".to_owned(), Vec::new());
    page.threads =
        vec![PageThread { pid: 1, tid: 7, comm, title: None, life: (0, 100_000), is_idle: false, strip }];
    page.sets[0].is_wall = true;
    let item = |node, state, since, length, amount| PageItem {
        thread: 0,
        node,
        state,
        since,
        length,
        longest: length,
        amount,
        count: 1,
        waker: 0,
    };
    let running = item(nodes[0], 0, None, 0, 60_000_000);
    page.sets[0].items = vec![running, item(nodes[1], 1, Some(10), 40_000, 40_000_000)];
    let text = |text: &str| text.to_owned();
    let finding = ExplorerFinding {
        name: text("lock-contention"),
        claim: text("Lock contention: 40 % in log()"),
        fix: text("split it"),
        evidence: text("1.  Lock contention: 40 % in log()\n    next: tally why"),
        ..ExplorerFinding::default()
    };
    let recording = Recording {
        profile: Profile::default(),
        files: symbols::ObjectFiles::new(dso::DebugSearch::default()).into(),
        features: perfdata::Features::default(),
        diagnostics: perfdata::FileDiagnostics::default(),
    };
    let text = ExplorerText { title: "./app   1 busy thread".to_owned(), findings: vec![finding] };
    Explorer::new(Arc::new(recording), page, text)
}

fn screen(explorer: &mut Explorer, (width, height): (u16, u16)) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a screen in memory");
    terminal
        .draw(|frame| {
            let area = frame.area();
            explorer.draw(frame.buffer_mut(), area, Theme::plain());
        })
        .expect("drawing");
    let buffer = terminal.backend().buffer();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..height).map(line).collect::<Vec<_>>().join("\n")
}

/// The screen after keys, and what the last one asked for.
fn after(keys: &[KeyCode]) -> (String, ExplorerStep) {
    let mut explorer = explorer();
    let mut step = ExplorerStep::Stay;
    let mut text = screen(&mut explorer, (100, 24));
    for &key in keys {
        step = explorer.key(KeyEvent::new(key, KeyModifiers::NONE));
        text = screen(&mut explorer, (100, 24));
    }
    (text, step)
}

#[test]
fn the_overview_has_waits_on_small_screens() {
    for (size, findings) in [((80, 24), 8), ((40, 12), 3)] {
        let mut explorer = explorer();
        explorer.text.findings = vec![explorer.text.findings[0].clone(); findings];
        let text = screen(&mut explorer, size);
        for part in ["Lock contention", "# on CPU 60.0 %", "WAITS", "40.00 ms  40.0%"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}

#[test]
fn the_overview_has_findings_states_and_waits() {
    let (text, _) = after(&[]);
    for part in [
        "Lock contention: 40 % in log()",
        "→ split it",
        "# on CPU 60.0 %   L futex 40.0 %",
        "THREADS",
        "40.00 ms  40.0%         1  40.00 ms  40.00 ms  L futex  wait ← log ← main",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(text.lines().any(|bar| bar.contains("##LL")), "{text}");
}

#[test]
fn enter_on_a_finding_selects_its_states_for_all_tabs_and_esc_takes_that_back() {
    let (text, _) = after(&[KeyCode::Enter, KeyCode::Char('2')]);
    assert!(text.lines().nth(1).is_some_and(|tabs| tabs.ends_with("futex")), "{text}");
    assert!(text.contains("wait") && !text.contains("parse"), "{text}");
    let (text, step) = after(&[KeyCode::Enter, KeyCode::Esc, KeyCode::Char('2')]);
    assert!(text.contains("parse") && step == ExplorerStep::Stay, "{text}");
    assert_eq!(after(&[KeyCode::Esc]).1, ExplorerStep::Quit);
}

#[test]
fn functions_can_be_searched_selected_and_asked_for() {
    let keys = |text: &str| text.chars().map(KeyCode::Char).collect::<Vec<_>>();
    let mut search = keys("2/pars");
    search.push(KeyCode::Enter);
    let (text, _) = after(&search);
    assert!(text.contains("60.00 ms   60.00 ms  60.0%  ##########        parse"), "{text}");
    assert!(!text.contains("wait"), "{text}");
    search.push(KeyCode::Enter);
    assert!(after(&search).0.contains("in parse"));
    search.push(KeyCode::Char('a'));
    assert_eq!(after(&search).1, ExplorerStep::Annotate("parse".to_owned()));
    assert_eq!(after(&keys("6")).1, ExplorerStep::Events);
}

#[test]
fn functions_are_ordered_by_own_time_until_asked_otherwise() {
    let names = |keys: &str| {
        let (text, _) = after(&keys.chars().map(KeyCode::Char).collect::<Vec<_>>());
        let rows = text.lines().skip(3).filter(|line| line.contains('%')).map(str::to_owned);
        rows.map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
    };
    assert!(names("2")[0].starts_with("60.00 ms"), "{:?}", names("2"));
    assert!(names("2o")[0].starts_with("0 ns"), "{:?}", names("2o"));
}

#[test]
fn the_flame_graph_has_states_first_and_the_share_that_is_found() {
    let keys: Vec<KeyCode> = "3/log".chars().map(KeyCode::Char).collect();
    let (text, _) = after(&keys);
    assert!(text.contains("│[on CPU]") && text.contains("│[futex]"), "{text}");
    assert!(text.contains("found 40.00 % in 1 place"), "{text}");
}

#[test]
fn blame_asks_for_waits_where_there_are_none_and_any_key_leaves_it() {
    let (text, _) = after(&[KeyCode::Char('b')]);
    assert!(text.contains("no waits were recorded: tally record --off-cpu"), "{text}");
    let (text, _) = after(&[KeyCode::Char('b'), KeyCode::Char('x')]);
    assert!(text.contains("THREADS"), "{text}");
}

#[test]
fn every_size_and_tab_can_be_drawn() {
    for size in [(30, 6), (40, 8), (60, 20), (200, 60)] {
        let mut explorer = explorer();
        for key in "12345wqbq?x3o3oF5vl".chars() {
            explorer.key(KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE));
            let _ = screen(&mut explorer, size);
        }
    }
}
