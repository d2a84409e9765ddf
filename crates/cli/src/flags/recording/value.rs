//! Numbers with units, as perf's flags take them.

use std::time::Duration;

use record::opts::{Delay, SwitchOutput};

/// Reads "512", "64K", "8M", "1G" (also with a final B) as bytes.
///
/// # Errors
/// Fault of the text.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text[digits.len()..].to_ascii_uppercase();
    let shift = match unit.trim_end_matches('B') {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return Err(format!("unknown unit '{unit}': want B, K, M or G")),
    };
    let number: u64 =
        digits.parse().map_err(|_| format!("'{text}' is not a size: want a number with B, K, M or G"))?;
    number.checked_mul(1 << shift).ok_or_else(|| format!("'{text}' is too large"))
}

/// The sizes of `-m RINGS,AREAS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RingSizes {
    /// Data pages of each ring.
    pub pages: Option<usize>,
    /// Pages of each AUX area, where processors write their traces.
    pub area_pages: Option<usize>,
}

/// Reads `-m`: sizes of rings, of AUX areas after a comma, or of both; each a number of pages, or with a unit.
///
/// # Errors
/// Fault of the text.
pub fn parse_ring_sizes(text: &str) -> Result<RingSizes, String> {
    let (rings, areas) = text.split_once(',').map_or((text, None), |(rings, areas)| (rings, Some(areas)));
    let pages = if rings.is_empty() && areas.is_some() { None } else { Some(parse_pages(rings)?) };
    Ok(RingSizes { pages, area_pages: areas.map(parse_pages).transpose()? })
}

/// Pages, rounded up to a power of two.
fn parse_pages(rings: &str) -> Result<usize, String> {
    let has_unit = rings.trim().ends_with(|c: char| c.is_ascii_alphabetic());
    let number = parse_bytes(rings)?;
    let page = record::sys::mem::page_bytes() as u64;
    let pages = if has_unit { number.div_ceil(page) } else { number };
    match usize::try_from(pages) {
        Ok(pages @ 1..=0x100_0000) => Ok(pages.next_power_of_two()),
        _ => Err(format!("'{rings}' is not a ring size: want pages, or a size as 4M")),
    }
}

/// Reads seconds, also parts of one; at most some 30 years, with which clocks can be reckoned.
///
/// # Errors
/// Fault of the text.
pub fn parse_seconds(text: &str) -> Result<f64, String> {
    const MOST: f64 = 1e9;
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=MOST).contains(&seconds) => Ok(seconds),
        _ => Err(format!("'{text}': want seconds, from 0 to 1000000000")),
    }
}

/// Reads `-D`: milliseconds, 0 for none, -1 for never.
///
/// # Errors
/// Fault of the text.
pub fn parse_delay(text: &str) -> Result<Delay, String> {
    match text.parse::<i64>() {
        Ok(0) => Ok(Delay::None),
        Ok(-1) => Ok(Delay::Off),
        Ok(ms @ 1..) => Ok(Delay::After(Duration::from_millis(ms.unsigned_abs()))),
        _ => Err("want milliseconds, or -1 for never".to_owned()),
    }
}

/// Reads `--switch-output`: `signal`, a size (`10M`: a unit of B, K, M, G) or a time (`30s`: of s, m, h, d).
///
/// # Errors
/// Fault of the text.
pub fn parse_switch_output(text: &str) -> Result<SwitchOutput, String> {
    let wrong = || format!("'{text}': want signal, a size as 10M, or a time as 30s (s, m, h, d)");
    let (digits, unit) = text.split_at(text.len() - text.chars().last().map_or(0, char::len_utf8));
    let seconds = match unit {
        _ if text == "signal" => return Ok(SwitchOutput::default()),
        "B" | "K" | "M" | "G" => {
            let size_bytes = parse_bytes(text).ok().filter(|&bytes| bytes > 0).ok_or_else(wrong)?;
            return Ok(SwitchOutput { size_bytes: Some(size_bytes), ..SwitchOutput::default() });
        }
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    let count: u32 = digits.parse().ok().filter(|&count| count > 0).ok_or_else(wrong)?;
    let every = Duration::from_secs(u64::from(count) * seconds);
    Ok(SwitchOutput { every: Some(every), ..SwitchOutput::default() })
}

/// Fuzz entry: any text as a size.
pub fn fuzz_values(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let _ = parse_bytes(&text);
    let _ = parse_ring_sizes(&text);
    let _ = parse_delay(&text);
    let _ = parse_seconds(&text).map(Duration::from_secs_f64);
    let _ = parse_switch_output(&text);
    let _ = crate::reading::wall::parse_duration(&text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_those_that_clocks_can_add() {
        assert_eq!([parse_seconds("0.5"), parse_seconds("1000000000")], [Ok(0.5), Ok(1e9)]);
        for wrong in ["-1", "1e300", "inf", "NaN", "18446744073709551615", "two"] {
            assert!(parse_seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_bytes("64K"), Ok(65_536));
        assert_eq!(parse_bytes("3MB"), Ok(3 << 20));
        assert_eq!(parse_bytes("7"), Ok(7));
        assert!(
            parse_bytes("x").is_err()
                && parse_bytes("5T").is_err()
                && parse_bytes("99999999999999999999").is_err()
        );
    }

    #[test]
    fn files_are_switched_by_signal_size_or_time() {
        let size = |bytes| Ok(SwitchOutput { size_bytes: Some(bytes), ..SwitchOutput::default() });
        let every = |s| Ok(SwitchOutput { every: Some(Duration::from_secs(s)), ..SwitchOutput::default() });
        assert_eq!(parse_switch_output("signal"), Ok(SwitchOutput::default()));
        assert_eq!(parse_switch_output("2M"), size(2 << 20));
        assert_eq!(parse_switch_output("2m"), every(120));
        assert_eq!(parse_switch_output("30s"), every(30));
        for wrong in ["", "30", "0s", "0M", "x", "é", "-1s"] {
            assert!(parse_switch_output(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_delay("-1"), Ok(Delay::Off));
        assert!(parse_delay("-2").is_err() && parse_delay("1.5").is_err());
    }

    #[test]
    fn a_ring_is_given_in_pages_or_bytes() {
        let page = record::sys::mem::page_bytes();
        let sizes = |pages, area_pages| Ok(RingSizes { pages, area_pages });
        assert_eq!(parse_ring_sizes("100"), sizes(Some(128), None));
        assert_eq!(parse_ring_sizes("1M,512K"), sizes(Some((1 << 20) / page), Some((512 << 10) / page)));
        assert_eq!(parse_ring_sizes(",32M"), sizes(None, Some((32 << 20) / page)));
        assert!(["0", "1,x", "", ",", "1,"].iter().all(|text| parse_ring_sizes(text).is_err()));
    }
}
