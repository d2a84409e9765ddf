//! Keys in, screen text out.

use super::{App, Data, ReadState, Theme, ViewUpdate};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseEvent, MouseEventKind};
use dso::Missing;
use profile::profile::{CellKey, EventInfo, ExtraDimensions, Profile, Sums, Task};
use profile::source::{DsoSource, NamedFrame, Want};
use profile::table::{Dso, DsoKind, Frame, FrameId};
use profile::view::call_sites::{CallTime, annotate_calls};
use profile::view::report::{GraphOpts, GraphOrder, ReportOpts};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use std::sync::Arc;
use symbols::{ObjectFiles, Recording};

/// Names of the frames at 0, 16, 32 and 48.
struct Names([&'static str; 4]);

impl DsoSource for Names {
    fn symbolize(&self, _: &Dso, addrs: &[u64], _: Want) -> Vec<Result<Vec<NamedFrame>, Missing>> {
        let names = self.0;
        let frame = |&addr: &u64| {
            let name = names[(addr / 16) as usize % names.len()].to_owned();
            Ok(vec![NamedFrame { name, start: addr / 16 * 16, size: 16, ..NamedFrame::default() }])
        };
        addrs.iter().map(frame).collect()
    }
}

/// `app`: main → work → leaf 60, main → work 20, main → evil 15; in a second event main 5.
fn recording() -> Recording {
    recording_of(["main", "work", "leaf", "\x1b[2Jevil"])
}

/// The same with other names.
fn recording_of(names: [&'static str; 4]) -> Recording {
    let mut profile = Profile::default();
    for name in ["cycles", "faults"] {
        profile.events.push(EventInfo { name: name.to_owned(), has_callchain: true, ..EventInfo::default() });
    }
    profile.intern_extra(ExtraDimensions::default());
    let comm = profile.strings.intern("app");
    let task = profile.push_task(Task { pid: 1, tid: 1, process: 0, comm });
    let dso = profile.dsos.intern(Dso {
        kind: DsoKind::File,
        path: "/bin/app".to_owned(),
        short_name: "app".to_owned(),
        build_id: None,
        level: '.',
        start_avma: 0,
    });
    let mut frame = |addr| profile.frames.intern(Frame { dso, addr, lookup: addr, first_avma: addr });
    let [main, work, leaf, evil]: [FrameId; 4] = [0, 16, 32, 48].map(&mut frame);
    let stacks = [
        (0, vec![leaf, work, main], 60),
        (0, vec![work, main], 20),
        (0, vec![evil, main], 15),
        (1, vec![main], 5),
    ];
    for (event, frames, period) in stacks {
        let callsite = profile.callsites.intern_leaf_first(&frames).expect("not empty");
        let extra = profile.intern_extra(ExtraDimensions::default());
        let key = CellKey { event, task, cpu: -1, callsite, extra };
        profile.add(key, Sums { count: period / 5, period, weight: 0, ..Sums::default() });
    }
    profile.symbolize(&Names(names), Want::Names);
    Recording {
        profile,
        files: ObjectFiles::new(dso::DebugSearch::default()).into(),
        features: perfdata::Features::default(),
        diagnostics: perfdata::FileDiagnostics::default(),
    }
}

/// The screen after `keys` at this size, blanks at line ends taken away.
fn screen(keys: &[KeyCode], (width, height): (u16, u16)) -> String {
    let mut app = app_of(recording());
    let mut text = drawn(&mut app, (width, height));
    for &key in keys {
        app.key(KeyEvent::new(key, KeyModifiers::NONE));
        text = drawn(&mut app, (width, height));
    }
    if app.wants_to_quit() { "quit".to_owned() } else { text }
}

fn app_of(recording: Recording) -> App {
    let graph = GraphOpts { order: GraphOrder::Caller, ..GraphOpts::default() };
    let opts = ReportOpts { children: true, graph: Some(graph), ..ReportOpts::default() };
    App::new(Data::new(recording.into(), opts), Theme::plain())
}

/// The screen now, blanks at line ends taken away.
fn drawn(app: &mut App, (width, height): (u16, u16)) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a screen in memory");
    terminal.draw(|frame| app.draw(frame)).expect("drawing");
    let buffer = terminal.backend().buffer();
    let lines = (0..height).map(|y| {
        let line: String = (0..width).map(|x| buffer[(x, y)].symbol()).collect();
        line.trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn chars(text: &str) -> Vec<KeyCode> {
    text.chars().map(|c| if c == '\n' { KeyCode::Enter } else { KeyCode::Char(c) }).collect()
}

const SIZE: (u16, u16) = (80, 14);

#[test]
fn the_table_opens_a_call_graph() {
    // The main row; then down to its node `work`, and that opened as well.
    let text = screen(&chars("ljjl"), SIZE);
    let expected = "\
19 samples of cycles (1 of 2 events, Tab)
 ▼Children     Self         Command  Shared Object  Symbol
-  100.00%    0.00% ██████  app      app            [.] main
        - 100.00% main
          - 84.21% work
              63.16% leaf
            15.79% \\x1b[2Jevil
+   84.21%   21.05% █████   app      app            [.] work
+   63.16%   63.16% ███▊    app      app            [.] leaf
+   15.79%   15.79% █       app      app            [.] \\x1b[2Jevil



?:help →:open /:find a:annotate s:callers f:flame t,d,z:zoom o:order q:quit";
    assert_eq!(text, expected, "{text}");
}

#[test]
fn the_search_leaves_matching_rows_only_and_escape_takes_it_back() {
    let mut keys = chars("/leaf\n");
    let found = screen(&keys, SIZE);
    assert!(found.contains("[.] leaf") && !found.contains("[.] main"), "{found}");
    keys.push(KeyCode::Esc);
    assert!(screen(&keys, SIZE).contains("[.] main"));
    keys.push(KeyCode::Esc);
    assert_eq!(screen(&keys, SIZE), "quit");
}

#[test]
fn callers_and_callees_are_around_the_function() {
    let text = screen(&[KeyCode::Down, KeyCode::Char('s')], SIZE);
    let (callers, callees) =
        text.split_once("84.21% with callees, 21.05% self   work").expect("the function");
    assert!(callers.contains("▾ main") && callers.contains("84.21%"), "{text}");
    assert!(callees.contains("63.16%  ██████     leaf"), "{text}");
}

#[test]
fn a_function_that_no_sample_ends_in_has_its_samples_at_its_calls() {
    let profile = recording().profile;
    let (main, _) =
        profile.symbols.iter().find(|(_, of)| profile.strings.of(of.name) == "main").expect("main");
    let (function, time) = annotate_calls(&profile, main).expect("it is in stacks");
    let periods: Vec<_> = function.addresses.iter().map(|at| (at.addr, at.sums[0].period)).collect();
    assert_eq!((time, periods), (CallTime::Sampled, vec![(0, 95)]));
}

#[test]
fn the_flame_graph_tells_the_frame_under_the_cursor() {
    let text = screen(&[KeyCode::Char('f'), KeyCode::Down, KeyCode::Down, KeyCode::Down], SIZE);
    assert!(text.contains("│all") && text.contains("│main"), "{text}");
    assert!(text.contains("84.21%  16 samples  work"), "{text}");
}

#[test]
fn a_search_in_the_flame_graph_has_its_share() {
    let text = screen(&chars("f/work\n"), SIZE);
    assert!(text.lines().next().is_some_and(|head| head.contains("found 84.21 % in 1 place")), "{text}");
}

#[test]
fn the_wheel_scrolls_the_flame_graph_and_leaves_the_cursor() {
    let (mut app, low) = (app_of(recording()), (80, 6));
    app.key(KeyEvent::new(KeyCode::Char('f'), KeyModifiers::NONE));
    let above = drawn(&mut app, low);
    assert!(above.contains("│all") && !above.contains("│leaf"), "{above}");
    let turn = |app: &mut App, kind| {
        app.mouse(MouseEvent { kind, column: 0, row: 2, modifiers: KeyModifiers::NONE });
        drawn(app, low)
    };
    for _ in 0..2 {
        let below = turn(&mut app, MouseEventKind::ScrollDown);
        assert!(below.contains("│leaf") && !below.contains("│all"), "{below}");
        assert!(below.contains("100.00%  19 samples  all"), "the cursor is where it was: {below}");
    }
    assert_eq!(turn(&mut app, MouseEventKind::ScrollUp), above);
    turn(&mut app, MouseEventKind::ScrollDown);
    app.key(KeyEvent::new(KeyCode::Home, KeyModifiers::NONE));
    assert_eq!(drawn(&mut app, low), above, "a key brings the cursor into view");
}

#[test]
fn start_up_code_is_left_out_of_the_flame_graph_until_asked_for() {
    let mut app = app_of(recording_of(["_start", "work", "leaf", "evil"]));
    app.key(KeyEvent::new(KeyCode::Char('f'), KeyModifiers::NONE));
    let mut turn = |key| {
        let text = drawn(&mut app, SIZE);
        app.key(KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE));
        text
    };
    let folded = turn('F');
    assert!(folded.contains("│work") && !folded.contains("_start"), "{folded}");
    assert!(turn('F').contains("│_start"));
    assert_eq!(turn('F'), folded);
}

#[test]
fn the_next_event_has_its_own_rows() {
    let text = screen(&[KeyCode::Tab], SIZE);
    assert!(text.starts_with("1 sample of faults (2 of 2 events, Tab)"), "{text}");
    assert!(!text.contains("leaf"), "{text}");
}

#[test]
fn zooming_into_a_function_can_be_taken_back() {
    let zoomed = screen(&chars("jjz"), SIZE);
    assert!(zoomed.lines().next().is_some_and(|head| head.contains(" › ")), "{zoomed}");
    let mut keys = chars("jjz");
    keys.push(KeyCode::Esc);
    assert!(!screen(&keys, SIZE).contains(" › "));
}

#[test]
fn names_with_escape_sequences_are_harmless() {
    let text = screen(&[], SIZE);
    assert!(text.contains("\\x1b[2Jevil") && !text.contains('\x1b'), "{text}");
}

#[test]
fn every_size_can_be_drawn() {
    for size in [(1, 1), (29, 5), (30, 6), (40, 8), (200, 60)] {
        for keys in ["", "l", "f", "fjjj\n", "s", "?", "/x", "e", "a"] {
            let _ = screen(&chars(keys), size);
        }
    }
    assert!(screen(&[], (20, 3)).starts_with("terminal too sm"));
}

#[test]
fn why_a_function_cannot_be_annotated_is_told() {
    let text = screen(&chars("a"), SIZE);
    assert!(text.contains("can't annotate: /bin/app: file not found"), "{text}");
}

#[test]
fn what_is_open_and_the_cursor_stay_when_more_of_the_file_comes() {
    let graph = GraphOpts { order: GraphOrder::Caller, ..GraphOpts::default() };
    let opts = ReportOpts { children: true, graph: Some(graph), ..ReportOpts::default() };
    let mut app = App::fed(Data::new(Arc::default(), opts), Theme::plain(), ReadState::Reading(0.0));
    let mut terminal = Terminal::new(TestBackend::new(80, 14)).expect("a screen in memory");
    let mut picture = |app: &mut App| {
        terminal.draw(|frame| app.draw(frame)).expect("drawing");
        let buffer = terminal.backend().buffer();
        let cells = (0..14).flat_map(|y| (0..80).map(move |x| (x, y)));
        cells.map(|at| buffer[at].symbol().to_owned()).collect::<String>()
    };
    assert!(picture(&mut app).starts_with("[reading 0%] no samples"));
    app.take(ViewUpdate::Recording(Arc::new(recording()))).expect("no failure");
    app.take(ViewUpdate::Progress(40.0)).expect("no failure");
    chars("ljjl").into_iter().for_each(|key| app.key(KeyEvent::new(key, KeyModifiers::NONE)));
    let before = picture(&mut app);
    assert!(before.starts_with("[reading 40%] 19 samples") && before.contains("63.16% leaf"), "{before}");
    app.take(ViewUpdate::Recording(Arc::new(recording()))).expect("no failure");
    assert_eq!(picture(&mut app), before);
    app.key(KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE));
    assert!(picture(&mut app).starts_with("[only the first 40%]") && !app.wants_to_quit());
    assert!(app.stop().load(std::sync::atomic::Ordering::Relaxed));
    assert!(app.take(ViewUpdate::Failed("lost".into())).is_err());
}
