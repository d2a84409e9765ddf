//! Blame as text: what a thread's wall-clock time went to, in other threads too.

use super::{FollowedTextOpts, place_words, share};
use crate::foreign::harmless;
use display::fit::hang;
use display::number::{count_of, duration_ns};
use display::term::{Paint, paint};
use profile::Profile;
use profile::view::blame::{Blame, BlameCause, causes, thread_name, wait_edges};
use std::io::{self, Write};

/// Prints the causes, and who waited for whom.
///
/// # Errors
/// Standard output can't be written.
pub fn write(
    out: &mut dyn Write,
    profile: &Profile,
    blame: &Blame,
    opts: FollowedTextOpts,
) -> io::Result<()> {
    let total = blame.total_ns;
    let names: Vec<&str> = blame.roots.iter().map(|&task| thread_name(profile, task)).collect();
    let whose = match names.as_slice() {
        [name] => format!("{name} {}", profile.task(blame.roots[0]).tid),
        names => format!(
            "{} of {}",
            count_of(names.len() as u64, "thread", "threads"),
            names.first().unwrap_or(&"")
        ),
    };
    writeln!(out, "wall-clock time of {}: {}", harmless(&whose), duration_ns(total))?;
    let amounts = Amounts { total_ns: total, opts };
    amounts.heading(out, "CAUSES       where that time went, through the waits for other threads")?;
    writeln!(out, "{:>9} {:>7}  what; a ← b: b ended a's wait", "time", "share")?;
    let rows = causes(profile, blame);
    for row in rows.iter().take(opts.rows) {
        amounts.line(out, row.ns, &cause_words(profile, row))?;
    }
    if let Some(rest) = rows.get(opts.rows..).filter(|rest| !rest.is_empty()) {
        let more = count_of(rest.len() as u64, "more", "more");
        amounts.line(out, rest.iter().map(|row| row.ns).sum(), &format!("{more} (--rows)"))?;
    }
    let edges = wait_edges(profile, blame);
    if !edges.is_empty() {
        amounts.heading(out, "WAITS        who waited for whom on the way, of the same time")?;
    }
    for edge in edges.iter().take(opts.rows) {
        amounts.line(out, edge.ns, &format!("{} → {}", edge.sleeper, edge.waited_for))?;
    }
    footer(out, blame, opts.width)
}

fn footer(out: &mut dyn Write, blame: &Blame, width: usize) -> io::Result<()> {
    let unknown = blame.unknown_ns();
    if unknown == 0 {
        return Ok(());
    }
    let shown = format!("{} ({})", duration_ns(unknown), share(unknown, blame.total_ns));
    let text =
        format!("without evidence: {shown}: no sample, no waker, or chains too long or too slight to follow");
    writeln!(out, "\n{}", hang(&text, 2, width))
}

fn cause_words(profile: &Profile, row: &BlameCause) -> String {
    let place = place_words(&row.function, row.line.as_deref());
    let chain = if row.chain.len() > 1 { format!("  {}", row.chain.join(" ← ")) } else { String::new() };
    format!("{}: {}{place}{chain}", row.thread, row.state_words(profile))
}

/// Lists of times with their shares of a whole.
#[derive(Clone, Copy)]
pub(super) struct Amounts {
    /// The whole, ns.
    pub total_ns: u64,
    /// How to print.
    pub opts: FollowedTextOpts,
}

impl Amounts {
    /// Prints the title of a list.
    pub fn heading(self, out: &mut dyn Write, text: &str) -> io::Result<()> {
        writeln!(out, "\n{}", paint(&hang(text, 13, self.opts.width), Paint::Bold, self.opts.colour))
    }

    /// Prints a row: time, share and `text`, which goes on in a second line where it is wider than the terminal.
    pub fn line(self, out: &mut dyn Write, ns: u64, text: &str) -> io::Result<()> {
        let line = format!("{:>9} {:>7}  {text}", duration_ns(ns), share(ns, self.total_ns));
        writeln!(out, "{}", hang(&harmless(&line), 19, self.opts.width))
    }
}
