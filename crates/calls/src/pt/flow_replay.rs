//! One thread's branches become calls: matched by return address, not by guess.

use intelpt::{FlowEvent, FlowKind};

use crate::model::{FunctionId, Step};

/// A branch as calls need it: a third of a [`FlowEvent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Estimated TSC; 0 before the first TSC packet.
    pub tsc: u64,
    /// Address after a call or the end of tracing, before an asynchronous one; else its destination.
    place: u64,
    /// The number of the function it went to; 0 where there is none.
    unit: u32,
    kind: Kind,
    at_start: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Call,
    Return,
    Jump,
    Begin,
    End,
    Interrupt,
    Landed,
    Aborted,
    Gap,
}

impl Move {
    /// Whether tracing begins with it.
    #[must_use]
    pub fn is_begin(&self) -> bool {
        self.kind == Kind::Begin
    }
}

impl From<&FlowEvent> for Move {
    #[inline]
    fn from(event: &FlowEvent) -> Self {
        let (kind, place) = match event.what {
            FlowKind::Call => (Kind::Call, event.next),
            FlowKind::Return => (Kind::Return, event.to),
            FlowKind::Jump => (Kind::Jump, event.to),
            FlowKind::Begin => (Kind::Begin, event.to),
            FlowKind::End => (Kind::End, event.next),
            FlowKind::EndAsync => (Kind::End, event.from),
            FlowKind::Interrupt => (Kind::Interrupt, event.to),
            FlowKind::Far => (Kind::Landed, event.to),
            FlowKind::Abort => (Kind::Aborted, event.to),
            FlowKind::Gap(_) => (Kind::Gap, 0),
        };
        let (tsc, unit, at_start) = (event.tsc.unwrap_or(0), event.unit, event.at_start);
        Self { tsc, place, unit, kind, at_start }
    }
}

/// An open call as the flow sees it.
#[derive(Clone, Copy, Debug)]
struct Frame {
    /// Where it returns to; [`NOWHERE`] for a signal's or interrupt's handler.
    back: u64,
    function: u32,
}

/// Return address without code.
const NOWHERE: u64 = u64::MAX;

/// How tracing stopped, which determines where it should continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Off {
    /// It did not.
    On,
    /// At the instruction after a system call.
    At(u64),
    /// In the dark: packets or code were missing.
    Lost,
}

/// Turns branches into steps.
#[derive(Debug)]
pub struct FlowReplay {
    frames: Vec<Frame>,
    off: Off,
    /// Returns, and beginnings of tracing, that fit no open call and entered no function.
    pub unmatched: u64,
    /// Transactions that were undone. Calls in them were made, and had no effect.
    pub aborted: u64,
    /// Jumps into the middle of a function that is not open: code that functions share, as in `memcpy`'s family, or a
    /// longjmp to where the trace had not begun. The open call goes on.
    pub shared: u64,
}

impl Default for FlowReplay {
    fn default() -> Self {
        Self { frames: Vec::new(), off: Off::Lost, unmatched: 0, aborted: 0, shared: 0 }
    }
}

impl FlowReplay {
    /// Takes the thread's next branch; the steps it means go to `each`.
    #[inline(always)]
    pub fn take(&mut self, event: &Move, each: &mut impl FnMut(Step)) {
        match event.kind {
            Kind::Call => self.enter(event.unit, event.place, each),
            Kind::Return if self.frames.last().is_some_and(|frame| frame.back == event.place) => {
                self.frames.pop();
                each(Step::Exit(0));
            }
            Kind::Jump if event.at_start && !self.frames.is_empty() => self.tail(event.unit, each),
            _ => self.take_rare(event, each),
        }
    }

    /// Takes an unusual branch: a separate function, so that the common path is short.
    #[inline(never)]
    fn take_rare(&mut self, event: &Move, each: &mut impl FnMut(Step)) {
        match event.kind {
            Kind::Call => self.enter(event.unit, event.place, each),
            Kind::Return => self.returned(event, each),
            Kind::Jump => self.jump(event, each),
            Kind::Begin => self.begin(event, each),
            Kind::End => self.off = Off::At(event.place),
            Kind::Interrupt => self.enter(event.unit, NOWHERE, each),
            Kind::Landed => self.landed(event, each),
            Kind::Aborted => {
                self.aborted += 1;
                self.landed(event, each);
            }
            Kind::Gap => {
                self.off = Off::Lost;
                each(Step::Hole);
            }
        }
    }

