//! Reads a thread's file as the tracer inside the program wrote it (`tracer::layout`).

use tracer::layout::{self, RecordedEvent, ThreadHeader};

use super::{Extra, ExtraKind, FunctionId, Step};

/// Why a thread's file can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TracedError {
    /// The magic at its start is missing.
    #[error("not a thread's call file (its first {} bytes are no header of one)", layout::HEADER_BYTES)]
    NoHeader,
}

/// Relation of the time stamp counter to `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TscClock {
    /// A counter value …
    pub tsc: u64,
    /// … and the time at that moment, ns.
    pub ns: u64,
    /// Length of a tick, ns.
    pub ns_per_tick: f64,
}

impl TscClock {
    /// Where the counter is the clock.
    pub const OF_NS: Self = Self { tsc: 0, ns: 0, ns_per_tick: 1.0 };

    /// Computed from two moments; `None` if they are the same.
    #[must_use]
    pub fn between(first: (u64, u64), last: (u64, u64)) -> Option<Self> {
        let ticks = last.0.checked_sub(first.0).filter(|ticks| *ticks > 0)?;
        let ns = last.1.checked_sub(first.1).filter(|ns| *ns > 0)?;
        Some(Self { tsc: first.0, ns: first.1, ns_per_tick: ns as f64 / ticks as f64 })
    }

    /// The time of a counter value, ns.
    #[must_use]
    pub fn ns_at(&self, tsc: u64) -> u64 {
        let ticks = tsc.wrapping_sub(self.tsc) as i64;
        self.ns.saturating_add_signed((ticks as f64 * self.ns_per_tick) as i64)
    }
}

/// A thread's file.
#[derive(Clone, Copy)]
pub struct ThreadFile<'a> {
    /// Contents of its header.
    pub header: ThreadHeader,
    events: &'a [u8],
}

impl<'a> ThreadFile<'a> {
    /// Checks the header.
    ///
    /// # Errors
    /// [`TracedError::NoHeader`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, TracedError> {
        let header = ThreadHeader::parse(bytes).ok_or(TracedError::NoHeader)?;
        let first = usize::try_from(header.first).unwrap_or(usize::MAX).max(layout::HEADER_BYTES);
        Ok(Self { header, events: bytes.get(first..).unwrap_or_default() })
    }

    /// The steps in order: counter value and step, functions being addresses for now (see [`Steps`]).
    #[must_use]
    pub fn steps(&self) -> Steps<'a> {
        Steps {
            words: self.words().iter(),
            end: self.words().len(),
            state: State::at_start(&self.header),
            unknown: 0,
        }
    }

    /// Hands out the steps written since reading stopped at `place` (`None`: at the start). Unless the recording has
    /// ended, the last event stays: the tracer may still change it, an entry becomes the whole call of a
    /// leaf. Where to go on when the file has grown.
    pub fn read_since(
        &self,
        place: Option<ReadPlace>,
        growth: FileGrowth,
        each: &mut dyn FnMut(u64, RawStep),
    ) -> ReadPlace {
        let ReadPlace { words, state } =
            place.unwrap_or(ReadPlace { words: 0, state: State::at_start(&self.header) });
        let new = self.words().get(words..).unwrap_or_default();
        let (last, written) = written(new, growth);
        let new = &new[..if growth == FileGrowth::Ended { written } else { last }];
        let mut steps = Steps { words: new.iter(), end: words + new.len(), state, unknown: 0 };
        steps.by_ref().for_each(|(tsc, step)| each(tsc, step));
        ReadPlace { words: words + new.len(), state: steps.state }
    }

    /// Bytes of events written (up to the end mark).
    #[must_use]
    pub fn event_bytes(&self) -> usize {
        written(self.words(), FileGrowth::Ended).1 * layout::EVENT_BYTES
    }

    fn words(&self) -> &'a [[u8; layout::EVENT_BYTES]] {
        self.events.as_chunks().0
    }

    /// The bytes of data other than times; cut short where the file is.
    #[must_use]
    pub fn extra(&self, extra: Extra) -> &'a [u8] {
        let from = (extra.at as usize).saturating_mul(layout::EVENT_BYTES);
        let rest = self.events.get(from..).unwrap_or_default();
        &rest[..rest.len().min(extra.bytes as usize)]
    }
}

/// Whether a recording may still be written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileGrowth {
    /// The program runs, and more may follow.
    Going,
    /// Nothing more will be written.
    Ended,
}

