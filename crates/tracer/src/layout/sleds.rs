//! The sled list: where the tracer patches which object, and what it is to do there.
//!
//! After [`MAGIC`], objects one after the other:
//!
//! ```text
//! 0 path bytes u32   4 sleds u32   8 spec bytes u32   12 reserved u32   16 start u64
//! path, then the sleds of 32 bytes ([`Sled`]), then the specs of values ([`super::values`])
//! ```

pub mod arm;

/// Name of the sled list in the recording's folder.
pub const NAME: &str = "sleds";
/// First bytes.
pub const MAGIC: [u8; 8] = *b"tallysl3";
/// Name of the pipe on which the tracer reports objects that were opened later: lines `PID N`, `PID-N.maps`
/// being the maps that hold them. The answer is a list of the same form, `PID-N.sleds`.
pub const PIPE_NAME: &str = "opened";

/// The compiled-in call there becomes a nop, its function is not traced. (One of [`REPORTED`] goes on, unseen.)
pub const OFF: u32 = 1;
/// Neither this function nor what it calls is recorded.
pub const NOT: u32 = 2;
/// Only this function and what it calls is recorded (with [`super::START_VARIABLE`] `only`).
pub const ONLY: u32 = 4;
/// Recording starts here, if it was off.
pub const START: u32 = 8;
/// Recording stops here, until it is started.
pub const STOP: u32 = 16;
/// The place has a call of `mcount` after the prologue, not a nop at the entry.
pub const CALL: u32 = 32;
/// The address is that of a table slot through which a library's function is called.
pub const IMPORT: u32 = 64;
/// Its arguments or result are recorded, according to its spec.
pub const VALUES: u32 = 128;
/// Calls are recorded that lead here (with [`super::CALLERS_VARIABLE`]).
pub const CALLER: u32 = 256;
/// Inside it only [`Sled::depth`] levels are recorded, its own being the first.
pub const DEPTH: u32 = 512;
/// Inside it another least duration holds ([`Sled::min_ns`]).
pub const TIME: u32 = 1024;
/// With each call of it, the open calls that are not recorded are written.
pub const BACKTRACE: u32 = 2048;

/// A call of it is dropped with all in it, unless it took as long as [`Sled::min_ns`].
pub const SLOW: u32 = 4096;

/// The place has a call of `__cyg_profile_func_enter`, by which a function reports itself: the spec of its
/// values ends with a [`super::moved::Moved`].
pub const REPORTED: u32 = 8192;

/// One place to patch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sled {
    /// Stated address.
    pub svma: u64,
    /// Rules for it: [`OFF`] and the others.
    pub rules: u32,
    /// Where its spec begins among the object's, in bytes (with [`VALUES`]).
    pub spec: u32,
    /// Value of [`DEPTH`].
    pub depth: u32,
    /// Value of [`TIME`] or [`SLOW`], ns.
    pub min_ns: u32,
    /// Value of [`REPORTED`]: the function's stated address.
    pub function: u64,
}

/// Bytes of a [`Sled`] in the list.
pub const SLED_BYTES: usize = 32;

impl Sled {
    /// Whether nothing is to be there.
    #[must_use]
    pub const fn is_nop(&self) -> bool {
        self.rules & OFF != 0 && self.rules & REPORTED == 0
    }

    /// Decodes the bytes of the list.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; SLED_BYTES]) -> Self {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        Self {
            svma: long(0),
            rules: word(8),
            spec: word(12),
            depth: word(16),
            min_ns: word(20),
            function: long(24),
        }
    }

    /// The bytes to put in the list.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; SLED_BYTES] {
        let mut bytes = [0; SLED_BYTES];
        bytes[..8].copy_from_slice(&self.svma.to_le_bytes());
        for (at, word) in [(8, self.rules), (12, self.spec), (16, self.depth), (20, self.min_ns)] {
            bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        bytes[24..].copy_from_slice(&self.function.to_le_bytes());
        bytes
    }
}

/// One object of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed<'a> {
    /// Path, as the loader names it.
    pub path: &'a [u8],
    /// Start address in the process that the list is for; 0 for any process, where the path identifies it.
    pub start: u64,
    sleds: &'a [u8],
    /// Specs of values.
    pub specs: &'a [u8],
}

impl<'a> Listed<'a> {
    /// Sleds.
    pub fn sleds(&self) -> impl Iterator<Item = Sled> + use<'a> {
        self.sleds.as_chunks().0.iter().map(Sled::from_bytes)
    }
}

