//! Where a program can be instrumented: compiled-in calls, and sleds (nops) to patch.

use crate::error::Context;
use dso::{Machine, ObjectFile, Svma};
use std::collections::HashSet;
use std::path::Path;

use super::cyg_profile;
use super::entry_hook::{EntryHook, start_of};
use super::source_files::SourceFiles;
use crate::recording::imports::ImportSlots;
use crate::selection::rules::Rules;
use crate::selection::trigger::{Arguments, Trigger};
use crate::values::{self, DescribedFunctions, FunctionFormats};
use tracer::layout::sleds::{self, Sled};

/// Sleds and imports found in an object file.
#[derive(Debug, Default)]
pub struct Instrumented {
    /// The calls compiled in, such as `__fentry__`.
    pub calls: Vec<&'static str>,
    /// Places to patch.
    pub sleds: Vec<Sled>,
    /// Specifications of values.
    pub specs: Vec<u8>,
    /// The same for those who show them: lines of the file `values`.
    pub formats: String,
    /// Sleds at functions wanted.
    pub wanted_sleds: usize,
    /// Functions wanted whose call of `mcount` stays as it is.
    pub wanted_calls: usize,
    /// Imported functions wanted, by name.
    pub imports: Vec<(String, Sled)>,
    /// Imported functions that can't be recorded although selected, because their addresses are used as pointers, too.
    pub read_imports: Vec<String>,
    /// Symbols of the functions that are recorded by their own sleds or calls.
    pub names: HashSet<String>,
    /// Functions at which something more is done.
    pub ruled: usize,
    /// Functions whose values are recorded and of which at least one value is known.
    pub valued: usize,
    /// Functions among those that are seen too late for their arguments.
    pub late: usize,
    /// Calls that report functions whose values are wanted, and can't get them: inlined ones, or in code that is not
    /// understood.
    pub untold: usize,
    /// It opens libraries while it runs, which may have selected functions.
    pub opens_libraries: bool,
    /// Its code was built to run with a shadow stack, too.
    pub allows_shadow_stack: bool,
    /// It needs the address sanitizer's library.
    pub needs_asan: bool,
    /// Functions that no pattern means.
    pub left: usize,
    /// No loader starts it, as it is statically linked (of no meaning in a library): nothing can be preloaded.
    pub is_static: bool,
}

/// A place that the compiler left for hooks, or the slot of an import.
#[derive(Clone, Copy)]
struct FoundSled {
    /// Address.
    svma: Svma,
    /// Start of its function.
    start: Svma,
    /// Bits of its kind, see `layout::sleds`.
    rules: u32,
}

impl Instrumented {
    /// Whether the tracer has anything to do there.
    #[must_use]
    pub fn is_any(&self) -> bool {
        !self.sleds.is_empty() || !self.imports.is_empty() || !self.names.is_empty()
    }

    /// Whether the program was built to be traced.
    #[must_use]
    pub fn is_instrumented(&self) -> bool {
        !self.calls.is_empty() || self.wanted_sleds > 0 || self.left > 0
    }

    /// Whether its functions report their entries and exits themselves.
    #[must_use]
    pub fn reports(&self) -> bool {
        self.calls.contains(&REPORTS)
    }

    /// Possible recording at a call of `mcount`: on aarch64 the compiler has moved the arguments before it.
    fn at_call(&mut self, machine: Machine, mut trigger: Trigger) -> Trigger {
        if machine == Machine::Aarch64 && trigger.arguments != Arguments::None {
            trigger.arguments = Arguments::None;
            self.late += 1;
        }
        trigger
    }

    /// Values are recorded there of the function at `start`.
    pub fn add_values(&mut self, sled: &mut Sled, start: Svma, spec: Vec<u8>, formats: &FunctionFormats) {
        sled.rules |= sleds::VALUES;
        sled.spec = self.specs.len() as u32;
        self.specs.extend(spec);
        self.formats.push_str(&values::line(start, formats));
        self.valued += 1;
    }

    fn add(&mut self, sled: FoundSled, trigger: &Trigger, described: &DescribedFunctions) {
        let FoundSled { svma, start, rules } = sled;
        let mut sled = Sled {
            svma: svma.0,
            rules: rules | trigger.rules,
            depth: trigger.depth,
            min_ns: trigger.min_ns,
            ..Sled::default()
        };
        if let Some(values) = described.wanted(start, trigger) {
            self.add_values(&mut sled, start, values.spec(), &values.formats);
        }
        self.ruled += usize::from(*trigger != Trigger::default());
        // A call of mcount at which nothing more is done stays as it is.
        if sled.rules == sleds::CALL {
            self.wanted_calls += 1;
        } else {
            self.sleds.push(sled);
        }
    }
}

/// The option by which functions report their entries and exits themselves.
const REPORTS: &str = "-finstrument-functions";
/// The functions that compiled-in calls go to, with what the compiler calls the option.
const CALLS: [(&str, &str); 4] = [
    ("__fentry__", "-mfentry"),
    ("mcount", "-pg"),
    ("_mcount", "-pg"),
    ("__cyg_profile_func_enter", REPORTS),
];