    #[inline(always)]
    fn enter(&mut self, function: u32, back: u64, each: &mut impl FnMut(Step)) {
        self.frames.push(Frame { back, function });
        each(Step::Enter(FunctionId(function)));
    }

    /// Closes the `count` innermost calls.
    fn leave(&mut self, count: usize, step: Step, each: &mut impl FnMut(Step)) {
        for _ in 0..count {
            self.frames.pop();
            each(step);
        }
    }

    /// Number of calls above the innermost one that `is` matches.
    fn above(&self, is: impl Fn(&Frame) -> bool) -> Option<usize> {
        self.frames.iter().rev().position(is)
    }

    fn returned(&mut self, event: &Move, each: &mut impl FnMut(Step)) {
        if let Some(above) = self.above(|frame| frame.back == event.place) {
            self.leave(above, Step::Unwound(0), each);
            self.leave(1, Step::Exit(0), each);
        } else if self.frames.last().is_some_and(|frame| frame.back == NOWHERE) {
            self.leave(1, Step::Exit(0), each);
        } else if event.at_start {
            // A return used as a jump: the run-time linker goes to a function so.
            self.tail(event.unit, each);
        } else if self.frames.is_empty() {
            // It began before the trace did.
            each(Step::Exit(0));
        } else {
            self.landed(event, each);
        }
    }

    #[inline(always)]
    fn tail(&mut self, function: u32, each: &mut impl FnMut(Step)) {
        match self.frames.last_mut() {
            Some(frame) => {
                frame.function = function;
                each(Step::TailJump(FunctionId(function)));
            }
            None => self.enter(function, NOWHERE, each),
        }
    }

    fn jump(&mut self, event: &Move, each: &mut impl FnMut(Step)) {
        if event.at_start {
            self.tail(event.unit, each);
        } else if !self.unwound_to(event.unit, each) {
            self.shared += 1;
        }
    }

    /// Control came to the middle of a function: if it is open, what it had called was left (longjmp, a
    /// caught exception).
    fn landed(&mut self, event: &Move, each: &mut impl FnMut(Step)) {
        if !self.unwound_to(event.unit, each) {
            self.unmatched += 1;
        }
    }

    /// Leaves all calls above an open function; false if it is not open.
    fn unwound_to(&mut self, function: u32, each: &mut impl FnMut(Step)) -> bool {
        let above = self.above(|frame| frame.function == function);
        self.leave(above.unwrap_or(0), Step::Unwound(0), each);
        above.is_some()
    }

    fn begin(&mut self, event: &Move, each: &mut impl FnMut(Step)) {
        match std::mem::replace(&mut self.off, Off::On) {
            Off::At(resume) if resume == event.place => {}
            Off::Lost => self.found(event, each),
            // Elsewhere: a signal's handler, or a jump made by the kernel (sigreturn after longjmp).
            _ if event.at_start => self.enter(event.unit, NOWHERE, each),
            _ => self.landed(event, each),
        }
    }

