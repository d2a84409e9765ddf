//! Calls of library functions: which of those that an object imports can be recorded.

use dso::code::got_usage::{SlotUse, slot_uses};
use dso::elf::plt::{self, Import};
use dso::{ObjectFile, Svma};
use rustc_hash::{FxHashMap, FxHashSet};
use std::path::Path;

/// Functions that must find their own caller's frame: they return twice, leave or walk the stack, or look who calls
/// them. Beginnings of names.
const LEFT_ALONE: &[&str] = &[
    "setjmp",
    "_setjmp",
    "sigsetjmp",
    "__sigsetjmp",
    "longjmp",
    "_longjmp",
    "siglongjmp",
    "__longjmp_chk",
    "vfork",
    "clone",
    "getcontext",
    "setcontext",
    "swapcontext",
    "makecontext",
    "dlopen",
    "dlmopen",
    "dlsym",
    "dlvsym",
    "__fentry__",
    "mcount",
    "_mcount",
    "__cyg_profile",
    "_Unwind_",
    "__cxa_throw",
    "__cxa_rethrow",
    "__cxa_begin_catch",
    "__cxa_end_catch",
    "__gxx_personality",
    "__tls_get_addr",
    "__libc_start_main",
    "__stack_chk_fail",
    "__cxa_finalize",
    "__gmon_start__",
    "pthread_exit",
    "backtrace",
    "__xray",
    "_dl_",
    "__monstartup",
];

/// Whether a call of this function can be recorded.
fn is_recordable(name: &str) -> bool {
    // `clone` is one function, `clone_node` another.
    let is_it = |alone: &str| {
        name == alone
            || alone.ends_with('_') && name.starts_with(alone)
            || alone.len() > 8 && name.starts_with(alone)
    };
    !LEFT_ALONE.iter().any(|alone| is_it(alone))
}

/// The imports of an object.
#[derive(Debug, Default)]
pub struct ImportSlots {
    /// That can be recorded.
    pub recordable: Vec<Import>,
    /// Names of those that can't, because the object takes their addresses from the slots that it calls them through.
    pub read: Vec<String>,
}

impl ImportSlots {
    /// Looks through an object.
    #[must_use]
    pub fn of(object: &ObjectFile) -> Self {
        let mut imports = Self { recordable: plt::imports(object), read: Vec::new() };
        let loaded = plt::loaded_imports(object);
        let slots: FxHashSet<Svma> = loaded.iter().map(|import| import.slot).collect();
        let uses = if slots.is_empty() {
            FxHashMap::default()
        } else {
            slot_uses(object, &|slot| slots.contains(&slot))
        };
        for import in loaded {
            match uses.get(&import.slot) {
                Some(SlotUse { calls: true, reads: false }) => imports.recordable.push(import),
                Some(SlotUse { calls: true, reads: true }) if is_recordable(&import.name) => {
                    imports.read.push(import.name);
                }
                _ => {}
            }
        }
        imports.recordable.retain(|import| is_recordable(&import.name));
        imports
    }
}

/// Names of imported functions by slot, object by object.
#[derive(Default)]
pub struct ImportNames {
    objects: FxHashMap<Vec<u8>, FxHashMap<Svma, String>>,
}

impl ImportNames {
    /// The function that `object` at `path` calls through the slot at `svma`.
    pub fn find(&mut self, path: &Path, object: Option<&ObjectFile>, svma: Svma) -> Option<&str> {
        use std::os::unix::ffi::OsStrExt;
        let read = || {
            let both = |object| plt::imports(object).into_iter().chain(plt::loaded_imports(object));
            object.into_iter().flat_map(both).map(|import| (import.slot, import.name)).collect()
        };
        let slots = self.objects.entry(path.as_os_str().as_bytes().to_vec()).or_insert_with(read);
        slots.get(&svma).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::is_recordable;

    #[test]
    fn functions_that_need_their_callers_frame_are_left_alone_and_others_not() {
        assert!(
            ["printf", "malloc", "clone_node", "dlclose", "qsort", "vforks"].iter().all(|n| is_recordable(n))
        );
        let alone = [
            "clone",
            "vfork",
            "_setjmp",
            "__sigsetjmp",
            "_Unwind_Resume",
            "__cyg_profile_func_enter",
            "dlsym",
        ];
        assert!(!alone.iter().any(|name| is_recordable(name)));
    }
}
