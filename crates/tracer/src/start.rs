//! What happens once per process: options from the environment, names of files, the maps.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::{hook, layout, sled, sys};

/// What the environment asks for.
#[derive(Clone, Copy)]
pub struct Options {
    /// Calls nested deeper are not recorded.
    pub depth: usize,
}

static ACTIVE: AtomicBool = AtomicBool::new(false);
static DEPTH: AtomicUsize = AtomicUsize::new(usize::MAX);
static MAPS_WRITTEN: AtomicU64 = AtomicU64::new(0);
static FILES_MADE: AtomicU64 = AtomicU64::new(0);
static DIR_BYTES: AtomicUsize = AtomicUsize::new(0);

const DIR_MAX: usize = 512;
/// The folder's path. Written once, before `ACTIVE` is set; read only after it.
static DIR: [core::sync::atomic::AtomicU8; DIR_MAX] =
    [const { core::sync::atomic::AtomicU8::new(0) }; DIR_MAX];

/// The options; `None` before start-up and when no recording is asked for.
pub fn options() -> Option<Options> {
    ACTIVE.load(Ordering::Acquire).then(|| Options { depth: DEPTH.load(Ordering::Relaxed) })
}

fn path() -> sys::Text<{ DIR_MAX + 64 }> {
    let mut text = sys::Text::new();
    for byte in DIR.iter().take(DIR_BYTES.load(Ordering::Relaxed)) {
        text.push(&[byte.load(Ordering::Relaxed)]);
    }
    text.push(b"/");
    text
}

/// A new file for a thread: `PID-TID-N.calls`, N being the first number not taken.
pub fn new_file(tid: u32) -> Option<i32> {
    (0..10_000).find_map(|n| {
        let mut path = path();
        path.number(u64::from(sys::pid())).push(b"-").number(u64::from(tid)).push(b"-").number(n);
        path.push(b".calls\0");
        FILES_MADE.fetch_add(1, Ordering::Relaxed);
        sys::open(path.bytes(), sys::NEW_FILE)
    })
}

/// Writes what is mapped now, headed by the time it was so.
pub extern "C" fn write_maps() {
    if !ACTIVE.load(Ordering::Acquire) {
        return;
    }
    let number = MAPS_WRITTEN.fetch_add(1, Ordering::Relaxed);
    let file = (number..number + 10_000).find_map(|n| {
        let mut path = path();
        path.number(u64::from(sys::pid())).push(b"-").number(n).push(b".maps\0");
        sys::open(path.bytes(), sys::NEW_FILE)
    });
    let (Some(to), Some(from)) = (file, sys::open(b"/proc/self/maps\0", sys::READ_ONLY)) else { return };
    let mut head = sys::Text::<96>::new();
    head.push(b"tsc ").number(sys::ticks()).push(b" monotonic_ns ").number(sys::monotonic_ns()).push(b"\n");
    sys::write(to, head.bytes());
    let mut block = [0; 4096];
    loop {
        let n = sys::read(from, &mut block);
        if n == 0 {
            break;
        }
        sys::write(to, &block[..n]);
    }
    sys::close(from);
    sys::close(to);
}

/// The bounds of the mapping that holds `sp`: a thread's own stack. Nothing when it can't be read.
pub fn mapping_of(sp: u64) -> (u64, u64) {
    const GROWTH_BYTES: u64 = 64 << 20;
    let Some(file) = sys::open(b"/proc/self/maps\0", sys::READ_ONLY) else { return (0, 0) };
    let (mut range, mut field, mut skip) = ([0u64; 2], 0, false);
    let mut block = [0; 2048];
    let mut found = (0, 0);
    'file: loop {
        let n = sys::read(file, &mut block);
        if n == 0 {
            break;
        }
        for byte in &block[..n] {
            match byte {
                b'\n' => (range, field, skip) = ([0; 2], 0, false),
                _ if skip => {}
                b'-' => field = 1,
                b' ' => {
                    if sp >= range[0] && sp < range[1] {
                        found = (range[0], range[1]);
                        break 'file;
                    }
                    skip = true;
                }
                digit => {
                    range[field] = range[field] << 4 | u64::from((*digit as char).to_digit(16).unwrap_or(0))
                }
            }
        }
    }
    sys::close(file);
    // The main thread's stack grows downwards as it is used.
    if sys::pid() == sys::tid() { (found.1.saturating_sub(GROWTH_BYTES), found.1) } else { found }
}

/// The value of `NAME=value` in an environment block.
///
/// # Safety
/// `environment` is a NULL-terminated array of NUL-terminated strings.
unsafe fn variable(environment: *const *const u8, name: &str, mut each: impl FnMut(usize, u8)) -> bool {
    let mut at = environment;
    loop {
        // SAFETY: not yet past the array's NULL.
        let entry = unsafe { *at };
        if entry.is_null() {
            return false;
        }
        let byte = |i: usize| {
            // SAFETY: not read past the string's NUL: every caller stops at the first mismatch or 0.
            unsafe { *entry.add(i) }
        };
        if name.bytes().enumerate().all(|(i, wanted)| byte(i) == wanted) && byte(name.len()) == b'=' {
            let mut i = 0;
            while byte(name.len() + 1 + i) != 0 {
                each(i, byte(name.len() + 1 + i));
                i += 1;
            }
            return true;
        }
        // SAFETY: the array goes on, its NULL was not met.
        at = unsafe { at.add(1) };
    }
}

unsafe extern "C" {
    fn dlsym(handle: *mut u8, name: *const u8) -> *mut u8;
}

/// Runs before the program's own constructors.
extern "C" fn start(_count: i32, _arguments: *const *const u8, environment: *const *const u8) {
    if environment.is_null() {
        return;
    }
    let mut bytes = 0;
    // SAFETY: the loader passes the process's environment.
    let asked = unsafe {
        variable(environment, layout::DIR_VARIABLE, |i, byte| {
            if i < DIR_MAX {
                DIR[i].store(byte, Ordering::Relaxed);
                bytes = i + 1;
            }
        })
    };
    if !asked {
        return;
    }
    DIR_BYTES.store(bytes, Ordering::Relaxed);
    let mut depth = 0usize;
    // SAFETY: as above.
    let limited = unsafe {
        variable(environment, layout::DEPTH_VARIABLE, |_, digit| {
            depth = depth.saturating_mul(10) + usize::from(digit.saturating_sub(b'0'));
        })
    };
    if limited {
        DEPTH.store(depth, Ordering::Relaxed);
    }
    ACTIVE.store(true, Ordering::Release);
    write_maps();
    sled::patch_all(path());
    register_fork();
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
    MAPS_WRITTEN.store(0, Ordering::Relaxed);
    write_maps();
    hook::forked();
}

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn(i32, *const *const u8, *const *const u8) = start;
