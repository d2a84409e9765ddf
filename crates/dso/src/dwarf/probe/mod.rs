//! DWARF data for probes: the addresses of functions and lines, and the locations of variables at an address.
//!
//! Knows nothing about tracefs and the text of probe definitions. The choices (which address represents a line,
//! which scope a variable is looked up in, when a prologue is skipped) are those of `perf probe`.

mod convention;
mod find;
mod lines;
mod place;
mod point;
mod seeker;
mod shape;
mod signature;
mod tree;
mod types;
mod variable;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use gimli::{DebugFrame, Dwarf, EhFrame, Section as _};

use super::metered::{Counted, Meter};
use super::resolver::{DwarfUse, Reader, Sections, debug_file, load_with_alt, section};
use crate::{DebugSearch, Error, ObjectFile, bounds};
use tree::{Unit, UnitTree};

pub use convention::{Incoming, Passed, argument_registers};
pub use lines::SourceLines;
pub use place::VariablePlace;
pub use point::{LineError, Point, SourcePoint};
pub use signature::{Parameter, RecordField, Shape, Signature};
pub use variable::{Access, AccessStep, TypeShape, Value, ValueForm, Variable};

/// Why a variable cannot be had at an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unavailable {
    /// No variable of that name can be seen there; near names, if any.
    #[error("no variable '{name}' can be seen there{}", near(.known))]
    Unknown {
        /// As asked for.
        name: String,
        /// The variables in scope.
        known: Vec<String>,
    },
    /// The compiler left it out.
    #[error("the compiler has optimized it out")]
    OptimizedOut,
    /// It lives elsewhere in the function, but not at this address.
    #[error("it has no place at this address (optimized out, or not alive yet)")]
    NotHere,
    /// Its value is computed from others and stored nowhere.
    #[error("its value is computed from others there and stored nowhere")]
    Computed,
    /// Its parts are in several places.
    #[error("its parts are in several registers or places")]
    InPieces,
    /// Location needs the frame, but the address has no unwind table.
    #[error("it is in the stack frame, but this address has no unwind table")]
    NoFrame,
    /// It is in a register that probes cannot read (vector and floating-point registers).
    #[error("it is in a register that probes cannot read")]
    Register(u16),
    /// The DWARF is damaged.
    #[error("its debug information cannot be read")]
    Damaged,
    /// `.` or `->` on something that has no members.
    #[error("'{0}' is not a struct or union")]
    NoRecord(String),
    /// No such member.
    #[error("there is no member '{name}'{}", near(.known))]
    NoMember {
        /// As asked for.
        name: String,
        /// The record's members.
        known: Vec<String>,
    },
    /// `[n]` on something that is neither array nor pointer.
    #[error("'{0}' is neither array nor pointer")]
    NoArray(String),
    /// A member of a struct that is held in a register.
    #[error("it is a struct in a register; probes read members in memory only")]
    RecordInRegister,
    /// `:string` on something that is not text.
    #[error("it is not a pointer to char nor an array of char, so it cannot be shown as a string")]
    NoText,
}

/// `; it has a, b, c`, or nothing.
fn near(known: &[String]) -> String {
    const SHOWN: usize = 12;
    if known.is_empty() {
        return String::new();
    }
    let more = if known.len() > SHOWN { ", …" } else { "" };
    format!("; there are {}{more}", known[..known.len().min(SHOWN)].join(", "))
}

/// Unwind tables, for variables that are placed relative to the frame.
struct Cfi {
    eh_frame: EhFrame<Reader>,
    eh_frame_svma: u64,
    text_svma: u64,
    debug_frame: DebugFrame<Reader>,
}

/// One object file's debug information, read unit by unit as probes need it.
pub struct ProbeInfo {
    dwarf: Dwarf<Reader>,
    /// Bytes of its sections.
    bytes: u64,
    /// Meter for all units that are read whole and kept.
    meter: Meter,
    program: Option<PathBuf>,
    cfi: Cfi,
    units: Vec<Unit>,
    /// Units read whole so far.
    trees: HashMap<usize, UnitTree>,
}

impl ProbeInfo {
    /// For `object`, or the debug file that `search` finds for it. `Ok(None)` if there is no DWARF.
    pub fn open(object: &ObjectFile, search: &DebugSearch) -> Result<Option<Self>, Error> {
        let found = debug_file(object, search);
        let file = found.as_ref().unwrap_or(object);
        let loaded = load_with_alt(file, search, DwarfUse::Variables)?;
        let Some(Sections { dwarf, bytes }) = loaded else { return Ok(None) };
        let mut meter = Meter::of(bytes);
        let svma = |name: &str| object.section(name).map_or(0, |s| s.svma.start);
        let mut debug_frame = DebugFrame::from(section(file, DebugFrame::<Reader>::section_name()));
        let mut eh_frame = EhFrame::from(section(object, EhFrame::<Reader>::section_name()));
        let address_size = if object.is_64() { 8 } else { 4 };
        debug_frame.set_address_size(address_size);
        eh_frame.set_address_size(address_size);
        let cfi = Cfi { eh_frame, eh_frame_svma: svma(".eh_frame"), text_svma: svma(".text"), debug_frame };
        let units = meter.run(|| units(&dwarf)).map_err(Error::Dwarf)?;
        let program = file.path().map(Path::to_owned);
        Ok(Some(Self { dwarf, bytes, meter, program, cfi, units, trees: HashMap::new() }))
    }

    /// Counts what is read to answer one question.
    fn count(&self) -> Counted {
        Counted::reading(self.bytes, self.program.as_deref())
    }

    /// The whole unit; `None` if it is damaged.
    fn tree(&mut self, index: usize) -> Option<&UnitTree> {
        if !self.trees.contains_key(&index) {
            let header = self.units.get(index)?.header;
            let dwarf = &self.dwarf;
            let tree = self.meter.run(|| UnitTree::read(dwarf, dwarf.unit(header)?));
            if self.meter.is_spent() {
                bounds::refuse(self.program.as_deref(), "debug information");
            }
            self.trees.insert(index, tree.ok()?);
        }
        self.trees.get(&index)
    }
}

/// All units, their heads read.
fn units(dwarf: &Dwarf<Reader>) -> gimli::Result<Vec<Unit>> {
    let mut units = Vec::new();
    let mut headers = dwarf.units();
    while let Some(header) = headers.next()? {
        units.push(dwarf.unit(header)?);
    }
    Ok(units)
}
