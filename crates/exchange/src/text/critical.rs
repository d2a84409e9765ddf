//! The critical path as text.

use super::blame::Amounts;
use super::{FollowedTextOpts, place_words};
use crate::foreign::harmless;
use display::fit::hang;
use display::number::{count_of, duration_ns};
use profile::Profile;
use profile::view::blame::{
    CriticalPath, CriticalPiece, blamed_functions, causes, end_function, state_words, thread_name,
};
use profile::view::ranking::RankRows as _;
use std::collections::BTreeSet;
use std::io::{self, Write};

/// Shares of the path below this are not worth a line.
const LEAST_BESIDE: f64 = 0.005;

fn share_of(ns: u64, total_ns: u64) -> f64 {
    ns as f64 / total_ns.max(1) as f64
}

/// Prints the path: its functions with their bounds, what it consists of, its longest pieces.
///
/// # Errors
/// Standard output can't be written.
pub fn write(
    out: &mut dyn Write,
    profile: &Profile,
    path: &CriticalPath,
    opts: FollowedTextOpts,
) -> io::Result<()> {
    let total = path.parts.total_ns;
    let threads: BTreeSet<_> = path.pieces.iter().map(|piece| piece.task).collect();
    let whose = path.parts.roots.first().map_or("", |&task| thread_name(profile, task));
    let title = format!(
        "critical path to the end of {}: {}, {} of {}; {:.2} threads ran on average",
        harmless(whose),
        duration_ns(total),
        count_of(path.pieces.len() as u64, "piece", "pieces"),
        count_of(threads.len() as u64, "thread", "threads"),
        path.parallelism
    );
    writeln!(out, "{}", hang(&title, 2, opts.width))?;
    if let Some(beside_ns) = path.beside_ns.filter(|&ns| share_of(ns, total) >= LEAST_BESIDE) {
        let text = format!(
            "other threads held it up for {} in which {} itself ran or wanted a CPU: --blame counts that time for {}",
            duration_ns(beside_ns),
            harmless(whose),
            harmless(whose)
        );
        writeln!(out, "{}", hang(&text, 2, opts.width))?;
    }
    let printer = Printer { profile, path, amounts: Amounts { total_ns: total, opts } };
    printer.functions(out)?;
    printer.parts(out)?;
    printer.pieces(out)
}

struct Printer<'a> {
    profile: &'a Profile,
    path: &'a CriticalPath,
    amounts: Amounts,
}

impl Printer<'_> {
    fn functions(&self, out: &mut dyn Write) -> io::Result<()> {
        self.amounts.heading(
            out,
            "FUNCTIONS    with their callees and waits; upper bound: how much shorter the path could be",
        )?;
        for row in blamed_functions(self.profile, &self.path.parts).iter().take(self.amounts.opts.rows) {
            self.amounts.line(out, row.ns, &format!("{}: {}", row.thread, row.function))?;
        }
        Ok(())
    }

    fn parts(&self, out: &mut dyn Write) -> io::Result<()> {
        self.amounts.heading(out, "PARTS        the path by thread, state and innermost function")?;
        for row in causes(self.profile, &self.path.parts).iter().take(self.amounts.opts.rows) {
            let state = row.state_words(self.profile);
            let place = place_words(&row.function, row.line.as_deref());
            self.amounts.line(out, row.ns, &format!("{}: {state}{place}", row.thread))?;
        }
        Ok(())
    }

    fn pieces(&self, out: &mut dyn Write) -> io::Result<()> {
        self.amounts.heading(out, "PIECES       the longest, in order of time")?;
        let begin = begin_ns(self.path);
        let mut longest: Vec<&CriticalPiece> = self.path.pieces.iter().collect();
        longest.rank_by_key(|piece| std::cmp::Reverse(piece.to_ns - piece.from_ns));
        longest.truncate(self.amounts.opts.rows);
        longest.rank_by_key(|piece| piece.from_ns);
        for piece in longest {
            let (function, line) = end_function(self.profile, piece.callsite, &piece.state);
            let (thread, state) =
                (thread_name(self.profile, piece.task), state_words(self.profile, &piece.state));
            let at = duration_ns(piece.from_ns - begin);
            let place = place_words(&function, line.as_deref());
            self.amounts.line(
                out,
                piece.to_ns - piece.from_ns,
                &format!("at {at:>9}  {thread}: {state}{place}"),
            )?;
        }
        Ok(())
    }
}

fn begin_ns(path: &CriticalPath) -> u64 {
    path.pieces.first().map_or(0, |piece| piece.from_ns)
}
