//! Records by value: the places of their members in the recording's file `values`, and how they are shown.
//!
//! A record is `{BYTES|NAME@OFFSET=FORMAT|…}`, FORMAT being a word of [`ValueFormat`], perhaps such a record again.

use tracer::layout::values::WrittenValue;

use super::formats::ValueFormat;
use perfdata::text::harmless;

/// A member: name (empty if it has none), offset in bytes, format.
type Member = (String, u32, ValueFormat);

/// As a word of the file.
pub fn word(bytes: u8, fields: &[Member]) -> String {
    let fields = fields.iter().map(|(name, offset, format)| format!("|{name}@{offset}={}", format.word()));
    format!("{{{bytes}{}}}", fields.collect::<String>())
}

/// Reads such a word; `None` if it is none.
pub fn of_word(word: &str) -> Option<ValueFormat> {
    let inner = word.strip_prefix('{')?.strip_suffix('}')?;
    let mut parts = split(inner).into_iter();
    let bytes = parts.next()?.parse().ok()?;
    let field = |part: &str| {
        let (place, format) = part.split_once('=')?;
        let (name, offset) = place.rsplit_once('@')?;
        Some((name.to_owned(), offset.parse().ok()?, ValueFormat::of_word(format)?))
    };
    Some(ValueFormat::Fields { bytes, fields: parts.map(field).collect::<Option<_>>()? })
}

/// The parts between `|`, those of inner records together.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut from, mut depth) = (Vec::new(), 0, 0i32);
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            '|' if depth == 0 => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    parts
}

/// The members as C writes them: `{x=1, y=2}`; elements have no names.
pub fn show(bytes: &[u8], fields: &[Member]) -> String {
    if fields.is_empty() {
        return "{...}".to_owned();
    }
    let shown = fields.iter().map(|(name, offset, format)| {
        let from = *offset as usize;
        let value = bytes.get(from..from + usize::from(format.bytes()));
        let value = match (value, format) {
            (_, ValueFormat::Record(_)) => "{...}".to_owned(),
            (Some(value), _) => format.show(WrittenValue::Bytes(value)),
            (None, _) => "<unreadable>".to_owned(),
        };
        if name.is_empty() { value } else { format!("{}={value}", harmless(name)) }
    });
    format!("{{{}}}", shown.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_shown_with_those_inside_them_and_read_as_written() {
        let point = ValueFormat::Fields {
            bytes: 8,
            fields: vec![
                ("x".to_owned(), 0, ValueFormat::Signed(4)),
                ("y".to_owned(), 4, ValueFormat::Float(4)),
            ],
        };
        let names = vec![(1, "RED".to_owned()), (2, "BLUE".to_owned())];
        let color = ValueFormat::Enum { bytes: 4, signed: false, names };
        let hidden = ValueFormat::Record(String::new());
        let fields =
            [("p", 0, point), ("color", 8, color), ("", 12, hidden), ("last", 16, ValueFormat::Char(1))];
        let fields = fields.map(|(name, offset, format)| (name.to_owned(), offset, format)).to_vec();
        let all = ValueFormat::Fields { bytes: 20, fields };
        assert_eq!(ValueFormat::of_word(&all.word()), Some(all.clone()), "{}", all.word());
        let mut bytes = Vec::new();
        bytes.extend((-7i32).to_le_bytes());
        bytes.extend(1.5f32.to_le_bytes());
        bytes.extend(2u32.to_le_bytes());
        bytes.extend([0, 0, 0, 0, b'z']);
        let pieces = |bytes: &'static [u8]| bytes.chunks(8).map(WrittenValue::Bytes);
        let bytes: &'static [u8] = Box::leak(bytes.into_boxed_slice());
        assert_eq!(all.pieces(), 3);
        let mut values = pieces(bytes);
        let shown = all.take(&mut values).expect("all are there");
        assert_eq!(shown, "{p={x=-7, y=1.5}, color=BLUE, {...}, last='z'}");
        assert!(values.next().is_none(), "all three are taken");
        let mut broken = pieces(bytes).take(1).chain([WrittenValue::Unreadable, WrittenValue::NoRoom]);
        assert_eq!(all.take(&mut broken).as_deref(), Some("<unreadable>"));
        assert_eq!(ValueFormat::of_word("{8|x@0=i4"), None);
    }
}
