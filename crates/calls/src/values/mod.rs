//! Arguments and results: which a function has, where the tracer finds them, and how they are shown.

pub mod fields;
pub mod formats;

use dso::dwarf::probe::{self, Incoming, Parameter, Passed, ProbeInfo, Shape, Signature};
use dso::{DebugSearch, Machine, ObjectFile, Svma, SymbolTable};
use rustc_hash::FxHashMap;
use std::fmt::Write as _;
use tracer::layout::sleds::arm;
use tracer::layout::values::{self as layout, ValueItem, written};

use crate::selection::trigger::{Argument, Arguments, ResultSelection, Trigger};
use formats::ValueFormat;

/// Name of the file that describes recorded values.
pub const NAME: &str = "values";

/// Suffixes of symbols of a function's copies made by the compiler: their parameters are others.
const CLONES: [&str; 3] = [".constprop", ".isra", ".part"];

/// The recorded values of one function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionFormats {
    /// Arguments: name (empty if it has none) and format.
    pub arguments: Vec<(String, ValueFormat)>,
    /// Result, if recorded.
    pub result: Option<ValueFormat>,
}

/// Values to record of a function.
#[derive(Clone, Debug)]
pub struct WantedValues {
    /// Arguments, where they are at its entry.
    pub arguments: Vec<ValueItem>,
    /// Result.
    pub results: Vec<ValueItem>,
    /// How they are shown.
    pub formats: FunctionFormats,
}

impl WantedValues {
    /// As the tracer reads it.
    #[must_use]
    pub fn spec(&self) -> Vec<u8> {
        layout::spec(&self.arguments, &self.results)
    }
}

/// Debug information of an object's functions, by their start.
pub struct DescribedFunctions {
    by_start: FxHashMap<Svma, Signature>,
    machine: Machine,
}

impl DescribedFunctions {
    /// Reads that of the functions whose name `fits`; nothing without debug information.
    #[must_use]
    pub fn read(object: &ObjectFile, fits: &dyn Fn(&str) -> bool) -> Self {
        let symbols = SymbolTable::load(object, None);
        let is_changed = |start: Svma| {
            symbols.find(start).is_some_and(|symbol| CLONES.iter().any(|clone| symbol.name.contains(clone)))
        };
        let info = ProbeInfo::open(object, &DebugSearch::from_env()).ok().flatten();
        let found = info.map(|mut info| info.signatures(fits, object.machine(), &is_changed));
        let found = found.unwrap_or_default();
        let by_symbol = |signature: Signature| (symbol_start(object, &symbols, signature.svma), signature);
        let by_start = found.into_iter().map(by_symbol).collect();
        Self { by_start, machine: object.machine() }
    }

    /// None: arguments are known by their numbers only.
    #[must_use]
    pub fn nothing(machine: Machine) -> Self {
        Self { by_start: FxHashMap::default(), machine }
    }

    /// Values to record of the function at `start`; `None` if there is nothing.
    #[must_use]
    pub fn wanted(&self, start: Svma, trigger: &Trigger) -> Option<WantedValues> {
        let signature = self.by_start.get(&start);
        let mut arguments = Vec::new();
        match &trigger.arguments {
            Arguments::None => {}
            Arguments::All => {
                let parameters = signature.map(|signature| &signature.parameters);
                arguments.extend(parameters.into_iter().flatten().map(of_parameter));
            }
            Arguments::Listed(list) => {
                let registers = probe::argument_registers(self.machine);
                arguments.extend(list.iter().map(|argument| listed(argument, signature, registers)));
            }
        }
        let told = signature.and_then(|signature| signature.result.as_ref());
        let result = match &trigger.result {
            ResultSelection::None => None,
            ResultSelection::As(format) => Some(of_format(format, Incoming::General(0), Incoming::Vector(0))),
            ResultSelection::AsDeclared => told.map(of_parameter).map(|(_, items, format)| (items, format)),
        };
        if arguments.is_empty() && result.is_none() {
            return None;
        }
        let items = arguments.iter().flat_map(|(_, items, _)| items.iter().copied()).collect();
        let results = result.iter().flat_map(|(items, _)| items.iter().copied()).collect();
        let formats = FunctionFormats {
            arguments: arguments.into_iter().map(|(name, _, format)| (name, format)).collect(),
            result: result.map(|(_, format)| format),
        };
        Some(WantedValues { arguments: items, results, formats })
    }
}

