//! Differences between a stream and a file: the contents of a file's header and tail are written as records
//! before and after the others. A file has some of these records, too, because without [`Writer::finish`] it
//! has no tail.

use std::io;

use super::Writer;
use crate::file::encode::{attr_size, to_record};
use crate::file::names;
use crate::record::{BuildId, EventUpdate, HeaderAttr, UpdateKind};
use crate::wire::U64s;
use crate::{Event, Features, Record};

impl Writer<'_> {
    /// File mode: names that aren't in the attributes, as records before the others. Readers of a file whose
    /// recorder was killed have them from here. (Formats of tracepoints can't be there: perf takes them from
    /// pipes only.)
    pub(super) fn write_early_names(&mut self) -> io::Result<()> {
        // Modifiers are in the attribute.
        let base = |name: &str| name.split([':', '/']).next().unwrap_or_default().to_owned();
        let is_told =
            |event: &Event| event.name.is_empty() || base(&event.name) == base(&names::made_up(&event.attr));
        let mut records = Vec::new();
        for event in self.opts.events.iter().filter(|event| !is_told(event)) {
            let Some(&id) = event.ids.first() else { continue };
            let update = UpdateKind::Name(event.name.as_bytes());
            records.extend(to_record(&Record::EventUpdate(EventUpdate { id, update })));
        }
        self.put_out(&records.concat())
    }

    /// Attributes, names and features.
    pub(super) fn write_pipe_head(&mut self) -> io::Result<()> {
        let size = attr_size(&self.opts.events);
        let mut records = Vec::new();
        for e in &self.opts.events {
            let mut attr = e.attr;
            attr.size = size;
            records
                .push(to_record(&Record::HeaderAttr(HeaderAttr { attr, ids: U64s::from(e.ids.as_slice()) })));
        }
        let mut features = self.opts.pipe_features.clone();
        self.complete(&mut features);
        features.build_ids.clear();
        let tracing = features.tracing_data.take();
        for (feature, data) in features.sections() {
            let feature = u64::from(feature);
            records.push(to_record(&Record::HeaderFeature { feature, data: &data }));
        }
        if let Some(tracing) = tracing {
            let mut data = tracing.to_bytes();
            data.resize(data.len().next_multiple_of(8), 0);
            records.push(to_record(&Record::HeaderTracingData(&data)));
        }
        // A feature too large for a record (65,535 bytes) is left out, as perf does.
        for bytes in records.into_iter().flatten() {
            self.put_out(&bytes)?;
        }
        Ok(())
    }

    /// The build-ids, which are known at the end only.
    pub(super) fn finish_pipe(mut self, features: &Features) -> io::Result<()> {
        for b in &features.build_ids {
            let record = BuildId { misc: b.misc, pid: b.pid, build_id: &b.build_id, filename: &b.filename };
            if let Some(mut bytes) = to_record(&Record::HeaderBuildId(record)) {
                let misc = (b.misc | crate::record::PERF_RECORD_MISC_BUILD_ID_SIZE).to_ne_bytes();
                bytes.iter_mut().skip(4).zip(misc).for_each(|(to, from)| *to = from);
                self.put_out(&bytes)?;
            }
        }
        self.out.flush()
    }
}
