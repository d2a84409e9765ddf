//! Features that a file's code supports (`.note.gnu.property`, x86-64), for example a shadow stack.
//
// Source of the bits: x86-64 psABI, "Program Property".

use object::LittleEndian;
use object::elf::{FileHeader64, GNU_PROPERTY_X86_FEATURE_1_AND};
use object::read::elf::NoteIterator;

use crate::{Machine, ObjectFile};

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
    const ALIGN: u64 = 8;
    let notes = NoteIterator::<FileHeader64<LittleEndian>>::new(LittleEndian, ALIGN, notes);
    let Ok(mut notes) = notes else { return 0 };
    while let Ok(Some(note)) = notes.next() {
        let Some(mut properties) = note.gnu_properties(LittleEndian) else { continue };
        while let Ok(Some(property)) = properties.next() {
            if property.pr_type() == GNU_PROPERTY_X86_FEATURE_1_AND {
                return property.data_u32(LittleEndian).unwrap_or(0);
            }
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::elf::NT_GNU_PROPERTY_TYPE_0;
    use std::process::Command;

    #[test]
    fn features_are_found_after_other_properties_and_cut_notes_have_none() {
        let mut notes = Vec::new();
        for value in [4, 0x20, NT_GNU_PROPERTY_TYPE_0.0, u32::from_le_bytes(*b"GNU\0")] {
            notes.extend(value.to_le_bytes());
        }
        // x86 ISA needed; then IBT and SHSTK.
        for value in [0xc000_8002, 4, 1, 0, GNU_PROPERTY_X86_FEATURE_1_AND.0, 4, 3, 0] {
            notes.extend(u32::to_le_bytes(value));
        }
        assert_eq!(features(&notes), 3);
        assert!((0..notes.len()).all(|cut| features(&notes[..cut]) == 0));
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_file_built_for_shadow_stacks_has_the_feature() {
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
