//! The functions that a listing was asked for by name.

use crate::{Recording, UnnamedCode, name_all};
use profile::source::Want;
use profile::view::annotate::{AnnotateFunction, AnnotateOpts, NameMatch, annotate};
use profile::view::call_sites::{CallTime, annotate_calls_named};

/// The functions with samples, under the first kind of name that there are any by; `opts` has it then.
pub fn wanted_functions(recording: &mut Recording, opts: &mut AnnotateOpts) -> Vec<AnnotateFunction> {
    opts.names = NameMatch::Own;
    let mut functions = annotate(&recording.profile, opts);
    if functions.is_empty() && !opts.symbols.is_empty() {
        // Other views name inlined functions as well.
        name_all(&mut recording.profile, &recording.files, Want::Lines, UnnamedCode::Functions);
        for names in [NameMatch::Inlined, NameMatch::Brief] {
            if functions.is_empty() {
                opts.names = names;
                functions = annotate(&recording.profile, opts);
            }
        }
    }
    functions
}

/// Functions that no sample ends in, with the time of what they call; none if they are in no stack.
pub fn wanted_callers(
    recording: &Recording,
    opts: &mut AnnotateOpts,
) -> (Vec<AnnotateFunction>, Option<CallTime>) {
    let mut found = Vec::new();
    for names in [NameMatch::Own, NameMatch::Inlined, NameMatch::Brief] {
        if found.is_empty() {
            opts.names = names;
            found = annotate_calls_named(&recording.profile, opts);
        }
    }
    let time = found.first().map(|(_, time)| *time);
    (found.into_iter().map(|(function, _)| function).collect(), time)
}
