//! How our own views name functions; those that print as perf does have whole names.

use crate::flags::name_args::NameArgs;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use symbols::{NameForm, NameOpts};

/// `--full-names` was given.
static ARE_WHOLE: AtomicBool = AtomicBool::new(false);

/// `--symfs`, `--kallsyms` and the like, if they were given.
static SOURCES: OnceLock<NameArgs> = OnceLock::new();

/// Notes `--full-names`.
pub fn set_whole(are_whole: bool) {
    ARE_WHOLE.store(are_whole, Ordering::Relaxed);
}

/// Notes where this command looks for names.
pub fn set_sources(names: NameArgs) {
    let _ = SOURCES.set(names);
}

/// The form of names in our own views.
pub fn form() -> NameForm {
    if ARE_WHOLE.load(Ordering::Relaxed) { NameForm::Whole } else { NameForm::Brief }
}

/// Names for our own views, from the places in the environment and those that were given.
pub fn opts() -> NameOpts {
    let sources = SOURCES.get().map_or_else(NameOpts::from_env, NameArgs::opts);
    NameOpts { form: form(), ..sources }
}
