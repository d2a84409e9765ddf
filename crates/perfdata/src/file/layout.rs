//! Which event a record belongs to, and how its samples are laid out.
//!
//! With several events a record's event is identified by an id, whose place depends on that event: at the
//! beginning with `IDENTIFIER`, else after ip, tid, time, addr. All places that occur are tried; an id found at
//! a place counts only if its event has its id there.

use rustc_hash::FxHashMap;

use crate::abi::*;
use crate::attr::AttrFlags;
use crate::file::frames::Frame;
use crate::record::{Context, Header};
use crate::{Endian, Error, Event, Item, Record, Sample, SampleFormat, SampleId, off_cpu};

/// Layout of one event's records.
#[derive(Debug, Clone, Copy)]
struct EventLayout {
    format: SampleFormat,
    /// Unknown bits that change the layout: its samples cannot be read.
    unknown: bool,
    sample_id_all: bool,
    /// Its samples are in the raw data of its samples.
    embedded: bool,
    /// Place of the id in a sample's payload, in words.
    id_pos: Option<usize>,
    /// Place of the time in a sample's payload, in words.
    time_pos: Option<usize>,
    /// Place of the id counted from the record's end, in words (1 = the last).
    id_back: Option<usize>,
    /// Place of the time counted from the record's end.
    time_back: Option<usize>,
    /// Bytes of the trailer.
    trailer: usize,
}

/// The layouts of all events of a file.
#[derive(Debug, Default)]
pub(crate) struct Layouts {
    events: Vec<EventLayout>,
    by_id: FxHashMap<u64, usize>,
    /// Distinct `id_pos`, `id_back` of the events.
    id_positions: Vec<usize>,
    id_backs: Vec<usize>,
    endian: Endian,
}

const TRAILER: [u64; 6] = [
    PERF_SAMPLE_TID,
    PERF_SAMPLE_TIME,
    PERF_SAMPLE_ID,
    PERF_SAMPLE_STREAM_ID,
    PERF_SAMPLE_CPU,
    PERF_SAMPLE_IDENTIFIER,
];

impl EventLayout {
    fn new(event: &Event, endian: Endian) -> Self {
        let attr = &event.attr;
        let format = SampleFormat::new(attr, endian);
        let t = attr.sample_type;
        let sample_id_all = attr.flags.has(AttrFlags::SAMPLE_ID_ALL);
        let bits = |mask: u64| (t & mask).count_ones() as usize;
        let before_time = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID;
        let before_id = before_time | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR;
        let id_pos = if t & PERF_SAMPLE_IDENTIFIER != 0 {
            Some(0)
        } else {
            (t & PERF_SAMPLE_ID != 0).then(|| bits(before_id))
        };
        let back = |bit: u64| {
            let from = TRAILER.iter().skip_while(|b| **b != bit).filter(|b| t & **b != 0).count();
            (sample_id_all && t & bit != 0).then_some(from)
        };
        EventLayout {
            format,
            unknown: format.unknown_bits().is_some(),
            sample_id_all,
            embedded: off_cpu::is_embedded(event),
            id_pos,
            time_pos: (t & PERF_SAMPLE_TIME != 0).then(|| bits(before_time)),
            id_back: back(PERF_SAMPLE_IDENTIFIER).or(back(PERF_SAMPLE_ID)),
            time_back: back(PERF_SAMPLE_TIME),
            trailer: if sample_id_all { SampleId::size(t) } else { 0 },
        }
    }
}

impl Layouts {
    pub(crate) fn new(events: &[Event], endian: Endian) -> Self {
        let mut this = Layouts { endian, ..Layouts::default() };
        for (index, event) in events.iter().enumerate() {
            let layout = EventLayout::new(event, endian);
            this.events.push(layout);
            for id in &event.ids {
                this.by_id.entry(*id).or_insert(index);
            }
            push_distinct(&mut this.id_positions, layout.id_pos);
            push_distinct(&mut this.id_backs, layout.id_back);
        }
        this
    }

    pub(crate) fn event_of_id(&self, id: u64) -> Option<usize> {
        if self.events.len() == 1 || (self.by_id.is_empty() && !self.events.is_empty()) {
            return Some(0);
        }
        self.by_id.get(&id).copied()
    }

    /// The event of a sample, or the id that belongs to none.
    #[inline]
    fn event_of_sample(&self, payload: &[u8]) -> Result<usize, u64> {
        if self.events.len() == 1 || self.by_id.is_empty() || self.id_positions.is_empty() {
            return Ok(0);
        }
        let mut seen = 0;
        for pos in &self.id_positions {
            let Some(id) = word(payload, *pos, self.endian) else { continue };
            match self.by_id.get(&id) {
                Some(e) if self.events.get(*e).is_some_and(|l| l.id_pos == Some(*pos)) => return Ok(*e),
                _ => seen = id,
            }
        }
        Err(seen)
    }

