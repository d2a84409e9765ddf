//! Numbers as people read them.

/// `1234567` as `1,234,567`.
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count with its noun: `1 thread`, `1,234 threads`.
pub fn count_of(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(count), noun(count, one, many))
}

/// The noun for a count.
pub fn noun<'a>(count: u64, one: &'a str, many: &'a str) -> &'a str {
    if count == 1 { one } else { many }
}

/// Nanoseconds with three or four significant digits: `1.234 s`, `12.34 ms`, `123.4 µs`, `12 ns`.
pub fn duration_ns(ns: u64) -> String {
    const UNITS: [(&str, f64); 4] = [("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0)];
    if ns < 1000 {
        return format!("{ns} ns");
    }
    let (unit, size) = UNITS.into_iter().find(|&(_, size)| ns as f64 >= size * 0.9995).unwrap_or(("ns", 1.0));
    significant(ns as f64 / size, unit)
}

/// Nanoseconds in at most seven characters, three significant digits: `12.3µs`, `1.25ms`, `800ns`.
pub fn brief_ns(ns: u64) -> String {
    const UNITS: [(&str, f64); 3] = [("s", 1e9), ("ms", 1e6), ("µs", 1e3)];
    let Some((unit, size)) = UNITS.into_iter().find(|&(_, size)| ns as f64 >= size * 0.9995) else {
        return format!("{ns}ns");
    };
    match ns as f64 / size {
        value if value < 9.995 => format!("{value:.2}{unit}"),
        value if value < 99.95 => format!("{value:.1}{unit}"),
        value => format!("{value:.0}{unit}"),
    }
}

/// ns as seconds with six digits, the rest cut off: `1352.841173`.
pub fn seconds(ns: u64) -> String {
    format!("{}.{:06}", ns / 1_000_000_000, ns / 1000 % 1_000_000)
}

/// Bytes in powers of 1024 without digits after the point: `512`, `64K`, `1M`.
pub fn size_1024(bytes: u64) -> String {
    const UNITS: [(&str, u32); 3] = [("G", 30), ("M", 20), ("K", 10)];
    let unit = UNITS.into_iter().find(|(_, shift)| bytes >= 1 << shift);
    unit.map_or_else(|| bytes.to_string(), |(unit, shift)| format!("{}{unit}", bytes >> shift))
}

/// Bytes with three or four significant digits: `1.234 MB` (powers of 1000).
pub fn bytes(count: u64) -> String {
    const UNITS: [(&str, f64); 4] = [("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("bytes", 1.0)];
    if count < 1000 {
        return format!("{count} bytes");
    }
    let (unit, size) = UNITS.into_iter().find(|&(_, size)| count as f64 >= size).unwrap_or(("bytes", 1.0));
    significant(count as f64 / size, unit)
}

/// Bytes in two or three digits: `1.6 MB`.
pub fn brief_bytes(count: u64) -> String {
    const UNITS: [(&str, f64); 3] = [("GB", 1e9), ("MB", 1e6), ("kB", 1e3)];
    match UNITS.into_iter().find(|&(_, size)| count as f64 >= size * 0.9995) {
        Some((unit, size)) if (count as f64) < 9.95 * size => format!("{:.1} {unit}", count as f64 / size),
        Some((unit, size)) => format!("{:.0} {unit}", count as f64 / size),
        None => format!("{count} bytes"),
    }
}

fn significant(value: f64, unit: &str) -> String {
    match value {
        v if v < 9.9995 => format!("{value:.3} {unit}"),
        v if v < 99.995 => format!("{value:.2} {unit}"),
        v if v < 999.95 => format!("{value:.1} {unit}"),
        _ => format!("{} {unit}", grouped(value.round() as u64)),
    }
}

/// So many per second: `2.5`, `3,450`, `1.2 M`; `-` for none.
pub fn rate(per_second: f64) -> String {
    match per_second {
        0.0 => "-".to_owned(),
        rate if rate < 9.95 => format!("{rate:.1}"),
        rate if rate < 999_999.5 => grouped(rate.round() as u64),
        rate => format!("{:.1} M", rate / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brief_bytes_have_two_or_three_digits() {
        let texts = [999, 1000, 9_949, 9_960, 1_234_567, 999_600_000, 12_300_000_000].map(brief_bytes);
        assert_eq!(texts, ["999 bytes", "1.0 kB", "9.9 kB", "10 kB", "1.2 MB", "1.0 GB", "12 GB"]);
    }

    #[test]
    fn rates_have_few_digits() {
        let texts = [0.0, 2.5, 9.96, 1234.4, 2.5e6].map(rate);
        assert_eq!(texts, ["-", "2.5", "10", "1,234", "2.5 M"]);
    }

    #[test]
    fn digits_are_grouped_by_three() {
        assert_eq!(
            [grouped(0), grouped(999), grouped(1000), grouped(1234567)],
            ["0", "999", "1,000", "1,234,567"]
        );
    }

    #[test]
    fn one_is_not_many() {
        assert_eq!(count_of(1, "thread", "threads"), "1 thread");
        assert_eq!([count_of(0, "x", "xs"), count_of(1200, "x", "xs")], ["0 xs", "1,200 xs"]);
    }

    #[test]
    fn durations_keep_their_digits() {
        let shown: Vec<_> = [7, 1500, 12_345_678, 999_999_999, 61_000_000_000].map(duration_ns).into();
        assert_eq!(shown, ["7 ns", "1.500 µs", "12.35 ms", "1.000 s", "61.00 s"]);
        assert_eq!(bytes(12_345), "12.35 kB");
        let brief: Vec<_> = [7, 999, 999_600, 12_345_678, 61_000_000_000].map(brief_ns).into();
        assert_eq!(brief, ["7ns", "999ns", "1.00ms", "12.3ms", "61.0s"]);
        assert_eq!([0, 512, 4096, 1 << 20].map(size_1024), ["0", "512", "4K", "1M"]);
    }
}