    /// In sight again: calls that are proven to be open stay, the others ended in the dark.
    fn found(&mut self, event: &Move, each: &mut impl FnMut(Step)) {
        match self.above(|frame| frame.function == event.unit) {
            Some(above) => self.leave(above, Step::Abandon(0), each),
            None if self.frames.is_empty() && event.at_start => self.enter(event.unit, NOWHERE, each),
            None => self.leave(self.frames.len(), Step::Abandon(0), each),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use intelpt::Gap;

    fn event(what: FlowKind, to: u64, unit: u32, at_start: bool, next: u64) -> FlowEvent {
        FlowEvent { tsc: Some(1), what, from: next.saturating_sub(5), next, to, unit, at_start, bits: 64 }
    }

    fn steps(events: &[FlowEvent]) -> Vec<Step> {
        let (mut replay, mut steps) = (FlowReplay::default(), Vec::new());
        events.iter().for_each(|event| replay.take(&event.into(), &mut |step| steps.push(step)));
        steps
    }

    const MAIN: FlowEvent = FlowEvent {
        tsc: Some(0),
        what: FlowKind::Begin,
        from: 0,
        next: 0,
        to: 0x1000,
        unit: 1,
        at_start: true,
        bits: 64,
    };

    fn enter(function: u32) -> Step {
        Step::Enter(FunctionId(function))
    }

    #[test]
    fn a_return_past_several_calls_leaves_the_inner_ones_unwound() {
        let events = [
            MAIN,
            event(FlowKind::Call, 0x2000, 2, true, 0x1005),
            event(FlowKind::Call, 0x3000, 3, true, 0x2005),
            event(FlowKind::Return, 0x1005, 1, false, 0x3010),
        ];
        assert_eq!(steps(&events), [enter(1), enter(2), enter(3), Step::Unwound(0), Step::Exit(0)]);
    }

    #[test]
    fn a_jump_into_the_middle_of_an_open_function_is_a_longjmp() {
        let events = [
            MAIN,
            event(FlowKind::Call, 0x2000, 2, true, 0x1005),
            event(FlowKind::Call, 0x3000, 3, true, 0x2005),
            event(FlowKind::Jump, 0x1010, 1, false, 0x3010),
        ];
        assert_eq!(steps(&events), [enter(1), enter(2), enter(3), Step::Unwound(0), Step::Unwound(0)]);
    }

    #[test]
    fn a_jump_into_the_middle_of_a_function_that_is_not_open_leaves_the_call_as_it_is() {
        let events = [
            MAIN,
            event(FlowKind::Call, 0x2000, 2, true, 0x1005),
            event(FlowKind::Jump, 0x3003, 3, false, 0x2010),
            event(FlowKind::Return, 0x1005, 1, false, 0x3010),
        ];
        assert_eq!(steps(&events), [enter(1), enter(2), Step::Exit(0)]);
        let mut replay = FlowReplay::default();
        events.iter().for_each(|event| replay.take(&event.into(), &mut |_| {}));
        assert_eq!((replay.shared, replay.unmatched), (1, 0));
    }

    #[test]
    fn an_aborted_transaction_leaves_what_it_had_called_and_is_counted() {
        let events = [
            MAIN,
            event(FlowKind::Call, 0x2000, 2, true, 0x1005),
            event(FlowKind::Abort, 0x1040, 1, false, 0x2010),
            event(FlowKind::Call, 0x3000, 3, true, 0x1050),
        ];
        assert_eq!(steps(&events), [enter(1), enter(2), Step::Unwound(0), enter(3)]);
        let mut replay = FlowReplay::default();
        events.iter().for_each(|event| replay.take(&event.into(), &mut |_| {}));
        assert_eq!((replay.aborted, replay.unmatched), (1, 0));
    }

    #[test]
    fn a_tail_jump_returns_to_the_callers_caller() {
        let events = [
            MAIN,
            event(FlowKind::Call, 0x2000, 2, true, 0x1005),
            event(FlowKind::Jump, 0x3000, 3, true, 0x2010),
            event(FlowKind::Return, 0x1005, 1, false, 0x3010),
        ];
        let tail = Step::TailJump(FunctionId(3));
        assert_eq!(steps(&events), [enter(1), enter(2), tail, Step::Exit(0)]);
    }

    #[test]
    fn a_signal_handler_is_a_call_of_its_own_and_its_return_resumes() {
        let events = [
            MAIN,
            event(FlowKind::EndAsync, 0, 0, false, 0x1025),
            event(FlowKind::Begin, 0x5000, 5, true, 0),
            event(FlowKind::Return, 0x7000, 7, false, 0x5010),
            event(FlowKind::End, 0, 0, false, 0x7009),
            event(FlowKind::Begin, 0x1020, 1, false, 0),
        ];
        assert_eq!(steps(&events), [enter(1), enter(5), Step::Exit(0)]);
    }

    #[test]
    fn after_a_hole_only_proven_calls_stay_open() {
        let events = [
            MAIN,
            event(FlowKind::Call, 0x2000, 2, true, 0x1005),
            event(FlowKind::Call, 0x3000, 3, true, 0x2005),
            event(FlowKind::Gap(Gap::Overflow), 0, 0, false, 0),
            event(FlowKind::Begin, 0x2040, 2, false, 0),
        ];
        assert_eq!(steps(&events), [enter(1), enter(2), enter(3), Step::Hole, Step::Abandon(0)]);
    }
}
