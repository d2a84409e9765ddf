//! The functions of a recorded BPF program, by the kernel's `struct bpf_prog_info` and the program's BTF.
//
// Source: linux include/uapi/linux/bpf.h and btf.h; names as bpf_event.c of perf makes them.

use std::fmt::Write as _;

use super::BpfProgInfo;
use crate::wire::{Endian, Wire};

/// A program of more functions is not looked at: the kernel has 256 at most.
const MAX_FUNCTIONS: u32 = 1024;

/// One function of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BpfFunction {
    /// `bpf_prog_`, its tag and its own name.
    pub name: String,
    /// Where its machine code was.
    pub address: u64,
    /// Bytes of that.
    pub size: u32,
}

/// Offsets of fields in `struct bpf_prog_info`.
mod field {
    pub const ID: usize = 4;
    pub const NAME: usize = 64;
    pub const NAME_BYTES: usize = 16;
    pub const KSYM_COUNT: usize = 104;
    pub const LENGTH_COUNT: usize = 108;
    pub const KSYMS: usize = 112;
    pub const LENGTHS: usize = 120;
    pub const BTF_ID: usize = 128;
    pub const FUNC_INFO_BYTES: usize = 132;
    pub const FUNC_INFO: usize = 136;
    pub const TAG_COUNT: usize = 180;
    pub const TAGS: usize = 184;
}

const TAG_BYTES: usize = 8;

impl BpfProgInfo {
    /// The kernel's number of the program; `None` if the struct is too short.
    #[must_use]
    pub fn id(&self, endian: Endian) -> Option<u32> {
        u32_at(&self.info, field::ID, endian)
    }

    /// The number of its BTF, 0 without.
    #[must_use]
    pub fn btf_id(&self, endian: Endian) -> u32 {
        u32_at(&self.info, field::BTF_ID, endian).unwrap_or(0)
    }

    /// Functions, the main one first; `None` if the counts differ or the arrays are not there.
    #[must_use]
    pub fn functions(&self, btf: Option<&[u8]>, endian: Endian) -> Option<Vec<BpfFunction>> {
        let number = |at: usize| u32_at(&self.info, at, endian);
        let count = number(field::KSYM_COUNT).filter(|&count| count <= MAX_FUNCTIONS)?;
        if number(field::LENGTH_COUNT)? != count || number(field::TAG_COUNT)? != count {
            return None;
        }
        let mut functions = Vec::new();
        for at in 0..count as usize {
            let address = u64_at(self.array(field::KSYMS, endian)?, at * 8, endian)?;
            let size = u32_at(self.array(field::LENGTHS, endian)?, at * 4, endian)?;
            let tag = self.array(field::TAGS, endian)?.get(at * TAG_BYTES..)?.get(..TAG_BYTES)?;
            let mut name = String::from("bpf_prog_");
            for byte in tag {
                let _ = write!(name, "{byte:02x}");
            }
            if let Some(own) = self.own_name(at, count, btf, endian) {
                let _ = write!(name, "_{own}");
            }
            functions.push(BpfFunction { name, address, size });
        }
        Some(functions)
    }

    /// An array: the file has its offset in the data in place of the address.
    fn array(&self, at: usize, endian: Endian) -> Option<&[u8]> {
        self.data.get(usize::try_from(u64_at(&self.info, at, endian)?).ok()?..)
    }

    fn own_name(&self, at: usize, count: u32, btf: Option<&[u8]>, endian: Endian) -> Option<String> {
        if let Some(btf) = btf {
            let bytes = u32_at(&self.info, field::FUNC_INFO_BYTES, endian)? as usize;
            let start = at.checked_mul(bytes)?.checked_add(4)?;
            let type_id = u32_at(self.array(field::FUNC_INFO, endian)?, start, endian)?;
            return type_name(btf, type_id, endian);
        }
        if at > 0 || count > 1 {
            return Some("F".to_owned());
        }
        let name = self.info.get(field::NAME..field::NAME + field::NAME_BYTES)?;
        until_zero(name).filter(|name| !name.is_empty())
    }
}

/// The name of a type of BTF.
// Layout: u16 magic; u8 version, flags; u32 hdr_len, type_off, type_len, str_off, str_len; the offsets from hdr_len on.
//         A type: u32 name_off, info, size_or_type; more by its kind.
fn type_name(btf: &[u8], wanted: u32, endian: Endian) -> Option<String> {
    let number = |at: usize| u32_at(btf, at, endian).and_then(|value| usize::try_from(value).ok());
    let header = number(4)?;
    let types = btf.get(header.checked_add(number(8)?)?..)?;
    let mut types = Wire::new(types.get(..number(12)?)?, endian);
    let names = btf.get(header.checked_add(number(16)?)?..)?;
    for id in 1..=wanted {
        let (name, info, _) = (types.u32()?, types.u32()?, types.u32()?);
        if id == wanted {
            return until_zero(names.get(usize::try_from(name).ok()?..)?);
        }
        types.take(bytes_after(info)?)?;
    }
    None
}

