//! Types in BTF form, found by their numbers and names.

use std::sync::{Arc, Mutex, Weak};

use dso::{MappedFile, system_file};

use crate::sys::bpf_error::{Error, chain};

const KERNEL: &str = "/sys/kernel/btf/vmlinux";

/// The kinds of types that are looked for.
//
// Source: linux v6.18 include/uapi/linux/btf.h
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TypeKind {
    /// A typedef, such as `btf_trace_NAME` of each tracepoint.
    Typedef = 8,
    /// A function.
    Func = 12,
}

/// BTF bytes of this machine's byte order, with the place of each type.
#[derive(Debug)]
pub struct KernelTypes {
    bytes: MappedFile,
    /// Offset of each type, the first of which has the number 1.
    at: Vec<u32>,
    kinds: Vec<u8>,
    /// Offset of the names.
    names: usize,
}

/// One type.
#[derive(Clone, Copy, Debug)]
pub(super) struct TypeEntry<'a> {
    pub kind: u8,
    /// Without the zero at its end.
    pub name: &'a [u8],
    /// The whole entry: 12 bytes, then what the kind adds.
    pub bytes: &'a [u8],
}

impl KernelTypes {
    /// Those of the running kernel: read once, as long as somebody has them.
    ///
    /// # Errors
    /// The kernel does not offer them.
    pub fn read() -> Result<Arc<Self>, Error> {
        static SHARED: Mutex<Weak<KernelTypes>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(types) = shared.upgrade() {
            return Ok(types);
        }
        let bytes = bytes_of_kernel().map_err(|error| Error::NoBtf { reason: chain(&error) })?;
        let types = Self::of_file(bytes).ok_or_else(|| Error::NoBtf { reason: "damaged".to_owned() })?;
        let types = Arc::new(types);
        *shared = Arc::downgrade(&types);
        Ok(types)
    }

    /// `None` if these bytes aren't BTF.
    #[must_use]
    pub fn from_bytes(bytes: Vec<u8>) -> Option<Self> {
        Self::of_file(MappedFile::from_vec(bytes))
    }

    /// `None` if the file isn't BTF.
    // Layout: btf_header { u16 magic, u8 version, u8 flags, u32 hdr_len, type_off, type_len, str_off, str_len }, offsets
    //         from the header's end; btf_type { u32 name_off, info (vlen 0..16, kind 24..29), size or type }, then what
    //         the kind adds; numbers count from 1
    // Source: linux v6.18 include/uapi/linux/btf.h
    fn of_file(bytes: MappedFile) -> Option<Self> {
        const MAGIC: u32 = 0xeb9f;
        let header = word(&bytes, 4)? as usize;
        if word(&bytes, 0)? & 0xffff != MAGIC {
            return None;
        }
        let names = header.checked_add(word(&bytes, 16)? as usize)?;
        let mut place = header.checked_add(word(&bytes, 8)? as usize)?;
        let end = place.checked_add(word(&bytes, 12)? as usize)?;
        let most = end.min(bytes.len()) / 24;
        let (mut at, mut kinds) = (Vec::with_capacity(most), Vec::with_capacity(most));
        while place < end {
            let info = word(&bytes, place + 4)?;
            let kind = (info >> 24 & 0x1f) as u8;
            at.push(u32::try_from(place).ok()?);
            kinds.push(kind);
            place += 12 + bytes_after(kind, (info & 0xffff) as usize);
        }
        Some(Self { bytes, at, kinds, names })
    }

    /// The number of a type; `None` if there is none of this name.
    #[must_use]
    pub fn find(&self, kind: TypeKind, name: &str) -> Option<u32> {
        // Not by `entry`, which looks for the end of each name: a kernel has 60,000 functions.
        let is_here = |at: u32| {
            let offset = word(&self.bytes, at as usize).unwrap_or(0) as usize;
            let names = self.bytes.get(self.names.saturating_add(offset)..).unwrap_or_default();
            names.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
        };
        let mut entries = (1u32..).zip(self.kinds.iter().zip(&self.at));
        let found = entries.find(|(_, (has, at))| **has == kind as u8 && is_here(**at));
        found.map(|(number, _)| number)
    }

