//! Keys in, screen text out.

use super::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

/// `main` calls `parse` 20 times for 60 ms, and `log` once for 40 ms.
fn browser() -> CallBrowser {
    let tree = exchange::import::folded::read(b"main;parse 60000000\nmain;log 40000000\n").tree;
    let ms = |ms: u64| ms * 1_000_000;
    let row = |name: &str, calls: u64, total: u64, own: u64| CallRow {
        name: name.to_owned(),
        calls,
        total_ns: ms(total),
        self_ns: ms(own),
        off_ns: 0,
        average_ns: Some(ms(total) / calls),
        p50_ns: Some(ms(total) / calls),
        p99_ns: Some(ms(total)),
        max_ns: Some(ms(total)),
    };
    let rows = vec![row("log", 1, 40, 40), row("main", 1, 100, 0), row("parse", 20, 60, 60)];
    CallBrowser::new(CallTable { title: "./app   22 calls".to_owned(), rows, tree }, Theme::plain())
}

fn screen(browser: &mut CallBrowser, (width, height): (u16, u16)) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a screen in memory");
    terminal.draw(|frame| browser.draw(frame)).expect("drawing");
    let buffer = terminal.backend().buffer();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..height).map(line).collect()
}

fn press(browser: &mut CallBrowser, keys: &str) {
    for c in keys.chars() {
        let code = match c {
            '\n' => KeyCode::Enter,
            '\x1b' => KeyCode::Esc,
            c => KeyCode::Char(c),
        };
        browser.key(KeyEvent::new(code, KeyModifiers::NONE));
    }
}

fn click(browser: &mut CallBrowser, x: u16, y: u16) {
    let kind = MouseEventKind::Down(MouseButton::Left);
    browser.mouse(MouseEvent { kind, column: x, row: y, modifiers: KeyModifiers::NONE });
}

/// Names in the order of the lines.
fn names(lines: &[String]) -> Vec<&str> {
    let is_row = |line: &&String| ["main", "parse", "log"].iter().any(|name| line.ends_with(name));
    let end = lines.len() - 2;
    lines[..end].iter().filter(is_row).filter_map(|line| line.split_whitespace().last()).collect()
}

#[test]
fn functions_have_their_calls_and_times_and_every_order() {
    let mut browser = browser();
    let lines = screen(&mut browser, (120, 10));
    assert_eq!(names(&lines), ["main", "parse", "log"], "{lines:#?}");
    let row = |name: &str| lines.iter().find(|line| line.ends_with(name)).expect("a row").clone();
    let parse = row("parse");
    let numbers: Vec<&str> = parse.split("  ").map(str::trim).filter(|part| !part.is_empty()).collect();
    let expected = ["60.00 ms", "60.00 ms", "20", "3.000 ms", "3.000 ms", "60.00 ms", "60.00 ms"];
    assert_eq!(numbers[..7], expected, "{parse}");
    assert!(lines[8].contains("100.0 ms (100.0 %) · self 0 ns · 1 call · avg 100.0 ms"), "{}", lines[8]);
    press(&mut browser, "o");
    assert_eq!(names(&screen(&mut browser, (120, 10))), ["parse", "log", "main"]);
    press(&mut browser, "oo");
    assert_eq!(names(&screen(&mut browser, (120, 10))), ["main", "log", "parse"], "by average");
}

#[test]
fn narrow_screens_keep_total_calls_and_names() {
    let lines = screen(&mut browser(), (60, 10));
    assert!(
        lines[2].contains("total") && lines[2].contains("calls") && !lines[2].contains("p50"),
        "{}",
        lines[2]
    );
    assert_eq!(names(&lines), ["main", "parse", "log"]);
    assert_eq!(screen(&mut browser(), (20, 4))[0], "terminal too small");
}

#[test]
fn enter_shows_callers_and_callees_and_escape_leads_back() {
    let mut browser = browser();
    press(&mut browser, "j\n");
    let lines = screen(&mut browser, (100, 12)).join("\n");
    assert!(
        lines.contains("callers") && lines.contains("60.00% with callees, 60.00% self   parse"),
        "{lines}"
    );
    press(&mut browser, "\x1b");
    assert!(!browser.wants_to_quit() && names(&screen(&mut browser, (100, 12))).len() == 3);
    press(&mut browser, "\x1b");
    assert!(browser.wants_to_quit());
}

#[test]
fn a_click_in_the_flame_graph_selects_and_another_one_zooms() {
    let mut browser = browser();
    click(&mut browser, 15, 1);
    let lines = screen(&mut browser, (100, 10));
    assert!(
        lines[3].contains("main") && lines[4].contains("parse") && lines[4].contains("log"),
        "{lines:#?}"
    );
    click(&mut browser, 10, 4);
    let selected = screen(&mut browser, (100, 10));
    assert!(selected[7].contains("40.00%") && selected[7].ends_with("log"), "{selected:#?}");
    click(&mut browser, 10, 4);
    let zoomed = screen(&mut browser, (100, 10)).join("\n");
    assert!(!zoomed.contains("main"), "{zoomed}");
    press(&mut browser, "\x1b");
    assert!(screen(&mut browser, (100, 10)).join("\n").contains("main"));
}

#[test]
fn a_search_keeps_the_functions_that_contain_it() {
    let mut browser = browser();
    press(&mut browser, "/ARS\n");
    assert_eq!(names(&screen(&mut browser, (100, 10))), ["parse"]);
    press(&mut browser, "f");
    let lines = screen(&mut browser, (100, 10)).join("\n");
    assert!(lines.contains("found 60.00 % in 1 place"), "{lines}");
}
