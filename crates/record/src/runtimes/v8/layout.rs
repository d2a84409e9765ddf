//! Where V8 keeps what is read, in bytes from the start of its objects.

use dso::Svma;
use rustc_hash::FxHashMap;

use crate::runtimes::ProcessMemory;
use crate::runtimes::memory::{read_u16, read_u32, read_u64};

/// Lowest bits of a word that is an object's address, and of that address.
const OBJECT_TAG: u64 = 1;
const TAG_MASK: u64 = 3;
/// Bits below a small number in its word.
const NUMBER_SHIFT: u32 = 32;
/// The value of `SmiShiftSize` with which words have 8 bytes, and numbers their upper half. Chrome's have 4.
const SHIFT_OF_WHOLE_WORDS: u64 = 31;
/// From the end of a frame, which is its caller's stack pointer, down to the saved frame pointer.
const FRAME_POINTER_BELOW_END: u64 = 2 * 8;

/// Addresses of the numbers that state the layout (Svma), in the order of [`NUMBERS`].
#[derive(Clone, Debug)]
pub(super) struct LayoutAddresses([u64; NUMBERS.len()]);

/// The numbers, each under the names that it has had; `*` ends one whose rest varies.
const NUMBERS: [&[&str]; 23] = [
    &["SmiShiftSize"],
    &["off_fp_function"],
    &["off_fp_context_or_frame_type"],
    &["class_JSFunction__shared__SharedFunctionInfo"],
    &["class_SharedFunctionInfo__name_or_scope_info__*"],
    &["class_SharedFunctionInfo__script_or_debug_info__*", "class_SharedFunctionInfo__script__*"],
    &["class_Script__name__Object"],
    &["class_Script__source__Object"],
    &["class_Map__instance_type__uint16_t"],
    &["class_String__length__int32_t"],
    &["class_SeqOneByteString__chars__char"],
    &["class_ConsString__first__String"],
    &["class_ConsString__second__String"],
    &["class_ThinString__actual__String"],
    &["class_SlicedString__parent__String"],
    &["class_SlicedString__offset__SMI"],
    &["class_ExternalString__resource__Object"],
    &["FirstJSFunctionType", "type_JSFunction__JS_FUNCTION_TYPE"],
    &["LastJSFunctionType", "type_JSFunction__JS_FUNCTION_TYPE"],
    &["type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE"],
    &["type_Script__SCRIPT_TYPE"],
    &["type_Oddball__ODDBALL_TYPE"],
    &["scopeinfo_idx_first_vars"],
];

impl LayoutAddresses {
    /// From the names of all such numbers. `None` if one is missing.
    pub(super) fn of(stated: &[(String, Svma)]) -> Option<Self> {
        let by_name: FxHashMap<&str, u64> = stated.iter().map(|(name, at)| (&**name, at.0)).collect();
        let find = |name: &str| match name.strip_suffix('*') {
            Some(begin) => stated.iter().find(|(name, _)| name.starts_with(begin)).map(|(_, at)| at.0),
            None => by_name.get(name).copied(),
        };
        let mut addresses = [0; NUMBERS.len()];
        for (address, names) in addresses.iter_mut().zip(NUMBERS) {
            *address = names.iter().find_map(|name| find(name))?;
        }
        Some(Self(addresses))
    }
}

/// Offsets in bytes from the start of an object, and numbers of types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) frame: FrameLayout,
    /// `JSFunction`: its `SharedFunctionInfo`.
    pub(super) shared: u64,
    /// `SharedFunctionInfo`: its name, or the `ScopeInfo` that has it.
    pub(super) name_or_scope: u64,
    /// `SharedFunctionInfo`: its `Script`.
    pub(super) script: u64,
    pub(super) script_name: u64,
    pub(super) script_source: u64,
    pub(super) strings: StringLayout,
    pub(super) types: TypeNumbers,
    /// `ScopeInfo`: the first word after those that each has.
    pub(super) first_variable: u64,
}

impl Layout {
    /// That of Node 20, for memory that is made up.
    pub(super) fn of_node_20() -> Self {
        Self {
            frame: FrameLayout { function: 16u64.wrapping_neg(), context: 8u64.wrapping_neg() },
            shared: 24,
            name_or_scope: 16,
            script: 32,
            script_name: 16,
            script_source: 8,
            strings: StringLayout {
                length: 12,
                characters: 16,
                first: 16,
                second: 24,
                actual: 16,
                parent: 16,
                offset: 24,
                resource: 16,
            },
            types: TypeNumbers {
                at: 12,
                first_function: 2066,
                last_function: 2082,
                shared: 262,
                script: 167,
                missing: 131,
            },
            first_variable: 3,
        }
    }
}

/// Offsets from the frame pointer of a JavaScript frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameLayout {
    pub(super) function: u64,
    /// A context; a number in frames of other kinds.
    pub(super) context: u64,
}

/// Offsets in strings of all kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StringLayout {
    pub(super) length: u64,
    pub(super) characters: u64,
    pub(super) first: u64,
    pub(super) second: u64,
    pub(super) actual: u64,
    pub(super) parent: u64,
    pub(super) offset: u64,
    pub(super) resource: u64,
}

/// Numbers of types in an object's `Map`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TypeNumbers {
    /// `Map`: its object's type.
    pub(super) at: u64,
    pub(super) first_function: u16,
    pub(super) last_function: u16,
    pub(super) shared: u16,
    pub(super) script: u16,
    /// The type of `undefined`.
    pub(super) missing: u16,
}

