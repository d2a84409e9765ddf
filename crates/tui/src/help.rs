//! The keys.

use super::Theme;
use display::palette::StateClass;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

const KEYS: &[(&str, &str)] = &[
    ("", "Everywhere"),
    ("?", "this help; any key leaves it"),
    ("q  Esc", "back; leaves the program from the first view"),
    ("/", "find: rows or frames whose name contains the text"),
    ("Tab", "next event (Shift-Tab: the one before)"),
    ("", "Table"),
    ("↑ ↓ j k", "move; also PgUp PgDn Home End"),
    ("→ + Space", "open the call graph; ← - close it"),
    ("e E", "open all below the row; of all rows (c C: close)"),
    ("a Enter", "annotate the function"),
    ("s", "callers and callees of the function"),
    ("f", "flame graph"),
    ("t d z", "only this thread name; file; function (Esc: back)"),
    ("o v", "order by own time or with callees; other columns"),
    ("p", "tally top: hold what is shown, go on"),
    ("", "Callers and callees"),
    ("↑ ↓ Enter", "move; go to that function"),
    ("→ ←", "open a branch; close it"),
    ("", "Annotated function"),
    ("h o", "hottest line, then the next; source on or off"),
    ("Enter", "follow the jump (Backspace: back)"),
    ("", "Flame graph"),
    ("↑ ↓ ← →", "caller; hottest callee; neighbours (the wheel scrolls)"),
    ("Enter F", "zoom in (Backspace or u: out); kernel and start-up folded or in full"),
    ("n N", "next frame that is found; the one before"),
];

const EXPLORER_KEYS: &[(&str, &str)] = &[
    ("", "Everywhere"),
    ("1-6 Tab", "tabs: overview, functions, flame graph, waits, timeline, events"),
    ("↑ ↓ j k", "move; also PgUp PgDn Home End, the wheel"),
    ("Enter click", "select what is under the cursor: all tabs show only that"),
    ("Esc", "back: the selection before; leaves the program from the overview"),
    ("S", "select one state after the other, then all"),
    ("i", "idle time: counted, left out"),
    ("/", "find: lines or frames whose name contains the text"),
    ("w", "evidence of the finding"),
    ("b", "blame: what the waits of the main or selected thread were for"),
    ("s a", "callers and callees of the function (→ ←: branches); its code"),
    ("e q", "events as a table; leave"),
    ("", "Functions"),
    ("o", "order by own time, or by time with callees"),
    ("", "Flame graph"),
    ("o F", "state first, by caller, inverted; kernel and start-up folded or in full"),
    ("n N", "largest frame that is found, then the next; the one before"),
    ("Enter u", "zoom in; out (the wheel scrolls)"),
    ("", "Timeline"),
    ("← → v", "move in time; v and Enter select from there to here"),
    ("", "States"),
];

const CALL_KEYS: &[(&str, &str)] = &[
    ("", "Everywhere"),
    ("1 2 Tab", "functions; flame graph (f, too)"),
    ("↑ ↓ j k", "move; also PgUp PgDn Home End, the wheel"),
    ("s", "callers and callees of the function"),
    ("/", "find: functions whose name contains the text"),
    ("Esc q", "back; leave"),
    ("", "Functions: exact numbers, of every call"),
    ("Enter click", "callers and callees (a click on the row under the cursor)"),
    ("o", "order by total, self, calls, average, p99, longest"),
    ("", "Callers and callees"),
    ("→ ← Enter", "open a branch; close it; go to that function"),
    ("", "Flame graph: widths are time"),
    ("↑ ↓ ← →", "caller; largest callee; neighbours"),
    ("Enter u", "zoom in (a second click, too); out"),
    ("n N", "largest frame that is found, then the next; the one before"),
];

/// The keys of traced calls.
pub fn call_lines() -> Vec<String> {
    CALL_KEYS.iter().map(|(key, text)| key_line(key, text)).collect()
}

/// A line of help; without a key, a heading.
fn key_line(key: &str, text: &str) -> String {
    if key.is_empty() { text.to_owned() } else { format!("  {key:<13}{text}") }
}

/// The keys of a wall-clock recording, and the letters of states.
pub fn explorer_lines() -> Vec<String> {
    let states = StateClass::ALL.iter().map(|class| format!("  {:<13}{}", class.letter(), class.word()));
    EXPLORER_KEYS.iter().map(|(key, text)| key_line(key, text)).chain(states).collect()
}

/// Draws the help over `area`; `scroll` lines are above.
pub fn draw(buffer: &mut Buffer, area: Rect, theme: Theme, scroll: usize) {
    for (y, (key, text)) in (area.y..area.bottom()).zip(KEYS.iter().skip(scroll)) {
        if key.is_empty() {
            buffer.set_stringn(area.x, y, text, usize::from(area.width), theme.heading());
        } else {
            let line = format!("  {key:<12}{text}");
            buffer.set_stringn(area.x, y, line, usize::from(area.width), Style::new());
        }
    }
}

/// Lines of help.
pub fn len() -> usize {
    KEYS.len()
}
