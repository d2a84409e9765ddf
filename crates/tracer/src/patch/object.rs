//! Loaded objects, as the loader lists them.

use core::ffi::c_void;

use crate::layout::sleds::{self, Listed};
use crate::sys;

/// One loaded object.
// Layout: struct dl_phdr_info { Addr dlpi_addr; const char *dlpi_name; const Phdr *dlpi_phdr; Half dlpi_phnum; … }
// Source: glibc elf/link.h.
#[repr(C)]
pub struct LoadedObject {
    /// Load bias: added to its stated addresses.
    pub bias: u64,
    name: *const u8,
    headers: *const LoadedSegment,
    count: u16,
}

/// A program header.
// Layout: Elf64_Phdr. Source: System V gABI, "Program Header".
#[repr(C)]
pub struct LoadedSegment {
    kind: u32,
    flags: u32,
    offset: u64,
    svma: u64,
    paddr: u64,
    file_bytes: u64,
    memory_bytes: u64,
    align: u64,
}

/// `PT_LOAD`.
const LOAD: u32 = 1;
/// `PT_DYNAMIC`.
pub const DYNAMIC: u32 = 2;
/// `PT_GNU_RELRO`.
pub const RELRO: u32 = 0x6474_e552;
/// `PF_W`.
const WRITABLE: u32 = 2;
/// `PF_X`.
const EXECUTABLE: u32 = 1;
const PAGE_BYTES: u64 = 4096;

impl LoadedSegment {
    /// Pages in memory: from, up to.
    pub const fn pages(&self, bias: u64) -> (usize, usize) {
        let (from, to) = (bias + self.svma, bias + self.svma + self.memory_bytes);
        ((from & !(PAGE_BYTES - 1)) as usize, ((to + PAGE_BYTES - 1) & !(PAGE_BYTES - 1)) as usize)
    }

    /// First byte in memory.
    pub const fn start(&self, bias: u64) -> u64 {
        bias + self.svma
    }

    /// End address in memory, exclusive.
    pub const fn end(&self, bias: u64) -> u64 {
        bias + self.svma + self.memory_bytes
    }
}

unsafe extern "C" {
    fn dl_iterate_phdr(
        each: unsafe extern "C" fn(*const LoadedObject, usize, *mut c_void) -> i32,
        data: *mut c_void,
    ) -> i32;
}

impl LoadedObject {
    fn segments(&self) -> &[LoadedSegment] {
        // SAFETY: `count` program headers are there, as long as the object is loaded.
        unsafe { core::slice::from_raw_parts(self.headers, usize::from(self.count)) }
    }

    /// The segment of a kind, if it has one.
    pub fn segment(&self, kind: u32) -> Option<&LoadedSegment> {
        self.segments().iter().find(|segment| segment.kind == kind)
    }

    /// Code.
    pub fn code(&self) -> impl Iterator<Item = &LoadedSegment> {
        self.segments().iter().filter(|segment| segment.kind == LOAD && segment.flags & EXECUTABLE != 0)
    }

    /// How the segment that holds an address is to be protected.
    pub fn protection(&self, address: u64) -> usize {
        let holds = |part: &&LoadedSegment| (part.start(self.bias)..part.end(self.bias)).contains(&address);
        let flags =
            self.segments().iter().filter(|part| part.kind == LOAD).find(holds).map_or(0, |part| part.flags);
        let (read, write, execute) = sys::PROT;
        let given = [(WRITABLE, write), (EXECUTABLE, execute)];
        given.iter().filter(|(flag, _)| flags & flag != 0).fold(read, |all, (_, right)| all | right)
    }

    /// Whether an address is in its code.
    pub fn has_code_at(&self, address: u64) -> bool {
        self.code().any(|code| (code.start(self.bias)..code.end(self.bias)).contains(&address))
    }

    /// First page in memory.
    fn start(&self) -> u64 {
        let loads = self.segments().iter().filter(|segment| segment.kind == LOAD);
        loads.map(|segment| segment.pages(self.bias).0 as u64).min().unwrap_or(0)
    }

