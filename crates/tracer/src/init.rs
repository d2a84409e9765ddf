//! What happens once per process: options from the environment, names of files, the maps.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::sled::Stage;
use crate::sys::space::write_all_at;
use crate::{entry, hook, layout, opened, signal_toggle, sled, sys, thread_exit};

/// What the environment asks for.
#[derive(Clone, Copy)]
pub struct TracerOptions {
    /// Calls nested deeper are not recorded.
    pub depth: usize,
    /// Calls that hold no recorded one and take fewer ticks are dropped.
    pub min_ticks: u64,
    /// Bytes that a thread's file keeps; 0: all.
    pub keep_bytes: u64,
    /// Only calls inside chosen functions are recorded.
    pub any_only: bool,
    /// Nothing is recorded until a function starts it.
    pub starts_off: bool,
    /// Only calls are recorded that lead to chosen functions.
    pub callers_only: bool,
    /// Calls that are not recorded are known while they are open.
    pub keeps_silent: bool,
}

static MIN_TICKS: AtomicU64 = AtomicU64::new(0);
static KEEP_BYTES: AtomicU64 = AtomicU64::new(0);
static ANY_ONLY: AtomicBool = AtomicBool::new(false);
static STARTS_OFF: AtomicBool = AtomicBool::new(false);
static CALLERS_ONLY: AtomicBool = AtomicBool::new(false);
static KEEPS_SILENT: AtomicBool = AtomicBool::new(false);
static ACTIVE: AtomicBool = AtomicBool::new(false);
static DEPTH: AtomicUsize = AtomicUsize::new(usize::MAX);
/// Where the environment was when the program started: at the top of the main thread's stack.
static ENVIRONMENT: AtomicU64 = AtomicU64::new(0);
static MAPS_WRITTEN: AtomicU64 = AtomicU64::new(0);
/// The folder's descriptor, -1 before it is opened; and which folder that is.
static FOLDER: AtomicU64 = AtomicU64::new(u64::MAX);
static FOLDER_IDENTITY: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
static DIR_BYTES: AtomicUsize = AtomicUsize::new(0);

const DIR_MAX: usize = 512;
/// Bytes of the path of a file in the folder.
pub const PATH_MAX: usize = DIR_MAX + 64;
/// The folder's path. Written once, before `ACTIVE` is set; read only after it.
static DIR: [core::sync::atomic::AtomicU8; DIR_MAX] =
    [const { core::sync::atomic::AtomicU8::new(0) }; DIR_MAX];

/// The options; `None` before start-up and when no recording is asked for.
pub fn options() -> Option<TracerOptions> {
    ACTIVE.load(Ordering::Acquire).then(|| TracerOptions {
        depth: DEPTH.load(Ordering::Relaxed),
        min_ticks: MIN_TICKS.load(Ordering::Relaxed),
        keep_bytes: KEEP_BYTES.load(Ordering::Relaxed),
        any_only: ANY_ONLY.load(Ordering::Relaxed),
        starts_off: STARTS_OFF.load(Ordering::Relaxed),
        callers_only: CALLERS_ONLY.load(Ordering::Relaxed),
        keeps_silent: KEEPS_SILENT.load(Ordering::Relaxed),
    })
}

/// The folder's path and a slash.
pub fn path() -> sys::Text<PATH_MAX> {
    let mut text = sys::Text::new();
    for byte in DIR.iter().take(DIR_BYTES.load(Ordering::Relaxed)) {
        text.push(&[byte.load(Ordering::Relaxed)]);
    }
    text.push(b"/");
    text
}

/// A thread's file in the folder: `PID-TID-N.calls`.
#[derive(Clone, Copy)]
pub struct ThreadFile {
    pid: u32,
    tid: u32,
    number: u32,
}

impl ThreadFile {
    /// A new one of this thread, N being the first number not taken, and its descriptor; else the errno.
    pub fn new() -> Result<(Self, i32), i32> {
        const EEXIST: i32 = 17;
        let mut why = EEXIST;
        for number in 0..10_000 {
            let file = Self { pid: sys::pid(), tid: sys::tid(), number };
            match file.open(sys::NEW_FILE) {
                Ok(fd) => return Ok((file, fd)),
                Err(errno) => why = errno,
            }
            if why != EEXIST {
                break;
            }
        }
        Err(why)
    }

    /// Opens it once more.
    pub fn again(self) -> Option<i32> {
        self.open(sys::OLD_FILE).ok()
    }

    /// Removes it: nothing could be written.
    pub fn remove(self) {
        let mut path = path();
        path.push(self.name().bytes());
        sys::unlink(path.bytes());
    }

    /// By the folder's path, else in the folder as it was opened: the program's root may be another by now.
    fn open(self, flags: usize) -> Result<i32, i32> {
        let name = self.name();
        let mut path = path();
        path.push(name.bytes());
        sys::try_open(path.bytes(), flags).or_else(|errno| {
            let folder = folder().ok_or(errno)?;
            sys::try_open_in(folder, name.bytes(), flags)
        })
    }

