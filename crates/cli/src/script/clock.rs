//! Zero point of the times of rows.

use exchange::rows::RowSample;

/// The zero of the times shown.
#[derive(Clone, Copy, Debug, Default)]
pub enum TimeZero {
    /// The recording's own.
    #[default]
    Recorded,
    /// The first row shown (`--reltime`); its time once it is known, ns.
    First(Option<u64>),
    /// The row before (`--deltatime`); its time once it is known, ns.
    Before(Option<u64>),
}

impl TimeZero {
    /// Changes the time of the next row shown to what it is by this clock.
    pub fn apply(&mut self, sample: &mut RowSample<'_>) {
        let Some(time) = sample.time_ns else { return };
        let zero = match self {
            Self::Recorded => return,
            Self::First(first) => *first.get_or_insert(time),
            Self::Before(before) => before.replace(time).unwrap_or(time),
        };
        sample.to_mut().time_ns = Some(time.saturating_sub(zero));
    }
}

#[cfg(test)]
mod tests {
    use perfdata::Sample;

    use super::*;

    #[test]
    fn times_are_counted_from_the_first_or_the_one_before() {
        let run = |mut clock: TimeZero| {
            [5, 8, 20].map(|time_ns| {
                let mut sample =
                    RowSample::Own(Box::new(Sample { time_ns: Some(time_ns), ..Sample::default() }));
                clock.apply(&mut sample);
                sample.time_ns
            })
        };
        assert_eq!(run(TimeZero::Recorded), [Some(5), Some(8), Some(20)]);
        assert_eq!(run(TimeZero::First(None)), [Some(0), Some(3), Some(15)]);
        assert_eq!(run(TimeZero::Before(None)), [Some(0), Some(3), Some(12)]);
    }
}
