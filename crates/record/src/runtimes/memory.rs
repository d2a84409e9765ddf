//! Numbers in the memory of a process (Avma), little-endian. `None` where there is no such memory.

/// Reads memory from an address on; how many bytes could be read.
pub type ProcessMemory<'m> = dyn FnMut(u64, &mut [u8]) -> usize + 'm;

pub(super) fn read_u64(memory: &mut ProcessMemory<'_>, address: u64) -> Option<u64> {
    read_bytes(memory, address).map(u64::from_le_bytes)
}

pub(super) fn read_u32(memory: &mut ProcessMemory<'_>, address: u64) -> Option<u32> {
    read_bytes(memory, address).map(u32::from_le_bytes)
}

pub(super) fn read_u16(memory: &mut ProcessMemory<'_>, address: u64) -> Option<u16> {
    read_bytes(memory, address).map(u16::from_le_bytes)
}

pub(super) fn read_u8(memory: &mut ProcessMemory<'_>, address: u64) -> Option<u8> {
    read_bytes(memory, address).map(|[byte]| byte)
}

fn read_bytes<const COUNT: usize>(memory: &mut ProcessMemory<'_>, address: u64) -> Option<[u8; COUNT]> {
    let mut bytes = [0; COUNT];
    (memory(address, &mut bytes) == COUNT).then_some(bytes)
}