    /// Followed by a NUL.
    fn name(self) -> sys::Text<64> {
        let mut name = sys::Text::new();
        name.number(u64::from(self.pid)).push(b"-").number(u64::from(self.tid)).push(b"-");
        name.number(u64::from(self.number)).push(b".calls\0");
        name
    }
}

/// The two words of [`layout::LOST_NAME`]; 0: they are not there.
static LOST: AtomicUsize = AtomicUsize::new(0);

/// Maps them, while their file can be opened.
fn keep_lost() {
    let mut path = path();
    path.push(layout::LOST_NAME.as_bytes()).push(b"\0");
    let Some(fd) = sys::open(path.bytes(), sys::OLD_FILE) else { return };
    // Only tally wrote to it so far; its one block is allocated again where the file system has more to prepare.
    if sys::space::allocate(fd, 0, layout::LOST_BYTES as u64).is_ok()
        && let Ok(words) = sys::map_file(fd, layout::PAGE_BYTES as usize, 0)
    {
        LOST.store(words as usize, Ordering::Relaxed);
    }
    sys::close(fd);
}

fn lost() -> Option<&'static [AtomicU64; 2]> {
    // SAFETY: null, or a mapping that stays, and whose words all processes change only as atomics.
    unsafe { (LOST.load(Ordering::Relaxed) as *const [AtomicU64; 2]).as_ref() }
}

/// A call is lost of a thread that can make no file, because of this errno.
pub fn lose(errno: i32) {
    if let Some([calls, why]) = lost() {
        calls.fetch_add(1, Ordering::Relaxed);
        why.store(errno as u64, Ordering::Relaxed);
    }
}

/// The folder's descriptor, unless the program has closed it.
fn folder() -> Option<i32> {
    let fd = FOLDER.load(Ordering::Relaxed) as i32;
    let known = [FOLDER_IDENTITY[0].load(Ordering::Relaxed), FOLDER_IDENTITY[1].load(Ordering::Relaxed)];
    (sys::identity(fd) == Some(known)).then_some(fd)
}

/// Opens the folder, to be found when its path leads elsewhere.
fn keep_folder() {
    let mut path = path();
    path.push(b"\0");
    let Some(fd) = sys::open(path.bytes(), sys::FOLDER) else { return };
    let Some(identity) = sys::identity(fd) else { return sys::close(fd) };
    FOLDER_IDENTITY.iter().zip(identity).for_each(|(to, word)| to.store(word, Ordering::Relaxed));
    FOLDER.store(fd as u64, Ordering::Relaxed);
}

/// Objects were loaded: writes what is mapped now, and patches what is new.
pub fn loaded() {
    if !ACTIVE.load(Ordering::Acquire) || sys::is_restricted() {
        return;
    }
    if crate::loading::take_pending().fold(false, |_, number| opened::patch_again(number)) {
        return;
    }
    if let Some(number) = write_maps() {
        opened::patch(number, Stage::Loaded);
    }
}

/// Objects were mapped, and are to be relocated and begun: writes what is mapped now, and patches the code of what is new.
/// The number of the maps; `None` without.
pub fn mapped() -> Option<u64> {
    if !ACTIVE.load(Ordering::Acquire) || sys::is_restricted() {
        return None;
    }
    let number = write_maps()?;
    opened::patch(number, Stage::Mapped);
    Some(number)
}

/// Writes what is mapped now, headed by the time it was so; the file's number. A file that can't be written whole is
/// taken away again: what is missing in it would pass for not mapped.
fn write_maps() -> Option<u64> {
    let number = MAPS_WRITTEN.fetch_add(1, Ordering::Relaxed);
    let (number, to, path) = (number..number + 10_000).find_map(|n| {
        let mut path = path();
        path.number(u64::from(sys::pid())).push(b"-").number(n).push(b".maps\0");
        Some((n, sys::open(path.bytes(), sys::NEW_FILE)?, path))
    })?;
    let written = copy_maps(to);
    sys::close(to);
    if let Err(errno) = written {
        sys::unlink(path.bytes());
        if let Some([_, why]) = lost() {
            why.store(errno as u64, Ordering::Relaxed);
        }
        return None;
    }
    Some(number)
}

fn copy_maps(to: i32) -> Result<(), i32> {
    let from = sys::try_open(b"/proc/self/maps\0", sys::READ_ONLY)?;
    let mut head = sys::Text::<96>::new();
    let (tsc, ns) = sys::moment();
    head.push(b"tsc ").number(tsc).push(b" monotonic_ns ").number(ns).push(b"\n");
    let mut written = write_all_at(to, head.bytes(), 0);
    let mut at = head.bytes().len() as u64;
    let mut block = [0; 4096];
    while written.is_ok() {
        let n = sys::read(from, &mut block);
        if n == 0 {
            break;
        }
        written = write_all_at(to, &block[..n], at);
        at += n as u64;
    }
    sys::close(from);
    written
}

