//! Counts and problems from decoding an Intel PT trace, in words.

use calls::pt::{Note, Resolution, TraceOutcome};

use display::number;

/// The lines to be shown next to the numbers.
#[must_use]
pub fn lines(outcome: &TraceOutcome) -> Vec<String> {
    let (instructions, bytes) = (number::grouped(outcome.instructions), number::bytes(outcome.trace_bytes));
    let mut lines = vec![format!("decoded {instructions} instructions from {bytes} of trace")];
    let told = |(why, count): (&&str, &u64)| format!("  {} × {why}", number::grouped(*count));
    lines.extend(outcome.gaps.iter().map(told));
    lines.extend(outcome.missing.iter().map(|file| format!("  no code of {file}")));
    let odd = [
        (outcome.odd.unmatched, "returns that fit no call"),
        (outcome.odd.shared, "jumps into code shared by functions: its time counts for the function called"),
        (outcome.odd.aborted, "transactions were undone: their calls are counted, but had no effect"),
    ];
    let told = |(count, what): (u64, &str)| format!("  {} {what}", number::grouped(count));
    lines.extend(odd.into_iter().filter(|(count, _)| *count > 0).map(told));
    lines.extend(outcome.notes.iter().map(|note| format!("  {}", note_text(note))));
    lines
}

fn note_text(note: &Note) -> String {
    match note {
        Note::Jit(text) => text.clone(),
        Note::Unused(bytes) => {
            format!("{} of trace in front of the first boundary packet", number::bytes(*bytes))
        }
        Note::OtherBuild { file, times } => format!(
            "{file}: the trace does not fit its code ({times} times), and the recording has no build-id of it: it is \
             another build than the one that ran, or code was changed in place; calls within it may be wrong"
        ),
        Note::NoCommonClock => {
            "the recording has no relation between its clocks: no time off the CPU".to_owned()
        }
        Note::Times(resolution) => resolution_text(*resolution),
        Note::Errata(names) => {
            format!("errata of the processor that recorded it, allowed for: {}", names.join(" "))
        }
    }
}

fn resolution_text(resolution: Resolution) -> String {
    match resolution {
        Resolution::Cycles => "times from cycle packets: exact to a packet, some six branches".to_owned(),
        Resolution::Crystal { apart_ns } => {
            format!("times from crystal clock packets, {} apart", number::duration_ns(apart_ns))
        }
        Resolution::Boundaries => "times from boundary packets only: short calls show 0 ns".to_owned(),
        Resolution::None => "recorded without times: ignore the durations".to_owned(),
    }
}