/// Splits the next object off a sled list (after its magic): the object and the rest. `None` at the end and where
/// the list is cut short.
#[must_use]
pub fn next_object(list: &[u8]) -> Option<(Listed<'_>, &[u8])> {
    const HEAD_BYTES: usize = 24;
    let word = |at: usize| Some(u32::from_le_bytes(list.get(at..at + 4)?.try_into().ok()?) as usize);
    let (path_bytes, count, spec_bytes) = (word(0)?, word(4)?, word(8)?);
    let sleds_at = HEAD_BYTES + path_bytes;
    let specs_at = sleds_at + count.checked_mul(SLED_BYTES)?;
    let end = specs_at + spec_bytes;
    let listed = Listed {
        path: list.get(HEAD_BYTES..sleds_at)?,
        start: word(16)? as u64 | (word(20)? as u64) << 32,
        sleds: list.get(sleds_at..specs_at)?,
        specs: list.get(specs_at..end)?,
    };
    Some((listed, list.get(end..)?))
}

/// The object that a part of a list is about, as in [`Listed`].
#[cfg(not(any(tally_preload, tally_timers)))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectStart<'a> {
    /// Path.
    pub path: &'a [u8],
    /// Address of its first byte in the process; 0: not known.
    pub start: u64,
}

/// Appends an object to a list that begins with [`MAGIC`].
#[cfg(not(any(tally_preload, tally_timers)))]
pub fn add_object(list: &mut Vec<u8>, object: ObjectStart<'_>, sleds: &[Sled], specs: &[u8]) {
    let ObjectStart { path, start } = object;
    for word in [path.len(), sleds.len(), specs.len(), 0] {
        list.extend((word as u32).to_le_bytes());
    }
    list.extend(start.to_le_bytes());
    list.extend(path);
    sleds.iter().for_each(|sled| list.extend(sled.to_bytes()));
    list.extend(specs);
}

/// Sleds of 5 bytes: gcc's `-fpatchable-function-entry=5`, its `-mnop-mcount`, and what LLVM makes of the former.
pub const NOPS: [[u8; 5]; 3] = [[0x90; 5], [0x0f, 0x1f, 0x44, 0, 0], [0x0f, 0x1f, 0x44, 0, 8]];
/// Bytes of the longest sled, XRay's.
pub const SLED_BYTES_MAX: usize = 11;
/// clang's XRay sled: `jmp .+11` over a nop of 9 bytes.
// Source: LLVM lib/Target/X86/X86MCInstLower.cpp, LowerPATCHABLE_FUNCTION_ENTER.
pub const XRAY: [u8; SLED_BYTES_MAX] = [0xeb, 9, 0x66, 0x0f, 0x1f, 0x84, 0, 0, 2, 0, 0];

/// A compiled-in call of the tracer, as found in code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallForm {
    /// `call rel32`, 5 bytes: so far from its end the target is.
    Near(i32),
    /// `call [rip + rel32]`, 6 bytes: the distance from its end to the target's address.
    Table(i32),
}

/// Whether `code` begins with a call, and where that leads.
// Layout: e8 rel32; ff 15 rel32. Source: Intel SDM Vol. 2, CALL.
#[must_use]
pub const fn call_form(code: &[u8]) -> Option<CallForm> {
    match code {
        [0xe8, a, b, c, d, ..] => Some(CallForm::Near(i32::from_le_bytes([*a, *b, *c, *d]))),
        [0xff, 0x15, a, b, c, d, ..] => Some(CallForm::Table(i32::from_le_bytes([*a, *b, *c, *d]))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sled_list_cut_anywhere_is_no_panic() {
        let sleds = [
            Sled { svma: 0x1000, ..Sled::default() },
            Sled { svma: 0x2000, rules: VALUES | TIME, spec: 8, depth: 3, min_ns: 7, function: 1 << 40 },
        ];
        let mut list = Vec::new();
        let object = ObjectStart { path: b"/bin/app", start: 1 << 40 };
        add_object(&mut list, object, &sleds, b"spec");
        let (listed, rest) = next_object(&list).unwrap();
        assert_eq!(listed.start, 1 << 40);
        assert_eq!((listed.path, listed.specs, rest), (&b"/bin/app"[..], &b"spec"[..], &b""[..]));
        assert_eq!(listed.sleds().collect::<Vec<_>>(), sleds);
        assert!((0..list.len()).all(|cut| next_object(&list[..cut]).is_none()));
    }

    #[test]
    fn calls_are_distinguished_from_other_code() {
        assert_eq!(call_form(&[0xe8, 0xfb, 0xff, 0xff, 0xff]), Some(CallForm::Near(-5)));
        assert_eq!(call_form(&[0xff, 0x15, 4, 1, 0, 0, 0x90]), Some(CallForm::Table(260)));
        assert_eq!(call_form(&[0xff, 0x25, 4, 1, 0, 0]), None);
        assert_eq!(call_form(&[0xe8, 0, 0]), None);
    }
}
