//! The shared fixtures: files others recorded, against values others derived.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::PathBuf;

use perfdata::abi::*;
use perfdata::record::type_name;
use perfdata::{ChainEntry, CpuMode, Item, Order, PerfData, ReadMode, Record, Sample};
use serde_json::{Value, json};

fn folder() -> Option<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let named = std::env::var_os("TALLY_FIXTURES").map(PathBuf::from);
    let found = named.unwrap_or_else(|| root.join("../shared/fixtures")).join("perfdata");
    found.is_dir().then_some(found)
}

fn load(name: &str) -> Option<(Vec<u8>, Value)> {
    let Some(folder) = folder() else {
        println!("skipped: no fixtures folder");
        return None;
    };
    let bytes = std::fs::read(folder.join(name)).unwrap();
    let json = std::fs::read(folder.join(format!("{name}.expected.json"))).unwrap();
    Some((bytes, serde_json::from_slice(&json).unwrap()))
}

/// Name of a record type as the expected values spell it: what describes the file carries `HEADER_`.
fn expected_name(type_: u32) -> String {
    let prefix = if matches!(type_, 64..=67 | 80) { "HEADER_" } else { "" };
    format!("{prefix}{}", type_name(type_).unwrap_or("?"))
}

fn sample_values(s: &Sample<'_>) -> BTreeMap<&'static str, u64> {
    let mut v = BTreeMap::new();
    v.insert("callchain_len", s.callchain.map_or(0, |c| c.len() as u64));
    v.insert("branch_stack_len", s.branches.map_or(0, |b| b.len() as u64));
    v.extend(s.ip.map(|a| ("ip", a.0)));
    v.extend(s.addr.map(|a| ("addr", a.0)));
    v.extend(s.pid_tid.map(|p| ("pid", u64::from(p.0))));
    v.extend(s.pid_tid.map(|p| ("tid", u64::from(p.1))));
    v.extend(s.time_ns.map(|t| ("time", t)));
    v.extend(s.cpu.map(|c| ("cpu", u64::from(c))));
    v.extend(s.period.map(|p| ("period", p)));
    v.extend(s.event_id().map(|i| ("id", i)));
    v.extend(s.stream_id.map(|i| ("stream_id", i)));
    v.extend(s.raw.map(|r| ("raw_size", r.len() as u64)));
    v
}

/// Sums of one pass over a file.
#[derive(Default)]
struct Sums {
    counts: BTreeMap<u32, u64>,
    samples: u64,
    period: u64,
    ips: (u64, u64, BTreeSet<u64>),
    pids: BTreeSet<u32>,
    tids: BTreeSet<u32>,
    times: Vec<u64>,
    by_cpu: BTreeMap<String, u64>,
    by_mode: BTreeMap<&'static str, u64>,
    by_id: BTreeMap<String, (u64, u64)>,
    chain: (u64, u64, u64, u64),
    branches: (u64, u64, u64),
    first: BTreeMap<&'static str, u64>,
    last: BTreeMap<&'static str, u64>,
}

impl Sums {
    fn item(&mut self, item: &Item<'_>) {
        let type_ = u32::from_ne_bytes(item.raw[..4].try_into().unwrap());
        *self.counts.entry(type_).or_default() += 1;
        let Record::Sample(s) = &item.record else { return };
        assert!(item.event.is_some(), "every sample has its event");
        self.samples += 1;
        self.period = self.period.wrapping_add(s.period.unwrap_or(0));
        let values = sample_values(s);
        if let Some(ip) = s.ip {
            self.ips.0 ^= ip.0;
            self.ips.1 = self.ips.1.wrapping_add(ip.0);
            self.ips.2.insert(ip.0);
        }
        if let Some((pid, tid)) = s.pid_tid {
            self.pids.insert(pid);
            self.tids.insert(tid);
        }
        self.times.extend(s.time_ns);
        if let Some(cpu) = s.cpu {
            *self.by_cpu.entry(cpu.to_string()).or_default() += 1;
        }
        let mode = match s.cpu_mode() {
            CpuMode::Kernel => "kernel",
            CpuMode::User => "user",
            CpuMode::Hypervisor => "hypervisor",
            CpuMode::GuestKernel => "guest_kernel",
            CpuMode::GuestUser => "guest_user",
            CpuMode::Unknown => "unknown",
        };
        *self.by_mode.entry(mode).or_default() += 1;
        if let Some(id) = s.event_id() {
            let e = self.by_id.entry(id.to_string()).or_default();
            e.0 += 1;
            e.1 += s.period.unwrap_or(0);
        }
        if let Some(chain) = s.callchain {
            self.chain.0 += chain.len() as u64;
            self.chain.1 += chain.iter().filter(|e| matches!(e, ChainEntry::Context(_))).count() as u64;
            self.chain.2 = self.chain.2.max(chain.len() as u64);
            self.chain.3 += u64::from(chain.is_empty());
        }
        if let Some(b) = s.branches {
            self.branches.0 += b.len() as u64;
            self.branches.1 = self.branches.1.max(b.len() as u64);
            self.branches.2 += u64::from(b.is_empty());
        }
        if self.samples == 1 {
            self.first.clone_from(&values);
        }
        self.last = values;
    }
}

/// Every key that the expected object has must be there with that value.
fn includes(what: &str, expected: &Value, actual: &BTreeMap<&'static str, u64>) {
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(actual.get(key.as_str()).copied(), value.as_u64(), "{what}.{key}");
    }
}