/// Where the symbol of a function begins that debug information has at `entry`: gcc's begins after the nops of a
/// patchable entry on aarch64.
fn symbol_start(object: &ObjectFile, symbols: &SymbolTable, entry: Svma) -> Svma {
    const NOPS_BYTES_MOST: u64 = 32;
    let before = symbols.find(entry).map_or(0, |symbol| entry.0 - symbol.start.0);
    let start = Svma(entry.0 - before);
    let is_near = object.machine() == Machine::Aarch64 && before <= NOPS_BYTES_MOST;
    let nops = object.bytes_at(start, before as usize).filter(|_| is_near);
    if nops.is_some_and(|nops| arm::words(nops).all(|word| word == arm::NOP)) { start } else { entry }
}

/// An argument that was named by its number: as debug information has it, unless a format was given. This many
/// `registers` hold the first ones.
fn listed(
    argument: &Argument,
    signature: Option<&Signature>,
    registers: u8,
) -> (String, Vec<ValueItem>, ValueFormat) {
    let parameter = signature.and_then(|signature| signature.parameters.get(argument.number));
    if let (Some(parameter), None) = (parameter, &argument.format) {
        return of_parameter(parameter);
    }
    let format = argument.format.clone().unwrap_or(ValueFormat::Signed(8));
    let number = argument.number as u8;
    let stack = u32::from(number.saturating_sub(registers)) * 8;
    let general = if number < registers { Incoming::General(number) } else { Incoming::Stack(stack) };
    let told = parameter.filter(|_| !argument.is_float).and_then(|parameter| parameter.passed.as_ref());
    let place = told.and_then(|passed| passed.places.first()).copied().unwrap_or(general);
    let (items, format) = of_format(&format, place, Incoming::Vector(number));
    let name =
        parameter.filter(|_| !argument.is_float).map_or(String::new(), |parameter| parameter.name.clone());
    (name, items, format)
}

/// A value of a given format, in a general place or a vector register.
fn of_format(format: &ValueFormat, general: Incoming, vector: Incoming) -> (Vec<ValueItem>, ValueFormat) {
    let place = if matches!(format, ValueFormat::Float(_)) { vector } else { general };
    let how = match format {
        ValueFormat::Text => layout::HOW_TEXT,
        ValueFormat::TextObject => layout::HOW_TEXT_OBJECT,
        _ => layout::HOW_PLAIN,
    };
    (vec![item(place, how, format.bytes())], format.clone())
}

/// A value as debug information describes it.
fn of_parameter(parameter: &Parameter) -> (String, Vec<ValueItem>, ValueFormat) {
    let format = format_of(&parameter.shape);
    let how = match parameter.shape {
        Shape::Text => layout::HOW_TEXT,
        Shape::Slice => layout::HOW_SLICE,
        Shape::TextObject => layout::HOW_TEXT_OBJECT,
        _ => layout::HOW_PLAIN,
    };
    let items = match &parameter.passed {
        Some(passed) if format.pieces() > 1 || matches!(format, ValueFormat::Fields { .. }) => {
            pieces(passed, &format)
        }
        Some(passed) => vec![passed_item(passed, how, &format)],
        None => vec![nowhere(); format.pieces()],
    };
    (parameter.name.clone(), items, format)
}

