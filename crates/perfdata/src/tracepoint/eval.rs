//! Values of expressions over a payload.

use std::borrow::Cow;
use std::fmt::Write;

use super::expr::Expr;
use super::{FieldKind, Format, TracepointField};
use crate::wire::until_nul;

/// A payload with its format.
pub(super) struct Payload<'a> {
    pub(super) raw: &'a [u8],
    pub(super) format: &'a Format,
    pub(super) resolve: &'a super::Resolve<'a>,
}

impl<'a> Payload<'a> {
    /// The bytes of a field: its own, or the dynamic ones. Bytes outside the payload are left out.
    pub(super) fn bytes(&self, field: &TracepointField) -> &'a [u8] {
        let own = self.raw.get(field.offset..).unwrap_or_default();
        let own = own.get(..field.size).unwrap_or(own);
        let relative = match field.kind {
            FieldKind::Dynamic => 0,
            FieldKind::Relative => field.offset.saturating_add(field.size),
            _ => return own,
        };
        let location = usize::try_from(self.format.endian.uint(own).unwrap_or(0)).unwrap_or(0);
        let (start, len) = ((location & 0xffff).saturating_add(relative), location >> 16);
        let data = self.raw.get(start..).unwrap_or_default();
        data.get(..len).unwrap_or(data)
    }

    /// A text field up to its NUL.
    pub(super) fn text(&self, field: &TracepointField) -> Cow<'a, str> {
        String::from_utf8_lossy(until_nul(self.bytes(field)))
    }

    /// A number field, signed ones extended.
    pub(super) fn number(&self, field: &TracepointField) -> u64 {
        let own = self.raw.get(field.offset..).unwrap_or_default();
        let own = own.get(..field.size).unwrap_or_default();
        let value = self.format.endian.uint(own).unwrap_or(0);
        if field.signed { extend(value, field.size) } else { value }
    }

    fn element(&self, field: &TracepointField, at: u64) -> u64 {
        let size = field.element_size.max(1);
        let start = usize::try_from(at).ok().and_then(|at| at.checked_mul(size));
        let bytes = start.and_then(|start| self.bytes(field).get(start..)?.get(..size));
        let value = bytes.and_then(|b| self.format.endian.uint(b)).unwrap_or(0);
        if field.signed { extend(value, size) } else { value }
    }

    fn field(&self, at: usize) -> Option<&'a TracepointField> {
        self.format.fields.get(at)
    }

    /// The expression as a number; text counts as 0.
    pub(super) fn value(&self, e: &Expr) -> u64 {
        match e {
            Expr::Number(n) => *n,
            Expr::Field(f) => self.field(*f).map_or(0, |f| self.number(f)),
            Expr::Index(f, at) => self.field(*f).map_or(0, |f| self.element(f, self.value(at))),
            Expr::DynamicLen(f) => self.field(*f).map_or(0, |f| self.bytes(f).len() as u64),
            Expr::Unary(op, of) => unary(*op, self.value(of)),
            Expr::Binary(op, a, b) => binary(op, self.value(a), self.value(b)),
            Expr::Ternary(c, a, b) => self.value(if self.value(c) != 0 { a } else { b }),
            Expr::Cast { bytes, signed, of } => cast(self.value(of), *bytes, *signed),
            _ => 0,
        }
    }

    /// The expression as text, as `%s` wants it.
    pub(super) fn string<'t>(&self, e: &'t Expr) -> Cow<'t, str>
    where
        'a: 't,
    {
        match e {
            Expr::Text(s) => Cow::Borrowed(s),
            Expr::Field(f) => self.field(*f).map_or(Cow::Borrowed(""), |f| match f.is_text() {
                true => self.text(f),
                false => Cow::Owned(format!("{:#x}", self.number(f))),
            }),
            Expr::Ternary(c, a, b) => self.string(if self.value(c) != 0 { a } else { b }),
            Expr::Cast { of, .. } => self.string(of),
            Expr::Flags { value, delimiter, table } => flags(self.value(value), delimiter, table),
            Expr::Symbolic { value, table } => {
                let value = self.value(value);
                let found = table.iter().find(|(v, _)| *v == value);
                found.map_or_else(|| format!("{value:#x}").into(), |(_, name)| name.into())
            }
            Expr::Hex { field, len, between } => self.hex(*field, self.value(len), between).into(),
            Expr::Array { field, count, size } => {
                self.array(*field, self.value(count), self.value(size)).into()
            }
            Expr::Bitmask(field) => self.bitmask(*field).into(),
            other => format!("{:#x}", self.value(other)).into(),
        }
    }

    fn hex(&self, field: usize, len: u64, between: &str) -> String {
        let bytes = self.field(field).map_or(&[][..], |f| self.bytes(f));
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        bytes.iter().take(len).map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(between)
    }

    fn array(&self, field: usize, count: u64, size: u64) -> String {
        let bytes = self.field(field).map_or(&[][..], |f| self.bytes(f));
        let (count, size) =
            (usize::try_from(count).unwrap_or(usize::MAX), usize::try_from(size).unwrap_or(1).max(1));
        let values = bytes.chunks_exact(size).take(count).map(|b| self.format.endian.uint(b).unwrap_or(0));
        format!("{{{}}}", values.map(|v| format!("{v:#x}")).collect::<Vec<_>>().join(","))
    }

    /// Hexadecimal words of 32 bits, the highest first.
    fn bitmask(&self, field: usize) -> String {
        let bytes = self.field(field).map_or(&[][..], |f| self.bytes(f));
        let mut out = String::new();
        let words = bytes.chunks(4).map(|b| b.iter().rev().fold(0u32, |w, b| w << 8 | u32::from(*b)));
        for (n, word) in words.collect::<Vec<_>>().iter().rev().enumerate() {
            let _ = write!(out, "{}{word:08x}", if n > 0 { "," } else { "" });
        }
        out
    }
}

