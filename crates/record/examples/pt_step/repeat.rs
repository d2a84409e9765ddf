//! A stretch of a run that may be repeated: it ends where it began, at the same depth of calls.

use std::collections::HashMap;
use std::ops::Range;

use super::kinds::{Decoded, Kind};
use super::step::{Note, Steps};

/// The longest stretch of notes between two arrivals at one instruction of one open call. Empty where there are
/// several threads or signals: those can't be repeated.
pub fn longest(steps: &Steps, mut decoded: impl FnMut(u64) -> Option<Decoded>) -> Range<usize> {
    let mut best = 0..0;
    // By depth: where each instruction of the open call was first.
    let mut open: Vec<HashMap<u64, usize>> = vec![HashMap::new()];
    for (at, (tid, note)) in steps.notes.iter().enumerate() {
        let Note::Executed(ip) = note else { return 0..0 };
        if *tid != steps.pid {
            return 0..0;
        }
        if let Some(frame) = open.last_mut() {
            let first = *frame.entry(*ip).or_insert(at);
            if at - first > best.len() {
                best = first..at;
            }
        }
        match decoded(*ip).map(|decoded| decoded.kind) {
            Some(Kind::Call | Kind::CallIndirect) => open.push(HashMap::new()),
            Some(Kind::Return) if open.len() > 1 => drop(open.pop()),
            _ => {}
        }
    }
    best
}
