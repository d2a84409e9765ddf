//! When a flight recorder writes its window: `span handle > 50ms`.

use super::EndedSpan;
use crate::runtimes::otel::SPAN_NAME;

/// Text that is no trigger.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TriggerError {
    /// It has another form.
    #[error("'{0}' is not a trigger: want 'span FUNC > 50ms'")]
    Form(String),
    /// It is about OpenTelemetry's requests.
    #[error(
        "OpenTelemetry's requests are known only when the recording has ended: name a function, 'span FUNC > 50ms'"
    )]
    Late,
}

/// A limit for the calls of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpanTrigger {
    /// The function: FUNC, or FUNC@FILE of a library.
    pub function: String,
    /// Longer calls fire, ns.
    pub over_ns: u64,
}

impl SpanTrigger {
    /// `span FUNC > TIME`, TIME as 500us, 50ms or 2s.
    ///
    /// # Errors
    /// The text has another form, or is about requests that are known too late.
    pub fn parse(text: &str) -> Result<Self, TriggerError> {
        let wrong = || TriggerError::Form(text.to_owned());
        let rest = text.trim().strip_prefix("span ").ok_or_else(wrong)?;
        let (function, time) = rest.rsplit_once('>').ok_or_else(wrong)?;
        let function = function.trim().to_owned();
        if function.is_empty() {
            return Err(wrong());
        }
        if function == SPAN_NAME {
            return Err(TriggerError::Late);
        }
        Ok(Self { function, over_ns: parse_time(time.trim()).ok_or_else(wrong)? })
    }

    /// The function's name, as in [`super::SpanFunction::name`].
    #[must_use]
    pub fn name(&self) -> &str {
        self.function.rsplit_once('@').map_or(&self.function, |(name, _)| name)
    }
}

pub(crate) fn parse_time(text: &str) -> Option<u64> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(split);
    let scale = match unit.trim() {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return None,
    };
    Some((number.parse::<f64>().ok()? * scale) as u64)
}

/// The limits of a recording, and when one was passed.
#[derive(Debug, Default)]
pub struct TriggerWatch {
    /// By function: the limit, ns.
    limits: Vec<Option<u64>>,
    /// Files aren't written more often than this, ns.
    pause_ns: u64,
    /// The span that a file is to be written for.
    fired: Option<EndedSpan>,
    last_ns: Option<u64>,
    /// Spans over the limit.
    pub over: u64,
    /// Those for which no file was written, because another had been just before.
    pub without_file: u64,
}

/// After a span's end, what belongs to it still comes: waits of other threads, other CPUs' rings.
const AFTER_NS: u64 = 100_000_000;

impl TriggerWatch {
    /// For these functions; files no more often than each `pause_ns`.
    #[must_use]
    pub fn new(triggers: &[SpanTrigger], functions: &[super::SpanFunction], pause_ns: u64) -> Self {
        let limit = |name: &str| triggers.iter().filter(|of| of.name() == name).map(|of| of.over_ns).min();
        let limits = functions.iter().map(|function| limit(&function.name)).collect();
        Self { limits, pause_ns, ..Self::default() }
    }

    /// A call has ended.
    pub fn take(&mut self, span: &EndedSpan) {
        if !self.is_over(span.function, span.end_ns.saturating_sub(span.begin_ns)) {
            return;
        }
        self.over += 1;
        let is_soon = self.last_ns.is_some_and(|last| span.end_ns < last.saturating_add(self.pause_ns));
        if self.fired.is_some() || is_soon {
            self.without_file += 1;
            return;
        }
        self.fired = Some(*span);
    }

    /// The span for which a file is due: records have come up to `now_ns`.
    pub fn due(&mut self, now_ns: u64) -> Option<EndedSpan> {
        let span = self.fired.filter(|span| now_ns >= span.end_ns.saturating_add(AFTER_NS))?;
        (self.fired, self.last_ns) = (None, Some(span.end_ns));
        Some(span)
    }

    /// True if a call of this function is too long.
    #[must_use]
    pub fn is_over(&self, function: usize, ns: u64) -> bool {
        self.limits.get(function).copied().flatten().is_some_and(|limit| ns > limit)
    }

    /// The span for which a file was still due at the end: the last file has it.
    pub fn fired_last(&mut self) -> Option<EndedSpan> {
        self.fired.take()
    }

    /// True if the recording waits for triggers.
    #[must_use]
    pub fn is_used(&self) -> bool {
        self.limits.iter().any(Option::is_some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfdata::PidTid;

    #[test]
    fn triggers_are_a_function_and_a_time() {
        let of = |function: &str, over_ns| Ok(SpanTrigger { function: function.to_owned(), over_ns });
        assert_eq!(SpanTrigger::parse("span handle > 50ms"), of("handle", 50_000_000));
        assert_eq!(SpanTrigger::parse("span ns::Map<int>::get>1.5s"), of("ns::Map<int>::get", 1_500_000_000));
        for wrong in ["handle > 50ms", "span handle", "span > 5ms", "span f > 5", "span f > 5 parsecs"] {
            assert_eq!(SpanTrigger::parse(wrong), Err(TriggerError::Form(wrong.to_owned())));
        }
        assert_eq!(SpanTrigger::parse("span otel > 10ms"), Err(TriggerError::Late));
    }

    #[test]
    fn the_trigger_of_a_librarys_function_has_its_name_without_the_file() {
        let of = |text: &str| SpanTrigger::parse(text).map(|trigger| trigger.name().to_owned());
        assert_eq!(of("span get@/lib/libcache.so > 5ms"), Ok("get".to_owned()));
        assert_eq!(of("span ns::Map<int>::get > 5ms"), Ok("ns::Map<int>::get".to_owned()));
    }

    fn span(begin_ns: u64, end_ns: u64) -> EndedSpan {
        EndedSpan { function: 0, task: PidTid { pid: 1, tid: 1 }, begin_ns, end_ns, is_outermost: true }
    }

    #[test]
    fn a_file_is_due_a_moment_after_a_long_span_and_not_again_at_once() {
        let mut watch =
            TriggerWatch { limits: vec![Some(50)], pause_ns: 1_000_000_000, ..TriggerWatch::default() };
        watch.take(&span(0, 50));
        assert_eq!((watch.over, watch.due(u64::MAX)), (0, None));
        watch.take(&span(100, 200));
        assert_eq!(watch.due(200 + AFTER_NS - 1), None);
        assert_eq!(watch.due(200 + AFTER_NS), Some(span(100, 200)));
        watch.take(&span(300, 400));
        assert_eq!((watch.over, watch.without_file, watch.due(u64::MAX)), (2, 1, None));
        watch.take(&span(1_000_000_000, 1_000_000_200));
        assert!(watch.is_over(0, 51) && !watch.is_over(0, 50) && !watch.is_over(1, 51));
        assert_eq!(watch.due(u64::MAX), Some(span(1_000_000_000, 1_000_000_200)));
        watch.take(&span(3_000_000_000, 3_000_000_200));
        assert_eq!(
            (watch.fired_last(), watch.fired_last()),
            (Some(span(3_000_000_000, 3_000_000_200)), None)
        );
    }
}
