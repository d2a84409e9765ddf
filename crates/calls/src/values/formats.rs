//! How recorded values are written: one word a value in the recording's file `values`, and the text that is shown.

use crate::error::bail;
use std::fmt::Write as _;
use tracer::layout::values::{TEXT_BYTES_MAX, WrittenValue};

use perfdata::text::harmless;

/// Type of a recorded value; numbers are widths in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueFormat {
    /// With a sign.
    Signed(u8),
    /// Without.
    Unsigned(u8),
    /// In hexadecimal digits.
    Hex(u8),
    /// `true` or `false`.
    Bool,
    /// A character.
    Char(u8),
    /// A floating-point number.
    Float(u8),
    /// Text, wherever it was found.
    Text,
    /// The text of a `std::string`.
    TextObject,
    /// An address.
    Pointer,
    /// One of these values, or several of them as bits.
    Enum {
        /// Width.
        bytes: u8,
        /// Has a sign.
        signed: bool,
        /// Values and names.
        names: Vec<(i64, String)>,
    },
    /// A struct, array or complex number: its members, or elements, as their name, offset in bytes and format.
    Fields {
        /// Width.
        bytes: u8,
        /// In their order; none if they are not known.
        fields: Vec<(String, u32, ValueFormat)>,
    },
    /// A struct of this name; nothing of it is recorded.
    Record(String),
}

impl ValueFormat {
    /// As in a flag: a letter, and a width in bits.
    ///
    /// # Errors
    /// If it is none.
    pub fn of_flag(text: &str) -> crate::Result<Self> {
        let (letter, bits) = text.split_at(text.find(|c: char| c.is_ascii_digit()).unwrap_or(text.len()));
        let bytes = match bits {
            "" | "64" => 8,
            "8" => 1,
            "16" => 2,
            "32" => 4,
            _ => bail!("/{text}: widths are 8, 16, 32 and 64"),
        };
        Ok(match letter {
            "" | "i" | "d" => Self::Signed(bytes),
            "u" => Self::Unsigned(bytes),
            "x" | "o" => Self::Hex(bytes),
            "c" => Self::Char(1),
            "s" => Self::Text,
            "S" => Self::TextObject,
            "f" => Self::Float(bytes),
            "p" => Self::Pointer,
            _ => bail!("/{text}: formats are i, u, x, c, s, S, f and p, with a width in bits: i32"),
        })
    }

    /// As a word of the file.
    #[must_use]
    pub fn word(&self) -> String {
        match self {
            Self::Signed(bytes) => format!("i{bytes}"),
            Self::Unsigned(bytes) => format!("u{bytes}"),
            Self::Hex(bytes) => format!("x{bytes}"),
            Self::Bool => "b1".to_owned(),
            Self::Char(bytes) => format!("c{bytes}"),
            Self::Float(bytes) => format!("f{bytes}"),
            Self::Text => "s".to_owned(),
            Self::TextObject => "S".to_owned(),
            Self::Pointer => "p8".to_owned(),
            Self::Enum { bytes, signed, names } => {
                let mut word = format!("{}{bytes}:", if *signed { 'E' } else { 'e' });
                for (value, name) in names {
                    // Writing to a String does not fail.
                    let _ = write!(word, "{value}={name},");
                }
                word
            }
            Self::Fields { bytes, fields } => super::fields::word(*bytes, fields),
            Self::Record(name) => format!("r:{name}"),
        }
    }

