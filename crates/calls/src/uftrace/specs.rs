//! Which values a recording of uftrace holds of a function, their encoding and their form: what its options
//! request (`info`) and what it kept of debug information (`NAME.dbg`).
//
// Layout: info: `argspec:`, `retspec:` the user's, `argauto:`, `retauto:`, `enumauto:` those of known library functions, each
// `NAME@arg1/FORMAT,...;`. NAME.dbg: `F: OFFSET NAME`, then `A: @...` and `R: @...`; `E: enum NAME {A,B=2}`.
// Source: uftrace doc/uftrace-record.md (ARGUMENTS) and what `uftrace record -a`, `-A` and `-R` write.

use crate::model::UftraceValue;
use rustc_hash::FxHashMap;

use crate::selection::pattern::Pattern;
use crate::values::FunctionFormats;
use crate::values::formats::ValueFormat;

/// One value: which, its form, its encoding.
type Value = (String, ValueFormat, UftraceValue);

/// Names of an enumeration's values.
type Names = Vec<(i64, String)>;

/// The values of one function.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ValueSpecs {
    /// How they are shown.
    pub formats: FunctionFormats,
    /// Encoding of its arguments.
    pub arguments: Vec<UftraceValue>,
    /// Encoding of its result.
    pub result: Vec<UftraceValue>,
}

/// A function of an object that was recorded.
#[derive(Clone, Copy, Debug)]
pub struct NamedSymbol<'a> {
    /// As in its symbol.
    pub symbol: &'a str,
    /// As it is shown.
    pub shown: &'a str,
}

/// Content of one object's debug information.
#[derive(Debug, Default)]
pub struct DebugSpecs {
    arguments: FxHashMap<u64, String>,
    results: FxHashMap<u64, String>,
    enums: FxHashMap<String, Names>,
}

impl DebugSpecs {
    /// From the text of `NAME.dbg`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut described = Self::default();
        let mut offset = None;
        for (kind, rest) in text.lines().filter_map(|line| line.split_once(": ")) {
            match (kind, offset) {
                ("F", _) => offset = rest.split(' ').next().and_then(|hex| u64::from_str_radix(hex, 16).ok()),
                ("A", Some(at)) => drop(described.arguments.insert(at, rest.trim_start_matches('@').into())),
                ("R", Some(at)) => drop(described.results.insert(at, rest.trim_start_matches('@').into())),
                ("E", _) => described.enums.extend(enums(rest)),
                _ => {}
            }
        }
        described
    }
}

/// Content of a recording's options.
#[derive(Debug, Default)]
pub struct Specs {
    arguments: Vec<(Pattern, String)>,
    results: Vec<(Pattern, String)>,
    known_arguments: FxHashMap<String, String>,
    known_results: FxHashMap<String, String>,
    enums: FxHashMap<String, Names>,
    /// Those of all functions that something is known of.
    all: bool,
}

impl Specs {
    /// From the text of `info`.
    #[must_use]
    pub fn parse(info: &str) -> Self {
        let mut specs = Self::default();
        let keyed = || info.lines().filter_map(|line| line.split_once(':'));
        let is_glob = keyed().any(|line| line == ("pattern_type", "glob"));
        for (key, value) in keyed() {
            match key {
                "argspec" if !value.starts_with("lines=") => specs.arguments.extend(asked(value, is_glob)),
                "retspec" => specs.results.extend(asked(value, is_glob)),
                "argauto" => specs.known_arguments.extend(known(value)),
                "retauto" => specs.known_results.extend(known(value)),
                "enumauto" => specs.enums.extend(enums(value)),
                "auto-args" => specs.all = value == "1",
                _ => {}
            }
        }
        specs
    }

