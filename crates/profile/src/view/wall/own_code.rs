//! Frames of a program's own code.

use super::{is_c_library, name_of, place_names};
use crate::machine::language_runtime::runtime_of;
use crate::off_cpu::work_waits::java_method;
use crate::profile::Profile;
use crate::table::{DsoKind, FrameId};

/// Code of a program or its libraries, without the C library. Where functions of Python or Java are on the stack, those of
/// the interpreter and the JVM are none.
pub(crate) fn own_code<'f>(
    profile: &Profile,
    frames: &'f [FrameId],
) -> impl DoubleEndedIterator<Item = &'f FrameId> {
    let dso = |frame: FrameId| profile.dsos.of(profile.frames.of(frame).dso);
    let runs_python = frames.iter().any(|frame| dso(*frame).kind == DsoKind::Python);
    let is_java = |frame: FrameId| {
        matches!(dso(frame).kind, DsoKind::PerfMap { .. })
            && name_of(profile, frame).is_some_and(|name| java_method(name).is_some())
    };
    let runs_java = frames.iter().any(|frame| is_java(*frame));
    let is_own = move |frame: FrameId| {
        let dso = dso(frame);
        let is_code = matches!(dso.kind, DsoKind::File | DsoKind::PerfMap { .. } | DsoKind::Python);
        let is_interpreter = match runtime_of(&dso.short_name) {
            Some("python") => runs_python,
            Some("JVM") => runs_java,
            _ => false,
        };
        let is_named = || place_names(profile, frame).next().is_some();
        is_code && !is_interpreter && !is_c_library(&dso.short_name) && is_named()
    };
    frames.iter().filter(move |frame| is_own(**frame))
}
