//! Which events describe block I/O, and how they are recorded.

use crate::flags::event_args::EventArgs;
use profile::tracepoints::block_io::BlockTracepoint;
use record::event::{EventSource, SystemSource};
use record::opts::{CallGraph, EventRequest, FileOpts, KeepFiles, Output, RecordOpts, StackOpts};
use record::{Target, Whom};
use std::path::Path;

/// Pages of all rings together, 128 MiB: stacks are copied into them, disks come in bursts, and on a busy machine it
/// takes a while until the recorder has a CPU.
const ALL_PAGES: usize = 32_768;

/// Requests come from shallow stacks, mostly, and by the ten thousand a second: a snapshot as large as
/// those of samples of the CPU clock would leave room for a few hundred requests. Nor does it grow when a stack of some
/// process is cut: the functions nearest to the request are what is shown.
const SNAPSHOTS: [u32; 2] = [6 << 10; 2];

/// Pages of each ring: 2 to 32 MiB.
fn ring_pages(cpus: usize) -> usize {
    (ALL_PAGES / cpus.next_power_of_two()).clamp(512, 8192)
}

/// Everything that happens to requests, on the whole machine: who completes one is not who began it.
///
/// # Errors
/// If the kernel offers no such events (to this user).
pub fn options(target: Target, output: &Path) -> anyhow::Result<RecordOpts> {
    let whom =
        if target.whom == Whom::Command && target.command.is_empty() { Whom::Command } else { Whom::System };
    let pages = ring_pages(target.cpus().len());
    Ok(RecordOpts {
        target: Target { whom, ..target },
        events: events()?,
        stacks: StackOpts {
            call_graph: CallGraph::Live,
            snapshot_bytes: Some(SNAPSHOTS),
            ..StackOpts::default()
        },
        ring_pages: Some(pages),
        file: FileOpts {
            output: Output::File(output.to_path_buf()),
            keep_files: KeepFiles::None,
            command_line: std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect(),
            ..FileOpts::default()
        },
        ..RecordOpts::default()
    })
}

/// The tracepoints this kernel has; the submitter's stack is taken only where a request begins.
fn events() -> anyhow::Result<Vec<EventRequest>> {
    let source = SystemSource::new();
    let there = source.list_tracefs("block").unwrap_or_default();
    let needed = [BlockTracepoint::Issue, BlockTracepoint::Complete];
    let wanted = BlockTracepoint::ALL
        .into_iter()
        .filter(|(tracepoint, name)| needed.contains(tracepoint) || there.iter().any(|event| event == name));
    let straight = may_go_straight(Path::new("/sys/block"));
    let texts: Vec<String> = wanted.map(|(tracepoint, name)| text(tracepoint, name, straight)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut requests = crate::flags::recording::requests(&EventArgs::of(&texts))?;
    for request in requests.iter_mut().filter(|request| request.name.contains("block_bio_queue")) {
        request.filter = Some("nr_sector == 0".to_owned());
    }
    Ok(requests)
}

/// True if requests of some disk may go to the driver without having been in a scheduler's queue: then who began them
/// is only seen there. Else a second copy of the same stack would fill the rings twice as fast.
fn may_go_straight(disks: &Path) -> bool {
    let Ok(disks) = std::fs::read_dir(disks) else { return true };
    // Loop devices without a file are there by the dozen.
    let has_size =
        |disk: &Path| dso::system_file::read_text(disk.join("size")).is_ok_and(|size| size.trim() != "0");
    let disks = disks.flatten().map(|disk| disk.path()).filter(|disk| has_size(disk));
    let mut schedulers =
        disks.filter_map(|disk| dso::system_file::read_text(disk.join("queue/scheduler")).ok());
    schedulers.any(|text| !text.contains('[') || text.contains("[none]"))
}

fn text(tracepoint: BlockTracepoint, name: &str, straight: bool) -> String {
    match tracepoint {
        BlockTracepoint::Insert | BlockTracepoint::Queue => format!("block:{name}/period=1/"),
        BlockTracepoint::Issue if straight => format!("block:{name}/period=1/"),
        _ => format!("block:{name}/period=1,call-graph=no/"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_are_taken_once_where_all_disks_have_a_scheduler() {
        let folder = std::env::temp_dir().join(format!("tally-disks-{}", std::process::id()));
        let disk = |name: &str, scheduler: &str, size: &str| {
            let queue = folder.join(name).join("queue");
            std::fs::create_dir_all(&queue).expect("a folder");
            std::fs::write(queue.join("scheduler"), scheduler).expect("written");
            std::fs::write(folder.join(name).join("size"), size).expect("written");
        };
        disk("sda", "none [mq-deadline] kyber\n", "4096\n");
        disk("loop0", "[none] mq-deadline\n", "0\n");
        std::fs::create_dir_all(folder.join("dm-0/queue")).expect("a folder");
        assert!(!may_go_straight(&folder));
        assert!(text(BlockTracepoint::Issue, "block_rq_issue", false).contains("call-graph=no"));
        assert!(!text(BlockTracepoint::Insert, "block_rq_insert", false).contains("call-graph=no"));
        disk("nvme0n1", "[none] mq-deadline\n", "4096\n");
        assert!(may_go_straight(&folder));
        assert!(!text(BlockTracepoint::Issue, "block_rq_issue", true).contains("call-graph=no"));
        std::fs::remove_dir_all(&folder).expect("removed");
        assert!(may_go_straight(&folder), "unknown: the safe side");
    }
}