    /// Reads such a word; `None` if it is none.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        let letter = word.chars().next()?;
        if letter == '{' {
            return super::fields::of_word(word);
        }
        let rest = word.get(letter.len_utf8()..)?;
        let (width, names) = rest.split_once(':').unwrap_or((rest, ""));
        let bytes = width.parse().unwrap_or(8);
        let named = |text: &str| -> Option<(i64, String)> {
            let (value, name) = text.split_once('=')?;
            Some((value.parse().ok()?, name.to_owned()))
        };
        Some(match letter {
            'i' => Self::Signed(bytes),
            'u' => Self::Unsigned(bytes),
            'x' => Self::Hex(bytes),
            'b' => Self::Bool,
            'c' => Self::Char(bytes),
            'f' => Self::Float(bytes),
            's' => Self::Text,
            'S' => Self::TextObject,
            'p' => Self::Pointer,
            'e' | 'E' => Self::Enum {
                bytes,
                signed: letter == 'E',
                names: names.split(',').filter_map(named).collect(),
            },
            'r' => Self::Record(names.to_owned()),
            _ => return None,
        })
    }

    /// Bytes of the value itself.
    #[must_use]
    pub fn bytes(&self) -> u8 {
        match self {
            Self::Signed(bytes) | Self::Unsigned(bytes) | Self::Hex(bytes) | Self::Char(bytes) => *bytes,
            Self::Float(bytes) | Self::Enum { bytes, .. } | Self::Fields { bytes, .. } => *bytes,
            Self::Bool => 1,
            _ => 8,
        }
    }

    /// How many recorded values it is made of.
    #[must_use]
    pub fn pieces(&self) -> usize {
        if let Self::Fields { bytes, .. } = self { usize::from(*bytes).div_ceil(8).max(1) } else { 1 }
    }

    /// The value as it is shown, taken from those recorded; `None` if they end before it.
    pub fn take<'a>(&self, values: &mut impl Iterator<Item = WrittenValue<'a>>) -> Option<String> {
        let first = values.next()?;
        if self.pieces() == 1 {
            return Some(self.show(first));
        }
        let mut whole = Vec::new();
        let mut missing = None;
        for value in std::iter::once(first).chain(values.take(self.pieces() - 1)) {
            match value {
                WrittenValue::Bytes(bytes) => whole.extend_from_slice(bytes),
                value => missing = missing.or(Some(value)),
            }
        }
        Some(self.show(missing.unwrap_or(WrittenValue::Bytes(&whole))))
    }

    /// The value as it is shown.
    #[must_use]
    pub fn show(&self, value: WrittenValue<'_>) -> String {
        let bytes = match value {
            WrittenValue::Bytes(bytes) => bytes,
            _ if matches!(self, Self::Record(_)) => return self.show_record(),
            WrittenValue::Unreadable => return "<unreadable>".to_owned(),
            WrittenValue::Null => return "NULL".to_owned(),
            WrittenValue::NoRoom => return "…".to_owned(),
        };
        let unsigned = number(bytes);
        match self {
            Self::Signed(_) => signed(bytes).to_string(),
            Self::Unsigned(_) => unsigned.to_string(),
            Self::Hex(_) | Self::Pointer if unsigned == 0 => "0".to_owned(),
            Self::Hex(_) | Self::Pointer => format!("{unsigned:#x}"),
            Self::Bool => (unsigned != 0).to_string(),
            Self::Char(width) => show_char(unsigned, *width),
            Self::Float(_) => show_float(bytes),
            Self::Text | Self::TextObject => show_text(bytes),
            Self::Enum { signed: has_sign, names, .. } => {
                let value = if *has_sign { signed(bytes) as i64 } else { unsigned as i64 };
                show_enum(value, names)
            }
            Self::Fields { fields, .. } => super::fields::show(bytes, fields),
            Self::Record(_) => self.show_record(),
        }
    }

    fn show_record(&self) -> String {
        match self {
            Self::Record(name) => format!("{}{{...}}", harmless(name)),
            _ => String::new(),
        }
    }
}

/// Little-endian bytes as a number.
fn number(bytes: &[u8]) -> u128 {
    bytes.iter().take(16).rev().fold(0, |sum, byte| sum << 8 | u128::from(*byte))
}

fn signed(bytes: &[u8]) -> i128 {
    let unused = 128 - 8 * bytes.len().clamp(1, 16) as u32;
    (number(bytes) as i128) << unused >> unused
}

/// One of C, of a byte whose letter only the locale knows, or one of Unicode.
fn show_char(value: u128, bytes: u8) -> String {
    match char::from_u32(value as u32) {
        Some('\'') => "'\\''".to_owned(),
        Some(c) if c.is_ascii() || bytes > 1 => format!("'{}'", escape(c)),
        _ => format!("'\\x{value:02x}'"),
    }
}

fn show_float(bytes: &[u8]) -> String {
    match bytes.len() {
        4 => f32::from_bits(number(bytes) as u32).to_string(),
        16 => show_x87(number(bytes)),
        _ => f64::from_bits(number(bytes) as u64).to_string(),
    }
}

/// A number of x87's: to the precision of a `double`; beyond its range in hexadecimal digits, as `%La` does.
// Layout: mantissa u64 with its leading 1, exponent u15 biased by 16,383, sign. Source: Intel SDM Vol. 1, §4.2.2.
fn show_x87(value: u128) -> String {
    let (mantissa, exponent) = (value as u64, (value >> 64) as i32 & 0x7fff);
    let sign = if value >> 79 & 1 != 0 { "-" } else { "" };
    let power = exponent - 16_383 - 63;
    match (exponent, mantissa << 1) {
        (0x7fff, 0) => format!("{sign}inf"),
        (0x7fff, _) => "NaN".to_owned(),
        _ if mantissa == 0 => format!("{sign}0"),
        _ if (-1_000..=960).contains(&power) => format!("{sign}{}", mantissa as f64 * 2f64.powi(power)),
        _ => format!("{sign}{mantissa:#x}p{power:+}"),
    }
}