/// A record's bytes, eight by eight: each in its own place, or one after the other in memory.
fn pieces(passed: &Passed, format: &ValueFormat) -> Vec<ValueItem> {
    const PIECE_BYTES: u8 = 8;
    let bytes = format.bytes();
    let in_registers = passed.places.len() == format.pieces();
    let piece = |at: u8| {
        let (index, offset) = (usize::from(at / PIECE_BYTES), u32::from(at));
        let bytes = PIECE_BYTES.min(bytes - at);
        match passed.places.as_slice() {
            [place @ Incoming::General(_)] if passed.by_reference => {
                ValueItem { offset, ..item(*place, layout::HOW_AT, bytes) }
            }
            [Incoming::Stack(first), ..] => item(Incoming::Stack(first + offset), layout::HOW_PLAIN, bytes),
            places if in_registers => {
                places.get(index).map_or(nowhere(), |place| item(*place, layout::HOW_PLAIN, bytes))
            }
            _ => nowhere(),
        }
    };
    (0..bytes).step_by(usize::from(PIECE_BYTES)).map(piece).collect()
}

fn passed_item(passed: &Passed, how: u8, format: &ValueFormat) -> ValueItem {
    if format.bytes() > 8 {
        return wide_item(passed);
    }
    let is_record = matches!(format, ValueFormat::Record(_));
    let is_string_in_memory =
        how == layout::HOW_TEXT_OBJECT && matches!(passed.places.first(), Some(Incoming::Stack(_)));
    let Some(place) = passed.places.first().filter(|_| !is_record && !is_string_in_memory) else {
        return nowhere();
    };
    let mut item = item(*place, how, format.bytes());
    if how == layout::HOW_SLICE {
        let [Incoming::General(_), Incoming::General(length)] = passed.places.as_slice() else {
            return nowhere();
        };
        item.offset = u32::from(*length);
    }
    item
}

/// A value of 16 bytes.
fn wide_item(passed: &Passed) -> ValueItem {
    let bytes = layout::WIDE_BYTES as u8;
    match passed.places.as_slice() {
        [Incoming::General(low), Incoming::General(high)] => {
            ValueItem { offset: u32::from(*high), ..item(Incoming::General(*low), layout::HOW_WIDE, bytes) }
        }
        // In two pieces, one after the other (clang before 18).
        [place @ Incoming::Stack(_), Incoming::Stack(_)] | [place @ (Incoming::Stack(_) | Incoming::X87)] => {
            item(*place, layout::HOW_WIDE, bytes)
        }
        _ => nowhere(),
    }
}

fn item(place: Incoming, how: u8, bytes: u8) -> ValueItem {
    let (from, number, offset) = match place {
        Incoming::General(number) => (layout::FROM_GENERAL, number, 0),
        Incoming::Vector(number) => (layout::FROM_VECTOR, number, 0),
        Incoming::Stack(offset) => (layout::FROM_STACK, 0, offset),
        Incoming::X87 => (layout::FROM_X87, 0, 0),
    };
    ValueItem { from, number, how, bytes, offset }
}

/// Marker of a value that is not recorded.
#[must_use]
pub fn nowhere() -> ValueItem {
    ValueItem { from: layout::FROM_NOWHERE, number: 0, how: layout::HOW_PLAIN, bytes: 0, offset: 0 }
}

fn format_of(shape: &Shape) -> ValueFormat {
    match shape {
        Shape::Integer { bytes, signed: true } => ValueFormat::Signed(*bytes),
        Shape::Integer { bytes, signed: false } => ValueFormat::Unsigned(*bytes),
        Shape::Bool => ValueFormat::Bool,
        Shape::Char { bytes } => ValueFormat::Char(*bytes),
        Shape::Float { bytes } => ValueFormat::Float(*bytes),
        Shape::Pointer => ValueFormat::Pointer,
        Shape::Text | Shape::Slice => ValueFormat::Text,
        Shape::TextObject => ValueFormat::TextObject,
        Shape::Enum { bytes, signed, names } => {
            ValueFormat::Enum { bytes: *bytes, signed: *signed, names: names.clone() }
        }
        Shape::Fields { bytes, fields } => ValueFormat::Fields {
            bytes: *bytes,
            fields: fields
                .iter()
                .map(|field| (field.name.clone(), field.offset, format_of(&field.shape)))
                .collect(),
        },
        Shape::Record(name) => ValueFormat::Record(name.clone()),
    }
}

