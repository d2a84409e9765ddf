//! Mapped files that shrink: a read past the new end raises SIGBUS, which would end the program. Any user can do that
//! to a file of theirs (`truncate`, `cp new.so old.so`), so it must not end a recording of the whole machine.
//!
//! A handler of SIGBUS puts a page of zeros where the fault was, if that is in a registered mapping, and notes
//! that the mapping has shrunk; the read continues. A SIGBUS from anywhere else goes to the handler that was
//! there before. Reading costs nothing more than before: nothing is looked at until there is a fault.

use std::path::PathBuf;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, Once, OnceLock, PoisonError};

/// A mapping whose faults are survived. Unregister it before it is unmapped.
#[derive(Debug)]
pub(super) struct Region {
    /// First address; 0 while free, [`RESERVED`] while it is filled in.
    start: AtomicUsize,
    /// Past the last address; 0 while free.
    end: AtomicUsize,
    has_shrunk: AtomicBool,
    /// `None` while free.
    name: Mutex<Option<PathBuf>>,
}

const RESERVED: usize = 1;
const REGIONS: usize = 128;

/// Regions in blocks that are never freed, because a handler may look at them at any time.
struct Block {
    regions: [Region; REGIONS],
    next: AtomicPtr<Block>,
}

impl Block {
    const fn new() -> Self {
        Self { regions: [const { Region::free() }; REGIONS], next: AtomicPtr::new(ptr::null_mut()) }
    }

    fn next(&self) -> Option<&'static Self> {
        // SAFETY: null, or a block that was leaked in `grow` and is never freed.
        unsafe { self.next.load(Ordering::Acquire).as_ref() }
    }

    /// The next block, made if there is none.
    fn grow(&self) -> &'static Self {
        let new = Box::leak(Box::new(Self::new()));
        let none = ptr::null_mut();
        match self.next.compare_exchange(none, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => new,
            // Another thread was faster. Ours is a few KB, lost once.
            Err(_) => self.next().unwrap_or(new),
        }
    }
}

static FIRST: Block = Block::new();
/// Names of mappings that had shrunk and are gone.
static GONE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
static ANY_SHRANK: AtomicBool = AtomicBool::new(false);
/// Action at SIGBUS before ours.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();
static PAGE_BYTES: AtomicUsize = AtomicUsize::new(4096);

fn blocks() -> impl Iterator<Item = &'static Block> {
    std::iter::successors(Some(&FIRST), |block| block.next())
}

impl Region {
    const fn free() -> Self {
        Self {
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            has_shrunk: AtomicBool::new(false),
            name: Mutex::new(None),
        }
    }

    /// Registers a mapping of the file `name`.
    pub(super) fn register(mapping: &[u8], name: PathBuf) -> &'static Self {
        static INSTALL: Once = Once::new();
        INSTALL.call_once(install);
        let mut block = &FIRST;
        let region = loop {
            if let Some(region) = block.regions.iter().find(|region| region.reserve()) {
                break region;
            }
            block = block.next().unwrap_or_else(|| block.grow());
        };
        *region.name.lock().unwrap_or_else(PoisonError::into_inner) = Some(name);
        region.has_shrunk.store(false, Ordering::Relaxed);
        let start = mapping.as_ptr() as usize;
        region.end.store(start + mapping.len(), Ordering::Relaxed);
        region.start.store(start, Ordering::Release);
        region
    }

    fn reserve(&self) -> bool {
        self.start.compare_exchange(0, RESERVED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Frees it for another mapping.
    pub(super) fn unregister(&self) {
        // Held to the end, against a release of pages at the same time.
        let mut name = self.name.lock().unwrap_or_else(PoisonError::into_inner);
        if self.has_shrunk() {
            GONE.lock().unwrap_or_else(PoisonError::into_inner).extend(name.take());
        }
        self.has_shrunk.store(false, Ordering::Relaxed);
        self.end.store(0, Ordering::Relaxed);
        self.start.store(0, Ordering::Release);
    }

    /// Drops its pages from this process: the file's bytes come back at the next read.
    fn release(&self) {
        // Held, so that the mapping stays where it is: it is unregistered before it is unmapped.
        let _name = self.name.lock().unwrap_or_else(PoisonError::into_inner);
        let (start, end) = (self.start.load(Ordering::Acquire), self.end.load(Ordering::Relaxed));
        if start <= RESERVED || end <= start {
            return;
        }
        // SAFETY: the mapping is one of this crate's, private and never written to, and can't go meanwhile. A page of
        // zeros in place of what its file lost becomes one of zeros again.
        let _ = unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_DONTNEED) };
    }

    /// Whether a part of it was read that the file no longer has.
    pub(super) fn has_shrunk(&self) -> bool {
        self.has_shrunk.load(Ordering::Relaxed)
    }

    fn holds(&self, at: usize) -> bool {
        self.start.load(Ordering::Acquire) <= at && at < self.end.load(Ordering::Relaxed)
    }
}