/// No event.
const NOTHING: [u8; layout::EVENT_BYTES] = [0; layout::EVENT_BYTES];

/// Number of empty words at the start of `words`, before the next written one; `None` if there is none.
///
/// A signal handler that interrupts a thread between reserving a place and writing its event writes after that place.
/// If it then jumps elsewhere, the place stays empty. While the file grows, that is certain only once
/// more follows than a handler writes before it ends.
fn hole(words: &[[u8; layout::EVENT_BYTES]], growth: FileGrowth) -> Option<usize> {
    const FAR: usize = 4096;
    const LOOK: usize = 64;
    let goes_on =
        growth == FileGrowth::Ended || words.iter().skip(FAR).take(LOOK).any(|word| *word != NOTHING);
    if goes_on { words.iter().position(|word| *word != NOTHING) } else { None }
}

/// Begin and end of the last event among `words`. Its own data may contain zeros. All words after it are zero.
fn written(words: &[[u8; layout::EVENT_BYTES]], growth: FileGrowth) -> (usize, usize) {
    let (mut last, mut end) = (0, 0);
    while let Some(word) = words.get(end) {
        if *word == NOTHING {
            let Some(empty) = hole(&words[end..], growth) else { break };
            end += empty;
            continue;
        }
        last = end;
        end += 1;
        if let RecordedEvent::Control { code, argument } = RecordedEvent::from_bytes(*word) {
            end = (end + layout::words_after(u64::from(code), argument)).min(words.len());
        }
    }
    (last, end)
}

/// A step whose function is still an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RawStep {
    /// Entered the function that has this address in its first bytes (address space of the traced process).
    Enter(u64),
    /// Anything else.
    Other(Step),
    /// The thread was forked off with this many calls open.
    Forked(u64),
    /// From here on nothing of the thread could be written, because of this errno; its calls were counted as lost.
    Stopped(u32),
}

impl RawStep {
    /// The step, once its address is numbered.
    #[must_use]
    pub fn numbered(self, number: impl FnOnce(u64) -> FunctionId) -> Option<Step> {
        match self {
            Self::Enter(address) => Some(Step::Enter(number(address))),
            Self::Other(step) => Some(step),
            Self::Forked(_) | Self::Stopped(_) => None,
        }
    }
}

/// State from earlier events that later ones depend on.
#[derive(Clone, Copy, Debug)]
struct State {
    tsc_high: u64,
    tsc: u64,
    addr_high: u64,
    below: usize,
    /// The exit of a leaf is still to be reported, at `tsc`.
    leaf_ends: bool,
}

impl State {
    const fn at_start(header: &ThreadHeader) -> Self {
        Self { tsc_high: header.tsc >> 32, tsc: header.tsc, addr_high: 0, below: 0, leaf_ends: false }
    }
}

/// Where reading of a growing file stopped.
#[derive(Clone, Copy, Debug)]
pub struct ReadPlace {
    words: usize,
    state: State,
}

impl ReadPlace {
    /// Bytes of events read so far.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.words * layout::EVENT_BYTES
    }
}

/// The steps of a thread file.
#[derive(Clone)]
pub struct Steps<'a> {
    words: std::slice::Iter<'a, [u8; layout::EVENT_BYTES]>,
    /// Words of the file up to the last of those.
    end: usize,
    state: State,
    unknown: u64,
}

