//! Where the kernel can run a BPF callback at a thread's return to user mode (6.18), the object's placeholder for it
//! becomes a call of the kernel's function.
//!
//! Kernel functions are called by the number of their type in the kernel's BTF, which aya does not fill in.

/// The kernel function that the program calls, if the kernel has it.
const FUNCTION: &[u8] = b"bpf_task_work_schedule_resume_impl";

/// `KFUNC_AT_USER` of bpf/kernel.h.
const PLACEHOLDER: u32 = 0x7a11;

/// The object with its placeholder resolved by the kernel's BTF; `None` if the kernel has no such function.
#[must_use]
pub fn resolved(object: &[u8], btf: &[u8]) -> Option<Vec<u8>> {
    // Layout: bpf_insn { code: u8, dst:4 src:4, off: i16, imm: i32 }; 0x85 is call, src 2 is BPF_PSEUDO_KFUNC_CALL
    // Source: linux v6.18 include/uapi/linux/bpf.h
    let id = find_function(btf, FUNCTION)?;
    let instruction = |src: u8, imm: u32| {
        let imm = imm.to_le_bytes();
        [0x85, src << 4, 0, 0, imm[0], imm[1], imm[2], imm[3]]
    };
    let (from, to) = (instruction(0, PLACEHOLDER), instruction(2, id));
    let mut object = object.to_vec();
    let mut places = 0;
    for bytes in object.chunks_exact_mut(8).filter(|bytes| **bytes == from) {
        bytes.copy_from_slice(&to);
        places += 1;
    }
    (places > 0).then_some(object)
}

/// The type number of a function in BTF bytes of this machine's byte order; `None` if it is not there or the bytes
/// aren't BTF.
// Layout: btf_header { u16 magic, u8 version, u8 flags, u32 hdr_len, type_off, type_len, str_off, str_len }, offsets
//         from the header's end; btf_type { u32 name_off, info (vlen 0..16, kind 24..29), size or type }, then what
//         the kind adds; numbers count from 1
// Source: linux v6.18 include/uapi/linux/btf.h
#[must_use]
pub fn find_function(btf: &[u8], name: &[u8]) -> Option<u32> {
    const MAGIC: u32 = 0xeb9f;
    const FUNC: u32 = 12;
    let word = |at: usize| {
        let bytes = btf.get(at..at.checked_add(4)?)?;
        bytes.try_into().ok().map(u32::from_ne_bytes)
    };
    if word(0)? & 0xffff != MAGIC {
        return None;
    }
    let header = word(4)? as usize;
    let (types, types_len) = (header + word(8)? as usize, word(12)? as usize);
    let names = header + word(16)? as usize;
    let (mut at, mut id) = (types, 1);
    while at < types + types_len {
        let (name_off, info) = (word(at)? as usize, word(at + 4)?);
        let (kind, members) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
        if kind == FUNC {
            let text = btf.get(names + name_off..)?;
            if text.starts_with(name) && text.get(name.len()) == Some(&0) {
                return Some(id);
            }
        }
        at += 12 + bytes_behind(kind, members);
        id += 1;
    }
    None
}

/// Bytes that follow a type of this kind.
// Source: linux v6.18 kernel/bpf/btf.c, btf_*_check_meta()
fn bytes_behind(kind: u32, members: usize) -> usize {
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
mod tests {
    use super::*;

    /// An INT, a STRUCT of one member, and the FUNC `name`.
    fn btf(name: &[u8]) -> Vec<u8> {
        let types: [u32; 13] = [0, 1 << 24, 4, 32, 0, 4 << 24 | 1, 4, 0, 1, 0, 1, 12 << 24, 1];
        let names = [b"\0", name, b"\0"].concat();
        let header = [0x1_eb9f, 24, 0, 52, 52, names.len() as u32];
        let words = header.into_iter().chain(types).flat_map(u32::to_ne_bytes);
        words.chain(names).collect()
    }

    #[test]
    fn a_function_is_found_by_its_whole_name_and_nothing_is_read_past_the_end() {
        assert_eq!(find_function(&btf(b"here"), b"here"), Some(3));
        assert_eq!(find_function(&btf(b"hereafter"), b"here"), None);
        let whole = btf(b"here");
        (0..whole.len()).for_each(|len| assert_eq!(find_function(&whole[..len], b"here"), None));
    }

    #[test]
    fn only_the_placeholder_call_is_replaced() {
        let object = [0x85, 0, 0, 0, 0x11, 0x7a, 0, 0, 0x85, 0, 0, 0, 5, 0, 0, 0];
        let resolved = resolved(&object, &btf(FUNCTION)).expect("the function is there");
        assert_eq!(resolved, [0x85, 0x20, 0, 0, 3, 0, 0, 0, 0x85, 0, 0, 0, 5, 0, 0, 0]);
        assert_eq!(super::resolved(&object, &btf(b"else")), None);
    }
}
