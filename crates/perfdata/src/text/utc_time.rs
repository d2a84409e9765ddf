//! Dates in UTC.

/// A second as its date and time of day, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UtcTime {
    /// 1970 or later.
    pub year: u64,
    /// From 1.
    pub month: u64,
    /// Day of the month, from 1.
    pub day: u64,
    /// 0 to 23.
    pub hour: u64,
    /// 0 to 59.
    pub minute: u64,
    /// 0 to 59.
    pub second: u64,
}

impl UtcTime {
    /// Date of `seconds` since 1970.
    #[must_use]
    pub fn from_seconds(seconds: u64) -> Self {
        let (days, clock) = (seconds / 86_400, seconds % 86_400);
        // Days are counted from March of the year 0 in cycles of 400 years (146,097 days): leap days end a year then.
        let shifted = days + 719_468;
        let (era, of_era) = (shifted / 146_097, shifted % 146_097);
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = era * 400 + year_of_era + u64::from(month <= 2);
        Self { year, month, day, hour: clock / 3600, minute: clock / 60 % 60, second: clock % 60 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_day_of_four_hundred_years_follows_the_day_before() {
        let is_leap =
            |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let mut expected = (1970, 1, 1);
        for day in 0..146_097 {
            let of = UtcTime::from_seconds(day * 86_400);
            assert_eq!((of.year, of.month, of.day), expected);
            let (year, month, day) = expected;
            let days = match month {
                2 => 28 + u64::from(is_leap(year)),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            expected = match (month, day) {
                (12, 31) => (year + 1, 1, 1),
                (month, day) if day == days => (year, month + 1, 1),
                (month, day) => (year, month, day + 1),
            };
        }
    }
}
