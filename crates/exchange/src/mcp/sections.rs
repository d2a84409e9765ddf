//! Views of several sections, shortened to the first rows of each.

/// Sections of the wall-clock view that an answer has, in this order, by the beginning of their headings, with their
/// numbers of rows. Rows come after a heading and a line of column names.
const WAITS: [(&str, usize); 6] = [
    ("WALL CLOCK", 4),
    ("THREADS", 6),
    ("WAITED FOR", 5),
    ("WAITS        by stack", 6),
    ("FUNCTIONS    their own", 8),
    ("LONGEST WAITS", 3),
];
/// Functions that begin every stack.
const STARTS: [&str; 5] =
    [" < __libc_start_call_main", " < __libc_start_main", " < _start", " < start_thread", " < clone3"];

/// The wall-clock view in few lines: the threads, what was waited for and where, own time of functions, longest waits.
pub fn waits_in_short(text: &str) -> String {
    let sections: Vec<Vec<&str>> = text.split("\n\n").map(|section| section.lines().collect()).collect();
    let found = WAITS.iter().filter_map(|(heading, rows)| {
        let section =
            sections.iter().find(|lines| lines.first().is_some_and(|line| line.starts_with(heading)))?;
        Some(first_rows(section, *rows))
    });
    let text = found.collect::<Vec<_>>().join("\n\n");
    STARTS.iter().fold(text, |text, start| text.replace(start, ""))
}

/// The heading, the column names and the first rows; a line counts the others.
fn first_rows(section: &[&str], rows: usize) -> String {
    // The longest waits have no column names.
    let most = rows + if section.first().is_some_and(|line| line.starts_with("LONGEST")) { 1 } else { 2 };
    let mut lines: Vec<String> = section.iter().take(most).map(|line| (*line).to_owned()).collect();
    if let Some(left @ 1..) = section.len().checked_sub(most) {
        lines.push(format!("    [{left} more]"));
    }
    lines.join("\n")
}
