//! The view, computed from a few requests.

use super::*;
use crate::profile::{Task, TaskId};
use crate::tracepoints::block_io::Rwbs;

/// Process, letters, bytes, and when it was inserted, issued and done.
type RequestRow = (usize, &'static str, u64, [Option<u64>; 3]);

fn profile_of(requests: &[RequestRow]) -> Profile {
    let mut profile = Profile::default();
    let comm = profile.strings.intern("app");
    for pid in 0..3 {
        profile.push_task(Task { pid, tid: pid, process: 0, comm });
    }
    let request = |&(pid, letters, bytes, [insert_ns, issue_ns, complete_ns]): &RequestRow| Request {
        dev: 1,
        sector: 0,
        bytes,
        rwbs: Rwbs::parse(letters),
        task: TaskId::from_index(pid),
        callsite: None,
        insert_ns,
        issue_ns,
        complete_ns,
        requeues: 0,
        error: 0,
        merged: false,
    };
    profile.block_io.requests = requests.iter().map(request).collect();
    profile.time_span_ns = Some((0, 1000));
    profile
}

fn of(profile: &Profile) -> Io {
    io(profile, &IoOpts { slices: 10, ..IoOpts::default() })
}

#[test]
fn all_requests_are_shown_or_counted_as_left_out() {
    let profile = profile_of(&[
        (1, "R", 4096, [Some(0), Some(10), Some(110)]),
        (1, "R", 5000, [None, Some(10), Some(60)]),
        (2, "WS", 512, [Some(0), None, None]),
    ]);
    let all = of(&profile);
    assert_eq!((all.whole.requests, all.unfinished, all.direct, all.left_out.requests), (3, 1, 1, 0));
    let one = io(&profile, &IoOpts { pids: Some([2].into()), slices: 1, ..IoOpts::default() });
    assert_eq!((one.whole.requests, one.left_out.requests), (1, 2));
}

#[test]
fn rows_are_by_operation_and_power_of_two() {
    let profile = profile_of(&[
        (1, "R", 4096, [Some(0), Some(10), Some(110)]),
        (1, "RA", 5000, [None, Some(10), Some(60)]),
        (1, "R", 8192, [None, Some(10), Some(60)]),
        (1, "FF", 0, [None, Some(10), Some(20)]),
    ]);
    let all = of(&profile);
    let rows: Vec<_> =
        all.rows.iter().map(|r| (r.op, r.size, r.requests, r.latencies.device_total_ns)).collect();
    assert_eq!(rows, [(Op::Read, 4096, 1, 100), (Op::Read, 8192, 2, 100), (Op::Flush, 0, 1, 10)]);
    assert_eq!(all.rows[0].latencies.queue.max_ns(), 10);
}

#[test]
fn what_is_discarded_is_a_row_of_its_own_but_no_bytes_moved() {
    let profile = profile_of(&[
        (1, "W", 4096, [Some(0), Some(10), Some(110)]),
        (1, "D", 1 << 30, [Some(0), Some(10), Some(60)]),
    ]);
    let all = of(&profile);
    assert_eq!((all.whole.requests, all.whole.bytes), (2, 4096));
    assert_eq!(
        all.rows.iter().map(|row| (row.op, row.bytes)).collect::<Vec<_>>(),
        [(Op::Write, 4096), (Op::Discard, 1 << 30)]
    );
    assert_eq!(all.submitters.iter().map(|row| row.bytes).sum::<u64>(), 4096);
}

#[test]
fn requests_in_flight_sum_up_to_their_time_in_the_device() {
    let profile = profile_of(&[
        (1, "R", 512, [None, Some(0), Some(250)]),
        (1, "R", 512, [None, Some(50), Some(150)]),
        (1, "R", 512, [None, Some(900), None]),
        (1, "R", 512, [None, Some(100), None]),
    ]);
    // The last was out for longer than any that came back: its end was lost.
    let time = of(&profile).time;
    assert_eq!((time.busy_ns, time.in_flight.1, time.slice_ns), (350, 2, 100));
    assert!((time.in_flight.0 - 0.45).abs() < 1e-9);
    let summed: f64 = time.slices.iter().map(|s| s.in_flight * time.slice_ns as f64).sum();
    assert!((summed - 450.0).abs() < 1e-6, "{summed}");
    assert_eq!(time.slices.iter().map(|s| s.busy_ns).sum::<u64>(), 350);
    assert_eq!(time.slices[1].most_in_flight, 2);
}

#[test]
fn the_heat_map_holds_each_request_once() {
    let profile = profile_of(&[
        (1, "R", 512, [None, Some(0), Some(4)]),
        (1, "R", 512, [None, Some(0), Some(70)]),
        (1, "R", 512, [None, Some(900), Some(999)]),
    ]);
    let time = of(&profile).time;
    let rows: Vec<_> = time.heat.iter().map(|row| (row.from_ns, row.counts.iter().sum::<u64>())).collect();
    assert_eq!(rows, [(4, 1), (8, 0), (16, 0), (32, 0), (64, 2)]);
    assert_eq!((time.heat[4].counts[0], time.heat[4].counts[9]), (1, 1));
}

#[test]
fn bytes_of_all_requests_are_in_a_row_by_file_or_by_reason() {
    use perfdata::appendix::disk_files::{DiskFile, DiskFiles, FileOwner, RequestPart};

    let mut profile = profile_of(&[
        (1, "R", 8192, [Some(0), Some(10), Some(110)]),
        (1, "W", 4096, [None, Some(90_000_000), Some(90_000_060)]),
        (2, "WS", 512, [Some(200_000_000), None, None]),
        (2, "F", 0, [None, Some(20), Some(30)]),
    ]);
    let file =
        |owner, path: &str| DiskFile { owner, device: 1, inode: 5, is_deleted: false, path: path.to_owned() };
    let part = |time_ns, file, by_kernel| RequestPart {
        time_ns,
        sector: 0,
        device: 1,
        bytes: 4096,
        file,
        tid: 1,
        by_kernel,
        is_direct: false,
    };
    let files = vec![file(FileOwner::File, "/a"), file(FileOwner::Device, "")];
    let parts = vec![part(12, 0, false), part(12, 1, false), part(90_000_002, 0, true)];
    profile.block_io.files = DiskFiles::new(files, parts, 0);
    let mut live = LiveFiles::default();
    let read = profile.block_io.requests[0];
    assert_eq!(live.words("app", &read), None, "its files may still come");
    live.add(profile.block_io.files.clone());
    live.add(DiskFiles::default());
    assert_eq!(live.words("app", &read), Some("/a, (file system metadata)".to_owned()));
    assert_eq!(live.words("app", &profile.block_io.requests[3]), Some(String::new()));
    let rows = of(&profile).files;
    let row = |op: Op, words: &str| {
        let row = rows.rows.iter().find(|row| row.op == op && row.target.words().starts_with(words));
        row.map(|row| (row.bytes, row.requests, row.by_writeback))
    };
    assert_eq!(row(Op::Read, "/a"), Some((4096, 1, false)));
    assert_eq!(row(Op::Read, "(file system metadata"), Some((4096, 1, false)));
    assert_eq!(row(Op::Write, "/a"), Some((4096, 1, true)));
    assert_eq!(row(Op::Write, "(not seen"), Some((512, 1, false)));
    assert_eq!((rows.rows.len(), rows.named_bytes()), (4, (12_288, 12_800)));
    profile.block_io.files = DiskFiles::refused("no BPF".to_owned());
    let rows = of(&profile).files;
    assert_eq!((rows.refused.as_str(), rows.rows.len()), ("no BPF", 0));
}
