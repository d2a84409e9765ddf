//! A program's own functions on a path: those of its interpreted language, without those of the language's libraries.

use crate::profile::Profile;
use crate::table::{CallsiteId, DsoKind, FrameId};
use crate::view::hot_functions::program_code::is_own;
use crate::view::wall::{is_kernel, name_of, own_code};

/// The program's functions on a path, root first, without these: of an interpreted language if it has any there, and of
/// the program's own files if it has any there.
pub(super) fn program_functions(profile: &Profile, callsite: CallsiteId, without: &[String]) -> Vec<String> {
    let frames = user_frames(profile, callsite);
    let name = |frame: &FrameId| name_of(profile, *frame).unwrap_or("").to_owned();
    let scripted = scripted_functions(profile, &frames, without);
    if !scripted.is_empty() {
        return scripted;
    }
    let named = own_code(profile, &frames).map(name).filter(|name| !name.is_empty());
    named.filter(|name| !without.contains(name)).collect()
}

/// The program's innermost function of an interpreted language on a path, and its caller, as in a sentence; `None` if
/// there is none but these.
pub(super) fn script_function(profile: &Profile, callsite: CallsiteId, without: &[String]) -> Option<String> {
    let functions = scripted_functions(profile, &user_frames(profile, callsite), without);
    let (name, callers) = functions.split_last()?;
    let caller = callers.last().map_or_else(String::new, |caller| super::gil::in_sentence(caller));
    Some(after(&super::gil::in_sentence(name), &caller))
}

/// A function and the one that calls it, if that is known.
pub(super) fn after(name: &str, caller: &str) -> String {
    if caller.is_empty() { name.to_owned() } else { format!("{name} ← {caller}") }
}

fn user_frames(profile: &Profile, callsite: CallsiteId) -> Vec<FrameId> {
    let mut frames: Vec<FrameId> =
        profile.callsites.leaf_first(callsite).filter(|&frame| !is_kernel(profile, frame)).collect();
    frames.reverse();
    frames
}

fn scripted_functions(profile: &Profile, frames: &[FrameId], without: &[String]) -> Vec<String> {
    let name = |frame: &FrameId| name_of(profile, *frame).unwrap_or("").to_owned();
    let is_meant = |frame: &&FrameId| is_scripted(profile, **frame) && !without.contains(&name(frame));
    let scripted: Vec<FrameId> = frames.iter().filter(is_meant).copied().collect();
    let own: Vec<String> = scripted.iter().filter(|frame| is_own(profile, **frame)).map(name).collect();
    if own.is_empty() { scripted.iter().map(name).collect() } else { own }
}

/// True for functions of Python, and of JavaScript outside of Node itself.
fn is_scripted(profile: &Profile, frame: FrameId) -> bool {
    let kind = profile.dsos.of(profile.frames.of(frame).dso).kind;
    let is_script = |name: &str| dso::v8_function(name).is_some() && !name.contains(" node:");
    kind == DsoKind::Python || name_of(profile, frame).is_some_and(is_script)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_follows_its_function() {
        assert_eq!(after("save()", "handle()"), "save() ← handle()");
        assert_eq!(after("save()", ""), "save()");
    }
}
