//! How our own views name functions; those that print as perf does have whole names.

use std::sync::atomic::{AtomicBool, Ordering};
use symbols::{NameForm, NameOpts};

/// `--full-names` was given.
static ARE_WHOLE: AtomicBool = AtomicBool::new(false);

/// Notes `--full-names`.
pub fn set_whole(are_whole: bool) {
    ARE_WHOLE.store(are_whole, Ordering::Relaxed);
}

/// The form of names in our own views.
pub fn form() -> NameForm {
    if ARE_WHOLE.load(Ordering::Relaxed) { NameForm::Whole } else { NameForm::Brief }
}

/// Names for our own views, from the places in the environment.
pub fn opts() -> NameOpts {
    NameOpts { form: form(), ..NameOpts::from_env() }
}
