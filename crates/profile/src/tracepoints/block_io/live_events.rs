//! The block layer's events as they come from the kernel that runs, without a recording to read them from.

use super::{BlockEvent, BlockTracepoint, Rwbs, SECTOR_BYTES};
use crate::profile::TaskId;
use perfdata::Endian;
use perfdata::tracepoint::{Format, id_of};
use std::collections::{BTreeMap, HashMap};

/// Reads raw tracepoint payloads; knows their threads.
pub struct BlockEvents {
    formats: HashMap<u64, (BlockTracepoint, Format)>,
    /// Submitters by the task id they have in the requests: name and process.
    threads: Vec<(String, u32)>,
    ids: BTreeMap<(String, u32), TaskId>,
}

impl BlockEvents {
    /// `format_of` returns the format text of an event `block:NAME` of the kernel that runs.
    #[must_use]
    pub fn new(format_of: &dyn Fn(&str) -> Option<String>) -> Self {
        let format = |(tracepoint, name): (BlockTracepoint, &str)| {
            let text = format_of(name)?;
            let format = Format::parse("block", text.as_bytes(), Endian::NATIVE, 8)?;
            Some((format.id, (tracepoint, format)))
        };
        Self {
            formats: BlockTracepoint::ALL.into_iter().filter_map(format).collect(),
            threads: Vec::new(),
            ids: BTreeMap::new(),
        }
    }

    /// Name and process of a thread met in an event.
    #[must_use]
    pub fn thread(&self, task: TaskId) -> &(String, u32) {
        &self.threads[task.index()]
    }

    /// `None` if it is not of the block layer, or doesn't match its format.
    pub fn read(&mut self, time_ns: u64, pid: u32, raw: &[u8]) -> Option<BlockEvent> {
        let (tracepoint, format) = self.formats.get(&id_of(raw, Endian::NATIVE)?)?;
        let (tracepoint, value) = (*tracepoint, |name: &str| Some(format.value(format.field(name)?, raw)));
        let number = |name: &str| value(name)?.parse::<u64>().ok();
        let bytes = match number("nr_sector").unwrap_or(0) {
            0 => number("bytes").unwrap_or(0),
            sectors => sectors.saturating_mul(SECTOR_BYTES),
        };
        let event = BlockEvent {
            tracepoint,
            time_ns,
            dev: u32::try_from(number("dev")?).ok()?,
            sector: number("sector").filter(|&sector| sector != u64::MAX).unwrap_or(0),
            bytes,
            rwbs: Rwbs::parse(&value("rwbs")?),
            error: value("error").and_then(|text| text.parse().ok()).unwrap_or(0),
            task: TaskId::from_index(0),
            callsite: None,
        };
        let comm = value("comm").unwrap_or_default();
        Some(BlockEvent { task: self.task_of(comm, pid), ..event })
    }

    fn task_of(&mut self, comm: String, pid: u32) -> TaskId {
        let threads = &mut self.threads;
        *self.ids.entry((comm, pid)).or_insert_with_key(|key| {
            threads.push(key.clone());
            TaskId::from_index(threads.len() - 1)
        })
    }
}
