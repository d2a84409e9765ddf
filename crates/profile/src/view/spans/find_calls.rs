//! Which calls are counted, and why the others are not.

use super::NotCounted;
use crate::profile::Profile;
use crate::profile::{SpanCall, SpanFunctionInfo, SpanOutcome};

/// The calls of a function, in the order of their begins.
pub(super) struct Counted {
    /// Those that returned and are inside no other.
    pub calls: Vec<SpanCall>,
    /// Those that had not ended, inside no other.
    pub open: Vec<SpanCall>,
    pub not_counted: NotCounted,
}

/// Sorts the calls of a function.
pub(super) fn counted_calls(profile: &Profile, function: usize) -> Counted {
    let spans = &profile.spans;
    let SpanFunctionInfo { without_begin, before_window, .. } = spans.functions[function];
    let not_counted = NotCounted { without_begin, before_window, ..NotCounted::default() };
    let mut found = Counted { calls: Vec::new(), open: Vec::new(), not_counted };
    for call in spans.calls.iter().filter(|call| call.function == function) {
        match call.outcome {
            SpanOutcome::Left => found.not_counted.left += 1,
            _ if spans.is_nested(call) => found.not_counted.nested += 1,
            SpanOutcome::Open => {
                found.not_counted.open += 1;
                found.open.push(*call);
            }
            SpanOutcome::Returned => found.calls.push(*call),
        }
    }
    found
}