    /// The event of any other kernel record; id 0 (records made up by the recorder) is the first one's.
    #[inline]
    fn event_of_trailer(&self, payload: &[u8]) -> Option<usize> {
        if self.events.len() == 1 || self.id_backs.is_empty() {
            return Some(0);
        }
        let mut zero = false;
        for back in &self.id_backs {
            let Some(at) = (payload.len() / 8).checked_sub(*back) else { continue };
            let Some(id) = word(payload, at, self.endian) else { continue };
            match self.by_id.get(&id) {
                Some(e) if self.events.get(*e).is_some_and(|l| l.id_back == Some(*back)) => return Some(*e),
                _ => zero |= id == 0,
            }
        }
        (zero || self.by_id.is_empty()).then_some(0)
    }

    /// ns of the recording's clock, or 0 if the record carries no time.
    #[inline]
    pub(crate) fn time_ns(&self, frame: &Frame<'_>) -> u64 {
        let payload = frame.payload();
        let time = match frame.header.type_ {
            PERF_RECORD_SAMPLE => self.event_of_sample(payload).ok().and_then(|e| {
                let pos = self.events.get(e)?.time_pos?;
                word(payload, pos, self.endian)
            }),
            PERF_RECORD_HEADER_ATTR.. => None,
            _ => self.layout_of_trailer(payload).and_then(|(_, l)| {
                let at = (payload.len() / 8).checked_sub(l.time_back?)?;
                word(payload, at, self.endian)
            }),
        };
        time.filter(|t| *t != u64::MAX).unwrap_or(0)
    }

    fn layout_of_trailer(&self, payload: &[u8]) -> Option<(Option<usize>, &EventLayout)> {
        let event = self.event_of_trailer(payload);
        Some((event, self.events.get(event.unwrap_or(0))?))
    }

    /// Reads a framed record whole.
    #[inline]
    pub(crate) fn parse<'a>(&self, frame: &Frame<'a>, offset: u64) -> Result<Item<'a>, Error> {
        let item = |record, sample_id, event| Item { offset, record, sample_id, event, raw: frame.bytes };
        let short = || Error::ShortRecord { offset, type_: frame.header.type_ };
        if frame.header.type_ == PERF_RECORD_SAMPLE {
            let (event, sample) = self.parse_sample(frame.header, frame.payload(), offset)?;
            return Ok(item(Record::Sample(sample), None, Some(event)));
        }
        let payload = frame.payload();
        let mut context = Context { endian: self.endian, read_format: 0 };
        if frame.header.type_ >= PERF_RECORD_HEADER_ATTR {
            let record = Record::parse(frame.header, payload, frame.behind, context).ok_or_else(short)?;
            return Ok(item(record, None, None));
        }
        let Some((event, layout)) = self.layout_of_trailer(payload) else {
            let record = Record::parse(frame.header, payload, frame.behind, context).ok_or_else(short)?;
            return Ok(item(record, None, None));
        };
        context.read_format = layout.format.read_format;
        let at = payload.len().checked_sub(layout.trailer).ok_or_else(short)?;
        let (body, trailer) = payload.split_at_checked(at).ok_or_else(short)?;
        let record = Record::parse(frame.header, body, frame.behind, context).ok_or_else(short)?;
        let wire = crate::wire::Wire::new(trailer, self.endian);
        let id = if layout.sample_id_all { SampleId::parse(wire, layout.format.sample_type) } else { None };
        Ok(item(record, id, event))
    }

    #[inline]
    fn parse_sample<'a>(
        &self,
        header: Header,
        payload: &'a [u8],
        offset: u64,
    ) -> Result<(usize, Sample<'a>), Error> {
        if self.events.is_empty() {
            return Err(Error::NoEvents { offset });
        }
        let event = self.event_of_sample(payload).map_err(|id| Error::UnknownId { offset, id })?;
        let layout = self.events.get(event).ok_or(Error::NoEvents { offset })?;
        if layout.unknown {
            let (field, bits) = layout.format.unknown_bits().unwrap_or_default();
            return Err(Error::UnknownBits { event, field, bits });
        }
        let sample = Sample::parse(header.misc, payload, &layout.format);
        let sample = sample.map(|s| if layout.embedded { off_cpu::unfold(s, self.endian) } else { s });
        sample.map(|s| (event, s)).ok_or(Error::ShortRecord { offset, type_: PERF_RECORD_SAMPLE })
    }
}

fn push_distinct(list: &mut Vec<usize>, value: Option<usize>) {
    if let Some(v) = value.filter(|v| !list.contains(v)) {
        list.push(v);
    }
}

/// The 8-byte word at `index`.
#[inline]
fn word(payload: &[u8], index: usize, endian: Endian) -> Option<u64> {
    Some(endian.u64(*payload.get(index.checked_mul(8)?..)?.first_chunk()?))
}
