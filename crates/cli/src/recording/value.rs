//! Numbers with units, as perf's flags take them.

/// Reads "512", "64K", "8M", "1G" (also with a final B) as bytes.
///
/// # Errors
/// What is wrong with the text.
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
        digits.parse().map_err(|_| format!("'{text}' is no size: want a number with B, K, M or G"))?;
    number.checked_mul(1 << shift).ok_or_else(|| format!("'{text}' is too large"))
}

/// Reads `-m`: a number of pages, or a size with a unit; "PAGES,AUX" takes the first. Returns data pages; 0 if only
/// the AUX area is given a size (",32M").
///
/// # Errors
/// What is wrong with the text.
pub fn parse_pages(text: &str) -> Result<usize, String> {
    let (rings, aux) = text.split_once(',').map_or((text, None), |(r, a)| (r, Some(a)));
    if let Some(aux) = aux {
        parse_bytes(aux)?;
        if rings.is_empty() {
            return Ok(0);
        }
    }
    let has_unit = rings.trim().ends_with(|c: char| c.is_ascii_alphabetic());
    let number = parse_bytes(rings)?;
    let page = record::sys::mem::page_bytes() as u64;
    let pages = if has_unit { number.div_ceil(page) } else { number };
    match usize::try_from(pages) {
        Ok(pages @ 1..=0x100_0000) => Ok(pages.next_power_of_two()),
        _ => Err(format!("'{text}' is no size of a ring: want pages, or a size as 4M")),
    }
}

/// Fuzz entry: any text as a size.
pub fn fuzz_values(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let _ = parse_bytes(&text);
    let _ = parse_pages(&text);
    let _ = crate::wall::parse_duration(&text);
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_ring_is_given_in_pages_or_bytes() {
        assert_eq!(parse_pages("100"), Ok(128));
        assert_eq!(parse_pages("1M,512K"), Ok((1 << 20) / record::sys::mem::page_bytes()));
        assert_eq!(parse_pages(",32M"), Ok(0));
        assert!(parse_pages("0").is_err() && parse_pages("1,x").is_err());
    }
}
