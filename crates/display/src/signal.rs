//! How the end of a program by a signal is written.

/// Meaning of a signal's number, in parentheses; nothing for one that programs seldom end by.
#[must_use]
pub fn signal_name(number: i32) -> &'static str {
    match number {
        2 => " (interrupt)",
        4 => " (illegal instruction)",
        6 => " (abort)",
        7 => " (bus error)",
        8 => " (arithmetic error)",
        9 => " (kill)",
        11 => " (segmentation fault)",
        13 => " (broken pipe)",
        15 => " (terminate)",
        _ => "",
    }
}

/// Advice after an end by a signal that a program gets at a place with a defect; empty for others.
#[must_use]
pub fn signal_remedy(number: i32) -> &'static str {
    match number {
        4 | 6 | 7 | 8 | 11 => "see where: gdb -batch -ex run -ex bt --args COMMAND",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_has_a_place_and_a_stop_by_someone_has_none() {
        assert!(signal_remedy(11).contains("gdb") && signal_remedy(6).contains("gdb"));
        assert_eq!((signal_remedy(9), signal_remedy(15), signal_remedy(2)), ("", "", ""));
    }
}
