//! An event's attribute, field by field, zeros left out.

use perfdata::{Attr, AttrFlags};

/// Bits of `sample_type`, lowest first.
const SAMPLE_TYPE: [&str; 25] = [
    "IP",
    "TID",
    "TIME",
    "ADDR",
    "READ",
    "CALLCHAIN",
    "ID",
    "CPU",
    "PERIOD",
    "STREAM_ID",
    "RAW",
    "BRANCH_STACK",
    "REGS_USER",
    "STACK_USER",
    "WEIGHT",
    "DATA_SRC",
    "IDENTIFIER",
    "TRANSACTION",
    "REGS_INTR",
    "PHYS_ADDR",
    "AUX",
    "CGROUP",
    "DATA_PAGE_SIZE",
    "CODE_PAGE_SIZE",
    "WEIGHT_STRUCT",
];
/// Bits of `read_format`, lowest first.
const READ_FORMAT: [&str; 5] = ["TOTAL_TIME_ENABLED", "TOTAL_TIME_RUNNING", "ID", "GROUP", "LOST"];
/// Bits of `branch_sample_type`, lowest first.
const BRANCHES: [&str; 20] = [
    "USER",
    "KERNEL",
    "HV",
    "ANY",
    "ANY_CALL",
    "ANY_RETURN",
    "IND_CALL",
    "ABORT_TX",
    "IN_TX",
    "NO_TX",
    "COND",
    "CALL_STACK",
    "IND_JUMP",
    "CALL",
    "NO_FLAGS",
    "NO_CYCLES",
    "TYPE_SAVE",
    "HW_INDEX",
    "PRIV_SAVE",
    "COUNTERS",
];

/// (name, value) in the order of the struct.
pub fn fields(attr: &Attr) -> Vec<(&'static str, String)> {
    let mut fields = Vec::new();
    let mut add = |name, value: u64, text: String| {
        if value != 0 {
            fields.push((name, text));
        }
    };
    let number = |value: u64| value.to_string();
    let hex = |value: u64| format!("{value:#x}");
    add("type", attr.type_.into(), number(attr.type_.into()));
    add("size", attr.size.into(), number(attr.size.into()));
    add("config", attr.config, hex(attr.config));
    add("{ sample_period, sample_freq }", attr.sample_period, number(attr.sample_period));
    add("sample_type", attr.sample_type, bits(attr.sample_type, &SAMPLE_TYPE));
    add("read_format", attr.read_format, bits(attr.read_format, &READ_FORMAT));
    for &(flag, name) in AttrFlags::NAMES {
        if flag == AttrFlags::MMAP_DATA {
            add("precise_ip", attr.flags.precise_ip().into(), number(attr.flags.precise_ip().into()));
        }
        add(name, attr.flags.has(flag).into(), "1".to_owned());
    }
    add("{ wakeup_events, wakeup_watermark }", attr.wakeup.into(), number(attr.wakeup.into()));
    add("bp_type", attr.bp_type.into(), number(attr.bp_type.into()));
    add("{ bp_addr, config1 }", attr.config1, hex(attr.config1));
    add("{ bp_len, config2 }", attr.config2, hex(attr.config2));
    add("branch_sample_type", attr.branch_sample_type, bits(attr.branch_sample_type, &BRANCHES));
    add("sample_regs_user", attr.sample_regs_user, hex(attr.sample_regs_user));
    add("sample_stack_user", attr.sample_stack_user.into(), number(attr.sample_stack_user.into()));
    add("clockid", u64::from(attr.clockid != 0), attr.clockid.to_string());
    add("sample_regs_intr", attr.sample_regs_intr, hex(attr.sample_regs_intr));
    add("aux_watermark", attr.aux_watermark.into(), number(attr.aux_watermark.into()));
    add("sample_max_stack", attr.sample_max_stack.into(), number(attr.sample_max_stack.into()));
    add("aux_sample_size", attr.aux_sample_size.into(), number(attr.aux_sample_size.into()));
    add("sig_data", attr.sig_data, number(attr.sig_data));
    fields
}

fn bits(value: u64, names: &[&str]) -> String {
    let set = (0..64).filter(|bit| value >> bit & 1 == 1);
    let name = |bit: usize| names.get(bit).map_or_else(|| format!("bit {bit}"), |name| (*name).to_owned());
    set.map(name).collect::<Vec<_>>().join("|")
}