fn check_attrs(file: &PerfData<'_>, expected: &Value) {
    let attrs = expected["attrs"].as_array().unwrap();
    assert_eq!(file.events().len(), attrs.len(), "events");
    for (event, e) in file.events().iter().zip(attrs) {
        let a = &event.attr;
        for (key, value) in e.as_object().unwrap() {
            // The dumps give the size of the dumping tool's own struct (96); the file has its recorder's.
            if key == "size" && *value == 96 {
                continue;
            }
            let actual = match key.as_str() {
                "type" => u64::from(a.type_),
                "size" => u64::from(a.size),
                "config" => a.config,
                "sample_type" => a.sample_type,
                "read_format" => a.read_format,
                "branch_sample_type" => a.branch_sample_type,
                "sample_period" | "sample_freq" => a.sample_period,
                "precise_ip" => u64::from(a.flags.precise_ip()),
                "n_ids" => event.ids.len() as u64,
                "wakeup_events" | "wakeup_watermark" => u64::from(a.wakeup),
                "bp_addr" | "config1" => a.config1,
                "bp_len" | "config2" => a.config2,
                "sample_stack_user" => u64::from(a.sample_stack_user),
                "sample_regs_user" => a.sample_regs_user,
                flag => match perfdata::AttrFlags::NAMES.iter().find(|(_, name)| *name == flag) {
                    Some((bit, _)) => u64::from(a.flags.has(*bit)),
                    None => panic!("attribute field {flag} is not compared"),
                },
            };
            assert_eq!(Some(actual), value.as_u64(), "attr {key}");
        }
    }
    if let Some(names) = expected["event_names"].as_array() {
        let actual: Vec<_> = file.events().iter().map(|e| json!(e.name)).collect();
        assert_eq!(&actual, names, "event names");
    }
}

fn check_header(file: &PerfData<'_>, e: &Value) {
    assert_eq!(if file.mode() == ReadMode::Pipe { "piped" } else { "file" }, e["format"]);
    assert_eq!(Some(file.header().size), e["header_size"].as_u64());
    let f = file.features();
    if let Some(bits) = e["feature_bits"].as_array() {
        let actual: Vec<_> = file.header().feature_numbers().map(|n| json!(n)).collect();
        assert_eq!(&actual, bits, "features");
    }
    let text = |key: &str, actual: &Option<String>| {
        if let Some(v) = e[key].as_str() {
            assert_eq!(actual.as_deref(), Some(v), "{key}");
        }
    };
    text("kernel_version", &f.os_release);
    text("perf_version", &f.version);
    text("architecture", &f.arch);
    if let Some(n) = e["nr_cpus"].as_array() {
        let nr = f.nr_cpus.unwrap();
        assert_eq!(n, &[json!(nr.available), json!(nr.online)]);
    }
    if let Some(n) = e["n_build_ids_header"].as_u64() {
        assert_eq!(f.build_ids.len() as u64, n, "build ids");
    }
}