    /// The kinds of all types, the first of which has the number 1.
    pub(super) fn kinds(&self) -> &[u8] {
        &self.kinds
    }

    /// `None` for 0, which is `void`, and for numbers of no type.
    pub(super) fn entry(&self, number: u32) -> Option<TypeEntry<'_>> {
        let index = (number as usize).checked_sub(1)?;
        let (at, kind) = (*self.at.get(index)? as usize, *self.kinds.get(index)?);
        let count = (word(&self.bytes, at + 4)? & 0xffff) as usize;
        let bytes = self.bytes.get(at..at + 12 + bytes_after(kind, count))?;
        Some(TypeEntry { kind, name: self.name(word(bytes, 0)?), bytes })
    }

    /// The first two letters of the type's name, with the zero at its end.
    pub(super) fn name_begin(&self, number: u32) -> [u8; 2] {
        let at = (number as usize).checked_sub(1).and_then(|index| self.at.get(index));
        let offset = at.and_then(|at| word(&self.bytes, *at as usize)).unwrap_or(0) as usize;
        let name = self.bytes.get(self.names.saturating_add(offset)..).unwrap_or_default();
        match name {
            [0, ..] | [] => [0, 0],
            [one] => [*one, 0],
            [one, two, ..] => [*one, *two],
        }
    }

    /// The name at this offset; empty if there is none.
    pub(super) fn name(&self, offset: u32) -> &[u8] {
        let rest = self.bytes.get(self.names.saturating_add(offset as usize)..).unwrap_or_default();
        let len = rest.iter().position(|byte| *byte == 0).unwrap_or(0);
        &rest[..len]
    }
}

/// Bytes of the running kernel's types. Reading copies them by pages; a newer kernel maps its own.
//
// Source: linux v6.16 kernel/bpf/sysfs_btf.c, btf_sysfs_vmlinux_mmap(): private and read-only
fn bytes_of_kernel() -> std::io::Result<MappedFile> {
    let mapped = MappedFile::from_file(system_file::open(KERNEL)?);
    mapped.or_else(|_| system_file::read(KERNEL).map(MappedFile::from_vec))
}

/// The u32 at this offset.
pub(super) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    bytes.try_into().ok().map(u32::from_ne_bytes)
}

/// Bytes that follow a type of this kind.
// Source: linux v6.18 kernel/bpf/btf.c, btf_*_check_meta()
fn bytes_after(kind: u8, members: usize) -> usize {
    match kind {
        // INT, VAR, DECL_TAG
        1 | 14 | 17 => 4,
        // ARRAY
        3 => 12,
        // STRUCT, UNION, DATASEC, ENUM64
        4 | 5 | 15 | 19 => members * 12,
        // ENUM, FUNC_PROTO
        6 | 13 => members * 8,
        _ => 0,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// BTF bytes of these words of types and these names, of which the first is empty.
    pub(crate) fn btf(types: &[u32], names: &[&str]) -> Vec<u8> {
        let names: Vec<u8> = names.iter().flat_map(|name| [name.as_bytes(), b"\0"].concat()).collect();
        let len = types.len() as u32 * 4;
        let header = [0x1_eb9f, 24, 0, len, len, names.len() as u32];
        let words = header.iter().chain(types).flat_map(|word| word.to_ne_bytes());
        words.chain(names).collect()
    }

    /// An INT, a STRUCT of one member, and the FUNC `name`.
    fn three(name: &str) -> Vec<u8> {
        btf(&[0, 1 << 24, 4, 32, 0, 4 << 24 | 1, 4, 0, 1, 0, 1, 12 << 24, 1], &["", name])
    }

    #[test]
    fn a_function_is_found_by_its_whole_name_and_nothing_is_read_past_the_end() {
        let find = |bytes: &[u8]| KernelTypes::from_bytes(bytes.to_vec())?.find(TypeKind::Func, "here");
        assert_eq!(find(&three("here")), Some(3));
        assert_eq!(find(&three("hereafter")), None);
        let whole = three("here");
        (0..whole.len() - 1).for_each(|len| assert_eq!(find(&whole[..len]), None, "{len}"));
    }
}
