//! Samples with counter values (`PERF_SAMPLE_READ`, perf's `{a,b}:S`) as one sample per counter.
//!
//! The leader's hit carries the values of the whole group. What each counter advanced since its last value is its
//! period, and the sample is delivered once for each counter that advanced.
//
// Source: linux v6.1 tools/perf/util/session.c, deliver_sample_group() and deliver_sample_value().

use rustc_hash::FxHashMap;

use crate::file::layout::Layouts;
use crate::{Item, Record};

/// Last value by event id.
#[derive(Debug, Default)]
pub(super) struct ReadSplitter {
    last: FxHashMap<u64, u64>,
}

impl ReadSplitter {
    /// Appends `item`, or its parts. Returns false if no counter advanced and nothing was appended.
    #[inline]
    pub(super) fn push<'i>(&mut self, item: Item<'i>, layouts: &Layouts, items: &mut Vec<Item<'i>>) -> bool {
        let Record::Sample(sample) = &item.record else {
            items.push(item);
            return true;
        };
        // Without ids the owners of the values are unknown: the sample stays unchanged.
        let Some(read) = sample.read.filter(|r| r.iter().any(|v| v.id.is_some())) else {
            items.push(item);
            return true;
        };
        let before = items.len();
        for value in read.iter() {
            let Some(id) = value.id else { continue };
            let Some(event) = layouts.event_of_id(id) else { continue };
            let last = self.last.insert(id, value.value).unwrap_or(0);
            let period = value.value.wrapping_sub(last);
            if period == 0 {
                continue;
            }
            let mut part = *sample;
            part.id = sample.id.map(|_| id);
            part.identifier = sample.identifier.map(|_| id);
            part.period = Some(period);
            items.push(Item { record: Record::Sample(part), event: Some(event), ..item });
        }
        items.len() > before
    }
}