/// The bounds of this thread's own stack, wherever it runs just now. Nothing when they can't be read.
pub fn own_stack() -> (u64, u64) {
    const GROWTH_BYTES: u64 = 64 << 20;
    if sys::pid() == sys::tid() {
        // The main thread's stack grows downwards as it is used, as far as the next mapping. (An emulator may put the
        // program's data, and in it other stacks, right below.)
        let [below, _, end] = mapping_of(ENVIRONMENT.load(Ordering::Relaxed));
        return (end.saturating_sub(GROWTH_BYTES).max(below), end);
    }
    // The C library keeps a thread's own variables at its stack's top: the next mapping is something else.
    let top = entry::thread() as u64;
    (mapping_of(top)[1], top)
}

/// Where the mapping before the one that holds an address ends, and that one's own bounds. Nothing when they can't be read.
fn mapping_of(at: u64) -> [u64; 3] {
    let Some(file) = sys::open(b"/proc/self/maps\0", sys::READ_ONLY) else { return [0; 3] };
    let (mut range, mut field, mut skip) = ([0u64; 2], 0, false);
    let mut block = [0; 2048];
    let (mut found, mut below) = ([0; 3], 0);
    'file: loop {
        let n = sys::read(file, &mut block);
        if n == 0 {
            break;
        }
        for byte in &block[..n] {
            match byte {
                b'\n' => (below, range, field, skip) = (range[1], [0; 2], 0, false),
                _ if skip => {}
                b'-' => field = 1,
                b' ' => {
                    if at >= range[0] && at < range[1] {
                        found = [below, range[0], range[1]];
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
    found
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
    ENVIRONMENT.store(environment as u64, Ordering::Relaxed);
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
    // SAFETY: as above.
    unsafe { read_options(environment) };
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
    keep_folder();
    keep_lost();
    ACTIVE.store(true, Ordering::Release);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as above.
    unsafe {
        measure(environment);
    }
    let mut list = path();
    list.push(layout::sleds::NAME.as_bytes()).push(b"\0");
    sled::patch_listed(list.bytes(), Stage::Loaded);
    loaded();
    crate::loading::prepare();
    thread_exit::prepare();
    register_fork();
}

/// Measures instead of recording, if that is asked for.
///
/// # Safety
/// As of [`variable`].
#[cfg(target_arch = "x86_64")]
unsafe fn measure(environment: *const *const u8) {
    const WAYS_MAX: usize = 8;
    let mut ways = sys::Text::<WAYS_MAX>::new();
    // SAFETY: the caller guarantees it.
    let asked = unsafe {
        variable(environment, layout::MEASURE_VARIABLE, |_, letter| {
            ways.push(&[letter]);
        })
    };
    if asked {
        crate::measure::run(ways.bytes());
    }
}

/// # Safety
/// As of [`variable`].
unsafe fn read_options(environment: *const *const u8) {
    // SAFETY: the caller guarantees it.
    let number = |name: &str| unsafe {
        let mut value = 0u64;
        let found = variable(environment, name, |_, digit| {
            value = value.saturating_mul(10).saturating_add(u64::from(digit.saturating_sub(b'0')));
        });
        found.then_some(value)
    };
    if let Some(depth) = number(layout::DEPTH_VARIABLE) {
        DEPTH.store(depth as usize, Ordering::Relaxed);
    }
    if let Some(ns) = number(layout::MIN_VARIABLE) {
        MIN_TICKS.store(ticks_of(ns), Ordering::Relaxed);
    }
    KEEP_BYTES.store(number(layout::KEEP_VARIABLE).unwrap_or(0), Ordering::Relaxed);
    CALLERS_ONLY.store(number(layout::CALLERS_VARIABLE).is_some(), Ordering::Relaxed);
    KEEPS_SILENT.store(number(layout::BACKTRACE_VARIABLE).is_some(), Ordering::Relaxed);
    let mut word = 0;
    // SAFETY: the caller guarantees it.
    let has_signals = unsafe {
        variable(environment, layout::SIGNALS_VARIABLE, |_, byte| match byte {
            b'0'..=b'9' => word = word * 10 + u32::from(byte - b'0'),
            _ => signal_toggle::add(core::mem::take(&mut word)),
        })
    };
    if has_signals {
        signal_toggle::add(word);
    }
    // Each word is recognized by a letter that only it has.
    // SAFETY: the caller guarantees it.
    unsafe {
        variable(environment, layout::START_VARIABLE, |_, letter| match letter {
            b'y' => ANY_ONLY.store(true, Ordering::Relaxed),
            b'f' => STARTS_OFF.store(true, Ordering::Relaxed),
            _ => {}
        });
    }
}

/// Number of ticks in `ns` nanoseconds, from watching both clocks for a moment.
pub fn ticks_of(ns: u64) -> u64 {
    const WATCH_NS: u64 = 2_000_000;
    let (ticks, from_ns) = (sys::ticks(), sys::monotonic_ns());
    loop {
        let passed_ns = sys::monotonic_ns() - from_ns;
        if passed_ns >= WATCH_NS {
            let passed = u128::from(sys::ticks() - ticks);
            return (u128::from(ns) * passed / u128::from(passed_ns)) as u64;
        }
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
    MAPS_WRITTEN.store(0, Ordering::Relaxed);
    write_maps();
    hook::forked();
}

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn(i32, *const *const u8, *const *const u8) = start;
