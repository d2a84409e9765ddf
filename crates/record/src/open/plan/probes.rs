//! The events of functions whose calls are recorded: one for begins, one for ends, in the file; each with a probe per
//! instruction in the kernel.

use std::path::PathBuf;

use perfdata::abi::*;
use perfdata::{Attr, AttrFlags};

use super::{FileEvent, OpenedEvent, Plan};
use crate::open::spans::{SpanFunction, SpanSide, registers};

/// An instruction with a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbedPlace {
    /// File.
    pub path: PathBuf,
    /// Offset in the file.
    pub offset: u64,
}

impl Plan {
    /// Adds the events of these functions.
    pub(super) fn add_spans(&mut self, spans: &[SpanFunction], common: &Attr) {
        for span in spans {
            for side in [SpanSide::Begin, SpanSide::End] {
                let attr = probe_attr(span, common);
                let name = span.event_name(side);
                let file_event = self.file.len();
                self.file.push(FileEvent { name: name.clone(), attr });
                for offset in span.offsets(side) {
                    self.opened.push(OpenedEvent {
                        name: name.clone(),
                        attr: Attr { config2: offset, ..attr },
                        file_event,
                        leader: None,
                        step: None,
                        filter: None,
                        aux: false,
                        of_tasks: false,
                        probe: Some(ProbedPlace { path: span.path.clone(), offset }),
                    });
                }
            }
        }
    }

    /// True if this opened event is a probe.
    #[must_use]
    pub fn is_probe(&self, opened: usize) -> bool {
        self.opened.get(opened).is_some_and(|event| event.probe.is_some())
    }
}

/// Neither stack nor period: when, who, and the registers that show which end belongs to which begin.
fn probe_attr(span: &SpanFunction, common: &Attr) -> Attr {
    let mut flags = common.flags;
    // A uprobe can't be inherited: the kernel would look for its path in the memory of the process that forks
    // (perf_uprobe_init, Linux 6.18).
    flags.set(AttrFlags::INHERIT, false);
    Attr {
        type_: span.event_type,
        config2: span.function.offset,
        sample_type: common.sample_type | PERF_SAMPLE_IP | PERF_SAMPLE_REGS_USER,
        sample_regs_user: registers(),
        sample_period: 1,
        flags,
        ..*common
    }
}