/// Whether any file became shorter while it was read, since the program began.
pub fn has_any_shrunk() -> bool {
    ANY_SHRANK.load(Ordering::Relaxed)
}

/// The files that became shorter while they were read, since this was last asked and in the order of names; one that is
/// still mapped is named each time.
pub fn shrunken_files() -> Vec<PathBuf> {
    let mut names = std::mem::take(&mut *GONE.lock().unwrap_or_else(PoisonError::into_inner));
    for region in blocks().flat_map(|block| &block.regions).filter(|region| region.has_shrunk()) {
        names.extend(region.name.lock().unwrap_or_else(PoisonError::into_inner).clone());
    }
    names.sort();
    names.dedup();
    names
}

/// Drops the pages of all mapped files from this process. Their bytes come back at the next read, from the system's cache
/// as a rule.
pub fn release_all() {
    blocks().flat_map(|block| &block.regions).for_each(Region::release);
}

/// Takes SIGBUS over.
fn install() {
    // SAFETY: takes a number and returns one.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    PAGE_BYTES.store(usize::try_from(page).unwrap_or(4096), Ordering::Relaxed);
    // SAFETY: an all-zero sigaction is a valid value.
    let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live sigaction; nothing is changed yet.
    unsafe { libc::sigaction(libc::SIGBUS, ptr::null(), &mut before) };
    // First, so that the handler finds it.
    let before = BEFORE.get_or_init(|| before);
    let mut action = *before;
    action.sa_sigaction = on_bus_error as extern "C" fn(_, _, _) as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    // SAFETY: the handler keeps to what is allowed in one (see there).
    unsafe { libc::sigaction(libc::SIGBUS, &action, ptr::null_mut()) };
}

/// Runs in the middle of anything: it takes no lock, allocates nothing, and leaves `errno` alone.
extern "C" fn on_bus_error(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    /// `si_code` of a page that a file does not have (any more), or that can't be read.
    const BUS_ADRERR: libc::c_int = 2;
    // SAFETY: the kernel hands a live siginfo.
    let info_now = unsafe { &*info };
    // SAFETY: any siginfo has those bytes; they are an address if the code is one with an address.
    let (code, at) = (info_now.si_code, unsafe { info_now.si_addr() } as usize);
    if code == BUS_ADRERR && survive(at) {
        return;
    }
    let Some(before) = BEFORE.get() else { return };
    if before.sa_flags & libc::SA_SIGINFO != 0 && before.sa_sigaction != libc::SIG_DFL {
        // SAFETY: with SA_SIGINFO it is a function of this type.
        let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
            unsafe { std::mem::transmute(before.sa_sigaction) };
        return handler(signal, info, context);
    }
    // Same result as without us: a fault is raised again, a signal that was sent is sent once more.
    // SAFETY: the action was handed out by the kernel; the function may be called in a handler.
    unsafe { libc::sigaction(signal, before, ptr::null_mut()) };
    if code <= 0 {
        // SAFETY: takes a number; may be called in a handler.
        unsafe { libc::raise(signal) };
    }
}

/// Puts zeros at the page of `at` if that is in a registered mapping.
fn survive(at: usize) -> bool {
    let Some(region) = blocks().flat_map(|block| &block.regions).find(|region| region.holds(at)) else {
        return false;
    };
    let bytes = PAGE_BYTES.load(Ordering::Relaxed);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    // SAFETY: takes nothing; the place of this thread's own errno.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: always valid in a running thread.
    let errno = unsafe { *place };
    // SAFETY: the page is one of a mapping that this crate made to be read only, and that stays as long as it is
    // registered; whoever reads it finds zeros instead of a fault, and it goes with the mapping.
    let page =
        unsafe { libc::mmap((at & !(bytes - 1)) as *mut libc::c_void, bytes, libc::PROT_READ, flags, -1, 0) };
    // SAFETY: as above.
    unsafe { *place = errno };
    region.has_shrunk.store(true, Ordering::Relaxed);
    ANY_SHRANK.store(true, Ordering::Relaxed);
    page != libc::MAP_FAILED
}