/// Bytes that follow a type's first twelve.
fn bytes_after(info: u32) -> Option<u64> {
    let count = u64::from(info & 0xffff);
    Some(match info >> 24 & 0x1f {
        1 | 14 | 17 => 4,              // int, variable, declaration tag
        3 => 12,                       // array
        4 | 5 | 15 | 19 => 12 * count, // struct, union, data section, enum of 64 bits
        6 | 13 => 8 * count,           // enum, function prototype
        2 | 7..=12 | 16 | 18 => 0,     // pointer, forward, typedef, qualifiers, function, float, type tag
        _ => return None,
    })
}

fn until_zero(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|byte| *byte == 0)?;
    Some(String::from_utf8_lossy(bytes.get(..end)?).into_owned())
}

fn u32_at(bytes: &[u8], at: usize, endian: Endian) -> Option<u32> {
    Wire::new(bytes.get(at..)?, endian).u32()
}

fn u64_at(bytes: &[u8], at: usize, endian: Endian) -> Option<u64> {
    Wire::new(bytes.get(at..)?, endian).u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
        bytes.get_mut(at..at + value.len()).expect("room").copy_from_slice(value);
    }

    /// A program of `count` functions: 16 bytes of addresses, 8 of lengths, 16 of tags, 16 of function infos.
    fn program(count: u32) -> BpfProgInfo {
        let mut info = vec![0; 232];
        let counts = [field::KSYM_COUNT, field::LENGTH_COUNT, field::TAG_COUNT];
        counts.into_iter().for_each(|at| put(&mut info, at, &count.to_le_bytes()));
        put(&mut info, field::ID, &7u32.to_le_bytes());
        put(&mut info, field::NAME, b"short\0");
        put(&mut info, field::FUNC_INFO_BYTES, &8u32.to_le_bytes());
        for (at, offset) in
            [(field::KSYMS, 0u64), (field::LENGTHS, 16), (field::TAGS, 24), (field::FUNC_INFO, 40)]
        {
            put(&mut info, at, &offset.to_le_bytes());
        }
        let mut data = vec![0; 56];
        put(&mut data, 0, &0x1000u64.to_le_bytes());
        put(&mut data, 8, &0x2000u64.to_le_bytes());
        put(&mut data, 16, &20u32.to_le_bytes());
        put(&mut data, 20, &30u32.to_le_bytes());
        put(&mut data, 24, &[0x69; 8]);
        put(&mut data, 32, &[0x0a; 8]);
        put(&mut data, 44, &2u32.to_le_bytes());
        put(&mut data, 52, &2u32.to_le_bytes());
        BpfProgInfo { info, arrays: 0, data }
    }

    #[test]
    fn functions_have_tags_and_names() {
        let one = program(1).functions(None, Endian::Little).expect("one");
        let name = "bpf_prog_6969696969696969_short".to_owned();
        assert_eq!(one, [BpfFunction { name, address: 0x1000, size: 20 }]);
        let names: Vec<String> =
            program(2).functions(None, Endian::Little).expect("two").into_iter().map(|f| f.name).collect();
        assert_eq!(names, ["bpf_prog_6969696969696969_F", "bpf_prog_0a0a0a0a0a0a0a0a_F"]);
        assert_eq!(program(1).id(Endian::Little), Some(7));
    }

    #[test]
    fn names_of_btf_are_whole() {
        // An enum of one value, then a function.
        let types: [u32; 8] = [0, 6 << 24 | 1, 4, 0, 0, 1, 12 << 24, 0];
        let mut btf: Vec<u8> =
            [0x1_eb9f, 24, 0, 32, 32, 30].iter().flat_map(|w: &u32| w.to_le_bytes()).collect();
        btf.extend(types.iter().flat_map(|word| word.to_le_bytes()));
        btf.extend(b"\0a_name_longer_than_15_bytes\0");
        let named = program(1).functions(Some(&btf), Endian::Little).expect("one");
        assert!(named.iter().all(|f| f.name.ends_with("_a_name_longer_than_15_bytes")), "{named:?}");
    }

    #[test]
    fn damage_gives_no_functions() {
        for len in 0..232 {
            let whole = program(2);
            let info = whole.info.get(..len).unwrap_or_default().to_vec();
            let _ = BpfProgInfo { info, ..whole.clone() }.functions(Some(&[0x9f; 40]), Endian::Little);
        }
        let short = BpfProgInfo { data: vec![0; 20], ..program(2) };
        assert_eq!(short.functions(None, Endian::Little), None);
    }
}
