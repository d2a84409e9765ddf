//! The functions that the flags of a recording by uprobes select, and how their ends are seen.

use calls::probing::{ProbeSelection, return_hazards};
use record::calls::Exits;
use std::path::Path;

use super::kernel;
use super::record_spec::RecordSpec;
use crate::terminal::out;

/// The functions that the flags mean, in a program or processes.
///
/// # Errors
/// If a list of functions can't be read, or return probes would end the program.
pub fn selection(args: &RecordSpec, program: Option<&Path>) -> anyhow::Result<ProbeSelection> {
    let exits = exits_for(args, program)?;
    let callees = args.probes.callees.as_ref();
    let of_program = args.patch.iter().filter(|word| !kernel::is_of_kernel(word));
    let words: Vec<String> =
        of_program.chain(callees.and_then(|callees| callees.of.as_ref())).cloned().collect();
    Ok(ProbeSelection::parse(&words, callees.map_or(0, |callees| callees.depth), exits)?)
}

/// Return probes only where asked for, or where no return instruction can be found.
fn exits_for(args: &RecordSpec, program: Option<&Path>) -> anyhow::Result<Exits> {
    if args.probes.entries {
        return Ok(Exits::None);
    }
    if !args.probes.return_probes {
        return Ok(Exits::Sites);
    }
    let looking = return_hazards::check(program, &args.probes.pid)?;
    for (path, what) in looking.iter().filter(|_| !args.quiet) {
        out::note(&format!(
            "tally calls: {} uses {what}: while return probes are in place, what it sees of a stack ends at the \
             innermost probed function; without --return-probes it sees all",
            path.display()
        ));
    }
    Ok(Exits::Return)
}
