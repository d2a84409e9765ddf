//! Functions that report themselves (`-finstrument-functions`): the calls at which more is done than recording them.

use dso::code::value_tracking::{Copy, EntryReport, Held, MovedArguments, Reports};
use dso::dwarf::probe::Incoming;
use dso::{ObjectFile, Svma, SymbolTable};
use std::collections::HashMap;
use tracer::layout::moved::{self, PLACES, STACK};
use tracer::layout::sleds::{self, Sled};
use tracer::layout::values::{self as layout, ValueItem};

use super::sleds::Instrumented;
use super::source_files::SourceFiles;
use crate::selection::rules::Rules;
use crate::selection::trigger::Trigger;
use crate::values::{DescribedFunctions, nowhere};

/// Looks for them in an object.
pub fn look(object: &ObjectFile, rules: &Rules, described: &DescribedFunctions, found: &mut Instrumented) {
    let symbols = SymbolTable::load(object, None);
    let reports = Reports::new(object, &symbols);
    let mut look =
        TriggerSearch { rules, files: SourceFiles::new(object), symbols: &symbols, known: HashMap::new() };
    for symbol in symbols.iter() {
        for report in reports.of(symbol.start, symbol.end) {
            let Some((trigger, is_wanted)) = look.of(report.function, found) else { continue };
            found.add_reported(&report, &trigger, is_wanted, described);
        }
    }
}

/// Actions at functions, each looked up once.
struct TriggerSearch<'a, 'b> {
    rules: &'a Rules,
    files: SourceFiles<'b>,
    symbols: &'a SymbolTable,
    known: HashMap<Svma, Option<(Trigger, bool)>>,
}

impl TriggerSearch<'_, '_> {
    /// Actions at the function at `start`, and whether it is recorded; `None` if no function begins there.
    fn of(&mut self, start: Svma, found: &mut Instrumented) -> Option<(Trigger, bool)> {
        if let Some(known) = self.known.get(&start) {
            return known.clone();
        }
        let symbol = self.symbols.find(start).filter(|symbol| symbol.start == start);
        let chosen = symbol.map(|symbol| {
            let name = dso::demangle(symbol.name);
            let file = if self.rules.any_file() { self.files.of(start) } else { None };
            let (trigger, is_wanted) = self.rules.chosen(&name, file.as_deref());
            found.left += usize::from(!is_wanted);
            found.wanted_calls += usize::from(is_wanted);
            found.ruled += usize::from(trigger != Trigger::default());
            (trigger, is_wanted)
        });
        self.known.insert(start, chosen.clone());
        chosen
    }
}

impl Instrumented {
    /// A call that reports a function, which is recorded or not.
    fn add_reported(
        &mut self,
        report: &EntryReport,
        trigger: &Trigger,
        is_wanted: bool,
        described: &DescribedFunctions,
    ) {
        let mut sled = Sled {
            svma: report.at.0,
            function: report.function.0,
            rules: sleds::REPORTED | trigger.rules | if is_wanted { 0 } else { sleds::OFF },
            depth: trigger.depth,
            min_ns: trigger.min_ns,
            ..Sled::default()
        };
        let values = described.wanted(report.function, trigger).filter(|_| is_wanted);
        match (values, &report.moved) {
            (Some(mut values), Some(moved)) => {
                values.arguments.iter_mut().for_each(|item| *item = kept(*item, moved));
                let spec = [values.spec(), table(moved).to_bytes().to_vec()].concat();
                self.add_values(&mut sled, report.function, spec, &values.formats);
            }
            (Some(_), None) => self.untold += 1,
            (None, _) => {}
        }
        // Where nothing more is done, the call stays as it is.
        if sled.rules != sleds::REPORTED {
            self.sleds.push(sled);
        }
    }
}

/// A value, if what it was read from at the entry is still there as a whole.
fn kept(item: ValueItem, moved: &MovedArguments) -> ValueItem {
    let has = |place: Incoming, bytes: u8| moved.of(place).is_some_and(|copy| copy.bytes >= bytes);
    let bytes = if item.how == layout::HOW_PLAIN { item.bytes } else { 8 };
    let first = match item.from {
        layout::FROM_GENERAL => has(Incoming::General(item.number), bytes),
        layout::FROM_VECTOR => has(Incoming::Vector(item.number), bytes),
        _ => return item,
    };
    let is_pair =
        item.from == layout::FROM_GENERAL && [layout::HOW_SLICE, layout::HOW_WIDE].contains(&item.how);
    let second = !is_pair || has(Incoming::General(item.offset as u8), 8);
    if first && second { item } else { nowhere() }
}

/// As the tracer reads it.
fn table(moved: &MovedArguments) -> moved::Moved {
    let word = |copy: &Option<Copy>| match copy.map(|copy| copy.place) {
        Some(Held::General(number)) => u32::from(number),
        Some(Held::Vector(number)) => 16 + u32::from(number),
        Some(Held::Stack(above)) => STACK.wrapping_add_signed(above),
        None => moved::NOWHERE,
    };
    let mut places = [moved::NOWHERE; PLACES];
    let all = moved.general.iter().chain(&moved.vector);
    places.iter_mut().zip(all).for_each(|(place, copy)| *place = word(copy));
    let (register, add) = moved.return_address;
    moved::Moved { register: u32::from(register), add, places }
}
