//! Dates as C's `ctime` writes them, in UTC.

/// `Sun Nov 22 00:03:26 2026` of seconds since 1970.
pub fn utc(seconds: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let weekday = DAYS[(seconds / 86_400 % 7) as usize];
    let (year, month, day) = day_of(seconds);
    format!("{weekday} {} {day:>2} {} {year}", MONTHS[month], time_of_day(seconds))
}

/// `2026-11-22 00:03:26` of seconds since 1970.
pub fn iso_utc(seconds: u64) -> String {
    let (year, month, day) = day_of(seconds);
    format!("{year}-{:02}-{day:02} {}", month + 1, time_of_day(seconds))
}

fn time_of_day(seconds: u64) -> String {
    format!("{:02}:{:02}:{:02}", seconds % 86_400 / 3600, seconds / 60 % 60, seconds % 60)
}

/// Year, month from 0, day from 1.
fn day_of(seconds: u64) -> (u64, usize, u64) {
    let (mut year, mut day) = (1970, seconds / 86_400);
    while day >= days_of(year) {
        day -= days_of(year);
        year += 1;
    }
    let mut month = 0;
    while day >= days_of_month(year, month) {
        day -= days_of_month(year, month);
        month += 1;
    }
    (year, month, day + 1)
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_of(year: u64) -> u64 {
    if is_leap(year) { 366 } else { 365 }
}

fn days_of_month(year: u64, month: usize) -> u64 {
    match month {
        1 if is_leap(year) => 29,
        1 => 28,
        3 | 5 | 8 | 10 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments_have_their_dates() {
        assert_eq!(utc(0), "Thu Jan  1 00:00:00 1970");
        assert_eq!(utc(951_782_400), "Tue Feb 29 00:00:00 2000");
        assert_eq!(utc(1_795_305_806), "Sun Nov 22 00:03:26 2026");
        assert_eq!(iso_utc(1_795_305_806), "2026-11-22 00:03:26");
    }
}
