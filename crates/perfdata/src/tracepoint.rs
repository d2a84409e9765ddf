//! Tracepoint formats: the offsets of a payload's fields, and how the kernel would print it.
//!
//! A format is the text of `events/SYSTEM/NAME/format`. Its print part is C: a printf string and expressions over
//! `REC->field`. It is parsed once; a payload is then printed without looking at the text again.
//
// Source: linux v7.2 kernel/trace/trace_events.c, f_show() (fields) and include/trace/stages/ (print fmt);
//         the printing rules of __print_flags() and its like: kernel/trace/trace_output.c, and where perf's
//         libtraceevent differs from the kernel it is followed (docs/formats/perf-data.md).

mod eval;
mod expr;
mod printf;
mod token;

use rustc_hash::FxHashMap;

use crate::Endian;
use crate::file::tracing::TracingData;
use expr::Expr;

/// Function and offset of a kernel address.
pub type Resolve<'r> = dyn Fn(u64) -> Option<(String, u64)> + 'r;

/// Formats of a file by tracepoint id.
#[derive(Debug, Default)]
pub struct TracepointFormats {
    by_id: FxHashMap<u64, Format>,
}

impl TracepointFormats {
    /// Parses all formats of the tracing data; texts that aren't a format are left out.
    #[must_use]
    pub fn new(data: &TracingData) -> Self {
        let endian = if data.big_endian { Endian::Big } else { Endian::Little };
        let parse = |(system, text): &(String, Vec<u8>)| Format::parse(system, text, endian, data.long_size);
        TracepointFormats { by_id: data.formats.iter().filter_map(parse).map(|f| (f.id, f)).collect() }
    }

    /// The format of the tracepoint with this id (`attr.config`).
    #[must_use]
    pub fn of(&self, id: u64) -> Option<&Format> {
        self.by_id.get(&id)
    }
}

/// The id (`common_type`) a payload begins with.
// Layout: u16 common_type first. Source: linux v6.18 include/linux/trace_events.h, struct trace_entry
#[must_use]
pub fn id_of(raw: &[u8], endian: Endian) -> Option<u64> {
    endian.uint(raw.get(..2)?)
}

/// Type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// A number of `size` bytes.
    Number,
    /// A fixed number of elements.
    Array,
    /// A `char` array: text up to its NUL.
    Text,
    /// `__data_loc`: the field holds offset (low half) and length (high half) of data in the payload.
    Dynamic,
    /// `__rel_loc`: the same, the offset counted from the field's end.
    Relative,
}

/// A field of a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracepointField {
    /// Name.
    pub name: String,
    /// C type, without the name.
    pub type_: String,
    /// Bytes from the payload's beginning.
    pub offset: usize,
    /// Bytes.
    pub size: usize,
    /// Whether its numbers are signed.
    pub signed: bool,
    /// Type of its content.
    pub kind: FieldKind,
    /// Bytes of an element of an array, or of the data of a dynamic one.
    pub element_size: usize,
}

impl TracepointField {
    /// Whether it holds text (of fixed or dynamic length).
    #[must_use]
    pub fn is_text(&self) -> bool {
        let dynamic = matches!(self.kind, FieldKind::Dynamic | FieldKind::Relative);
        self.kind == FieldKind::Text || (dynamic && self.type_.contains("char"))
    }

    /// Whether it is one number that is not an address.
    #[must_use]
    pub fn is_count(&self) -> bool {
        self.kind == FieldKind::Number && !self.is_pointer()
    }

    fn is_pointer(&self) -> bool {
        self.type_.contains('*')
    }
}

/// One tracepoint's format.
#[derive(Debug, Clone)]
pub struct Format {
    /// System (`sched`).
    pub system: String,
    /// Name (`sched_switch`).
    pub name: String,
    /// Id: `attr.config`, and the payload's `common_type`.
    pub id: u64,
    /// All fields, the common ones first.
    pub fields: Vec<TracepointField>,
    /// How many of them are common to all tracepoints.
    pub common: usize,
    /// printf string and its arguments; `None` if it could not be understood.
    print: Option<(Vec<printf::Piece>, Vec<Expr>)>,
    endian: Endian,
    long_size: u8,
}

impl Format {
    /// Reads a format text; `None` if it lacks name or id.
    #[must_use]
    pub fn parse(system: &str, text: &[u8], endian: Endian, long_size: u8) -> Option<Format> {
        let text = String::from_utf8_lossy(text);
        let value = |key: &str| text.lines().find_map(|l| l.trim().strip_prefix(key).map(str::trim));
        let name = value("name:")?.to_owned();
        let id = value("ID:")?.parse().ok()?;
        let (mut fields, mut common) = (Vec::new(), 0);
        for line in text.lines().map(str::trim) {
            match line.strip_prefix("field:") {
                Some(declaration) => fields.extend(parse_field(declaration)),
                None if line.is_empty() && common == 0 => common = fields.len(),
                None => {}
            }
        }
        let print =
            text.split_once("print fmt:").and_then(|(_, print)| expr::parse_print(print.trim(), &fields));
        Some(Format { system: system.to_owned(), name, id, fields, common, print, endian, long_size })
    }

