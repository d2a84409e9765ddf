//! A thread's calls as spans on a time axis, for exports.

use profile::calls::{Call, CallProfile, FunctionId, Replay, Step};

use super::view::{Track, View};

/// What a span stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A call.
    Call(FunctionId),
    /// The thread was off the CPU.
    OffCpu,
}

/// A span of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// What it stands for.
    pub what: What,
    /// ns of the recording's clock.
    pub start_ns: u64,
    /// ns.
    pub length_ns: u64,
    /// Spans around it.
    pub depth: usize,
}

impl Span {
    /// When it is over, ns.
    #[must_use]
    pub const fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.length_ns)
    }
}

/// The spans of a thread that the filters let pass, by start, outer before inner.
#[must_use]
pub fn of_track(view: &View<'_>, track: &Track<'_>) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    let mut replay = Replay::new(CallProfile::new(track.tid, 0), view.gate(), view.min_ns());
    let take = |spans: &mut Vec<Span>, call: &Call| {
        let (start_ns, length_ns, depth) = (call.start_ns, call.total_ns, call.depth);
        spans.push(Span { what: What::Call(call.function), start_ns, length_ns, depth });
    };
    for (time_ns, step) in track.steps() {
        if let Step::OffCpu(length_ns) = step {
            let start_ns = time_ns.saturating_sub(length_ns);
            if view.window().contains(&start_ns) && length_ns >= view.min_ns() {
                spans.push(Span { what: What::OffCpu, start_ns, length_ns, depth: replay.depth() });
            }
        }
        replay.step(time_ns, step, &mut |call| take(&mut spans, call));
    }
    replay.finish(&mut |call| take(&mut spans, call));
    spans.sort_by_key(|span| (span.start_ns, span.depth));
    spans
}