impl Layout {
    /// Reads the numbers of a process whose program is loaded with this bias. `None` if they can't be read, or words are
    /// not whole.
    pub(super) fn read(
        addresses: &LayoutAddresses,
        bias: u64,
        memory: &mut ProcessMemory<'_>,
    ) -> Option<Self> {
        let mut numbers = addresses.0.iter().map(|at| {
            let number = read_u32(memory, at.wrapping_add(bias))?;
            Some(i64::from(number.cast_signed()).cast_unsigned())
        });
        let mut next = || numbers.next().flatten();
        next().filter(|shift| *shift == SHIFT_OF_WHOLE_WORDS)?;
        Self {
            frame: FrameLayout { function: next()?, context: next()? },
            shared: next()?,
            name_or_scope: next()?,
            script: next()?,
            script_name: next()?,
            script_source: next()?,
            types: TypeNumbers {
                at: next()?,
                first_function: 0,
                last_function: 0,
                shared: 0,
                script: 0,
                missing: 0,
            },
            strings: StringLayout {
                length: next()?,
                characters: next()?,
                first: next()?,
                second: next()?,
                actual: next()?,
                parent: next()?,
                offset: next()?,
                resource: next()?,
            },
            first_variable: 0,
        }
        .with_types(&mut next)
    }

    fn with_types(mut self, next: &mut dyn FnMut() -> Option<u64>) -> Option<Self> {
        let mut number = || next().and_then(|number| u16::try_from(number).ok());
        self.types.first_function = number()?;
        self.types.last_function = number()?;
        self.types.shared = number()?;
        self.types.script = number()?;
        self.types.missing = number()?;
        self.first_variable = u64::from(number()?);
        Some(self)
    }

    /// The word with the function of a frame that ends at this stack pointer, read by `stack`. `None` if it is no
    /// JavaScript frame.
    pub(super) fn function_of_frame(&self, end: u64, stack: &dyn Fn(u64) -> Option<u64>) -> Option<u64> {
        let pointer = end.wrapping_sub(FRAME_POINTER_BELOW_END);
        object(stack(pointer.wrapping_add(self.frame.context))?)?;
        stack(pointer.wrapping_add(self.frame.function)).filter(|word| object(*word).is_some())
    }

    pub(super) fn look<'l, 'm>(&self, memory: &'l mut ProcessMemory<'m>) -> Look<'l, 'm> {
        Look { layout: *self, memory }
    }
}

/// The address of the object that a word refers to; `None` if it is a number.
pub(super) fn object(word: u64) -> Option<u64> {
    (word & TAG_MASK == OBJECT_TAG && word > OBJECT_TAG).then_some(word & !TAG_MASK)
}

/// The small number in a word; `None` if it refers to an object.
pub(super) fn small_number(word: u64) -> Option<u32> {
    (word & OBJECT_TAG == 0).then_some((word >> NUMBER_SHIFT) as u32)
}

/// The memory of a V8 at one look.
pub(super) struct Look<'l, 'm> {
    pub(super) layout: Layout,
    pub(super) memory: &'l mut ProcessMemory<'m>,
}

impl Look<'_, '_> {
    /// The word at this offset in the object that `of` refers to.
    pub(super) fn word(&mut self, of: u64, offset: u64) -> Option<u64> {
        read_u64(self.memory, object(of)?.wrapping_add(offset))
    }

    /// The type of the object that a word refers to.
    pub(super) fn type_of(&mut self, word: u64) -> Option<u16> {
        let map = object(self.word(word, 0)?)?;
        read_u16(self.memory, map.wrapping_add(self.layout.types.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_refer_to_objects_or_are_numbers() {
        assert_eq!([0x1001, 0x1003, 0x1000, 1, 0].map(object), [Some(0x1000), None, None, None, None]);
        assert_eq!([7 << 32, 0, 0x1001].map(small_number), [Some(7), Some(0), None]);
    }

    #[test]
    fn numbers_are_found_under_their_names_of_all_versions() {
        let stated = |names: &[&str]| -> Vec<(String, Svma)> {
            names.iter().zip(1..).map(|(name, at)| ((*name).to_owned(), Svma(at))).collect()
        };
        let first: Vec<&str> = NUMBERS.iter().map(|names| names[0]).collect();
        let newer: Vec<String> =
            NUMBERS.iter().map(|names| names.last().expect("one").replace('*', "Tagged_")).collect();
        let newer: Vec<&str> = newer.iter().map(|name| &**name).collect();
        assert!(LayoutAddresses::of(&stated(&newer)).is_some());
        assert!(LayoutAddresses::of(&stated(&first[1..])).is_none());
        assert!(LayoutAddresses::of(&[]).is_none());
    }

    #[test]
    fn a_frame_without_a_context_is_no_javascript() {
        let layout = Layout::of_node_20();
        let stack = |words: [u64; 4]| move |at: u64| words.get(((at - 0x100) / 8) as usize).copied();
        let of = |words| layout.function_of_frame(0x120, &stack(words));
        assert_eq!(of([0x2001, 0x3001, 0, 0]), Some(0x2001));
        assert_eq!(of([0x2001, 14 << 32, 0, 0]), None, "an internal frame");
        assert_eq!(of([0x2000, 0x3001, 0, 0]), None, "a number");
        assert_eq!(layout.function_of_frame(8, &|_| None), None);
    }
}
