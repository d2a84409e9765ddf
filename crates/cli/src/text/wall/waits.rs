//! Where threads waited: by place, by target, by process, and the longest waits one by one.

use std::io;
use std::io::Write;

use display::fit::cut;
use display::number::{brief_ns, duration_ns, grouped, noun};
use display::shorten::arrows;
use profile::view::blame::thread_name;
use profile::view::wall::{
    LongWait, WaitRow, WaitRows, named_words, part_name, place_rows, place_text, target_rows,
};

use super::Printer;
use crate::terminal::out::harmless;

impl Printer<'_> {
    /// The same by stack, with the time each makes up.
    pub(super) fn places(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut rows = place_rows(self.profile, self.wall, self.opts.rows);
        rows.rows.iter_mut().for_each(|row| row.text = arrows(&row.text));
        self.waits_by(out, "WAITS        by stack, most time first", ["stack", "stacks"], &rows)
    }

    /// Waits by what they were for.
    pub(super) fn targets(&self, out: &mut dyn Write) -> io::Result<()> {
        let named = named_words(&self.wall.targets);
        let title = format!("WAITED FOR   files, sockets, pipes, children; {named}");
        self.waits_by(out, &title, ["thing", "things"], &target_rows(self.wall, self.opts.rows))
    }

    /// Rows of ns waited, lengths of the waits, and what they have in common; `kinds` are one and more of these.
    fn waits_by(
        &self,
        out: &mut dyn Write,
        title: &str,
        kinds: [&str; 2],
        list: &WaitRows,
    ) -> io::Result<()> {
        if list.rows.is_empty() && list.others == 0 {
            return Ok(());
        }
        self.heading(out, title)?;
        writeln!(out, "{:>10} {:>8} {:>9} {:>9} {:>9}", "total", "count", "p50", "p99", "max")?;
        for WaitRow { text, total_ns, lengths } in &list.rows {
            let [p50, p99] = [50.0, 99.0].map(|pct| brief_ns(lengths.percentile_ns(pct)));
            let (total, max) = (duration_ns(*total_ns), brief_ns(lengths.max_ns()));
            let count = grouped(lengths.count());
            let text = harmless(text);
            let line = format!("{total:>10} {count:>8} {p50:>9} {p99:>9} {max:>9}  {text}");
            writeln!(out, "{}", cut(&line, self.opts.names_width.max(60)))?;
        }
        match list.others {
            0 => Ok(()),
            rest => writeln!(out, "{rest:>10} more {} (--rows)", noun(rest as u64, kinds[0], kinds[1])),
        }
    }

    pub(super) fn longest(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.wall.longest.is_empty() {
            return Ok(());
        }
        self.heading(out, &longest_title(self.wall.only_summed_ns))?;
        self.wall.longest.iter().try_for_each(|wait| {
            writeln!(out, "{}", cut(&harmless(&self.long_wait(wait)), self.opts.names_width.max(60)))
        })
    }

    fn long_wait(&self, wait: &LongWait) -> String {
        let task = self.profile.task(wait.task);
        let comm = thread_name(self.profile, wait.task);
        let place =
            wait.callsite.map_or_else(|| "[no stack]".to_owned(), |id| arrows(&place_text(self.profile, id)));
        let target = wait.target.as_ref().map_or_else(String::new, |target| format!("  for {target}"));
        let at = format!("+{:.6} s", wait.at_ns as f64 / 1e9);
        let open = if wait.open { " (open)" } else { "" };
        let waker = match &wait.waker {
            Some((name, 0)) => format!("  woken by {name}"),
            Some((name, tid)) if name.is_empty() => format!("  woken by thread {tid}"),
            Some((name, _)) if name.starts_with("irq") => format!("  woken by {name}"),
            Some((name, tid)) => format!("  woken by {name} {tid}"),
            None => String::new(),
        };
        let waker = if wait.is_instead { waker.replace("woken by", "instead ran") } else { waker };
        format!(
            "{:>10}{open} {:<11} at {at:<14} {comm} {}  {place}{target}{waker}",
            duration_ns(wait.length_ns),
            part_name(wait.part),
            task.tid
        )
    }
}

fn longest_title(only_summed_ns: u64) -> String {
    match only_summed_ns {
        0 => "LONGEST WAITS".to_owned(),
        ns => format!(
            "LONGEST WAITS of those recorded one by one; {} of others are known only as sums",
            duration_ns(ns)
        ),
    }
}
