//! The recording's folder: its path, the threads' files, the maps, and the counts of calls lost without a file.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::sys::space::write_all_at;
use crate::{layout, sys};

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

/// Takes the next byte of the folder's path, by its number.
pub fn set_path_byte(number: usize, byte: u8) {
    if let Some(place) = DIR.get(number) {
        place.store(byte, Ordering::Relaxed);
        DIR_BYTES.store(number + 1, Ordering::Relaxed);
    }
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
pub fn keep_lost() {
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
pub fn keep_folder() {
    let mut path = path();
    path.push(b"\0");
    let Some(fd) = sys::open(path.bytes(), sys::FOLDER) else { return };
    let Some(identity) = sys::identity(fd) else { return sys::close(fd) };
    FOLDER_IDENTITY.iter().zip(identity).for_each(|(to, word)| to.store(word, Ordering::Relaxed));
    FOLDER.store(fd as u64, Ordering::Relaxed);
}

/// Writes what is mapped now, headed by the time it was so; the file's number. A file that can't be written whole is
/// taken away again: what is missing in it would pass for not mapped.
pub fn write_maps() -> Option<u64> {
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

/// A forked process begins: the numbers of its maps, too.
pub fn restart_maps() {
    MAPS_WRITTEN.store(0, Ordering::Relaxed);
}
