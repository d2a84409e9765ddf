//! The last slow call as `tally calls live` shows it: when it was, how long it took, and where its time went.

use super::graph;
use crate::terminal::out::harmless;
use calls::recording::functions::Functions;
use calls::view::slow_call::LastSlow;
use display::number;

/// At most this many lines: the call, and the tree of what it called, the largest total first. `since_ns`: the start, on
/// the recording's clock.
#[must_use]
pub fn lines(slow: &LastSlow, functions: &Functions, since_ns: u64, most: usize) -> Vec<String> {
    let mut lines = vec![head(slow, functions, Some(since_ns))];
    let Some(call) = &slow.last else { return lines };
    let mut tree = Vec::new();
    // Writing to a Vec does not fail.
    let _ = graph::write(&mut tree, &call.sum(), functions);
    let tree = String::from_utf8_lossy(&tree);
    let left_out = (call.left_out > 0).then(|| {
        format!("{} calls in it, its last ones, are not held: too many", number::grouped(call.left_out))
    });
    lines.extend(left_out);
    let all = tree.lines().count();
    let room = most.saturating_sub(lines.len());
    let shown = if all > room { room.saturating_sub(1) } else { all };
    lines.extend(tree.lines().take(shown).map(str::to_owned));
    if all > shown {
        lines.push(format!("… {} lines more", number::grouped((all - shown) as u64)));
    }
    lines
}

/// Which call it is; with `since_ns`, when it began after that.
#[must_use]
pub fn head(slow: &LastSlow, functions: &Functions, since_ns: Option<u64>) -> String {
    let Some((call, function)) = slow.last.as_ref().and_then(|call| Some((call, call.function()?))) else {
        let selection = &slow.selection().0;
        let wished: Vec<String> = selection
            .iter()
            .map(|(pattern, ns)| format!("{} took {}", pattern.text(), number::duration_ns(*ns)))
            .collect();
        return format!("last slow call: none yet; no call of {} or longer", wished.join(", none of "));
    };
    let at = since_ns.map_or_else(String::new, |since_ns| {
        format!(", {} after the start", number::duration_ns(call.start_ns.saturating_sub(since_ns)))
    });
    format!(
        "last slow call of {}: {} took {}{at}, in thread {}",
        number::grouped(slow.seen),
        harmless(&functions.of(function).name),
        number::duration_ns(call.total_ns),
        call.tid
    )
}
