//! What a file says that its code can do (`.note.gnu.property`, x86-64): run with a shadow stack, for one.
//
// Layout: Elf64_Nhdr { u32 namesz, descsz, type }, name, desc; desc of NT_GNU_PROPERTY_TYPE_0: { u32 type, datasz; data,
// padded to 8 }. Source: Linux Extensions to gABI, "Program Property"; x86-64 psABI, "Program Property".

use crate::{Machine, ObjectFile};

const NT_GNU_PROPERTY_TYPE_0: u32 = 5;
const GNU_PROPERTY_X86_FEATURE_1_AND: u32 = 0xc000_0002;
const GNU_PROPERTY_X86_FEATURE_1_SHSTK: u32 = 2;

/// Whether all of the file's code was built to run with a shadow stack (CET).
#[must_use]
pub fn allows_shadow_stack(object: &ObjectFile) -> bool {
    let notes = object.section_bytes(".note.gnu.property").ok().flatten();
    object.machine() == Machine::X86_64
        && notes.is_some_and(|notes| features(&notes) & GNU_PROPERTY_X86_FEATURE_1_SHSTK != 0)
}

/// The bits of `GNU_PROPERTY_X86_FEATURE_1_AND`; 0 without, and where the notes are cut short.
fn features(notes: &[u8]) -> u32 {
    let mut rest = notes;
    while let Some((kind, desc, after)) = next_note(rest) {
        if kind == NT_GNU_PROPERTY_TYPE_0
            && let Some(bits) = find_property(desc)
        {
            return bits;
        }
        rest = after;
    }
    0
}

/// A note's type and content, and what follows it.
fn next_note(notes: &[u8]) -> Option<(u32, &[u8], &[u8])> {
    const HEAD_BYTES: usize = 12;
    let (name_bytes, desc_bytes) = (word(notes, 0)? as usize, word(notes, 4)? as usize);
    let desc_at = HEAD_BYTES + name_bytes.checked_next_multiple_of(4)?;
    let desc = notes.get(desc_at..desc_at.checked_add(desc_bytes)?)?;
    let end = desc_at + desc_bytes.checked_next_multiple_of(8)?;
    Some((word(notes, 8)?, desc, notes.get(end..).unwrap_or_default()))
}

fn find_property(desc: &[u8]) -> Option<u32> {
    let mut at = 0usize;
    loop {
        let (kind, bytes) = (word(desc, at)?, word(desc, at + 4)? as usize);
        if kind == GNU_PROPERTY_X86_FEATURE_1_AND {
            return word(desc, at + 8);
        }
        at = at.checked_add(8)?.checked_add(bytes.checked_next_multiple_of(8)?)?;
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(four.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn features_are_found_behind_other_properties_and_cut_notes_have_none() {
        let mut notes = Vec::new();
        for value in [4, 0x20, NT_GNU_PROPERTY_TYPE_0, u32::from_le_bytes(*b"GNU\0")] {
            notes.extend(value.to_le_bytes());
        }
        // x86 ISA needed; then IBT and SHSTK.
        for value in [0xc000_8002, 4, 1, 0, GNU_PROPERTY_X86_FEATURE_1_AND, 4, 3, 0] {
            notes.extend(u32::to_le_bytes(value));
        }
        assert_eq!(features(&notes), 3);
        assert!((0..notes.len()).all(|cut| features(&notes[..cut]) == 0));
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_file_built_for_shadow_stacks_says_so() {
        let dir = std::env::temp_dir().join(format!("tally-property-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let (source, library) = (dir.join("a.c"), dir.join("a.so"));
        std::fs::write(&source, "int f(void) { return 1; }").unwrap();
        for (flag, wanted) in [("full", true), ("none", false)] {
            let protection = format!("-fcf-protection={flag}");
            let flags = ["-shared", "-fPIC", "-nostdlib", &protection, "-o"];
            let built = Command::new("gcc").args(flags).arg(&library).arg(&source).status();
            if built.is_ok_and(|status| status.success()) {
                assert_eq!(allows_shadow_stack(&ObjectFile::open(&library).unwrap()), wanted, "{flag}");
            } else {
                println!("skipped: no gcc");
            }
        }
        let _ = std::fs::remove_dir_all(&dir);
    }
}
