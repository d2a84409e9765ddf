//! Dates as text, in UTC.

use perfdata::text::UtcTime;

/// `Sun Nov 22 00:03:26 2026` of seconds since 1970, as C's `ctime` writes it.
pub fn utc(seconds: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let weekday = DAYS[(seconds / 86_400 % 7) as usize];
    let UtcTime { year, month, day, hour, minute, second } = UtcTime::from_seconds(seconds);
    let month = MONTHS[(month - 1) as usize];
    format!("{weekday} {month} {day:>2} {hour:02}:{minute:02}:{second:02} {year}")
}

/// `2026-11-22 00:03:26` of seconds since 1970.
pub fn iso_utc(seconds: u64) -> String {
    let second = seconds % 60;
    format!("{}:{second:02}", iso_utc_minute(seconds))
}

/// `2026-11-22 00:03` of seconds since 1970.
pub fn iso_utc_minute(seconds: u64) -> String {
    let UtcTime { year, month, day, hour, minute, .. } = UtcTime::from_seconds(seconds);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}")
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
