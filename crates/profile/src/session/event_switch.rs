//! Samples between two events only (perf's `--switch-on` and `--switch-off`).

/// Which events turn counting on and off, and whether it is on now.
#[derive(Clone, Debug, Default)]
pub struct EventSwitch {
    /// Nothing counts before this event (its index).
    pub on: Option<usize>,
    /// Nothing counts from this event on, until that of `on` comes again.
    pub off: Option<usize>,
    /// The events that turn it count themselves.
    pub show: bool,
    /// Current state; `None` before the first sample.
    is_on: Option<bool>,
}

impl EventSwitch {
    /// Turned on by one event, off by another.
    #[must_use]
    pub fn new(on: Option<usize>, off: Option<usize>, show: bool) -> Self {
        Self { on, off, show, is_on: None }
    }

    /// Takes the next sample's event; whether the sample counts.
    pub fn passes(&mut self, event: Option<usize>) -> bool {
        let is_on = *self.is_on.get_or_insert(self.on.is_none());
        let turns = if is_on { self.off } else { self.on };
        if turns.is_none() || turns != event {
            return is_on;
        }
        self.is_on = Some(!is_on);
        self.show
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lies_between_the_two_events_counts() {
        let run = |mut switch: EventSwitch, events: &[usize]| -> Vec<bool> {
            events.iter().map(|&event| switch.passes(Some(event))).collect()
        };
        let events = [0, 1, 0, 2, 0, 1, 0];
        let both = EventSwitch::new(Some(1), Some(2), false);
        assert_eq!(run(both, &events), [false, false, true, false, false, false, true]);
        let shown = EventSwitch::new(Some(1), Some(2), true);
        assert_eq!(run(shown, &events), [false, true, true, true, false, true, true]);
        let off = EventSwitch::new(None, Some(2), false);
        assert_eq!(run(off, &events), [true, true, true, false, false, false, false]);
        assert!(run(EventSwitch::default(), &events).into_iter().all(|passes| passes));
    }
}
