//! Threads that begin while we attach to their process.
//!
//! A thread started by one that has our events inherits them; one started a moment earlier, by a thread that had none
//! yet, does not. Fork records show which it was, because they come only from threads that have our events.

use perfdata::Record;
use perfdata::abi::PERF_RECORD_FORK;
use perfdata::record::TaskRecord;
use perfdata::record::live::LiveFormat;

use crate::open::plan::Plan;
use crate::open::target::{Target, Whom};
use crate::open::{OpenedEvents, Places, RefusedEvent, Start};

/// Looks at the list of threads, each time for those that began since. A program that starts threads faster than
/// this many looks is followed from where we are.
const LOOKS: usize = 10;

/// Opens the plan's events for threads of `target` that began since `places` were listed and inherited nothing.
/// They are added to `places`.
pub fn adopt(
    opened: &mut OpenedEvents,
    plan: &Plan,
    target: &Target,
    places: &mut Places,
) -> Result<(), RefusedEvent> {
    if !matches!(target.whom, Whom::Processes(_) | Whom::Trees(_) | Whom::User(_)) {
        return Ok(());
    }
    for _ in 0..LOOKS {
        // Listed first: of a thread that is on the list, the fork record was written before.
        let Ok(listed) = target.threads() else { break };
        let forks = forks(opened, plan);
        let has_events = |tid: u32| places.tids.contains(&tid) || forks.iter().any(|f| f.tid == tid);
        let tids: Vec<u32> = listed.into_iter().filter(|&tid| !has_events(tid)).collect();
        if tids.is_empty() {
            break;
        }
        let new = Places { tids, cpus: places.cpus.clone(), cgroup: None, beside: Vec::new() };
        opened.add(plan, &new, Start::ByHand)?;
        places.tids.extend(new.tids);
    }
    Ok(())
}

/// The fork records that wait in the rings, in the order of time.
#[must_use]
pub fn forks(opened: &OpenedEvents, plan: &Plan) -> Vec<TaskRecord> {
    let Some(tracking) = plan.tracking() else { return Vec::new() };
    let layout = LiveFormat::new(&plan.opened[tracking].attr);
    let mut forks = Vec::new();
    for span in opened.rings.iter().filter_map(crate::sys::Ring::peek) {
        let mut at = 0;
        while let Some((kind, size)) = span.u64_at(at).map(LiveFormat::type_and_size).filter(|(_, s)| *s >= 8)
        {
            if kind == PERF_RECORD_FORK {
                let mut bytes = Vec::new();
                span.copy_to(at, size, &mut bytes);
                if let Some((Record::Fork(task), _)) = layout.parse(&bytes) {
                    forks.push(task);
                }
            }
            at += size;
        }
    }
    forks.sort_by_key(|task| task.time_ns);
    forks
}
