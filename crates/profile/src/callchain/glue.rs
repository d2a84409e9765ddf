//! V8's frames between functions of JavaScript: code that only enters, calls or continues one.
//!
//! Python's interpreter is left out while stacks are read, because all its code is of one file. V8's is in the file of
//! Node together with all else, and only names distinguish `Builtins_JSEntry` from `Builtins_JsonParse`.

use crate::profile::Profile;
use crate::table::{CallsiteId, FrameId};

/// How names of V8's own code begin.
const BUILTIN: &str = "Builtins_";

/// Builtins that lead from one function to another, by how the rest of the name begins.
const LEAD: &[&str] = &[
    "ArgumentsAdaptorTrampoline",
    "Baseline",
    "CEntry",
    "CallFunction_",
    "CallBoundFunction",
    "CallWith",
    "Call_",
    "CompileLazy",
    "ConstructFunction",
    "ConstructWith",
    "Construct_",
    "InterpreterEntry",
    "InterpreterEnter",
    "InterpreterPush",
    "InterpreterOnStack",
    "JSBuiltinsConstructStub",
    "JSConstructStub",
    "JSEntry",
    "JSConstructEntry",
    "JSRunMicrotasksEntry",
];
/// Builtins that run one instruction of the interpreter, or look up a property for one, by parts of the rest of the name.
const STEPS: &[&str] = &["Handler", "LoadIC", "StoreIC", "LoadGlobalIC", "StoreGlobalIC", "InIC"];

/// C++ functions through which Node and V8 call a function of JavaScript.
const CALLS: &[&str] = &[
    "v8::internal::(anonymous namespace)::Invoke",
    "v8::internal::Execution::",
    "v8::Function::Call",
    "node::InternalMakeCallback",
    "node::MakeCallback",
    "node::AsyncWrap::MakeCallback",
];

/// True for a function of V8 or Node that only leads to, or runs, one of JavaScript.
fn is_glue(name: &str) -> bool {
    match name.strip_prefix(BUILTIN) {
        Some(rest) => {
            LEAD.iter().any(|begin| rest.starts_with(begin)) || STEPS.iter().any(|part| rest.contains(part))
        }
        None => CALLS.iter().any(|begin| name.starts_with(begin)),
    }
}

/// How V8 begins the names of functions of JavaScript in its map.
const JAVASCRIPT: &str = "JS:";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    JavaScript,
    Glue,
    Other,
}

impl Profile {
    /// Leaves such frames out of all paths with a function of JavaScript. To be called when names have arrived. Calling it
    /// again does no harm.
    pub fn leave_out_v8_frames(&mut self) {
        let parts: Vec<Part> =
            (0..self.frames.len()).map(|at| self.v8_part(FrameId::from_index(at))).collect();
        if !parts.contains(&Part::JavaScript) {
            return;
        }
        let part = |frame: &FrameId| parts[frame.index()];
        for id in (0..self.callsites.len()).map(CallsiteId::from_index) {
            let path = self.callsites.path(id);
            let has = |wanted| path.iter().any(|frame| part(frame) == wanted);
            if !has(Part::JavaScript) || !has(Part::Glue) {
                continue;
            }
            let kept: Vec<FrameId> = path.iter().copied().filter(|frame| part(frame) != Part::Glue).collect();
            if let Some(shown) = self.callsites.intern_leaf_first(&kept) {
                self.callsites.settle(id, shown);
            }
        }
    }

    fn v8_part(&self, frame: FrameId) -> Part {
        let symbol = self.frame_names(frame).last().map(|function| self.symbols.of(function.symbol).name);
        match symbol.map_or("", |name| self.strings.of(name)) {
            name if name.starts_with(JAVASCRIPT) => Part::JavaScript,
            name if is_glue(name) => Part::Glue,
            _ => Part::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_glue;

    #[test]
    fn code_that_leads_to_javascript_is_left_out_and_what_it_calls_is_not() {
        for glue in [
            "Builtins_JSEntryTrampoline",
            "Builtins_InterpreterEntryTrampoline",
            "Builtins_CallFunction_ReceiverIsAny",
            "Builtins_KeyedLoadIC_Megamorphic",
            "Builtins_CallProperty1Handler",
            "v8::internal::(anonymous namespace)::Invoke",
        ] {
            assert!(is_glue(glue), "{glue}");
        }
        for work in
            ["Builtins_JsonParse", "Builtins_ArrayTimSort", "v8::internal::Heap::CollectGarbage", "Call_me"]
        {
            assert!(!is_glue(work), "{work}");
        }
    }
}
