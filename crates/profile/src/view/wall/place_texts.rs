//! Text of places in code: a few functions, the innermost first.

use super::{WaitPlace, is_kernel, place_names};
use crate::profile::Profile;
use crate::table::CallsiteId;

/// Functions of a place.
const SHOWN: usize = 5;

/// The innermost user functions of a path: `take < main`, else its kernel leaf.
#[must_use]
pub fn place_text(profile: &Profile, callsite: CallsiteId) -> String {
    text_to(&functions(profile, callsite), SHOWN)
}

/// The same of several places, most time first. Where two waits of one state would read the same, the function follows at
/// which they first differ: `take < … < get`, `take < … < put`.
#[must_use]
pub fn place_texts(profile: &Profile, places: &[WaitPlace]) -> Vec<String> {
    let stacks: Vec<Vec<&str>> = places.iter().map(|place| functions(profile, place.callsite)).collect();
    let parts: Vec<_> = places.iter().map(|place| place.part).collect();
    let text = |at: usize| {
        let alike = (0..stacks.len()).filter(|&other| other != at && parts[other] == parts[at]);
        let common = alike.map(|other| common_length(&stacks[at], &stacks[other])).max();
        text_to(&stacks[at], common.map_or(0, |length| differing_end(&stacks[at], length)).max(SHOWN))
    };
    (0..stacks.len()).map(text).collect()
}

/// User functions, innermost first; of a path without any, the kernel's innermost.
pub(super) fn functions(profile: &Profile, callsite: CallsiteId) -> Vec<&str> {
    let frames = || profile.callsites.leaf_first(callsite);
    let user: Vec<&str> = frames()
        .filter(|&frame| !is_kernel(profile, frame))
        .flat_map(|frame| place_names(profile, frame))
        .collect();
    if !user.is_empty() {
        return user;
    }
    vec![frames().next().and_then(|frame| place_names(profile, frame).next()).unwrap_or("[unknown]")]
}

/// The place after the first function that others don't have; one with a name, if there is any.
fn differing_end(stack: &[&str], common: usize) -> usize {
    let is_named = |name: &&str| !name.starts_with("function 0x");
    let named = stack.get(common..).and_then(|rest| rest.iter().position(is_named));
    common + named.unwrap_or(0) + 1
}

fn common_length(one: &[&str], other: &[&str]) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}

/// The functions up to the one at `end`, exclusive, with the middle left out where there are more than are shown.
fn text_to(stack: &[&str], end: usize) -> String {
    let end = end.min(stack.len());
    let head = stack[..end.min(SHOWN)].join(" < ");
    match end.checked_sub(SHOWN + 1) {
        None => head,
        Some(0) => format!("{head} < {}", stack[end - 1]),
        Some(_) => format!("{head} < … < {}", stack[end - 1]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_cut_after_five_functions_or_where_it_differs() {
        let stack: Vec<&str> = "wait lock take get one two main".split(' ').collect();
        assert_eq!(text_to(&stack, SHOWN), "wait < lock < take < get < one");
        assert_eq!(text_to(&stack, 6), "wait < lock < take < get < one < two");
        assert_eq!(text_to(&stack, 7), "wait < lock < take < get < one < … < main");
        assert_eq!(text_to(&stack[..2], 9), "wait < lock");
        let other: Vec<&str> = "wait lock take get one two start".split(' ').collect();
        assert_eq!(common_length(&stack, &other), 6);
        let unnamed = ["wait", "function 0x10", "execute", "main"];
        assert_eq!([differing_end(&unnamed, 1), differing_end(&unnamed[..2], 1)], [3, 2]);
    }
}
