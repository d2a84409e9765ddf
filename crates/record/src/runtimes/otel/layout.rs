//! Records of the BPF program: `bpf/otel_shared.h`.

/// A look that found another context than the look before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangeRecord<'r> {
    /// The look, CLOCK_MONOTONIC ns.
    pub time_ns: u64,
    /// The look before; 0 if there was none.
    pub before_ns: u64,
    /// Process, in our pid namespace.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// How long the thread was off the CPU in the context before, ns.
    pub off_ns: u64,
    /// False: none is attached any more.
    pub has_context: bool,
    /// Trace id.
    pub trace: [u8; 16],
    /// Span id.
    pub span: [u8; 8],
    /// As the program wrote them.
    pub attributes: &'r [u8],
}

/// A process that isn't known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AskRecord {
    /// In our pid namespace.
    pub pid: u32,
    /// In the initial one.
    pub tgid: u32,
    /// Its address space.
    pub mm: u64,
}

/// A record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContextRecord<'r> {
    /// `OTEL_CHANGE`.
    Change(ChangeRecord<'r>),
    /// `OTEL_ASK`.
    Ask(AskRecord),
}

/// Bytes before the attributes.
const HEAD: usize = 80;

// Layout: struct otel_record. Source: bpf/otel_shared.h
/// Reads one; `None` for bytes of another length or kind.
#[must_use]
pub fn parse_record(bytes: &[u8]) -> Option<ContextRecord<'_>> {
    let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let attributes = bytes.get(HEAD..)?.get(..usize::try_from(word(4)?).ok()?)?;
    let (pid, tid, tgid) = (word(32)?, word(36)?, word(40)?);
    match word(0)? {
        1 => Some(ContextRecord::Change(ChangeRecord {
            time_ns: long(8)?,
            before_ns: long(16)?,
            pid,
            tid,
            has_context: word(44)? != 0,
            trace: bytes.get(48..64)?.try_into().ok()?,
            span: bytes.get(64..72)?.try_into().ok()?,
            off_ns: long(72)?,
            attributes,
        })),
        2 => Some(ContextRecord::Ask(AskRecord { pid, tgid, mm: long(24)? })),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_the_size_of_the_program_s() {
        assert!(include_str!("../../../bpf/otel_shared.h").contains("80 bytes, then the attributes"));
        let mut bytes = vec![0u8; HEAD + 3];
        (bytes[0], bytes[4], bytes[8], bytes[36], bytes[44], bytes[48], bytes[64]) = (1, 3, 9, 7, 1, 5, 6);
        bytes[HEAD..].copy_from_slice(b"abc");
        let Some(ContextRecord::Change(change)) = parse_record(&bytes) else { panic!("a change") };
        assert_eq!((change.time_ns, change.tid, change.has_context), (9, 7, true));
        assert_eq!((change.trace[0], change.span[0], change.attributes), (5, 6, b"abc".as_slice()));
        // More attributes than there are bytes, another kind, and less than a head.
        bytes[4] = 4;
        assert_eq!(parse_record(&bytes), None);
        (bytes[0], bytes[4]) = (3, 0);
        assert_eq!((parse_record(&bytes), parse_record(&bytes[..HEAD - 1])), (None, None));
    }
}