    /// The values of the function at this offset of an object.
    #[must_use]
    pub fn of(&self, named: NamedSymbol<'_>, offset: u64, object: &DebugSpecs) -> ValueSpecs {
        let find = |asked: &[(Pattern, String)], described: Option<&String>, known: Option<&String>| {
            let listed = values(asked_for(asked, named), |name| self.names(name, object));
            let by_itself =
                self.all || asked.iter().any(|(pattern, spec)| spec.is_empty() && is(pattern, named));
            match described.or(known).filter(|_| listed.is_empty() && by_itself) {
                Some(spec) => values(spec.split(','), |name| self.names(name, object)),
                None => listed,
            }
        };
        let arguments =
            find(&self.arguments, object.arguments.get(&offset), self.known_arguments.get(named.symbol));
        let result = find(&self.results, object.results.get(&offset), self.known_results.get(named.symbol));
        ValueSpecs {
            arguments: arguments.iter().map(|(_, _, how)| *how).collect(),
            result: result.iter().map(|(_, _, how)| *how).collect(),
            formats: FunctionFormats {
                arguments: arguments.into_iter().map(|(_, format, _)| (String::new(), format)).collect(),
                result: result.into_iter().next().map(|(_, format, _)| format),
            },
        }
    }

    fn names(&self, name: &str, object: &DebugSpecs) -> Names {
        object.enums.get(name).or_else(|| self.enums.get(name)).cloned().unwrap_or_default()
    }
}

fn is(pattern: &Pattern, named: NamedSymbol<'_>) -> bool {
    pattern.is(named.symbol) || pattern.is(named.shown)
}

/// The words asked for of a function.
fn asked_for<'a>(
    asked: &'a [(Pattern, String)],
    named: NamedSymbol<'a>,
) -> impl Iterator<Item = &'a str> + 'a {
    let of_function = asked.iter().filter(move |(pattern, _)| is(pattern, named));
    of_function.flat_map(|(_, spec)| spec.split(',')).filter(|word| !word.is_empty())
}

/// `NAME@SPEC;NAME` of the user: names are regular expressions if they look like it, or patterns.
fn asked(text: &str, is_glob: bool) -> impl Iterator<Item = (Pattern, String)> + '_ {
    text.split(';').filter(|entry| !entry.is_empty()).map(move |entry| {
        let (name, spec) = entry.split_once('@').unwrap_or((entry, ""));
        let is_regex = !is_glob && name.contains(|c| ".?*+-^$|()[]{}".contains(c));
        let pattern = if is_regex { Pattern::new(&format!("/{name}/")) } else { Pattern::new(name) };
        (pattern, spec.to_owned())
    })
}

/// `NAME@SPEC;NAME@SPEC` of known functions.
fn known(text: &str) -> impl Iterator<Item = (String, String)> + '_ {
    let entries = text.split(';').filter_map(|entry| entry.split_once('@'));
    entries.map(|(name, spec)| (name.to_owned(), spec.to_owned()))
}

/// `enum NAME {A, B = 4, C};` one after the other.
fn enums(text: &str) -> impl Iterator<Item = (String, Names)> + '_ {
    text.split('}').filter_map(|part| {
        let (head, body) = part.split_once('{')?;
        let name = head.trim_start_matches(';').trim().strip_prefix("enum ")?.trim();
        let mut next = 0;
        let mut names = Vec::new();
        for item in body.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let (name, value) = item.split_once('=').unwrap_or((item, ""));
            next = number(value.trim()).unwrap_or(next);
            names.push((next, name.trim().to_owned()));
            next = next.wrapping_add(1);
        }
        Some((name.to_owned(), names))
    })
}

/// As C writes it: decimal, `0x` hexadecimal, `0` octal.
fn number(text: &str) -> Option<i64> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let value = match digits.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16),
        None if digits.len() > 1 && digits.starts_with('0') => i64::from_str_radix(digits, 8),
        None => digits.parse(),
    };
    Some(value.ok()?.wrapping_mul(sign))
}

/// The values that words name, in that order, each once. None if a word is not known: then it is not known how they
/// are.
fn values<'a>(words: impl Iterator<Item = &'a str>, names: impl Fn(&str) -> Names) -> Vec<Value> {
    let mut values: Vec<Value> = Vec::new();
    for word in words {
        let Some(value) = value(word, &names) else { return Vec::new() };
        if values.iter().all(|(which, ..)| *which != value.0) {
            values.push(value);
        }
    }
    values
}