/// Looks through an object file; `rules` choose among its functions, `with_imports` also those that it imports.
///
/// # Errors
/// If the file can't be read or is no ELF file.
pub fn look(path: &Path, rules: &Rules, with_imports: bool) -> crate::Result<Instrumented> {
    let object = ObjectFile::open(path).with_context(|| format!("can't read {}", path.display()))?;
    let mut found =
        Instrumented { is_static: object.section(".interp").is_none(), ..Instrumented::default() };
    found.allows_shadow_stack = dso::elf::property::allows_shadow_stack(&object);
    found.calls = compiled_in(&object);
    found.needs_asan = needs_asan(&object);
    // Most libraries have nothing to patch: nothing more is read of them.
    let may_have = !found.calls.is_empty() || has_sleds(&object);
    let is_worth_it = may_have || with_imports && rules.imports_anyway;
    if !is_worth_it {
        return Ok(found);
    }
    let described = if rules.any_values() {
        // A function of a source file is not known by its name alone.
        DescribedFunctions::read(&object, &|name| rules.any_file() || rules.of(name, None).has_values())
    } else {
        DescribedFunctions::nothing(object.machine())
    };
    found.opens_libraries = with_imports && dso::elf::plt::referenced(&object).contains("dlopen");
    if may_have {
        look_at_functions(&object, rules, &described, &mut found);
    }
    let chooses = rules.any() || rules.any_values() || !rules.wanted.is_empty();
    if chooses && found.reports() {
        cyg_profile::look(&object, rules, &described, &mut found);
    }
    if with_imports && (found.is_instrumented() || rules.imports_anyway) {
        let sleds = std::mem::take(&mut found.sleds);
        let imports = ImportSlots::of(&object);
        found.read_imports = imports.read;
        found.read_imports.retain(|name| rules.wants(name, None));
        for import in imports.recordable.into_iter().filter(|import| rules.wants(&import.name, None)) {
            found.add(
                FoundSled { svma: import.slot, start: import.slot, rules: sleds::IMPORT },
                &rules.of(&import.name, None),
                &described,
            );
            let sled = found.sleds.pop().expect("invariant: an import is always added");
            found.imports.push((import.name, sled));
        }
        found.sleds = sleds;
    }
    if !found.formats.is_empty() {
        found.formats.insert_str(0, &format!("object {}\n", path.display()));
    }
    Ok(found)
}

/// Whether a library of that name is among the names it has for the loader.
fn needs_asan(object: &ObjectFile) -> bool {
    let named = object.section_bytes(".dynstr").ok().flatten();
    named.as_deref().unwrap_or_default().split(|byte| *byte == 0).any(|name| name.starts_with(b"libasan.so"))
}

/// Hook functions that the object calls at entries of functions.
fn compiled_in(object: &ObjectFile) -> Vec<&'static str> {
    let named = object.section_bytes(".dynstr").ok().flatten();
    let named = named.as_deref().unwrap_or_default();
    let is_named = |name: &str| named.split(|byte| *byte == 0).any(|text| text == name.as_bytes());
    if !CALLS.iter().any(|(name, _)| is_named(name)) {
        return Vec::new();
    }
    // The C library has these names, too, but calls none of them.
    let referenced = dso::elf::plt::referenced(object);
    let mut calls: Vec<&str> =
        CALLS.iter().filter(|(name, _)| referenced.contains(*name)).map(|(_, option)| *option).collect();
    calls.dedup();
    calls
}

/// Whether the compiler left nops at entries: most libraries have none, and looking for them takes long.
fn has_sleds(object: &ObjectFile) -> bool {
    let lists = ["__patchable_function_entries", "xray_instr_map", "__mcount_loc"];
    lists.iter().any(|name| object.section(name).is_some()) || object.has_symtab()
}

fn look_at_functions(
    object: &ObjectFile,
    rules: &Rules,
    described: &DescribedFunctions,
    found: &mut Instrumented,
) {
    let symbols = dso::SymbolTable::load(object, None);
    let mut files = SourceFiles::new(object);
    for symbol in symbols.iter() {
        let Some(start) = start_of(object, &symbols, symbol.start) else { continue };
        if found.calls.is_empty() && !matches!(start, EntryHook::Sled(_)) {
            continue;
        }
        let name = dso::demangle(symbol.name);
        let file = if rules.any_file() { files.of(symbol.start) } else { None };
        let (trigger, is_wanted) = rules.chosen(&name, file.as_deref());
        found.left += usize::from(!is_wanted);
        if is_wanted {
            found.names.insert(symbol.name.to_owned());
        }
        match start {
            EntryHook::Sled(at) if is_wanted => {
                found.wanted_sleds += 1;
                found.add(FoundSled { svma: at, start: symbol.start, rules: 0 }, &trigger, described);
            }
            EntryHook::Call(at) if is_wanted => {
                let trigger = found.at_call(object.machine(), trigger);
                found.add(
                    FoundSled { svma: at, start: symbol.start, rules: sleds::CALL },
                    &trigger,
                    described,
                );
            }
            // A nop stays one, a call becomes one.
            EntryHook::Sled(at) | EntryHook::Call(at) => {
                found.sleds.push(Sled { svma: at.0, rules: sleds::OFF, ..Sled::default() });
            }
        }
    }
}
