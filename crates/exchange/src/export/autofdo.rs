//! LLVM's sample profile as text, for `clang -fprofile-sample-use` and `llvm-profdata merge --sample`: executions of lines.
//!
//! ```text
//! main:184019:0                function: sum of all: calls
//!  4: 534                      line after the function's: executions
//!  4.2: 534                    with a discriminator
//!  5: 1075 _Z3foo:1075         called functions
//!  6: _Z3bar:2064              an inlined call: sum
//!   1: 2064                    its lines
//! ```
//
// Source: LLVM llvm/include/llvm/ProfileData/SampleProfReader.h, lib/ProfileData/SampleProfWriter.cpp.

use profile::view::ranking::RankRows as _;
use profile::view::sample_profile::{FunctionCounts, LineOffset, SampleProfile};
use std::cmp::Reverse;
use std::io::{self, Write};

/// Why there is nothing to write; `samples` had branch stacks.
#[must_use]
pub fn refusal(profile: &SampleProfile, samples: u64) -> Option<&'static str> {
    if samples == 0 {
        return Some("no branch stacks in it (record with -b on a CPU that has them)");
    }
    let none =
        "branch stacks, but no lines: build with -g, for clang with -fdebug-info-for-profiling as well";
    profile.functions.is_empty().then_some(none)
}

/// Writes all functions, those that ran most first.
///
/// # Errors
/// If writing fails.
pub fn write(mut out: impl Write, profile: &SampleProfile) -> io::Result<()> {
    let mut functions: Vec<_> =
        profile.functions.iter().map(|(name, counts)| (Reverse(counts.total()), name, counts)).collect();
    functions.rank_by_key(|(total, name, _)| (*total, *name));
    for (Reverse(total), name, counts) in functions {
        writeln!(out, "{}:{total}:{}", one_word(name), counts.head)?;
        write_lines(&mut out, counts, 1)?;
    }
    out.flush()
}

fn write_lines(out: &mut impl Write, counts: &FunctionCounts, depth: usize) -> io::Result<()> {
    let place = |at: &LineOffset| match at.discriminator {
        0 => at.line.to_string(),
        discriminator => format!("{}.{discriminator}", at.line),
    };
    for (at, line) in &counts.lines {
        write!(out, "{:depth$}{}: {}", "", place(at), line.count)?;
        let mut calls: Vec<_> = line.calls.iter().map(|(name, count)| (Reverse(*count), name)).collect();
        calls.sort();
        for (Reverse(count), name) in calls {
            write!(out, " {}:{count}", one_word(name))?;
        }
        writeln!(out)?;
    }
    for (at, functions) in &counts.inlined {
        for (name, inlined) in functions {
            writeln!(out, "{:depth$}{}: {}:{}", "", place(at), one_word(name), inlined.total())?;
            write_lines(out, inlined, depth + 1)?;
        }
    }
    Ok(())
}

/// A name without blanks, which would end it.
fn one_word(name: &str) -> String {
    name.chars().map(|c| if c.is_whitespace() || c.is_control() { '_' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::view::sample_profile::SampledFrame;

    #[test]
    fn a_function_has_its_lines_calls_and_inlined_calls() {
        let frame = |function: &str, line, discriminator| SampledFrame {
            function: function.to_owned(),
            at: LineOffset { line, discriminator },
        };
        let mut profile = SampleProfile::default();
        profile.add_line(&[frame("main", 4, 0)], 5);
        profile.add_line(&[frame("bar", 1, 3), frame("main", 6, 0)], 20);
        profile.add_call(&[frame("main", 4, 0)], "foo", 5);
        profile.add_call(&[], "main", 1);
        let mut text = Vec::new();
        write(&mut text, &profile.without_empty()).expect("in memory");
        let expected = "main:25:1\n 4: 5 foo:5\n 6: bar:20\n  1.3: 20\n";
        assert_eq!(String::from_utf8(text).as_deref(), Ok(expected));
    }
}