    /// End address in memory, exclusive.
    pub fn end(&self) -> u64 {
        let loads = self.segments().iter().filter(|segment| segment.kind == LOAD);
        loads.map(|segment| segment.end(self.bias)).max().unwrap_or(0)
    }

    /// Path; the program itself has no name with the loader and is asked of /proc. The number of bytes.
    fn name(&self, to: &mut [u8]) -> usize {
        let mut bytes = 0;
        // SAFETY: a NUL-terminated string of the loader's.
        while !self.name.is_null() && bytes < to.len() && unsafe { *self.name.add(bytes) } != 0 {
            // SAFETY: as above.
            to[bytes] = unsafe { *self.name.add(bytes) };
            bytes += 1;
        }
        if bytes == 0 { sys::read_link(b"/proc/self/exe\0", to) } else { bytes }
    }
}

/// Calls `each` with every loaded object that is in `list` (a sled list without its magic).
pub fn each_listed(list: &'static [u8], each: fn(&LoadedObject, Listed<'static>)) {
    struct Work {
        list: &'static [u8],
        each: fn(&LoadedObject, Listed<'static>),
    }
    unsafe extern "C" fn one(object: *const LoadedObject, _bytes: usize, data: *mut c_void) -> i32 {
        // SAFETY: the loader passes a valid object and our own `Work`.
        let (object, work) = unsafe { (&*object, &*data.cast::<Work>()) };
        let mut name = [0; 4096];
        let bytes = object.name(&mut name);
        let mut rest = work.list;
        while let Some((listed, after)) = sleds::next_object(rest) {
            let is_it = if listed.start == 0 {
                listed.path == &name[..bytes]
            } else {
                listed.start == object.start()
            };
            if is_it {
                (work.each)(object, listed);
            }
            rest = after;
        }
        0
    }
    let mut work = Work { list, each };
    // SAFETY: the callback matches the loader's contract and uses `work` only during the call.
    unsafe { dl_iterate_phdr(one, (&raw mut work).cast()) };
}

/// Finds the instructions that return from `dlopen`, shortly after an address in the code that contains it:
/// `ret`, or on aarch64 `ldp x29, x30, [sp], #16`, which loads the return address from the stack, and `ret`.
pub fn return_instruction(address: u64) -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    const BACK: (&[u8], usize, u64) = (&[0xc3], 1, 64 << 10);
    #[cfg(target_arch = "aarch64")]
    const BACK: (&[u8], usize, u64) = (&[0xfd, 0x7b, 0xc1, 0xa8, 0xc0, 0x03, 0x5f, 0xd6], 4, 16 << 20);
    let (code, step, far_bytes) = BACK;
    struct Search {
        address: u64,
        end: u64,
    }
    unsafe extern "C" fn one(object: *const LoadedObject, _bytes: usize, data: *mut c_void) -> i32 {
        // SAFETY: the loader passes a valid object and our own `Search`.
        let (object, search) = unsafe { (&*object, &mut *data.cast::<Search>()) };
        let mut bounds = object.code().map(|code| (code.start(object.bias), code.end(object.bias)));
        match bounds.find(|(from, to)| (*from..*to).contains(&search.address)) {
            Some((_, end)) => {
                search.end = end;
                1
            }
            None => 0,
        }
    }
    let mut search = Search { address, end: 0 };
    // SAFETY: the callback matches the loader's contract and uses `search` only during the call.
    unsafe { dl_iterate_phdr(one, (&raw mut search).cast()) };
    // SAFETY: within loaded code, which can be read unless it was made execute-only.
    let bytes = |at: u64| unsafe { core::slice::from_raw_parts(at as *const u8, code.len()) };
    let end = (search.end.saturating_sub(code.len() as u64 - 1)).min(address.saturating_add(far_bytes));
    (address..end).step_by(step).find(|at| bytes(*at) == code)
}