impl Steps<'_> {
    /// Control events of codes this version does not know, so far.
    #[must_use]
    pub const fn unknown(&self) -> u64 {
        self.unknown
    }

    fn at(&mut self, tsc_low: u32) -> u64 {
        self.state.tsc = self.state.tsc_high << 32 | u64::from(tsc_low);
        self.state.tsc
    }

    fn below(&mut self) -> usize {
        std::mem::take(&mut self.state.below)
    }

    fn control(&mut self, code: u32, argument: u32) -> Option<(u64, RawStep)> {
        match u64::from(code) {
            layout::CONTROL_TIME_HIGH => self.state.tsc_high = u64::from(argument),
            layout::CONTROL_ADDR_HIGH => self.state.addr_high = u64::from(argument),
            layout::CONTROL_BELOW => self.state.below = argument as usize,
            layout::CONTROL_UNWOUND => {
                let below = self.below();
                return Some((self.at(argument), RawStep::Other(Step::Unwound(below))));
            }
            layout::CONTROL_OFF_CPU => {
                return Some((self.state.tsc, RawStep::Other(Step::OffCpu(u64::from(argument)))));
            }
            layout::CONTROL_LOST if argument > 0 => {
                return Some((self.state.tsc, RawStep::Other(Step::Lost(u64::from(argument)))));
            }
            layout::CONTROL_LOST => {}
            layout::CONTROL_STOPPED => return Some((self.state.tsc, RawStep::Stopped(argument))),
            layout::CONTROL_FORKED => return Some((self.state.tsc, RawStep::Forked(u64::from(argument)))),
            code @ (layout::CONTROL_ARGUMENTS | layout::CONTROL_RESULT | layout::CONTROL_BACKTRACE) => {
                return Some((self.state.tsc, RawStep::Other(Step::Extra(self.extra(code, argument)))));
            }
            _ => self.unknown += 1,
        }
        None
    }

    /// Passes over the words that follow a control event.
    fn extra(&mut self, code: u64, argument: u32) -> Extra {
        let (kind, bytes) = match code {
            layout::CONTROL_ARGUMENTS => (ExtraKind::Arguments, argument),
            layout::CONTROL_RESULT => (ExtraKind::Result, argument),
            _ => (ExtraKind::Backtrace, argument.saturating_mul(layout::EVENT_BYTES as u32)),
        };
        let at = (self.end - self.words.len()) as u32;
        if let Some(last) = layout::words_after(code, argument).checked_sub(1) {
            let _ = self.words.nth(last);
        }
        Extra { kind, at, bytes }
    }
}

impl Iterator for Steps<'_> {
    type Item = (u64, RawStep);

    fn next(&mut self) -> Option<Self::Item> {
        if std::mem::take(&mut self.state.leaf_ends) {
            return Some((self.state.tsc, RawStep::Other(Step::Exit(0))));
        }
        loop {
            let step = match RecordedEvent::from_bytes(*self.words.next()?) {
                RecordedEvent::Entry { addr_low, tsc_low } => {
                    let address = self.state.addr_high << layout::ADDR_BITS | u64::from(addr_low);
                    Some((self.at(tsc_low), RawStep::Enter(address)))
                }
                RecordedEvent::Leaf { addr_low, after, ticks } => {
                    let address = self.state.addr_high << layout::ADDR_BITS | u64::from(addr_low);
                    let entered = self.state.tsc.wrapping_add(u64::from(after));
                    self.state.tsc = entered.wrapping_add(u64::from(ticks));
                    self.state.leaf_ends = true;
                    Some((entered, RawStep::Enter(address)))
                }
                RecordedEvent::Exit { tsc_low } => {
                    let below = self.below();
                    Some((self.at(tsc_low), RawStep::Other(Step::Exit(below))))
                }
                RecordedEvent::Control { code, argument } => self.control(code, argument),
                // The event missing here is counted as one lost call.
                RecordedEvent::End => {
                    let empty = hole(self.words.as_slice(), FileGrowth::Ended)?;
                    if let Some(last) = empty.checked_sub(1) {
                        let _ = self.words.nth(last);
                    }
                    Some((self.state.tsc, RawStep::Other(Step::Lost(1))))
                }
            };
            if step.is_some() {
                return step;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behind_a_place_that_was_never_written_reading_goes_on_and_one_call_is_lost() {
        let header = ThreadHeader { pid: 1, tid: 1, tsc: 0, monotonic_ns: 0, first: 0 };
        let mut bytes = header.to_bytes().to_vec();
        let words = [layout::entry_word(0x10, 5), 0, 0, layout::exit_word(9), 0, 0];
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        let file = ThreadFile::parse(&bytes).unwrap();
        let steps: Vec<RawStep> = file.steps().map(|(_, step)| step).collect();
        let wanted = [RawStep::Enter(0x10), RawStep::Other(Step::Lost(1)), RawStep::Other(Step::Exit(0))];
        assert_eq!(steps, wanted);
        assert_eq!(file.event_bytes(), 4 * layout::EVENT_BYTES);
        let mut seen = Vec::new();
        file.read_since(None, FileGrowth::Ended, &mut |_, step| seen.push(step));
        assert_eq!(seen, wanted);
        // While the file grows, it may yet be written.
        let place = file.read_since(None, FileGrowth::Going, &mut |_, _| {});
        assert_eq!(place.bytes(), 0);
    }
}
