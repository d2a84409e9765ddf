//! Names and places of functions in few columns.

use crate::terminal::out::harmless;
use display::fit::cut_name;
use profile::view::hot_functions::HotFunctionRow;

/// Short names, with runs of functions that have none in one step, because their addresses help nobody. A function that calls
/// itself is one step, too.
pub(super) fn in_steps(trunk: &[String]) -> Vec<String> {
    let is_nameless = |name: &String| name.starts_with("function 0x");
    // `[node]` between two functions: code of a runtime, or without names, that leads nowhere else.
    let is_code = |name: &str| name.starts_with('[') && name.ends_with(']');
    let (last, path) = trunk.split_last().map_or((None, trunk), |(last, path)| (Some(last), path));
    let names: Vec<String> =
        path.iter().filter(|name| !is_code(name)).chain(last).map(|name| brief(name)).collect();
    let runs = names.chunk_by(|one, next| one == next || (is_nameless(one) && is_nameless(next)));
    runs.map(|run| match run {
        [one] => one.clone(),
        [first, ..] if is_nameless(first) => format!("{} functions without a symbol", run.len()),
        [first, ..] => format!("{first} (recursive)"),
        [] => String::new(),
    })
    .collect()
}

/// Name and place of a function in at most `room` columns: both, or only the name. A long name takes room from a long
/// place, down to [`PLACE`]'s first number of columns.
pub(super) fn label(row: &HotFunctionRow, room: usize) -> (String, String) {
    /// Columns that a long place has at least, and at most.
    const PLACE: (usize, usize) = (14, 24);
    let name = harmless(&brief(&row.name)).into_owned();
    let columns = name.chars().count();
    let place = place(row);
    let place = cut_name(&harmless(&place), room.saturating_sub(columns + 2).clamp(PLACE.0, PLACE.1));
    match room.checked_sub(place.chars().count() + 2).filter(|&left| left >= columns.min(16)) {
        Some(left) => (cut_name(&name, left), place),
        None => (cut_name(&name, room.saturating_sub(2)), String::new()),
    }
}

/// File and line, or the library. Code without a name has its file as its name.
fn place(row: &HotFunctionRow) -> String {
    if let Some(function) = dso::v8_function(&row.name) {
        return format!("{}:{}", function.file, function.line);
    }
    match row.line() {
        Some(line) => line,
        None if row.name.starts_with('[') => String::new(),
        None if row.dso.starts_with("[JIT] tid") => "[JIT]".to_owned(),
        None => row.dso.clone(),
    }
}

/// A function's name without its parameters and with long template arguments left out.
pub(super) fn brief(name: &str) -> String {
    const LONG: usize = 16;
    if let Some(function) = dso::v8_function(name) {
        return function.label().to_owned();
    }
    let name = dso::without_version(dso::without_parameters(name));
    let (mut text, mut depth, mut inner) = (String::new(), 0usize, String::new());
    for (at, c) in name.char_indices() {
        let is_operator = name[..at].ends_with("operator") || name[..at].ends_with("operator<");
        let is_arrow = c == '>' && name[..at].ends_with(['-', '=']);
        match c {
            '<' if !is_operator && (depth > 0 || at > 0) => {
                depth += 1;
                inner.push(c);
            }
            '>' if depth > 0 && !is_arrow => {
                depth -= 1;
                inner.push(c);
                if depth == 0 {
                    text += if inner.chars().count() > LONG { "<…>" } else { &inner };
                    inner.clear();
                }
            }
            c if depth > 0 => inner.push(c),
            c => text.push(c),
        }
    }
    text + &inner
}
