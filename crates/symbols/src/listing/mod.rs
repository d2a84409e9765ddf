//! Annotated code: a function's instructions with what the samples hit, between its source lines.
//!
//! Numbers come from [`profile::view::annotate`], code, lines and source from the files; this module brings
//! them together into plain [`Listing`]s for text and screen.

mod code;
mod hottest;
mod kernel;
mod nameless;
mod python;
mod source;
mod wanted;

pub use hottest::{Excerpt, HottestCode, HottestLines};
pub use kernel::{KernelCode, KernelCodeError, KernelIdentity};
pub use source::{ObjectSources, SourceFile, Sources};
pub use wanted::{wanted_callers, wanted_functions};

use crate::ObjectFiles;
use dso::code::disasm::{BranchTarget, Syntax};
use dso::{Missing, Svma};
use profile::profile::{Profile, Sums};
use profile::table::Dso;
use profile::view::annotate::AnnotateFunction;
use std::path::PathBuf;
use std::sync::Arc;

/// Content of a listing.
#[derive(Clone, Debug, Default)]
pub struct ListingOpts {
    /// AT&T or Intel.
    pub syntax: Syntax,
    /// Source lines and the names of inlined functions.
    pub source: bool,
    /// For machines we have no disassembler for; `objdump` from the PATH by default.
    pub objdump: Option<PathBuf>,
    /// Where the kernel's code comes from.
    pub kernel: Option<Arc<KernelCode>>,
}

/// One line of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// The code from here on belongs to this (possibly inlined) function.
    Function(String),
    /// The code from here on is of this line, whose text isn't to be had.
    Place {
        /// As in the debug information.
        file: String,
        /// From 1.
        line: u32,
    },
    /// A line of source.
    Source {
        /// From 1.
        line: u32,
        /// Text.
        text: String,
    },
    /// A line of source that an interpreter ran.
    Statement {
        /// As the interpreter names it.
        file: String,
        /// From 1.
        line: u32,
        /// Text; empty if it isn't to be had.
        text: String,
        /// By event.
        sums: Vec<Sums>,
    },
    /// An instruction.
    Code(CodeLine),
}

/// One instruction with its hits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeLine {
    /// Stated address.
    pub svma: Svma,
    /// Length in bytes; 0 if the code could not be had.
    pub len: usize,
    /// Disassembly; empty if the code could not be had.
    pub text: String,
    /// Where a jump or call goes.
    pub branch: Option<BranchTarget>,
    /// By event.
    pub sums: Vec<Sums>,
    /// File and line (0 if unknown) of the innermost function.
    pub place: Option<(String, u32)>,
}

/// A function, annotated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Name with parameters, `[unknown]` for nameless code.
    pub name: String,
    /// Short name of its file.
    pub dso: String,
    /// Where the file was found.
    pub path: Option<PathBuf>,
    /// The section the code is in.
    pub section: String,
    /// First address.
    pub start: Svma,
    /// All hits, by event.
    pub totals: Vec<Sums>,
    /// In the order of the code.
    pub lines: Vec<Line>,
    /// Why the code itself is missing.
    pub no_code: Option<Missing>,
}

/// The function that a listing is of.
#[derive(Clone, Copy)]
struct ListedFunction<'a> {
    dso: &'a Dso,
    /// `None` for code without a name.
    name: Option<&'a str>,
    function: &'a AnnotateFunction,
}

/// Makes the listings of `function`: one, or for nameless code one per piece.
pub fn listings(
    profile: &Profile,
    files: &ObjectFiles,
    sources: &Sources,
    function: &AnnotateFunction,
    opts: &ListingOpts,
) -> Vec<Listing> {
    let dso = profile.dsos.of(function.dso);
    let name = function.name.map(|name| profile.strings.of(name));
    let of = ListedFunction { dso, name, function };
    match files.open(dso).as_ref() {
        Err(why) => match files.python_function(dso, function.start) {
            Some(python) => vec![python::listing(of, python, sources)],
            None => vec![without_code(of, *why)],
        },
        Ok(file) if file.object().is_none() => {
            let known = kernel::listing(of, file, sources, opts);
            vec![known.unwrap_or_else(|why| without_code(of, why))]
        }
        Ok(file) if name.is_none() => nameless::pieces(dso, file, function)
            .iter()
            .map(|piece| code::listing(ListedFunction { function: piece, ..of }, file, sources, opts))
            .collect(),
        Ok(file) => vec![code::listing(of, file, sources, opts)],
    }
}

/// Only the addresses hit.
fn without_code(of: ListedFunction<'_>, why: Missing) -> Listing {
    let ListedFunction { dso, name, function } = of;
    let line = |a: &profile::view::annotate::AnnotateAddress| {
        let (svma, sums) = (Svma(a.addr), a.sums.clone());
        Line::Code(CodeLine { svma, len: 0, text: String::new(), branch: None, sums, place: None })
    };
    Listing {
        name: name.unwrap_or("[unknown]").to_owned(),
        dso: dso.short_name.clone(),
        path: None,
        section: String::new(),
        start: Svma(function.start),
        totals: function.totals.clone(),
        lines: function.addresses.iter().map(line).collect(),
        no_code: Some(why),
    }
}
