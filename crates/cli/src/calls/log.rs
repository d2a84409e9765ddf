//! `tally calls replay`: every call in order, nested, with its duration.

use calls::model::{End, Extra, FunctionId};
use std::io::{self, Write};

use crate::terminal::out::harmless;
use calls::recording::kernel;
use calls::view::View;
use calls::view::call_lines::{CallLine, LineKind, NamedCall, each_line};
use calls::view::thread_track::ThreadTrack;
use display::number;

/// Prints all threads' calls, merged by time.
///
/// # Errors
/// If writing fails.
pub fn write(out: &mut impl Write, view: &View<'_>) -> io::Result<()> {
    writeln!(out, "# DURATION       TID     FUNCTION")?;
    each_line(view, &mut |track, line| write_line(out, view, track, line))
}

fn write_line(
    out: &mut impl Write,
    view: &View<'_>,
    track: &ThreadTrack<'_>,
    line: &CallLine,
) -> io::Result<()> {
    let (took, text) = match &line.what {
        LineKind::Begin(named) => (String::new(), format!("{} {{", call(view, track, *named))),
        LineKind::End { named, .. } if kernel::is_moment(view.functions.of(named.function)) => {
            (String::new(), format!("/* {} */", view.functions.of(named.function).name))
        }
        &LineKind::End { named, ns, has_inner, result, end } => {
            let left = match end {
                End::Returned => "",
                End::Unwound => " /* left without returning */",
                End::Open => " /* its end was not recorded */",
            };
            let result = result_of(view, track, named.function, result);
            let text = match (has_inner, result) {
                (false, None) => format!("{};{left}", call(view, track, named)),
                (false, Some(result)) => format!("{} = {result};{left}", call(view, track, named)),
                (true, None) => format!("}} /* {} */{left}", name(view, named.function, "")),
                (true, Some(result)) => {
                    format!("}} = {result}; /* {} */{left}", name(view, named.function, ""))
                }
            };
            (ns.map(number::duration_ns).unwrap_or_default(), text)
        }
        LineKind::Around(functions) => {
            let names: Vec<_> =
                functions.iter().map(|id| harmless(&view.functions.of(*id).name).into_owned()).collect();
            (String::new(), format!("/* inside {} */", names.join(" > ")))
        }
        LineKind::Lost(calls) => (String::new(), format!("/* {} calls lost */", number::grouped(*calls))),
    };
    writeln!(out, "{took:>10} [{:>7}] | {:indent$}{text}", track.tid, "", indent = line.depth * 2)
}

/// A call as the source would write it.
fn call(view: &View<'_>, track: &ThreadTrack<'_>, named: NamedCall) -> String {
    let formats = view.functions.values(named.function);
    let shown = named.arguments.and_then(|extra| Some(formats?.show_arguments(track.extra(extra))));
    name(view, named.function, &shown.unwrap_or_default())
}

/// A function's name with these arguments, instead of the types of its parameters if there are any.
fn name(view: &View<'_>, function: FunctionId, arguments: &str) -> String {
    let name = harmless(&view.functions.of(function).name).into_owned();
    match name.split_once('(') {
        Some((short, _)) if !arguments.is_empty() && name.ends_with(')') => format!("{short}({arguments})"),
        _ if name.ends_with(')') => name,
        _ => format!("{name}({arguments})"),
    }
}

fn result_of(
    view: &View<'_>,
    track: &ThreadTrack<'_>,
    function: FunctionId,
    result: Option<Extra>,
) -> Option<String> {
    view.functions.values(function)?.show_result(track.extra(result?))
}
