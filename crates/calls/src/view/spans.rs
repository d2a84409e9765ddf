//! A thread's calls as spans on a time axis, for exports.

use crate::model::{Call, CallProfile, Extra, ExtraKind, FunctionId, Replay, Step};
use crate::view::View;
use crate::view::thread_track::ThreadTrack;

/// Kind of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// A call.
    Call(FunctionId),
    /// The thread was off the CPU.
    OffCpu,
}

/// A span of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Kind of this span.
    pub what: SpanKind,
    /// ns of the recording's clock.
    pub start_ns: u64,
    /// ns.
    pub length_ns: u64,
    /// Spans around it.
    pub depth: usize,
    /// Recorded arguments and result.
    pub extras: Extras,
}

/// Recorded values of a call besides its times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    arguments: Option<Extra>,
    result: Option<Extra>,
}

impl Extras {
    /// Names and values, as text; the result is called `return`.
    #[must_use]
    pub fn named(&self, view: &View<'_>, track: &ThreadTrack<'_>, what: SpanKind) -> Vec<(String, String)> {
        let SpanKind::Call(function) = what else { return Vec::new() };
        let Some(formats) = view.functions.values(function) else { return Vec::new() };
        let arguments =
            self.arguments.into_iter().flat_map(|extra| formats.named_arguments(track.extra(extra)));
        let result = self.result.and_then(|extra| formats.show_result(track.extra(extra)));
        arguments.chain(result.map(|result| ("return".to_owned(), result))).collect()
    }
}

/// The extras of a thread's open calls, as its steps are walked.
#[derive(Default)]
struct Open {
    calls: Vec<Extras>,
    result: Option<Extra>,
}

impl Open {
    /// Takes a step; the extras of the call that it ends.
    fn step(&mut self, step: Step) -> Extras {
        match step {
            Step::Enter(_) => self.calls.push(Extras::default()),
            Step::TailJump(_) => {
                let ended = self.calls.pop().unwrap_or_default();
                self.calls.push(Extras::default());
                return ended;
            }
            Step::Extra(extra) => match (extra.kind, self.calls.last_mut()) {
                (ExtraKind::Arguments, Some(call)) => call.arguments = Some(extra),
                (ExtraKind::Result, _) => self.result = Some(extra),
                _ => {}
            },
            Step::Exit(below) | Step::Unwound(below) | Step::Abandon(below) if below < self.calls.len() => {
                let ended = self.calls.remove(self.calls.len() - 1 - below);
                return Extras { result: self.result.take(), ..ended };
            }
            _ => {}
        }
        Extras::default()
    }
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
pub fn of_track(view: &View<'_>, track: &ThreadTrack<'_>) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    let mut replay = Replay::new(CallProfile::new(track.tid, 0), view.gate());
    let mut open = Open::default();
    let take = |spans: &mut Vec<Span>, call: &Call, extras: Extras| {
        let (start_ns, length_ns, depth) = (call.start_ns, call.total_ns, call.depth);
        spans.push(Span { what: SpanKind::Call(call.function), start_ns, length_ns, depth, extras });
    };
    // The thread's waits before its first call are not part of the timeline, which begins with that.
    let is_wait = |step: &(u64, Step)| matches!(step.1, Step::OffCpu(_));
    for (time_ns, step) in track.steps().skip_while(is_wait) {
        if let Step::OffCpu(length_ns) = step {
            let start_ns = time_ns.saturating_sub(length_ns);
            if view.window().contains(&start_ns) && length_ns >= view.min_ns() {
                let (depth, extras) = (replay.depth(), Extras::default());
                spans.push(Span { what: SpanKind::OffCpu, start_ns, length_ns, depth, extras });
            }
        }
        let extras = open.step(step);
        replay.step(time_ns, step, &mut |call| take(&mut spans, call, extras));
        if replay.is_over() {
            break;
        }
    }
    // Those still open at the end are finished from the innermost on.
    replay.finish(&mut |call| take(&mut spans, call, open.calls.pop().unwrap_or_default()));
    spans.sort_by_key(|span| (span.start_ns, span.depth));
    spans
}