/// `arg1/FORMAT%PLACE`, `fparg1/BITS`, `retval/FORMAT`.
fn value(word: &str, names: &impl Fn(&str) -> Names) -> Option<Value> {
    let word = word.split('%').next()?;
    let (which, format) = word.split_once('/').unwrap_or((word, ""));
    let is_float = which.starts_with("fparg");
    if !is_float && !which.starts_with("arg") && which != "retval" {
        return None;
    }
    let is_bits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (format, how) = match format {
        "" if is_float => (ValueFormat::Float(8), UftraceValue::Bytes(8)),
        "" => (ValueFormat::Signed(8), UftraceValue::Auto),
        "80" | "f80" => (ValueFormat::Float(16), UftraceValue::X87),
        bits if is_bits(bits) => of_flag(&format!("f{bits}"))?,
        other => match other.split_once(':') {
            Some(("e", name)) => {
                let names = names(name);
                (ValueFormat::Enum { bytes: 8, signed: true, names }, UftraceValue::Auto)
            }
            Some((size, name)) => {
                let bytes = size.strip_prefix('t')?.parse().ok()?;
                (ValueFormat::Record(name.to_owned()), UftraceValue::Record(bytes))
            }
            None => of_flag(other)?,
        },
    };
    Some((which.to_owned(), format, how))
}

fn of_flag(text: &str) -> Option<(ValueFormat, UftraceValue)> {
    let format = ValueFormat::of_flag(text).ok()?;
    let how = match &format {
        ValueFormat::Text | ValueFormat::TextObject => UftraceValue::Text,
        other => UftraceValue::Bytes(other.bytes()),
    };
    Some((format, how))
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "argspec:lines=4\nargspec:add@arg2/x,arg1/i32;a.d@arg1/c;main\nretspec:half@retval/f32\n\
        argauto:malloc@arg1/u;open@arg1/s,arg2/e:flag;\nretauto:malloc@retval/p;\n\
        enumauto:enum flag {RD = 00,WR = 01,CREAT = 0100,};enum other {A, B = 0x10, C,};\npattern_type:regex\n";
    const DBG: &str = "# path name: /a\nE: enum color {RED,GREEN=5,BLUE=-1}\nF: 11f9 add\nL: 6 a.c\nA: @arg1,arg2\nR: @retval\n\
        F: 12c0 main\nA: @arg1/e:color,arg2/p,fparg1/80%stack+1,arg3/t24:Big%stack+3,fparg2\nR: @retval/t8:P\n";

    fn of(info: &str, name: &str, offset: u64) -> ValueSpecs {
        let named = NamedSymbol { symbol: name, shown: name };
        Specs::parse(info).of(named, offset, &DebugSpecs::parse(DBG))
    }

    #[test]
    fn what_was_asked_for_comes_before_what_is_known_otherwise() {
        let add = of(INFO, "add", 0x11f9);
        assert_eq!(add.arguments, [UftraceValue::Bytes(8), UftraceValue::Bytes(4)]);
        assert_eq!(add.formats.arguments[0].1, ValueFormat::Hex(8));
        assert_eq!((add.result.as_slice(), &add.formats.result), (&[][..], &None));
        assert_eq!(of(INFO, "half", 0).formats.result, Some(ValueFormat::Float(4)));
        // A library's function only with -a.
        assert_eq!(of(INFO, "malloc", 0), ValueSpecs::default());
        let all = format!("{INFO}auto-args:1\n");
        assert_eq!(of(&all, "malloc", 0).result, [UftraceValue::Bytes(8)]);
        assert_eq!(of(&all, "add", 0x11f9).result, [UftraceValue::Auto]);
        let open = of(&all, "open", 0).formats.arguments;
        let ValueFormat::Enum { names, .. } = &open[1].1 else { panic!("{open:?}") };
        assert_eq!(names[2], (64, "CREAT".to_owned()));
    }

    #[test]
    fn debug_information_tells_of_functions_without_a_list() {
        let main = of(INFO, "main", 0x12c0);
        let stands = [
            UftraceValue::Auto,
            UftraceValue::Bytes(8),
            UftraceValue::X87,
            UftraceValue::Record(24),
            UftraceValue::Bytes(8),
        ];
        assert_eq!(main.arguments, stands);
        let names = [(0, "RED"), (5, "GREEN"), (-1, "BLUE")].map(|(value, name)| (value, name.to_owned()));
        assert_eq!(
            main.formats.arguments[0].1,
            ValueFormat::Enum { bytes: 8, signed: true, names: names.to_vec() }
        );
        // A result is not asked for.
        assert_eq!(main.formats.result, None);
        // A word that is not known leaves the whole unknown.
        assert_eq!(values(["arg1", "arg2/q"].into_iter(), |_| Vec::new()), []);
    }
}
