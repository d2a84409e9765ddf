//! Values of maps.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

const BPF_MAP_UPDATE_ELEM: i32 = 2;
const BPF_OBJ_GET_INFO_BY_FD: i32 = 15;
const BPF_MAP_FREEZE: i32 = 22;
const BPF_MAP_LOOKUP_BATCH: i32 = 24;

/// Layout: `union bpf_attr`, the struct of BPF_MAP_*_ELEM. Source: include/uapi/linux/bpf.h.
#[repr(C)]
struct MapElement {
    map_fd: u32,
    pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// Layout: `union bpf_attr`, the struct `batch` of BPF_MAP_LOOKUP_BATCH. Source: include/uapi/linux/bpf.h.
#[repr(C)]
struct LookupBatch {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map_fd: u32,
    elem_flags: u64,
    flags: u64,
}

/// Sets the value of a key.
///
/// # Errors
/// The kernel's errno; `InvalidInput` if the key or value is not as long as the map's, or the map has one for each CPU.
pub fn update_map(map: BorrowedFd<'_>, key: &[u8], value: &[u8]) -> io::Result<()> {
    // Source: include/uapi/linux/bpf.h (enum bpf_map_type)
    const FOR_EACH_CPU: [u32; 4] = [5, 6, 10, 21];
    let shape = shape_of(map)?;
    let fits = [shape.key_size, shape.value_size].map(|size| size as usize) == [key.len(), value.len()];
    if !fits || FOR_EACH_CPU.contains(&shape.map_type) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    element(BPF_MAP_UPDATE_ELEM, map, key, value)
}

/// From now on only programs may change the map; the verifier takes values of a read-only one for constants.
///
/// # Errors
/// The kernel's errno.
pub fn freeze_map(map: BorrowedFd<'_>) -> io::Result<()> {
    element(BPF_MAP_FREEZE, map, &[], &[])
}

fn element(command: i32, map: BorrowedFd<'_>, key: &[u8], value: &[u8]) -> io::Result<()> {
    let at = |bytes: &[u8]| if bytes.is_empty() { 0 } else { bytes.as_ptr() as u64 };
    let attr =
        MapElement { map_fd: map.as_raw_fd() as u32, pad: 0, key: at(key), value: at(value), flags: 0 };
    // SAFETY: `attr` is a live, initialized repr(C) value of the size we give. The kernel reads a key and a value, which are
    // as long as the map's (BPF_MAP_UPDATE_ELEM, checked by the caller), or none of them (BPF_MAP_FREEZE).
    let done =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(&attr), size_of::<MapElement>()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Layout: the beginning of `struct bpf_map_info`. Source: include/uapi/linux/bpf.h.
#[repr(C)]
#[derive(Default)]
struct MapShape {
    map_type: u32,
    id: u32,
    key_size: u32,
    value_size: u32,
}

/// Layout: `union bpf_attr`, the struct `info`. Source: include/uapi/linux/bpf.h.
#[repr(C)]
struct InfoOf {
    bpf_fd: u32,
    info_len: u32,
    info: u64,
}

fn shape_of(map: BorrowedFd<'_>) -> io::Result<MapShape> {
    let mut shape = MapShape::default();
    let mut attr = InfoOf {
        bpf_fd: map.as_raw_fd() as u32,
        info_len: size_of::<MapShape>() as u32,
        info: std::ptr::from_mut(&mut shape) as u64,
    };
    // SAFETY: `attr` is a live, initialized repr(C) value of the size we give; the kernel writes at most `info_len` bytes to
    // `shape`, which is as long, and the new length to `attr`.
    let done = unsafe {
        let attr = std::ptr::from_mut(&mut attr);
        libc::syscall(libc::SYS_bpf, BPF_OBJ_GET_INFO_BY_FD, attr, size_of::<InfoOf>())
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(shape) }
}

/// The values of an array map from the first on, `bytes` each, at most `count` of them: one system call (Linux 5.6).
///
/// # Errors
/// The kernel's errno.
pub fn read_array(map: BorrowedFd<'_>, count: usize, bytes: usize) -> io::Result<Vec<u8>> {
    let (mut keys, mut values) = (vec![0u32; count], vec![0u8; count * bytes]);
    let mut next = 0u32;
    let mut attr = LookupBatch {
        in_batch: 0,
        out_batch: std::ptr::from_mut(&mut next) as u64,
        keys: keys.as_mut_ptr() as u64,
        values: values.as_mut_ptr() as u64,
        count: count as u32,
        map_fd: map.as_raw_fd() as u32,
        elem_flags: 0,
        flags: 0,
    };
    // SAFETY: `attr` is a live, initialized repr(C) value of the size we give. The kernel writes at most `count` keys
    // and values to the addresses in it, which have room for them, the next key to `next`, and how many they were to `attr.count`.
    let done = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            BPF_MAP_LOOKUP_BATCH,
            std::ptr::from_mut(&mut attr),
            size_of::<LookupBatch>(),
        )
    };
    let error = io::Error::last_os_error();
    // ENOENT: no more than these are there.
    if done < 0 && error.raw_os_error() != Some(libc::ENOENT) {
        return Err(error);
    }
    values.truncate(attr.count as usize * bytes);
    Ok(values)
}