/// A line of the file for the function at `start` of the object that the last `object` line named: words with tabs
/// between, arguments as `name=format`, the result as `->format`.
#[must_use]
pub fn line(start: Svma, formats: &FunctionFormats) -> String {
    let mut line = format!("{:x}", start.0);
    for (name, format) in &formats.arguments {
        // Writing to a String does not fail.
        let _ = write!(line, "\t{name}={}", format.word());
    }
    if let Some(format) = &formats.result {
        let _ = write!(line, "\t->{}", format.word());
    }
    line.push('\n');
    line
}

/// The file's content, by object and function start.
#[must_use]
pub fn parse(text: &str) -> FxHashMap<String, FxHashMap<Svma, FunctionFormats>> {
    let mut objects: FxHashMap<String, FxHashMap<Svma, FunctionFormats>> = FxHashMap::default();
    let mut object = String::new();
    for line in text.lines() {
        if let Some(path) = line.strip_prefix("object ") {
            path.clone_into(&mut object);
        } else if let Some((start, formats)) = parse_line(line) {
            objects.entry(object.clone()).or_default().insert(start, formats);
        }
    }
    objects
}

fn parse_line(line: &str) -> Option<(Svma, FunctionFormats)> {
    let mut words = line.split('\t');
    let start = u64::from_str_radix(words.next()?, 16).ok()?;
    let mut formats = FunctionFormats::default();
    for word in words {
        if let Some(format) = word.strip_prefix("->") {
            formats.result = Some(ValueFormat::of_word(format)?);
        } else {
            let (name, format) = word.split_once('=')?;
            formats.arguments.push((name.to_owned(), ValueFormat::of_word(format)?));
        }
    }
    Some((Svma(start), formats))
}

impl FunctionFormats {
    /// The arguments as a call shows them: `1, "abc"`.
    #[must_use]
    pub fn show_arguments(&self, bytes: &[u8]) -> String {
        let mut values = written(bytes);
        let shown = self.arguments.iter().map_while(|(_, format)| format.take(&mut values));
        shown.collect::<Vec<_>>().join(", ")
    }

    /// The arguments with their names.
    pub fn named_arguments<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = (String, String)> + 'a {
        let mut values = written(bytes);
        self.arguments.iter().zip(1..).map_while(move |((name, format), number)| {
            let name = if name.is_empty() { format!("arg{number}") } else { name.clone() };
            Some((name, format.take(&mut values)?))
        })
    }

    /// The result as a call shows it.
    #[must_use]
    pub fn show_result(&self, bytes: &[u8]) -> Option<String> {
        self.result.as_ref()?.take(&mut written(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_reads_as_written() {
        let names = vec![(1, "RED".to_owned()), (-2, "BLUE".to_owned())];
        let formats = FunctionFormats {
            arguments: vec![
                ("n".to_owned(), ValueFormat::Signed(4)),
                (String::new(), ValueFormat::Enum { bytes: 4, signed: true, names }),
                ("p".to_owned(), ValueFormat::Record("std::pair<int, long>".to_owned())),
            ],
            result: Some(ValueFormat::Text),
        };
        let text = format!("object /bin/app\n{}", line(Svma(0x1234), &formats));
        assert_eq!(parse(&text)["/bin/app"][&Svma(0x1234)], formats);
        assert_eq!(
            formats.show_arguments(&[4, 7, 0, 0, 0, 4, 1, 0, 0, 0, 255]),
            "7, RED, std::pair<int, long>{...}"
        );
        assert_eq!(formats.show_result(b"\x02ok"), Some("\"ok\"".to_owned()));
    }
}
