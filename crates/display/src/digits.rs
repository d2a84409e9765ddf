//! Numbers into text without the formatting machinery: lines are written by the million.

/// Appends `value` in decimal, right-aligned in `width` columns.
pub fn decimal(out: &mut String, value: u64, width: usize) {
    padded::<10>(out, value, width, ' ');
}

/// Appends a signed `value` in decimal, right-aligned in `width` columns.
pub fn signed(out: &mut String, value: i32, width: usize) {
    if value >= 0 {
        return decimal(out, u64::from(value.unsigned_abs()), width);
    }
    right(out, &value.to_string(), width);
}

/// Appends `value` in decimal with leading zeros, at least `width` digits.
pub fn zeros(out: &mut String, value: u64, width: usize) {
    padded::<10>(out, value, width, '0');
}

/// Appends `value` in hexadecimal, right-aligned in `width` columns.
pub fn hexadecimal(out: &mut String, value: u64, width: usize) {
    padded::<16>(out, value, width, ' ');
}

/// Appends `text`, right-aligned in `width` columns.
pub fn right(out: &mut String, text: &str, width: usize) {
    // Columns are counted in characters; names are almost always ASCII.
    let len = if text.is_ascii() { text.len() } else { text.chars().count() };
    (len..width).for_each(|_| out.push(' '));
    out.push_str(text);
}

fn padded<const BASE: u64>(out: &mut String, mut value: u64, width: usize, pad: char) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b"0123456789abcdef"[(value % BASE) as usize];
        value /= BASE;
        if value == 0 {
            break;
        }
    }
    (digits.len() - at..width).for_each(|_| out.push(pad));
    out.push_str(std::str::from_utf8(&digits[at..]).expect("invariant: digits are ASCII"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_the_formatting_machinery_writes_them() {
        for value in [0, 7, 10, 255, 4096, u64::from(u32::MAX), u64::MAX] {
            for width in [0, 1, 5, 16, 30] {
                let mut out = String::new();
                decimal(&mut out, value, width);
                hexadecimal(&mut out, value, width);
                zeros(&mut out, value, width);
                assert_eq!(out, format!("{value:>width$}{value:width$x}{value:0width$}"));
            }
        }
        let mut out = String::new();
        signed(&mut out, -1, 5);
        right(&mut out, "äb", 4);
        assert_eq!(out, "   -1  äb");
    }
}
