//! The letters of `--itrace`: which events a trace is turned into.
//
// Source: linux tools/perf/Documentation/itrace.txt; v6.1 util/auxtrace.c itrace_do_parse_synth_opts(), for what may
//         are after a letter; util/intel-pt.c, which branches c and r choose.

use crate::error::{bail, ensure};
use intelpt::Gap;

/// Distance between two reported instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Every {
    /// This many instructions.
    Instructions(u64),
    /// This many ticks of the time stamp counter.
    Ticks(u64),
    /// This many ns.
    Ns(u64),
}

/// Which events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds {
    branches: bool,
    calls: bool,
    returns: bool,
    errors: bool,
    /// Errors but not these.
    no_overflows: bool,
    no_losses: bool,
    /// One of this many instructions.
    pub instructions: Option<Every>,
    /// With its callers: at most this many frames.
    pub chain: Option<usize>,
    /// Events passed over at the beginning.
    pub skip: u64,
}

/// perf's periods and sizes where none is given.
const USUAL_NS: u64 = 100_000;
const USUAL_CHAIN: u64 = 16;
const MOST_CHAIN: u64 = 1024;

impl Kinds {
    /// The letters of `--itrace`.
    ///
    /// # Errors
    /// Letters whose events are not made here, with what to use instead.
    pub fn parse(text: &str) -> crate::Result<Self> {
        let mut kinds = Self::default();
        let mut rest = text;
        while let Some(letter) = rest.chars().next() {
            rest = &rest[letter.len_utf8()..];
            match letter {
                'b' => kinds.branches = true,
                'c' => kinds.calls = true,
                'r' => kinds.returns = true,
                'e' => kinds.errors(&mut rest)?,
                'i' => kinds.instructions = Some(period(&mut rest)?),
                'g' => kinds.chain = Some(chain(&mut rest)?),
                's' => kinds.skip = number(&mut rest).unwrap_or(0),
                ' ' | ',' => {}
                _ => bail!("--itrace={text}: '{letter}' {}", instead(letter)),
            }
        }
        let any = kinds.every() || kinds.calls || kinds.returns || kinds.errors;
        ensure!(
            any,
            "--itrace={text}: want letters of b, c, r (branches, calls, returns), i (instructions), e (errors)"
        );
        let alone = kinds.chain.is_some() && kinds.instructions.is_none();
        ensure!(!alone, "--itrace={text}: 'g' gives instructions their callers: `ig`, or `i10usg32`");
        Ok(kinds)
    }

    /// Suffixes of an `e`: `-o` no overflows, `-l` no lost data; with `+` they are reported, as they are anyway.
    fn errors(&mut self, rest: &mut &str) -> crate::Result<()> {
        self.errors = true;
        while let Some(sign) = rest.chars().next().filter(|sign| matches!(sign, '+' | '-')) {
            match rest.chars().nth(1) {
                Some('o') => self.no_overflows = sign == '-',
                Some('l') => self.no_losses = sign == '-',
                _ => bail!("--itrace: only o (overflows) and l (lost data) may follow 'e', as in e-o-l"),
            }
            *rest = &rest[2..];
        }
        Ok(())
    }

    /// Jumps within functions are needed.
    #[must_use]
    pub const fn every(self) -> bool {
        self.branches || self.instructions.is_some()
    }

    /// Columns of the longest of the events' names: perf makes one event of all branches, one of instructions.
    #[must_use]
    pub const fn longest_name(self) -> usize {
        if self.instructions.is_some() { "instructions:u".len() } else { "branches:u".len() }
    }

    /// Whether an error is wanted.
    #[must_use]
    pub const fn tells(self, gap: Gap) -> bool {
        self.errors
            && match gap {
                Gap::Overflow => !self.no_overflows,
                Gap::NotSaved => !self.no_losses,
                _ => true,
            }
    }

    /// Whether a branch that perf has these words for is wanted.
    #[must_use]
    pub fn means(self, flags: &str) -> bool {
        let call = || {
            flags.starts_with("tr end") || matches!(flags, "call" | "syscall" | "int" | "hw int" | "tx abrt")
        };
        let back = || flags.starts_with("tr strt") || matches!(flags, "return" | "sysret" | "iret");
        self.branches || self.calls && call() || self.returns && back()
    }
}

