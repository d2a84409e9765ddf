//! The code that runs most, as a next command can show it.

use crate::grow::Grow as _;
use crate::profile::Profile;
use crate::table::{DsoKind, FrameId};
use crate::view::wall::{Wall, is_kernel, name_of, running_paths};
use std::collections::BTreeMap;

/// Code in user space.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HotCode {
    /// A function of a file, by its name in the symbol table, as annotate takes it.
    Function(String),
    /// Code that a JIT compiler made: no file has it.
    Jit,
}

impl HotCode {
    /// The one with most own running time, functions without a name left out.
    pub(super) fn of(profile: &Profile, wall: &Wall) -> Option<Self> {
        let mut sums: BTreeMap<(Self, &str), u64> = BTreeMap::new();
        for (callsite, ns) in running_paths(profile, wall) {
            let frame = profile.callsites.of(callsite).frame;
            if let Some(code) = at(profile, frame).filter(|_| !is_kernel(profile, frame)) {
                sums.entry(code).or_default().grow(ns);
            }
        }
        sums.into_iter().max_by_key(|(_, ns)| *ns).map(|((code, _), _)| code)
    }
}

/// The code of a frame, with the text that distinguishes functions of JIT code.
fn at(profile: &Profile, frame: FrameId) -> Option<(HotCode, &str)> {
    let name = name_of(profile, frame)?;
    let is_jit = matches!(profile.dsos.of(profile.frames.of(frame).dso).kind, DsoKind::PerfMap { .. });
    Some(if is_jit { (HotCode::Jit, name) } else { (HotCode::Function(name.to_owned()), "") })
}