fn check_samples(s: &Sums, e: &Value) {
    assert_eq!(Some(s.samples), e["count"].as_u64(), "samples");
    let number = |key: &str, actual: u64| {
        if let Some(v) = e[key].as_u64() {
            assert_eq!(actual, v, "{key}");
        }
    };
    number("period_sum", s.period);
    number("ip_xor", s.ips.0);
    number("ip_sum_mod_2_64", s.ips.1);
    number("distinct_ips", s.ips.2.len() as u64);
    number("distinct_pids", s.pids.len() as u64);
    number("distinct_tids", s.tids.len() as u64);
    number("time_min", s.times.iter().min().copied().unwrap_or(0));
    number("time_max", s.times.iter().max().copied().unwrap_or(0));
    if let Some(v) = e["time_ordered_in_file"].as_bool() {
        assert_eq!(s.times.is_sorted(), v, "time_ordered_in_file");
    }
    for (key, actual) in [("first_in_file", &s.first), ("last_in_file", &s.last)] {
        if e[key].is_object() {
            includes(key, &e[key], actual);
        }
    }
    let object = |key: &str, actual: Value| {
        if e[key].is_object() {
            assert_eq!(e[key], actual, "{key}");
        }
    };
    object("by_cpu", json!(s.by_cpu));
    object("by_cpumode", json!(s.by_mode));
    if let Some(by_id) = e["by_id"].as_object() {
        for (id, v) in by_id {
            let actual = s.by_id[id];
            assert_eq!(v["count"].as_u64(), Some(actual.0), "by_id {id}");
            if let Some(p) = v["period_sum"].as_u64() {
                assert_eq!(p, actual.1, "by_id {id}");
            }
        }
        assert_eq!(by_id.len(), s.by_id.len());
    }
    object(
        "callchain",
        json!({"entries_total_incl_context_markers": s.chain.0, "context_markers_total": s.chain.1,
               "max_len": s.chain.2, "samples_with_empty_chain": s.chain.3}),
    );
    object(
        "branch_stack",
        json!({"entries_total": s.branches.0, "max_len": s.branches.1, "samples_with_none": s.branches.2}),
    );
}

/// In time order: never backwards, the same samples, and the first and last as expected.
fn check_time_order(file: &PerfData<'_>, e: &Value) {
    let (mut sums, mut last) = (Sums::default(), 0);
    let mut values = Vec::new();
    let d = file.visit(Order::Time, |item| {
        sums.item(item);
        if let Some(t) = item.time_ns().filter(|t| *t > 0) {
            assert!(t >= last, "time goes backwards at {:#x}", item.offset);
            last = t;
        }
        if let Record::Sample(s) = &item.record {
            values.push(sample_values(s));
        }
        ControlFlow::Continue(())
    });
    assert_eq!(d.out_of_order, 0);
    assert_eq!(Some(sums.samples), e["count"].as_u64());
    for (key, actual) in [("first_by_time", values.first()), ("last_by_time", values.last())] {
        if e[key].is_object() {
            includes(key, &e[key], actual.unwrap());
        }
    }
}