/// A number at the beginning, which is taken away.
fn number(rest: &mut &str) -> Option<u64> {
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let value = rest.get(..digits)?.parse().ok();
    *rest = rest.get(digits..)?;
    value
}

/// Suffix of an `i`: nothing, or a number with a unit.
fn period(rest: &mut &str) -> crate::Result<Every> {
    *rest = rest.trim_start_matches([' ', ',']);
    let Some(count) = number(rest) else { return Ok(Every::Ns(USUAL_NS)) };
    // perf's default unit is the nanosecond.
    let (unit, factor) = match rest.as_bytes() {
        [b'i', ..] => ("i", 1),
        [b't', ..] => ("t", 1),
        [b'm', b's', ..] => ("ms", 1_000_000),
        [b'u', b's', ..] => ("us", 1000),
        [b'n', b's', ..] => ("ns", 1),
        [] => ("", 1),
        _ => bail!("--itrace: i{count}{rest}: want a unit of i, t, ms, us, ns"),
    };
    *rest = rest.strip_prefix(unit).unwrap_or(rest);
    let count = count.saturating_mul(factor);
    Ok(match unit {
        _ if count == 0 => Every::Instructions(1),
        "i" => Every::Instructions(count),
        "t" => Every::Ticks(count),
        _ => Every::Ns(count),
    })
}

fn chain(rest: &mut &str) -> crate::Result<usize> {
    *rest = rest.trim_start_matches([' ', ',']);
    let size = number(rest).unwrap_or(USUAL_CHAIN);
    ensure!((1..=MOST_CHAIN).contains(&size), "--itrace: g{size}: want 1 to {MOST_CHAIN} frames");
    Ok(size as usize)
}

/// Replacement for a letter.
const fn instead(letter: char) -> &'static str {
    match letter {
        'x' | 'w' | 'p' | 'o' | 'I' => {
            "shows other packets than branches: `tally dump --pt` prints them all; choose from b, c, r, i, g, e"
        }
        'l' | 'L' => "adds the last branches to samples: `--itrace=b` prints all branches in order",
        'G' => {
            "adds callers to recorded samples: `tally report` has those that were recorded; `--itrace=ig` has traced ones"
        }
        'y' => "samples by cycles: `i` samples by instructions or time",
        'q' => "decodes less: the whole decoding is fast here (`tally calls`)",
        'd' => "writes a log of packets: `tally dump --pt` shows them",
        'A' | 'Z' => "changes how times are taken; here they come from all packets with a time",
        _ => {
            "is not a letter of --itrace; known: b, c, r (branches, calls, returns), i, g (instructions, callers), e (errors), s (skip)"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_choose_kinds_and_others_are_refused_with_what_to_use() {
        let kinds = Kinds::parse("cr").unwrap();
        assert!(
            kinds.means("call")
                && kinds.means("tr end  syscall")
                && kinds.means("tr strt")
                && kinds.means("iret")
        );
        assert!(!kinds.means("jmp") && !kinds.every() && Kinds::parse("b").unwrap().means("jcc"));
        assert!(!Kinds::parse("r").unwrap().means("call") && !Kinds::parse("c").unwrap().means("return"));
        for refused in ["x", "q", "", "g", "i5x", "ig9999", "e-x"] {
            assert!(Kinds::parse(refused).is_err(), "{refused}");
        }
        assert!(Kinds::parse("w").unwrap_err().to_string().contains("tally dump --pt"));
    }

    #[test]
    fn periods_sizes_and_flags_are_perfs() {
        let every = |text| Kinds::parse(text).unwrap().instructions.unwrap();
        assert_eq!([every("i"), every("i10us"), every("i1ms")], [100_000, 10_000, 1_000_000].map(Every::Ns));
        assert_eq!(
            (every("i500t"), every("i7i"), every("i0ns")),
            (Every::Ticks(500), Every::Instructions(7), Every::Instructions(1))
        );
        let kinds = Kinds::parse("i1000ig4be-o+ls10").unwrap();
        assert_eq!((kinds.chain, kinds.skip, kinds.every()), (Some(4), 10, true));
        assert!(kinds.means("jmp") && !kinds.tells(Gap::Overflow) && kinds.tells(Gap::NotSaved));
        assert_eq!(Kinds::parse("ig").unwrap().chain, Some(16));
    }
}
