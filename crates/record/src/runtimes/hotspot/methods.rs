//! A method's name, read from its structures in the JVM's memory.

use super::structs::JvmOffsets;
use crate::runtimes::memory::{ProcessMemory, read_u16, read_u64};

/// Longest name read, in bytes.
const MOST_BYTES: usize = 4096;

/// The `ConstMethod` of a `Method`: another one if another method has taken its place. `None` if there is no such
/// memory.
#[must_use]
pub fn const_method(offsets: &JvmOffsets, method: u64, memory: &mut ProcessMemory<'_>) -> Option<u64> {
    read_u64(memory, Some(method).filter(|method| is_pointer(*method))?.wrapping_add(offsets.const_method))
}

/// True if a structure can be there.
#[must_use]
pub fn is_pointer(word: u64) -> bool {
    word != 0 && word.is_multiple_of(8)
}

/// The name, in the words of HotSpot's perf map for compiled code: `void app.Shop.buy(int, java.lang.String)`. `None`
/// if this is no method.
#[must_use]
pub fn name_of(offsets: &JvmOffsets, const_method: u64, memory: &mut ProcessMemory<'_>) -> Option<String> {
    let pool = read_u64(memory, const_method.wrapping_add(offsets.constants)).filter(|pool| *pool != 0)?;
    let mut entry = |index_at: u64| {
        let index = read_u16(memory, const_method.wrapping_add(index_at)).filter(|index| *index != 0)?;
        pool_text(offsets, pool, index, memory)
    };
    let (name, types) = (entry(offsets.name_index)?, entry(offsets.signature_index)?);
    let class = read_u64(memory, pool.wrapping_add(offsets.holder))?;
    let class = read_u64(memory, class.wrapping_add(offsets.class_name))?;
    let class = class_name(&read_symbol(offsets, class, memory)?);
    let (parameters, result) = readable_types(&types)?;
    Some(format!("{result} {class}.{name}({})", parameters.join(", ")))
}

/// The text of an entry of a pool. `None` if there is none.
pub(super) fn pool_text(
    offsets: &JvmOffsets,
    pool: u64,
    index: u16,
    memory: &mut ProcessMemory<'_>,
) -> Option<String> {
    let at = pool.wrapping_add(offsets.pool_bytes).wrapping_add(8 * u64::from(index));
    // The pool marks some entries in the lowest bit.
    let symbol = read_u64(memory, at)? & !1;
    read_symbol(offsets, symbol, memory)
}

/// A `Symbol`'s text. `None` if that makes no sense.
pub(super) fn read_symbol(
    offsets: &JvmOffsets,
    symbol: u64,
    memory: &mut ProcessMemory<'_>,
) -> Option<String> {
    let length = usize::from(read_u16(memory, symbol.wrapping_add(offsets.symbol_length))?);
    let mut bytes = vec![0; Some(length).filter(|length| (1..=MOST_BYTES).contains(length))?];
    let got = memory(symbol.wrapping_add(offsets.symbol_body), &mut bytes);
    let text = String::from_utf8(bytes).ok().filter(|_| got == length)?;
    (!text.chars().any(char::is_control)).then_some(text)
}

/// `java/lang/String` as `java.lang.String`. A hidden class has its number after a `+`, shown after a `/`.
fn class_name(internal: &str) -> String {
    internal.replace('/', ".").replace('+', "/")
}

/// Types of the parameters and of the result of `(I[Ljava/lang/String;)V`. `None` if it is no such text.
// Source: Java Virtual Machine Specification 4.3.2 and 4.3.3, field and method descriptors
fn readable_types(signature: &str) -> Option<(Vec<String>, String)> {
    let mut rest = signature.strip_prefix('(')?;
    let mut parameters = Vec::new();
    while !rest.starts_with(')') {
        let (name, after) = one_type(rest)?;
        parameters.push(name);
        rest = after;
    }
    let (result, after) = one_type(&rest[1..])?;
    after.is_empty().then_some((parameters, result))
}

/// The type at the start of `text`, and what comes after it.
fn one_type(text: &str) -> Option<(String, &str)> {
    let element = text.trim_start_matches('[');
    let brackets = "[]".repeat(text.len() - element.len());
    if let Some(class) = element.strip_prefix('L') {
        let (class, rest) = class.split_once(';')?;
        return Some((class_name(class) + &brackets, rest));
    }
    let name = match element.as_bytes().first()? {
        b'B' => "byte",
        b'C' => "char",
        b'D' => "double",
        b'F' => "float",
        b'I' => "int",
        b'J' => "long",
        b'S' => "short",
        b'Z' => "boolean",
        b'V' => "void",
        _ => return None,
    };
    Some((name.to_owned() + &brackets, &element[1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_written_as_in_java() {
        let types = |text| readable_types(text).map(|(parameters, result)| (parameters.join(", "), result));
        let of = |parameters: &str, result: &str| Some((parameters.to_owned(), result.to_owned()));
        assert_eq!(types("()V"), of("", "void"));
        assert_eq!(types("(I[Ljava/lang/String;[[J)La/B;"), of("int, java.lang.String[], long[][]", "a.B"));
        for broken in ["", "V", "(", "(I", "()", "(Q)V", "(La/B)V", "()VV", "([)V", "(é)V"] {
            assert_eq!(types(broken), None, "{broken}");
        }
    }

    #[test]
    fn hidden_classes_have_their_number() {
        assert_eq!(class_name("app/Main$$Lambda+0x7f10"), "app.Main$$Lambda/0x7f10");
    }

    /// A method at 0x1000 and what belongs to it.
    fn memory() -> Vec<u8> {
        let mut bytes = vec![0; 0x2000];
        let mut put = |at: usize, data: &[u8]| bytes[at..at + data.len()].copy_from_slice(data);
        put(0x1008, &0x1100u64.to_le_bytes());
        put(0x1108, &0x1200u64.to_le_bytes());
        put(0x1122, &2u16.to_le_bytes());
        put(0x1124, &3u16.to_le_bytes());
        put(0x1218, &0x1500u64.to_le_bytes());
        put(0x1240 + 16, &0x1301u64.to_le_bytes());
        put(0x1240 + 24, &0x1400u64.to_le_bytes());
        put(0x1304, &3u16.to_le_bytes());
        put(0x1306, b"buy");
        put(0x1300, &3u32.to_le_bytes());
        put(0x1404, &4u16.to_le_bytes());
        put(0x1406, b"(I)V");
        put(0x1510, &0x1600u64.to_le_bytes());
        put(0x1604, &8u16.to_le_bytes());
        put(0x1606, b"app/Shop");
        bytes
    }

    #[test]
    fn a_method_has_the_name_that_compiled_code_would_have() {
        let offsets = JvmOffsets::MADE_UP;
        let bytes = memory();
        let mut read = |at: u64, into: &mut [u8]| {
            let from = bytes.get(at as usize..).unwrap_or_default();
            let count = from.len().min(into.len());
            into[..count].copy_from_slice(&from[..count]);
            count
        };
        let constant = const_method(&offsets, 0x1000, &mut read);
        assert_eq!(constant, Some(0x1100));
        assert_eq!(name_of(&offsets, 0x1100, &mut read).as_deref(), Some("void app.Shop.buy(int)"));
        assert_eq!(name_of(&offsets, 0x1000, &mut read), None);
        assert_eq!(const_method(&offsets, 0x1001, &mut read), None);
        assert_eq!(const_method(&offsets, 0x9000, &mut read), None);
    }
}
