//! Properties of the terminal: its width, its characters, and whether it wants colours.

use crate::palette::StateClass;
use std::io::IsTerminal;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// When to colour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Colour {
    /// On a terminal, unless NO_COLOR is set or TERM is `dumb`.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// When to colour, set once at the start. 0 auto, 1 always, 2 never.
static COLOUR: AtomicU8 = AtomicU8::new(0);

/// Sets when to colour, for the whole program.
pub fn set_colour(colour: Colour) {
    COLOUR.store(colour as u8, Ordering::Relaxed);
}

/// Standard output is a pager's input.
static PAGED: AtomicBool = AtomicBool::new(false);

/// Notes that a pager shows standard output on the terminal.
pub fn set_paged() {
    PAGED.store(true, Ordering::Relaxed);
}

/// True if standard output shall be coloured.
pub fn colours_stdout() -> bool {
    wants_colour(std::io::stdout().is_terminal() || PAGED.load(Ordering::Relaxed))
}

/// True if the locale's characters are those of ASCII: LC_ALL, LC_CTYPE or LANG, the first that is set, names a locale
/// without UTF-8. Where none is set nothing is known of the terminal, and nearly all know UTF-8.
pub fn is_ascii() -> bool {
    static ASCII: OnceLock<bool> = OnceLock::new();
    *ASCII.get_or_init(|| {
        let value = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let locale = value("LC_ALL").or_else(|| value("LC_CTYPE")).or_else(|| value("LANG"));
        locale.is_some_and(|locale| !is_utf8(&locale))
    })
}

fn is_utf8(locale: &str) -> bool {
    let locale = locale.to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// Replacement for one of our own characters where there is only ASCII; `None` for all others.
pub fn in_ascii(c: char) -> Option<&'static str> {
    Some(match c {
        '…' => "...",
        '→' => "->",
        '←' => "<-",
        '≥' => ">=",
        '·' => ".",
        'µ' => "u",
        '×' => "x",
        '↑' | '▴' => "^",
        '↓' | '▾' => "v",
        '▁' => "1",
        '▂' => "2",
        '▃' => "3",
        '▄' => "4",
        '▅' => "5",
        '▆' => "6",
        '▇' => "7",
        '█' | '▓' | '▉' | '▊' | '▋' | '▌' => "#",
        '▍' | '▎' | '▏' => " ",
        '▒' => "=",
        '░' | '─' | '━' | '–' | '—' => "-",
        '│' | '┃' => "|",
        '┌' | '┐' | '└' | '┘' | '├' | '┤' | '┼' | '┬' | '┴' | '╭' | '╰' | '╮' | '╯' => {
            "+"
        }
        _ => return None,
    })
}

/// True if standard error shall be coloured.
pub fn colours_stderr() -> bool {
    wants_colour(std::io::stderr().is_terminal())
}

fn wants_colour(terminal: bool) -> bool {
    match COLOUR.load(Ordering::Relaxed) {
        1 => true,
        2 => false,
        _ => {
            let set = |name: &str| std::env::var_os(name).is_some_and(|v| !v.is_empty());
            terminal && !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|t| t != "dumb")
        }
    }
}

/// Columns that lines with names may take on standard output: COLUMNS if set, a terminal's, else without limit, so that
/// files and pipes get whole names.
pub fn names_width() -> usize {
    if std::io::stdout().is_terminal() || asked_width().is_some() { width() } else { usize::MAX }
}

fn asked_width() -> Option<usize> {
    std::env::var("COLUMNS").ok().and_then(|v| v.parse().ok())
}

/// Columns of the terminal: COLUMNS if set, else the terminal's, else 80.
pub fn width() -> usize {
    let asked = asked_width();
    let size = || terminal_size().map(|size| usize::from(size.columns));
    asked.or_else(size).filter(|&columns| columns > 0).unwrap_or(80)
}

/// Lines of the terminal: LINES if set, else the terminal's, else 24.
pub fn height() -> usize {
    let asked = std::env::var("LINES").ok().and_then(|v| v.parse().ok());
    let size = || terminal_size().map(|size| usize::from(size.rows));
    asked.or_else(size).filter(|&lines| lines > 0).unwrap_or(24)
}

/// `None` without a terminal. `crossterm::terminal::size` would then start the program `tput`, which takes
/// milliseconds and knows no more.
fn terminal_size() -> Option<crossterm::terminal::WindowSize> {
    crossterm::terminal::window_size().ok()
}

/// How text is painted: a colour of the small set that reads well on dark and light grounds, or a state's of the
/// palette.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Paint {
    /// Headings.
    Bold,
    /// Style of less important text.
    Dim,
    /// Hot: most of the time is here.
    Red,
    /// Warm.
    Yellow,
    /// Good, or small.
    Green,
    /// Names of files and commands to type.
    Cyan,
    /// A bar or word about a state, in its colour.
    State(StateClass),
    /// A state's letter on its colour.
    Block(StateClass),
    /// A piece of a bar: the share of the first state before the second.
    Mixed(StateClass, StateClass),
}

/// `text` in `paint` if `on`.
pub fn paint(text: &str, paint: Paint, on: bool) -> String {
    if !on {
        return text.to_owned();
    }
    let code = match paint {
        Paint::Bold => "1".to_owned(),
        Paint::Dim => "2".to_owned(),
        Paint::Red => "31".to_owned(),
        Paint::Yellow => "33".to_owned(),
        Paint::Green => "32".to_owned(),
        Paint::Cyan => "36".to_owned(),
        Paint::State(class) => format!("38;5;{}", class.indexed()),
        Paint::Block(class) => format!("38;5;{};48;5;{}", class.indexed_ink(), class.indexed()),
        Paint::Mixed(front, back) => format!("38;5;{};48;5;{}", front.indexed(), back.indexed()),
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locale_without_utf_8_is_ascii() {
        assert!(is_utf8("C.UTF-8") && is_utf8("en_US.utf8"));
        assert!(!is_utf8("C") && !is_utf8("POSIX") && !is_utf8("de_DE.ISO-8859-1"));
    }

    #[test]
    fn our_own_characters_have_a_spelling_in_ascii() {
        let text = "12.3 µs … → █▏│ größe";
        let ascii: String =
            text.chars().map(|c| in_ascii(c).map_or_else(|| c.to_string(), str::to_owned)).collect();
        assert_eq!(ascii, "12.3 us ... -> # | größe");
    }
}
