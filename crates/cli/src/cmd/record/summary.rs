//! The lines that `tally record` prints at its end: what was written, and how complete it is.

use crate::terminal::out;
use record::summary::{RunSummary, StackQuality};

/// Prints them; `verbose` adds details and what the recorder itself used.
pub fn print_summary(summary: &RunSummary, verbose: bool) {
    for notice in &summary.notices {
        let text = if verbose { notice.to_string() } else { notice.brief() };
        out::note(&format!("tally: {text}"));
    }
    let kib = summary.recorder.file_bytes.div_ceil(1024);
    let place = summary.file.as_ref().map_or_else(|| "-".to_owned(), |f| f.display().to_string());
    let event = match summary.more_events {
        0 => summary.event.clone(),
        more => format!("{} and {more} other event{}", summary.event, if more == 1 { "" } else { "s" }),
    };
    let trace = summary.recorder.trace_bytes;
    let what = match (trace, summary.lost.samples) {
        (0, samples) => format!("{samples} samples of {event}"),
        (trace, 0) => format!("{} KiB of trace of {event}", trace.div_ceil(1024)),
        (trace, samples) => format!("{samples} samples, {} KiB of trace", trace.div_ceil(1024)),
    };
    out::note(&format!("[ tally record: {place}: {what}, {kib} KiB ]"));
    if let Some(line) = quality_line(&summary.quality) {
        out::note(&format!("[ {line} ]"));
    }
    let lost = summary.lost.lost_records + summary.lost.lost_samples;
    if lost > 0 {
        let total = summary.lost.samples + lost;
        let threads = summary.lost.by_thread.iter().take(3);
        let threads: Vec<_> = threads.map(|(tid, comm, n)| format!("{n} in thread {tid} {comm}")).collect();
        let line = format!(
            "[ lost {lost} of {total} records ({}): rings were full; try a larger -m or a lower -F ]",
            threads.join(", ")
        );
        out::note(&line);
    }
    if verbose {
        let used = &summary.recorder;
        let ms = (used.user_ns + used.system_ns) / 1_000_000;
        out::note(&format!(
            "[ recorder: {ms} ms CPU in {} ms, {} MiB memory, {} bytes per sample ]",
            summary.wall_ns / 1_000_000,
            used.peak_memory_bytes >> 20,
            used.sample_bytes / summary.lost.samples.max(1),
        ));
    }
}

/// "stacks: 99.2 % complete; 0.5 % cut after 65528 bytes (thread 7 x)"; `None` without user stacks.
fn quality_line(quality: &StackQuality) -> Option<String> {
    if quality.stacks == 0 {
        return None;
    }
    let pct = |n: u64| n as f64 * 100.0 / quality.stacks as f64;
    let mut parts = vec![format!("stacks: {:.1} % complete", pct(quality.complete + quality.joined))];
    if quality.joined > 0 {
        parts.push(format!("of them {:.1} % joined", pct(quality.joined)));
    }
    for stop in quality.stopped.iter().filter(|stop| pct(stop.count) >= 0.05).take(3) {
        let file = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
        let place = stop.dso.as_ref().map_or_else(String::new, |dso| format!(" in {}", file(dso)));
        parts.push(format!("{:.1} % {}{place}", pct(stop.count), stop.reason));
    }
    Some(out::harmless(&parts.join("; ")).into_owned())
}
