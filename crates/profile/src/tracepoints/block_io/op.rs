//! `rwbs`: operation and flags of a request in letters.

/// Operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Op {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Makes the disk write its cache.
    Flush,
    /// Gives sectors back.
    Discard,
    /// Anything else.
    Other,
}

impl Op {
    /// All, in the order shown.
    pub const ALL: [Self; 5] = [Self::Read, Self::Write, Self::Flush, Self::Discard, Self::Other];

    /// Name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Discard => "discard",
            Self::Other => "other",
        }
    }
}

/// Operation and flags of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rwbs {
    /// Operation.
    pub op: Op,
    /// Somebody waits for it.
    pub sync: bool,
    /// Read ahead of need.
    pub readahead: bool,
    /// Data of the file system's own.
    pub meta: bool,
    /// The disk's cache is written before it.
    pub preflush: bool,
    /// It is done only when it is on the medium.
    pub fua: bool,
}

impl Rwbs {
    /// Reads the letters, e.g. `RA`, `FWFS`, `WSM`.
    // Layout: [F: preflush] operation (R, W, D, DE, F, N, Z…) then any of F (fua), A, S, M, U.
    // Source: linux v6.18 kernel/trace/blktrace.c, blk_fill_rwbs()
    #[must_use]
    pub fn parse(letters: &str) -> Self {
        let mut rest = letters.trim();
        let preflush = rest.len() > 1 && rest.starts_with('F') && rest[1..].starts_with(is_op);
        if preflush {
            rest = &rest[1..];
        }
        let op = match rest.chars().next() {
            Some('R') => Op::Read,
            Some('W') => Op::Write,
            Some('F') => Op::Flush,
            Some('D') => Op::Discard,
            _ => Op::Other,
        };
        let flags = rest.get(1..).unwrap_or("");
        Self {
            op,
            sync: flags.contains('S'),
            readahead: flags.contains('A'),
            meta: flags.contains('M'),
            preflush,
            fua: flags.contains('F'),
        }
    }

    /// Words for the flags, as in `read ahead, sync`; empty without any.
    #[must_use]
    pub fn flags(self) -> String {
        let words = [
            (self.readahead, "ahead"),
            (self.sync, "sync"),
            (self.meta, "meta"),
            (self.preflush, "preflush"),
            (self.fua, "fua"),
        ];
        words.iter().filter(|(on, _)| *on).map(|(_, word)| *word).collect::<Vec<_>>().join(",")
    }
}

fn is_op(c: char) -> bool {
    matches!(c, 'R' | 'W' | 'D' | 'F' | 'N' | 'Z')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_tell_operation_and_flags() {
        let of = |letters: &str| {
            let rwbs = Rwbs::parse(letters);
            (rwbs.op, rwbs.flags())
        };
        assert_eq!(of("R"), (Op::Read, String::new()));
        assert_eq!(of("RA"), (Op::Read, "ahead".to_owned()));
        assert_eq!(of("WSM"), (Op::Write, "sync,meta".to_owned()));
        assert_eq!(of("FWFS"), (Op::Write, "sync,preflush,fua".to_owned()));
        assert_eq!(of("FF"), (Op::Flush, "preflush".to_owned()));
        assert_eq!(of("F"), (Op::Flush, String::new()));
        assert_eq!(of("FS"), (Op::Flush, "sync".to_owned()));
        assert_eq!(of("DE"), (Op::Discard, String::new()));
        assert_eq!((of("N").0, of("").0), (Op::Other, Op::Other));
    }

    #[test]
    fn letters_of_other_alphabets_are_no_panic() {
        assert_eq!(Rwbs::parse("é").op, Op::Other);
        assert_eq!(Rwbs::parse("Fé").op, Op::Flush);
    }
}
