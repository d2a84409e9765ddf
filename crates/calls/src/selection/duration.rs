//! Durations on the command line.

use crate::Error;

/// A duration such as `10us`, `1.5ms`, `2s`, `300`; in ns.
///
/// # Errors
/// If it is none.
pub fn duration_ns_of(text: &str) -> Result<u64, Error> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit.trim() {
        "" | "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        other => return Err(Error::new(format!("'{other}' is not a unit of time; use ns, us, ms or s"))),
    };
    let number: f64 =
        number.parse().map_err(|_| Error::new(format!("'{text}' is not a duration; try 10us")))?;
    Ok((number * factor) as u64)
}

#[cfg(test)]
mod tests {
    use super::duration_ns_of;

    #[test]
    fn durations_have_units() {
        assert_eq!(duration_ns_of("10us").ok(), Some(10_000));
        assert_eq!(duration_ns_of("1.5ms").ok(), Some(1_500_000));
        assert_eq!(duration_ns_of("7").ok(), Some(7));
        assert!(duration_ns_of("3 weeks").unwrap_err().to_string().contains("unit of time"));
        assert!(duration_ns_of("fast").is_err());
    }
}
