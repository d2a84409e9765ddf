//! Why the kernel made a request: read off the names of its functions on the way.

/// Prefixes of function names with the cause they indicate, unordered. The causes are printed in path order, outermost
/// first.
const CAUSES: &[(&str, &str)] = &[
    ("filemap_fault", "page fault"),
    ("do_fault_around", "page fault"),
    ("dax_iomap_fault", "page fault"),
    ("do_swap_page", "swap in"),
    ("swap_readpage", "swap in"),
    ("swap_read_folio", "swap in"),
    ("swap_writepage", "swap out"),
    ("swap_writeout", "swap out"),
    ("page_cache_ra_", "readahead"),
    ("page_cache_sync_ra", "readahead"),
    ("page_cache_async_ra", "readahead"),
    ("force_page_cache_ra", "readahead"),
    ("ondemand_readahead", "readahead"),
    ("__do_page_cache_readahead", "readahead"),
    ("vfs_fsync", "fsync"),
    ("do_fsync", "fsync"),
    ("ksys_sync", "sync"),
    ("iterate_supers", "sync"),
    ("wb_workfn", "writeback"),
    ("wb_writeback", "writeback"),
    ("balance_dirty_pages", "dirty pages throttled"),
    ("iomap_dio_rw", "direct"),
    ("__iomap_dio_rw", "direct"),
    ("__blockdev_direct_IO", "direct"),
    ("blkdev_direct_IO", "direct"),
    ("__blkdev_direct_IO", "direct"),
    ("jbd2_", "journal"),
    ("kjournald2", "journal"),
    ("xlog_", "journal"),
    ("xfs_log_", "journal"),
    ("btrfs_commit_transaction", "commit"),
    ("btree_", "metadata"),
    ("ext4_bread", "metadata"),
    ("__ext4_find_entry", "directory"),
    ("ext4_find_entry", "directory"),
    ("iterate_dir", "directory"),
    ("ext4_iget", "inode"),
    ("__ext4_iget", "inode"),
    ("ext4_map_blocks", "metadata"),
    ("xfs_buf_read", "metadata"),
    ("__bread", "metadata"),
    ("sb_bread", "metadata"),
    ("io_submit_one", "aio"),
    ("io_uring_enter", "io_uring"),
    ("io_submit_sqes", "io_uring"),
    ("io_wq_submit", "io_uring"),
    ("blkdev_issue_discard", "discard"),
    ("ext4_trim_fs", "trim"),
    ("shrink_folio_list", "reclaim"),
    ("do_execve", "exec"),
    ("do_exit", "exit"),
    ("ksys_read", "read"),
    ("ksys_pread", "read"),
    ("__x64_sys_pread64", "read"),
    ("do_readv", "read"),
    ("ksys_write", "write"),
    ("__x64_sys_pwrite64", "write"),
    ("do_writev", "write"),
    ("do_sendfile", "sendfile"),
    ("do_splice", "splice"),
    ("ksys_readahead", "readahead"),
    ("ksys_fadvise64", "fadvise"),
    ("madvise_", "madvise"),
];

/// `page fault → readahead`, from kernel function names **leaf first**; empty if none of them matches.
pub fn cause<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let words: Vec<&str> = names.filter_map(word).collect();
    let mut told: Vec<&str> = Vec::new();
    for word in words.into_iter().rev() {
        if !told.contains(&word) {
            told.push(word);
        }
    }
    told.join(" → ")
}

fn word(name: &str) -> Option<&'static str> {
    CAUSES.iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, word)| *word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_of_a_request_is_told_from_outside_in() {
        let of = |names: &str| cause(names.split(' '));
        assert_eq!(
            of(
                "blk_mq_submit_bio read_pages page_cache_ra_unbounded page_cache_async_ra filemap_fault __do_fault"
            ),
            "page fault → readahead"
        );
        assert_eq!(of("iomap_dio_rw ext4_file_read_iter vfs_read ksys_read"), "read → direct");
        assert_eq!(of("dd_insert_requests do_writepages ext4_sync_file do_fsync"), "fsync");
        assert_eq!(of("blk_mq_run_hw_queue worker_thread"), "");
    }
}