fn show_text(bytes: &[u8]) -> String {
    let more = if bytes.len() >= TEXT_BYTES_MAX { "..." } else { "" };
    let text: String = String::from_utf8_lossy(bytes).chars().map(escape).collect();
    format!("\"{text}\"{more}")
}

/// As C writes it.
fn escape(c: char) -> String {
    match c {
        '"' => "\\\"".to_owned(),
        '\\' | '\n' | '\t' | '\r' => c.escape_default().to_string(),
        c if c.is_control() => format!("\\x{:02x}", u32::from(c)),
        c => c.to_string(),
    }
}

/// The name; of several bits, their names; a number without one.
fn show_enum(value: i64, names: &[(i64, String)]) -> String {
    if let Some((_, name)) = names.iter().find(|(known, _)| *known == value) {
        return harmless(name).into_owned();
    }
    let mut rest = value;
    let mut parts = Vec::new();
    for (bit, name) in names.iter().filter(|(bit, _)| bit.count_ones() == 1) {
        if rest & bit != 0 {
            rest &= !bit;
            parts.push(harmless(name).into_owned());
        }
    }
    if parts.is_empty() || rest != 0 {
        return value.to_string();
    }
    parts.join("|")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(format: &ValueFormat, bytes: &[u8]) -> String {
        assert_eq!(ValueFormat::of_word(&format.word()).as_ref(), Some(format), "{}", format.word());
        format.show(WrittenValue::Bytes(bytes))
    }

    #[test]
    fn values_are_shown_as_the_source_would_write_them() {
        assert_eq!(shown(&ValueFormat::Signed(4), &(-3i32).to_le_bytes()), "-3");
        assert_eq!(shown(&ValueFormat::Unsigned(2), &[0xff, 0xff]), "65535");
        assert_eq!(shown(&ValueFormat::Hex(8), &0xdead_u64.to_le_bytes()), "0xdead");
        assert_eq!(shown(&ValueFormat::Char(1), b"\n"), "'\\n'");
        assert_eq!(shown(&ValueFormat::Char(4), &u32::from('é').to_le_bytes()), "'é'");
        assert_eq!(shown(&ValueFormat::Float(8), &0.5f64.to_le_bytes()), "0.5");
        assert_eq!(
            shown(&ValueFormat::Signed(16), &(-170_141_183_460_469_231_731i128).to_le_bytes()),
            "-170141183460469231731"
        );
        assert_eq!(shown(&ValueFormat::Unsigned(16), &u128::MAX.to_le_bytes()), u128::MAX.to_string());
        let x87 =
            |sign_and_exponent: u128, mantissa: u128| (sign_and_exponent << 64 | mantissa).to_le_bytes();
        assert_eq!(shown(&ValueFormat::Float(16), &x87(0xbfff, 0xc000_0000_0000_0000)), "-1.5");
        assert_eq!(shown(&ValueFormat::Float(16), &x87(0x3ffb, 0xcccc_cccc_cccc_cccd)), "0.1");
        assert_eq!(
            shown(&ValueFormat::Float(16), &x87(0x7ffe, 0x8000_0000_0000_0000)),
            "0x8000000000000000p+16320"
        );
        assert_eq!(shown(&ValueFormat::Float(16), &x87(0x7fff, 0x8000_0000_0000_0000)), "inf");
        assert_eq!(shown(&ValueFormat::Float(4), &1.25f32.to_le_bytes()), "1.25");
        assert_eq!(shown(&ValueFormat::Text, b"a\"b\x1b"), "\"a\\\"b\\x1b\"");
        assert!(shown(&ValueFormat::Text, &[b'x'; TEXT_BYTES_MAX]).ends_with("x\"..."));
        let names =
            vec![(0, "NONE".to_owned()), (1, "R".to_owned()), (2, "W".to_owned()), (-1, "BAD".to_owned())];
        let flags = ValueFormat::Enum { bytes: 4, signed: true, names };
        assert_eq!(shown(&flags, &3u32.to_le_bytes()), "R|W");
        assert_eq!(shown(&flags, &u32::MAX.to_le_bytes()), "BAD");
        assert_eq!(shown(&flags, &8u32.to_le_bytes()), "8");
        assert_eq!(ValueFormat::Record("point".to_owned()).show(WrittenValue::Unreadable), "point{...}");
        assert_eq!(ValueFormat::Text.show(WrittenValue::Null), "NULL");
    }
}
