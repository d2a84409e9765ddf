//! `bpf/shared.h` against this module.

use super::*;

const HEADER: &str = include_str!("../../../bpf/shared.h");

fn constant(name: &str) -> usize {
    let line = HEADER.lines().find(|line| line.split_whitespace().nth(1) == Some(name));
    let value = line.and_then(|line| line.split_whitespace().nth(2));
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no #define {name}"))
}

/// Offsets of a struct's fields by the C rules, with its size under the name "".
fn offsets(name: &str) -> Vec<(String, usize)> {
    let body = HEADER.split(&format!("struct {name} {{")).nth(1).and_then(|rest| rest.split("\n};").next());
    let mut at = 0usize;
    let mut found = Vec::new();
    for line in body.unwrap_or_else(|| panic!("no struct {name}")).lines() {
        let Some((declared, _)) = line.split_once(';') else { continue };
        if let Some((inner, field)) =
            declared.trim().strip_prefix("struct ").and_then(|of| of.split_once(' '))
        {
            at = at.next_multiple_of(8);
            found.push((field.to_owned(), at));
            at += offset(&offsets(inner), "");
            continue;
        }
        let size = match declared {
            text if text.contains("long long") => 8,
            text if text.contains("int") => 4,
            text if text.contains("short") => 2,
            _ => 1,
        };
        let field = declared.split_whitespace().last().unwrap_or_default();
        let (field, many) = field.split_once('[').unwrap_or((field, "1]"));
        let many = many.trim_end_matches(']');
        let many = many.parse().unwrap_or_else(|_| constant(many));
        at = at.next_multiple_of(size);
        found.push((field.to_owned(), at));
        at += size * many;
    }
    found.push((String::new(), at));
    found
}

fn offset(of: &[(String, usize)], field: &str) -> usize {
    of.iter().find(|(name, _)| name == field).unwrap_or_else(|| panic!("no field {field}")).1
}

#[test]
fn the_header_and_this_file_agree() {
    let record = offsets("off_record");
    for (field, at) in [
        ("time_ns", 8),
        ("since_ns", 16),
        ("wait_ns", 24),
        ("wait_weight_ns", 32),
        ("runnable_ns", 40),
        ("runnable_weight_ns", 48),
        ("tid", 56),
        ("tgid", 60),
        ("other_tid", 64),
        ("other_tgid", 68),
        ("kind", 72),
        ("flags", 76),
        ("cpu", 80),
        ("kstack_bytes", 84),
        ("regs_bytes", 88),
        ("stack_bytes", 92),
        ("other_comm", 96),
        ("ran_tid", 112),
        ("ran_tgid", 116),
        ("ran_comm", 120),
        ("site", SITE_AT),
        ("kstack", KSTACK_AT),
        ("user_chain", USER_CHAIN_AT),
        ("regs", REGS_AT),
        ("stack", HEAD_BYTES),
        ("", HEAD_BYTES + STACK_MAX_BYTES),
    ] {
        assert_eq!(offset(&record, field), at, "off_record.{field}");
    }
    let end = offsets("end_record");
    for (field, at) in [
        ("start_ns", 8),
        ("end_ns", 16),
        ("total", 24),
        ("carry", 24 + KIND_COUNT * 8),
        ("switches", 24 + KIND_COUNT * 16),
        ("tid", 32 + KIND_COUNT * 16),
        ("tgid", 36 + KIND_COUNT * 16),
        ("flags", 40 + KIND_COUNT * 16),
        ("preemptions", 44 + KIND_COUNT * 16),
        ("migrations", 48 + KIND_COUNT * 16),
        ("minor_faults", 56 + KIND_COUNT * 16),
        ("major_faults", 64 + KIND_COUNT * 16),
        ("comm", 72 + KIND_COUNT * 16),
        ("longest_us", QUEUE_AT),
        ("queue", QUEUE_AT + 8),
        ("life", LIFE_AT),
        ("argument", ARGUMENT_AT),
        ("", END_BYTES),
    ] {
        assert_eq!(offset(&end, field), at, "end_record.{field}");
    }
    assert_eq!(offset(&offsets("control"), "splits"), 32);
    assert_eq!(offset(&offsets("control"), ""), 40);
    let site = offsets("site_sums");
    for (field, at) in [
        ("print", 0),
        ("since_ns", 8),
        ("wait_ns", 16),
        ("runnable_ns", 24),
        ("longest_ns", 32),
        ("count", 48),
        ("kind", 60),
        ("lengths", 64),
        ("arg", 144),
        ("stack_print", 152),
        ("syscall", 184),
        ("tgid", 188),
        ("", SITE_BYTES),
    ] {
        assert_eq!(offset(&site, field), at, "site_sums.{field}");
    }
    let exec = offsets("exec_record");
    for (field, at) in [("time_ns", 8), ("tid", 16), ("life", 24), ("", EXEC_BYTES)] {
        assert_eq!(offset(&exec, field), at, "exec_record.{field}");
    }
    let told = offsets("site_record");
    for (field, at) in [("print", 8), ("tid", 16), ("", SITE_RECORD_BYTES)] {
        assert_eq!(offset(&told, field), at, "site_record.{field}");
    }
    let key = offsets("site_key");
    assert_eq!((offset(&key, "tid"), offset(&key, "")), (8, 16));
}

#[test]
fn the_headers_constants_are_ours() {
    for (name, value) in [
        ("KIND_RUNNABLE", OffCpuRecordKind::Runnable as usize),
        ("KIND_PREEMPTED", OffCpuRecordKind::Preempted as usize),
        ("KIND_SLEEP", OffCpuRecordKind::Sleep as usize),
        ("KIND_DISK", OffCpuRecordKind::Disk as usize),
        ("KIND_STOPPED", OffCpuRecordKind::Stopped as usize),
        ("KIND_IDLE", OffCpuRecordKind::Idle as usize),
        ("KIND_COUNT", KIND_COUNT),
        ("QUEUE_BUCKETS", QueueLengths::BUCKETS),
        ("QUEUE_FIRST_LOG2", QueueLengths::FIRST_LOG2 as usize),
        ("QUEUE_WORDS", 2 * QueueLengths::BUCKETS),
        ("KSTACK_FRAMES", KSTACK_FRAMES),
        ("USER_FRAMES", USER_FRAMES),
        ("REGS_BYTES", REGS_BYTES),
        ("STACK_MAX_BYTES", STACK_MAX_BYTES),
        ("FLAG_OPEN_LEFT", flag::OPEN_LEFT as usize),
        ("FLAG_OPEN_RIGHT", flag::OPEN_RIGHT as usize),
        ("FLAG_KTHREAD", flag::KTHREAD as usize),
        ("FLAG_WOKEN", flag::WOKEN as usize),
        ("FLAG_NO_SLOT", flag::NO_SLOT as usize),
        ("FLAG_STALE", flag::STALE as usize),
        ("FLAG_EXITED", flag::EXITED as usize),
        ("FLAG_NEW", flag::NEW as usize),
        ("WHOM_ALL", ClockScope::All as usize),
        ("WHOM_CGROUP", ClockScope::Cgroup as usize),
        ("WHOM_THREADS", ClockScope::Threads as usize),
        ("REC_SAMPLE", REC_SAMPLE as usize),
        ("REC_WAKER", REC_WAKER as usize),
        ("REC_END", REC_END as usize),
        ("REC_EXEC", REC_EXEC as usize),
        ("REC_SITE", REC_SITE as usize),
        ("NOT_BEGUN", NOT_BEGUN as usize),
    ] {
        assert_eq!(constant(name), value, "{name}");
    }
}
