//! Objects that the `tally` which started the program did not see beforehand: libraries, and programs executed later.
//!
//! The tracer writes the process's mappings, announces them on a pipe, and waits for the list of what to
//! patch. If nobody reads the pipe (tally is gone), the wait ends at once.

use core::sync::atomic::{AtomicBool, Ordering};

use crate::layout::sleds as list;
use crate::patch::sled::{self, LoadStage};
use crate::process::recording_folder;
use crate::sys;

/// How long an answer is waited for.
const PATIENCE_NS: u64 = 10_000_000_000;
/// An answer was waited for in vain: it is not asked again.
static GIVEN_UP: AtomicBool = AtomicBool::new(false);

/// Maps were written under `number`: patches what was loaded since, so far as can be at this stage.
pub fn patch(number: u64, stage: LoadStage) {
    if sys::is_restricted() || GIVEN_UP.load(Ordering::Relaxed) {
        return;
    }
    let pipe = pipe();
    let Some(to) = sys::open(pipe.bytes(), sys::WRITE_ONLY_AT_ONCE) else { return };
    let mut line = sys::Text::<64>::new();
    line.number(u64::from(sys::pid())).push(b" ").number(number).push(b"\n");
    let told = sys::write(to, line.bytes()) == line.bytes().len();
    sys::close(to);
    if told {
        wait(number, stage);
    }
}

/// The answer that was got for `number` is gone through once more, now that its objects are loaded. Whether there was one.
pub fn patch_again(number: u64) -> bool {
    sled::patch_listed(answer(number).bytes(), LoadStage::Loaded)
}

/// The path of the answer for `number`.
fn answer(number: u64) -> sys::Text<{ recording_folder::PATH_MAX }> {
    let mut path = recording_folder::path();
    path.number(u64::from(sys::pid())).push(b"-").number(number).push(b".").push(list::NAME.as_bytes());
    path.push(b"\0");
    path
}

/// The path of the pipe.
fn pipe() -> sys::Text<{ recording_folder::PATH_MAX }> {
    let mut path = recording_folder::path();
    path.push(list::PIPE_NAME.as_bytes()).push(b"\0");
    path
}

/// Whether nobody answers any more: tally takes the pipe away when it can't.
fn is_unanswered() -> bool {
    match sys::open(pipe().bytes(), sys::FOLDER) {
        Some(fd) => sys::close(fd),
        None => return true,
    }
    false
}

fn wait(number: u64, stage: LoadStage) {
    const PAUSE_NS: u64 = 200_000;
    let path = answer(number);
    let until = sys::monotonic_ns() + PATIENCE_NS;
    while sys::monotonic_ns() < until {
        if sled::patch_listed(path.bytes(), stage) {
            return;
        }
        if is_unanswered() {
            break;
        }
        sys::pause(PAUSE_NS);
    }
    GIVEN_UP.store(true, Ordering::Relaxed);
}
