//! The beginning of a process: reads the options, opens the folder, patches the program, watches forks.

use super::{late_objects, loading, options, own_stack, recording_folder};
use crate::entry::hook;
use crate::patch::sled::{self, LoadStage};
use crate::thread::thread_exit;
use crate::{layout, sys};

/// Objects were loaded: writes what is mapped now, and patches what is new.
pub fn loaded() {
    if !options::is_active() || sys::is_restricted() {
        return;
    }
    if loading::take_pending().fold(false, |_, number| late_objects::patch_again(number)) {
        return;
    }
    if let Some(number) = recording_folder::write_maps() {
        late_objects::patch(number, LoadStage::Loaded);
    }
}

/// Objects were mapped, and are to be relocated and begun: writes what is mapped now, and patches the code of what is new.
/// The number of the maps; `None` without.
pub fn mapped() -> Option<u64> {
    if !options::is_active() || sys::is_restricted() {
        return None;
    }
    let number = recording_folder::write_maps()?;
    late_objects::patch(number, LoadStage::Mapped);
    Some(number)
}

unsafe extern "C" {
    fn dlsym(handle: *mut u8, name: *const u8) -> *mut u8;
}

/// Runs before the program's own constructors.
extern "C" fn start(_count: i32, _arguments: *const *const u8, environment: *const *const u8) {
    if environment.is_null() {
        return;
    }
    own_stack::note_environment(environment as u64);
    // SAFETY: the loader passes the process's environment.
    let asked =
        unsafe { options::variable(environment, layout::DIR_VARIABLE, recording_folder::set_path_byte) };
    if !asked {
        return;
    }
    // SAFETY: as above.
    unsafe { options::read_options(environment) };
    if sys::has_shadow_stack() {
        let why: &[u8] = if cfg!(target_arch = "aarch64") {
            b"tally: nothing is recorded: the program runs with a shadow stack (GCS); try \
            GLIBC_TUNABLES=glibc.cpu.aarch64_gcs=0, or --uprobes\n"
        } else {
            b"tally: nothing is recorded: the program runs with a shadow stack (CET); try \
            GLIBC_TUNABLES=glibc.cpu.x86_shstk=off, or --uprobes\n"
        };
        sys::write(2, why);
        return;
    }
    recording_folder::keep_folder();
    recording_folder::keep_lost();
    options::activate();
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as above.
    unsafe {
        measure(environment);
    }
    let mut list = recording_folder::path();
    list.push(layout::sleds::NAME.as_bytes()).push(b"\0");
    sled::patch_listed(list.bytes(), LoadStage::Loaded);
    loaded();
    loading::prepare();
    thread_exit::prepare(hook::ending);
    register_fork();
}

/// Measures instead of recording, if that is asked for.
///
/// # Safety
/// As of [`options::variable`].
#[cfg(target_arch = "x86_64")]
unsafe fn measure(environment: *const *const u8) {
    const WAYS_MAX: usize = 8;
    let mut ways = sys::Text::<WAYS_MAX>::new();
    // SAFETY: the caller guarantees it.
    let asked = unsafe {
        options::variable(environment, layout::MEASURE_VARIABLE, |_, letter| {
            ways.push(&[letter]);
        })
    };
    if asked {
        super::measure::run(ways.bytes());
    }
}

fn register_fork() {
    type AtFork = extern "C" fn(
        Option<extern "C" fn()>,
        Option<extern "C" fn()>,
        Option<extern "C" fn()>,
        *mut u8,
    ) -> i32;
    // SAFETY: a NUL-terminated name; NULL is RTLD_DEFAULT.
    let found = unsafe { dlsym(core::ptr::null_mut(), c"__register_atfork".as_ptr().cast()) };
    if !found.is_null() {
        // SAFETY: glibc's function of that name has this signature.
        let register: AtFork = unsafe { core::mem::transmute(found) };
        register(None, None, Some(in_child), core::ptr::null_mut());
    }
}

extern "C" fn in_child() {
    if sys::is_restricted() {
        return;
    }
    recording_folder::restart_maps();
    recording_folder::write_maps();
    hook::forked();
}

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn(i32, *const *const u8, *const *const u8) = start;
