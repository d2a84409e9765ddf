//! Names of threads of other programs that ran instead of the target's: read from /proc when one is first seen.

use dso::system_file;
use rustc_hash::FxHashMap;
use std::cell::RefCell;

/// Names by thread id.
#[derive(Debug, Default)]
pub(super) struct Others {
    known: RefCell<FxHashMap<u32, (u64, String)>>,
}

impl Others {
    /// A name is read again after so long: threads change theirs, above all when they exec.
    const STALE_NS: u64 = 1_000_000_000;
    /// Remembered at most.
    const MOST: usize = 65_536;

    /// Of a thread at this time, ns of any one clock; empty for a thread that is gone, and for the idle task.
    pub fn name(&self, pid: u32, tid: u32, now_ns: u64) -> String {
        if tid == 0 {
            return String::new();
        }
        let mut known = self.known.borrow_mut();
        if known.len() >= Self::MOST {
            known.clear();
        }
        let (read_ns, name) = known.entry(tid).or_insert_with(|| (now_ns, read(pid, tid)));
        if now_ns.saturating_sub(*read_ns) > Self::STALE_NS {
            let newer = read(pid, tid);
            (*read_ns, *name) = (now_ns, if newer.is_empty() { name.clone() } else { newer });
        }
        name.clone()
    }
}

fn read(pid: u32, tid: u32) -> String {
    let text = system_file::read_text(format!("/proc/{pid}/task/{tid}/comm")).unwrap_or_default();
    text.trim_end_matches('\n').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_its_name_for_a_second_and_after_its_end() {
        let others = Others::default();
        let (pid, child) = (std::process::id(), 4_194_999);
        let own = others.name(pid, pid, 0);
        assert!(!own.is_empty() && others.name(pid, 0, 0).is_empty());
        others.known.borrow_mut().insert(child, (0, "gone".to_owned()));
        assert_eq!(others.name(child, child, 5_000_000_000), "gone");
        others.known.borrow_mut().insert(pid, (0, "old".to_owned()));
        assert_eq!(others.name(pid, pid, 900_000_000), "old");
        assert_eq!(others.name(pid, pid, 1_100_000_000), own);
    }
}