    /// The field of this name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&TracepointField> {
        self.fields.iter().find(|f| f.name == name)
    }

    /// Appends the payload as the kernel prints it. If its print format is not understood: all fields with names.
    pub fn print(&self, raw: &[u8], out: &mut String) {
        self.print_with(raw, &|_| None, out);
    }

    /// The same with names for code addresses (`%pS`): `resolve` gives the function that contains an address of
    /// the recording kernel, and the offset in it.
    pub fn print_with(&self, raw: &[u8], resolve: &Resolve<'_>, out: &mut String) {
        let payload = eval::Payload { raw, format: self, resolve };
        match &self.print {
            Some((pieces, args)) => printf::print(pieces, args, &payload, out),
            None => {
                out.push_str("[FAILED TO PARSE]");
                for (name, value) in self.values(raw) {
                    out.push_str(&format!(" {name}={value}"));
                }
            }
        }
    }

    /// The part of [`Format::print`] after `name=`, up to the next space; `None` if the print format has no such word.
    /// Only that part of it is made.
    #[must_use]
    pub fn print_word(&self, name: &str, raw: &[u8]) -> Option<String> {
        let payload = eval::Payload { raw, format: self, resolve: &|_| None };
        printf::print_word(name, self.print.as_ref()?, &payload)
    }

    /// The tracepoint's own fields as text, in order.
    #[must_use]
    pub fn values(&self, raw: &[u8]) -> Vec<(&str, String)> {
        let own = self.fields.get(self.common..).unwrap_or_default();
        own.iter().map(|f| (f.name.as_str(), self.value(f, raw))).collect()
    }

    /// The value of a field that is a number, with its sign extended to 64 bits; 0 if the payload is too short for it.
    #[must_use]
    pub fn number(&self, field: &TracepointField, raw: &[u8]) -> u64 {
        eval::Payload { raw, format: self, resolve: &|_| None }.number(field)
    }

    /// A field's value as text: numbers decimal (pointers hexadecimal), other bytes in hexadecimal.
    #[must_use]
    pub fn value(&self, field: &TracepointField, raw: &[u8]) -> String {
        let payload = eval::Payload { raw, format: self, resolve: &|_| None };
        if field.is_text() {
            return payload.text(field).into_owned();
        }
        if field.kind == FieldKind::Number {
            let number = payload.number(field);
            return match (field.is_pointer(), field.signed) {
                (true, _) => format!("{number:#x}"),
                (false, true) => number.cast_signed().to_string(),
                (false, false) => number.to_string(),
            };
        }
        let bytes = payload.bytes(field);
        let elements = bytes.chunks_exact(field.element_size.max(1)).filter_map(|b| self.endian.uint(b));
        format!("[{}]", elements.map(|n| format!("{n:#x}")).collect::<Vec<_>>().join(", "))
    }
}

/// `char prev_comm[16]; offset:8; size:16; signed:0;` with tabs between.
fn parse_field(line: &str) -> Option<TracepointField> {
    let mut parts = line.split(';').map(str::trim);
    let declaration = parts.next()?;
    let (mut offset, mut size, mut signed) = (None, None, false);
    for part in parts {
        match part.split_once(':') {
            Some(("offset", v)) => offset = v.trim().parse().ok(),
            Some(("size", v)) => size = v.trim().parse().ok(),
            Some(("signed", v)) => signed = v.trim() == "1",
            _ => {}
        }
    }
    let (size, (type_, name, count)) = (size?, split_declaration(declaration)?);
    let kind = if declaration.starts_with("__data_loc") {
        FieldKind::Dynamic
    } else if declaration.starts_with("__rel_loc") {
        FieldKind::Relative
    } else if count.is_some() && type_.split_whitespace().any(|t| t == "char") && !type_.contains('*') {
        FieldKind::Text
    } else if count.is_some() {
        FieldKind::Array
    } else {
        FieldKind::Number
    };
    let element_size = match (kind, count) {
        (FieldKind::Dynamic | FieldKind::Relative, _) => type_size(&type_),
        (_, Some(count)) if count > 0 => size / count,
        (_, Some(_)) => type_size(&type_),
        _ => size,
    };
    Some(TracepointField { name, type_, offset: offset?, size, signed, kind, element_size })
}

/// Type, name and number of elements.
fn split_declaration(declaration: &str) -> Option<(String, String, Option<usize>)> {
    let (rest, count) = match declaration.strip_suffix(']') {
        Some(rest) => {
            let (rest, count) = rest.rsplit_once('[')?;
            (rest.trim(), Some(count.trim().parse().unwrap_or(0)))
        }
        None => (declaration, None),
    };
    let at = rest.rfind(|c: char| !(c.is_alphanumeric() || c == '_')).map_or(0, |i| i + 1);
    let (type_, name) = rest.split_at_checked(at)?;
    Some((type_.trim().to_owned(), name.to_owned(), count))
}

/// Bytes of a C type, as far as its name determines them.
fn type_size(type_: &str) -> usize {
    let has = |words: &[&str]| words.iter().any(|w| type_.contains(w));
    if has(&["*", "long", "64", "size_t"]) {
        8
    } else if has(&["char", "u8", "s8", "bool"]) {
        1
    } else if has(&["short", "16"]) {
        2
    } else {
        4
    }
}

#[cfg(test)]
mod tests;
