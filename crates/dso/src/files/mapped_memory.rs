//! A bound on the memory that pages of mapped files take.
//!
//! Pages of object files and symbol tables that were looked at once stay with the process, though the system could
//! reclaim them. An agent may use 200 MB, and the programs of a machine are larger than that.

use crate::files::mmap::release_all;
use crate::files::system_file;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes from which on a process that asked for a bound drops pages.
static BOUND_BYTES: AtomicU64 = AtomicU64::new(u64::MAX);

/// Bounds the pages of files of this process from now on, for a command that shall stay small rather than fast.
pub fn bound_file_memory(bytes: u64) {
    BOUND_BYTES.store(bytes, Ordering::Relaxed);
}

/// [`release_files_above`] the bound, if this process has one.
pub fn release_files_above_bound() {
    let bound = BOUND_BYTES.load(Ordering::Relaxed);
    if bound != u64::MAX {
        release_files_above(bound);
    }
}

/// Drops the pages of all mapped files from this process if its pages of files take more than `limit_bytes`, this
/// program's own code included. True if they were dropped.
pub fn release_files_above(limit_bytes: u64) -> bool {
    let is_above = resident_file_bytes().is_some_and(|bytes| bytes > limit_bytes);
    if is_above {
        release_all();
    }
    is_above
}

/// Memory of this process that is pages of files.
// Source: linux v6.18 fs/proc/task_mmu.c task_mem()
fn resident_file_bytes() -> Option<u64> {
    let status = system_file::read_text("/proc/self/status").ok()?;
    let kib = status.lines().find_map(|line| line.strip_prefix("RssFile:"))?;
    Some(kib.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MappedFile;

    #[test]
    fn pages_of_files_above_the_limit_are_dropped() {
        const BYTES: usize = 64 << 20;
        let path = std::env::temp_dir().join(format!("tally-mapped-{}", std::process::id()));
        std::fs::write(&path, vec![1u8; BYTES]).expect("the temporary folder is writable");
        let map = MappedFile::open(&path).expect("just written");
        let before = resident_file_bytes().expect("/proc");
        assert_eq!(map.iter().map(|byte| u64::from(*byte)).sum::<u64>(), BYTES as u64);
        let limit = before + BYTES as u64 / 2;
        assert!(release_files_above(limit), "all of it was read");
        assert!(!release_files_above(limit), "and dropped");
        assert_eq!(map[BYTES - 1], 1);
        std::fs::remove_file(&path).expect("our own file");
    }
}
