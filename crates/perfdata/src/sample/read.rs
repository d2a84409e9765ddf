//! Counter values inside a sample (`PERF_SAMPLE_READ`) or a `PERF_RECORD_READ`.
//
// Layout: without PERF_FORMAT_GROUP: value [enabled] [running] [id] [lost]
//         with it:                   nr [enabled] [running] { value [id] [lost] }[nr]
// Source: linux v7.2 kernel/events/core.c, perf_output_read_one() and perf_output_read_group().

use crate::abi::*;
use crate::wire::{Put, U64s, Wire};

/// Counter values of an event or of its group, the leader first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadGroup<'a> {
    /// Time the event was enabled, ns.
    pub time_enabled_ns: Option<u64>,
    /// Time it was on the PMU, ns.
    pub time_running_ns: Option<u64>,
    values: Values<'a>,
}

/// A single value is spread around the times; a group's values are one run of words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Values<'a> {
    One(ReadValue),
    Group { words: U64s<'a>, layout: GroupLayout },
}

impl Default for Values<'_> {
    fn default() -> Self {
        Values::One(ReadValue::default())
    }
}

/// One counter's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct ReadValue {
    /// The count.
    pub value: u64,
    /// The counter's event id.
    pub id: Option<u64>,
    /// Samples it lost so far.
    pub lost: Option<u64>,
}

impl<'a> ReadGroup<'a> {
    /// One event's own value.
    #[must_use]
    pub fn one(value: ReadValue) -> Self {
        ReadGroup { values: Values::One(value), ..ReadGroup::default() }
    }

    /// A group's values: flat words, for each counter its value, then what `layout` adds.
    #[must_use]
    pub fn group(words: &'a [u64], layout: GroupLayout) -> Self {
        ReadGroup { values: Values::Group { words: words.into(), layout }, ..ReadGroup::default() }
    }

    /// Whether the layout was that of `PERF_FORMAT_GROUP`.
    #[must_use]
    pub fn is_group(&self) -> bool {
        matches!(self.values, Values::Group { .. })
    }

    /// Number of counters.
    #[must_use]
    pub fn len(&self) -> usize {
        match self.values {
            Values::One(_) => 1,
            Values::Group { words, layout } => words.len() / layout.stride(),
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The counter at `index`, 0 being the group's leader.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<ReadValue> {
        match self.values {
            Values::One(value) => (index == 0).then_some(value),
            Values::Group { words, layout } => {
                let GroupLayout { has_id, has_lost } = layout;
                let at = index.checked_mul(layout.stride())?;
                let id = if has_id { Some(words.get(at + 1)?) } else { None };
                let lost = if has_lost { Some(words.get(at + 1 + usize::from(has_id))?) } else { None };
                Some(ReadValue { value: words.get(at)?, id, lost })
            }
        }
    }

    /// All counters, the leader first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = ReadValue> + use<'a> {
        let this = *self;
        (0..this.len()).map(move |i| this.get(i).unwrap_or_default())
    }

    pub(crate) fn parse(w: &mut Wire<'a>, read_format: u64) -> Option<Self> {
        let has = |bit| read_format & bit != 0;
        let (has_id, has_lost) = (has(PERF_FORMAT_ID), has(PERF_FORMAT_LOST));
        let head = w.u64()?;
        let time_enabled_ns = if has(PERF_FORMAT_TOTAL_TIME_ENABLED) { Some(w.u64()?) } else { None };
        let time_running_ns = if has(PERF_FORMAT_TOTAL_TIME_RUNNING) { Some(w.u64()?) } else { None };
        let values = if has(PERF_FORMAT_GROUP) {
            let layout = GroupLayout { has_id, has_lost };
            let count = head.checked_mul(layout.stride() as u64)?;
            Values::Group { words: w.u64s(count)?, layout }
        } else {
            let id = if has_id { Some(w.u64()?) } else { None };
            let lost = if has_lost { Some(w.u64()?) } else { None };
            Values::One(ReadValue { value: head, id, lost })
        };
        Some(ReadGroup { time_enabled_ns, time_running_ns, values })
    }

    pub(crate) fn write(&self, p: &mut Put, read_format: u64) {
        let has = |bit| read_format & bit != 0;
        let (group, first) = (has(PERF_FORMAT_GROUP), self.get(0).unwrap_or_default());
        p.u64(if group { self.len() as u64 } else { first.value });
        if has(PERF_FORMAT_TOTAL_TIME_ENABLED) {
            p.u64(self.time_enabled_ns.unwrap_or_default());
        }
        if has(PERF_FORMAT_TOTAL_TIME_RUNNING) {
            p.u64(self.time_running_ns.unwrap_or_default());
        }
        for (i, v) in self.iter().enumerate().take(if group { usize::MAX } else { 1 }) {
            if group || i > 0 {
                p.u64(v.value);
            }
            if has(PERF_FORMAT_ID) {
                p.u64(v.id.unwrap_or_default());
            }
            if has(PERF_FORMAT_LOST) {
                p.u64(v.lost.unwrap_or_default());
            }
        }
    }
}

/// Values after each counter's in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupLayout {
    /// The counter's id.
    pub has_id: bool,
    /// The number of its lost samples.
    pub has_lost: bool,
}

impl GroupLayout {
    /// Words per counter.
    fn stride(self) -> usize {
        1 + usize::from(self.has_id) + usize::from(self.has_lost)
    }
}