fn flags<'t>(value: u64, delimiter: &str, table: &'t [(u64, String)]) -> Cow<'t, str> {
    let (mut rest, mut out) = (value, Cow::Borrowed(""));
    let mut is_first = true;
    let mut add = |name: Cow<'t, str>| {
        if std::mem::take(&mut is_first) {
            out = name;
            return;
        }
        let text = out.to_mut();
        text.push_str(delimiter);
        text.push_str(&name);
    };
    for (flag, name) in table {
        if value == 0 && *flag == 0 {
            return Cow::Borrowed(name);
        }
        if *flag != 0 && rest & flag == *flag {
            add(Cow::Borrowed(name));
            rest &= !flag;
        }
    }
    if rest != 0 {
        add(Cow::Owned(format!("{rest:#x}")));
    }
    out
}

/// The value of an expression without fields.
pub(super) fn constant(e: &Expr) -> Option<u64> {
    Some(match e {
        Expr::Number(n) => *n,
        Expr::Unary(op, of) => unary(*op, constant(of)?),
        Expr::Binary(op, a, b) => binary(op, constant(a)?, constant(b)?),
        Expr::Cast { bytes, signed, of } => cast(constant(of)?, *bytes, *signed),
        Expr::Ternary(c, a, b) => constant(if constant(c)? != 0 { a } else { b })?,
        _ => return None,
    })
}

fn extend(value: u64, bytes: usize) -> u64 {
    match bytes {
        1..=7 => {
            let shift = 64 - 8 * bytes;
            (value << shift).cast_signed().wrapping_shr(u32::try_from(shift).unwrap_or(0)).cast_unsigned()
        }
        _ => value,
    }
}

fn cast(value: u64, bytes: usize, signed: bool) -> u64 {
    match bytes {
        1..=7 if signed => extend(value, bytes),
        1..=7 => value & ((1 << (8 * bytes)) - 1),
        _ => value,
    }
}

fn unary(op: char, v: u64) -> u64 {
    match op {
        '!' => u64::from(v == 0),
        '~' => !v,
        '-' => v.wrapping_neg(),
        _ => v,
    }
}

pub(super) fn binary(op: &str, a: u64, b: u64) -> u64 {
    let shift = u32::try_from(b).unwrap_or(64);
    match op {
        "||" => u64::from(a != 0 || b != 0),
        "&&" => u64::from(a != 0 && b != 0),
        "|" => a | b,
        "^" => a ^ b,
        "&" => a & b,
        "==" => u64::from(a == b),
        "!=" => u64::from(a != b),
        "<=" => u64::from(a.cast_signed() <= b.cast_signed()),
        ">=" => u64::from(a.cast_signed() >= b.cast_signed()),
        "<" => u64::from(a.cast_signed() < b.cast_signed()),
        ">" => u64::from(a.cast_signed() > b.cast_signed()),
        "<<" => a.checked_shl(shift).unwrap_or(0),
        ">>" => a.checked_shr(shift).unwrap_or(0),
        "+" => a.wrapping_add(b),
        "-" => a.wrapping_sub(b),
        "*" => a.wrapping_mul(b),
        "/" => a.checked_div(b).unwrap_or(0),
        "%" => a.checked_rem(b).unwrap_or(0),
        _ => 0,
    }
}
