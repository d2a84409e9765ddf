//! Names of functions made to fit a frame, and the columns that text takes.

/// As much of `name` as `room` columns hold; `None` if that is less than three. Template arguments are left out first,
/// then the middle: the last part tells names of one template apart.
#[must_use]
pub fn shorten(name: &str, room: usize) -> Option<String> {
    if columns(name) <= room {
        return Some(name.to_owned());
    }
    if room < 3 {
        return None;
    }
    let plain = without_arguments(name);
    if columns(&plain) <= room {
        return Some(plain);
    }
    let mut tail = None;
    for at in tails(&plain) {
        let text = format!("…{}", &plain[at..]);
        if columns(&text) <= room {
            return Some(text);
        }
        tail = Some(text);
    }
    Some(both_ends(&tail.unwrap_or(plain), room))
}

/// Indices from which a name goes on when its begin is left out, the longest rest first: `::find` of a path of C++ or Rust;
/// of Go's `github.com/a/b/cache.(*Map).Get` the package, the type and the function.
fn tails(name: &str) -> Vec<usize> {
    if let Some(at) = name.rfind("::") {
        return Some(at).filter(|at| *at > 0).into_iter().collect();
    }
    // Not the place after a name, nor the name of an operator or of a file alone.
    let Some(package) = name.rfind('/').filter(|at| *at > 0 && !name.contains(' ')) else {
        return Vec::new();
    };
    let parts = name[package..].match_indices('.').map(|(at, _)| package + at + 1);
    let parts = parts.filter(|at| !name[*at..].starts_with('…') && !name[..*at - 1].ends_with('…'));
    std::iter::once(package).chain(parts).collect()
}

/// A stack `wait < caller` as screens show it: `wait ← caller`.
#[must_use]
pub fn arrows(stack: &str) -> String {
    stack.replace(" < ", " ← ")
}

/// As much of a stack `wait < … < caller` as `room` columns hold: its end tells it from others with the same wait.
#[must_use]
pub fn shorten_stack(stack: &str, room: usize) -> String {
    /// Columns that are enough to know what the wait is.
    const WAIT: usize = 14;
    if columns(stack) <= room {
        return arrows(stack);
    }
    let parts: Vec<&str> = stack.split(" < ").collect();
    let (first, last) = (parts[0], parts[parts.len() - 1]);
    let wait = shorten(first, WAIT).unwrap_or_default();
    for from in (1..parts.len()).filter(|&from| parts[from] != "…") {
        let rest = parts[from..].join(" ← ");
        let texts = [first, &wait].map(|wait| format!("{wait} ← … ← {rest}"));
        if let Some(text) = texts.into_iter().find(|text| columns(text) <= room) {
            return text;
        }
    }
    shorten(last, room).unwrap_or_default()
}

/// Columns of a text in a font of equal widths: East Asian characters and emoji take two.
#[must_use]
pub fn columns(text: &str) -> usize {
    text.chars().map(|letter| if is_wide(letter) { 2 } else { 1 }).sum()
}

/// Layout: the blocks of wide and full-width characters, without single ones between narrow ones.
/// Source: Unicode Standard Annex 11, EastAsianWidth.txt.
fn is_wide(letter: char) -> bool {
    matches!(u32::from(letter),
        0x1100..=0x115f | 0x2e80..=0x303e | 0x3041..=0x4dbf | 0x4e00..=0xa4cf | 0xa960..=0xa97c | 0xac00..=0xd7a3
        | 0xf900..=0xfaff | 0xfe30..=0xfe6f | 0xff01..=0xff60 | 0xffe0..=0xffe6 | 0x1_f300..=0x1_f64f
        | 0x1_f680..=0x1_f6ff | 0x1_f900..=0x1_f9ff | 0x2_0000..=0x3_fffd)
}

/// Both ends of a text that has more than `room` columns.
fn both_ends(text: &str, room: usize) -> String {
    let keep = room - 1;
    let head = taken(text.chars(), keep.div_ceil(2));
    let mut tail = taken(text.chars().rev(), keep / 2);
    tail.reverse();
    head.into_iter().chain(['…']).chain(tail).collect()
}

/// The first letters that fit in `room` columns.
fn taken(letters: impl Iterator<Item = char>, room: usize) -> Vec<char> {
    let mut left = room;
    let fits = |letter: &char| {
        let width = if is_wide(*letter) { 2 } else { 1 };
        let fits = width <= left;
        left = left.saturating_sub(width);
        fits
    };
    letters.take_while(fits).collect()
}

/// `std::map<…>::find` for a name with template arguments; the name itself if its brackets don't match.
fn without_arguments(name: &str) -> String {
    let (mut depth, mut text, mut before) = (0usize, String::new(), ' ');
    for (at, letter) in name.char_indices() {
        match letter {
            // Not the arrows and shifts of operators, and not Python's `f.<locals>.g`.
            '<' if at > 0 && !['<', '.'].contains(&before) && !name[..at].ends_with("operator") => {
                if depth == 0 {
                    text += "<…";
                }
                depth += 1;
            }
            '>' if depth > 0 && before != '-' => {
                depth -= 1;
                if depth == 0 {
                    text.push('>');
                }
            }
            letter if depth == 0 => text.push(letter),
            _ => {}
        }
        before = letter;
    }
    if depth == 0 { text } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shortened_where_they_are_least_told_apart() {
        let name = "std::map<int, std::vector<char>>::find";
        let of = |room| shorten(name, room).unwrap_or_default();
        assert_eq!([of(60), of(20), of(10), of(2)], [name, "std::map<…>::find", "…::find", ""]);
        assert_eq!(of(5), "…:…nd");
        assert_eq!(without_arguments("operator<<"), "operator<<");
        assert_eq!(without_arguments("a<b"), "a<b");
        assert_eq!(without_arguments("f.<locals>.g"), "f.<locals>.g");
    }

    #[test]
    fn of_names_of_go_the_package_the_type_or_the_function_is_left() {
        let name = "github.com/acme/shop/internal/cache.(*Map).GetOrCreate";
        let of = |room| shorten(name, room).unwrap_or_default();
        assert_eq!(of(30), "…/cache.(*Map).GetOrCreate");
        assert_eq!([of(20), of(15), of(8)], ["…(*Map).GetOrCreate", "…GetOrCreate", "…Get…ate"]);
        assert_eq!(shorten("handler (/srv/app/main.py)", 12).as_deref(), Some("handle…n.py)"));
    }

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!([columns("main"), columns("関数"), columns("a🙂")], [4, 4, 3]);
        assert_eq!(shorten("計算する関数", 7).as_deref(), Some("計…数"));
    }

    #[test]
    fn a_stack_keeps_its_end() {
        let stack = "__futex_abstimed_wait_common64 < … < take_gil < py_evp_fromname < hashing (p.py)";
        let of = |room| shorten_stack(stack, room);
        assert_eq!(of(100), arrows(stack));
        let of_69 = of(69);
        assert!(of_69.ends_with(" ← py_evp_fromname ← hashing (p.py)") && columns(&of_69) <= 69, "{of_69}");
        assert!(of(40).ends_with("… ← hashing (p.py)") && columns(&of(40)) <= 40, "{}", of(40));
        assert_eq!(of(12), shorten("hashing (p.py)", 12).unwrap_or_default());
        assert_eq!(shorten_stack("a_function_alone", 8), shorten("a_function_alone", 8).unwrap_or_default());
    }
}