fn check(name: &str) {
    let Some((bytes, e)) = load(name) else { return };
    let file = PerfData::open(&bytes).unwrap();
    assert_eq!(file.problems(), &[]);
    check_header(&file, &e);
    check_attrs(&file, &e);
    let mut sums = Sums::default();
    let damage = e["damage"]["file_offset"].as_u64();
    let d = file.visit(Order::File, |item| {
        if damage.is_none_or(|at| item.offset < at) {
            sums.item(item);
        }
        ControlFlow::Continue(())
    });
    match damage {
        None => {
            assert_eq!((d.problem_count, d.trailing_bytes, d.unknown_records), (0, 0, 0), "{:?}", d.problems)
        }
        Some(at) => assert!(format!("{:?}", d.problems).contains(&at.to_string()), "{:?}", d.problems),
    }
    let counts: BTreeMap<String, u64> = sums.counts.iter().map(|(t, n)| (expected_name(*t), *n)).collect();
    assert_eq!(json!(counts), e["record_counts"]);
    assert_eq!(Some(sums.counts.values().sum::<u64>()), e["n_records"].as_u64());
    check_samples(&sums, &e["samples"]);
    let lost = d.lost_total();
    assert_eq!(Some(lost.records), e["lost"]["lost_sum"].as_u64());
    assert_eq!(Some(lost.samples), e["lost"]["lost_samples_sum"].as_u64());
    assert_eq!(Some(*d.records.get(&PERF_RECORD_LOST).unwrap_or(&0)), e["lost"]["lost_records"].as_u64());
    if damage.is_none() {
        check_time_order(&file, &e["samples"]);
    }
}

#[test]
fn armv7_six_hardware_events_are_distinguished_by_id() {
    check("perf.data.armv7-3.4");
}

#[test]
fn branch_stacks_of_lbr_are_read() {
    check("perf.data.branch-4.14");
}

#[test]
fn a_busy_system_has_many_mappings_and_few_samples() {
    check("perf.data.busy.0-3.8");
}

#[test]
fn callchains_up_to_127_entries_keep_their_markers() {
    check("perf.data.callgraph-3.8");
}

#[test]
fn callchain_and_branch_stack_share_a_sample() {
    check("perf.data.callgraph_and_branch-3.4");
}

#[test]
fn switches_and_namespaces_are_records() {
    check("perf.data.ctx_switch_namespaces-4.14");
}

#[test]
fn a_fork_storm_keeps_every_task_record() {
    check("perf.data.forkexit-3.8");
}

#[test]
fn an_event_group_is_described() {
    check("perf.data.group_desc-4.14");
}

#[test]
fn hardware_and_software_events_share_a_file() {
    check("perf.data.hw_and_sw-3.4");
}

#[test]
fn hybrid_cores_and_their_updates_are_read() {
    check("perf.data.hybrid_topology");
}

#[test]
fn a_32_bit_x86_file_is_read() {
    check("perf.data.i686-3.4");
}

#[test]
fn auxtrace_payload_is_not_taken_for_records() {
    check("perf.data.intel_pt-4.14");
}

#[test]
fn lost_samples_are_summed() {
    check("perf.data.lost_samples-4.4");
}

#[test]
fn a_record_of_size_zero_is_damage_with_its_offset() {
    check("perf.data.piped.corrupted.zero_size_sample-3.2");
}

#[test]
fn pipe_mode_header_features_are_read() {
    check("perf.data.piped.header_features-4.16");
}

#[test]
fn pipe_mode_without_ids_attributes_all_to_one_event() {
    check("perf.data.piped.no_attr_ids-4.14");
}

#[test]
fn an_old_pipe_is_read() {
    check("perf.data.piped.target-3.4");
}

#[test]
fn a_throttled_pipe_is_read() {
    check("perf.data.piped.target.throttled-3.4");
}

#[test]
fn a_proc_map_timeout_is_seen() {
    check("perf.data.proc.map.timeout-3.18");
}

#[test]
fn raw_parts_are_skipped_by_their_size() {
    check("perf.data.raw-3.4");
}

#[test]
fn a_mapping_over_a_mapping_is_two_records() {
    check("perf.data.remmap-3.2");
}

#[test]
fn one_short_command_with_six_events() {
    check("perf.data.singleprocess-3.4");
}

#[test]
fn system_wide_on_four_cpus() {
    check("perf.data.systemwide.0-3.8");
}

#[test]
fn system_wide_with_six_events() {
    check("perf.data.systemwide.1-3.4");
}

#[test]
fn forty_five_thousand_samples_of_one_process() {
    check("single-event-single-process.perf.data");
}

#[test]
fn forty_eight_thousand_short_callchains() {
    check("with-callchain.perf.data");
}
