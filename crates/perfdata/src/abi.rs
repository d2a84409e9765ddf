//! Kernel and perf constants, in their own spelling.
//!
//! Each block names the header that defines it; the meaning is written there and not repeated.
#![expect(missing_docs, reason = "the names are the kernel's, and so is their documentation")]

// perf_event_attr.type
// Source: linux v7.2 include/uapi/linux/perf_event.h, enum perf_type_id
pub const PERF_TYPE_HARDWARE: u32 = 0;
pub const PERF_TYPE_SOFTWARE: u32 = 1;
pub const PERF_TYPE_TRACEPOINT: u32 = 2;
pub const PERF_TYPE_HW_CACHE: u32 = 3;
pub const PERF_TYPE_RAW: u32 = 4;
pub const PERF_TYPE_BREAKPOINT: u32 = 5;

// perf_event_attr.config of PERF_TYPE_HARDWARE
// Source: linux v7.2 include/uapi/linux/perf_event.h, enum perf_hw_id
pub const PERF_COUNT_HW_CPU_CYCLES: u64 = 0;
pub const PERF_COUNT_HW_INSTRUCTIONS: u64 = 1;
pub const PERF_COUNT_HW_CACHE_REFERENCES: u64 = 2;
pub const PERF_COUNT_HW_CACHE_MISSES: u64 = 3;
pub const PERF_COUNT_HW_BRANCH_INSTRUCTIONS: u64 = 4;
pub const PERF_COUNT_HW_BRANCH_MISSES: u64 = 5;
pub const PERF_COUNT_HW_BUS_CYCLES: u64 = 6;
pub const PERF_COUNT_HW_STALLED_CYCLES_FRONTEND: u64 = 7;
pub const PERF_COUNT_HW_STALLED_CYCLES_BACKEND: u64 = 8;
pub const PERF_COUNT_HW_REF_CPU_CYCLES: u64 = 9;

// perf_event_attr.config of PERF_TYPE_HW_CACHE: cache | op << 8 | result << 16
// Source: linux v7.2 include/uapi/linux/perf_event.h, enum perf_hw_cache_id
pub const PERF_COUNT_HW_CACHE_L1D: u64 = 0;
pub const PERF_COUNT_HW_CACHE_L1I: u64 = 1;
pub const PERF_COUNT_HW_CACHE_LL: u64 = 2;
pub const PERF_COUNT_HW_CACHE_DTLB: u64 = 3;
pub const PERF_COUNT_HW_CACHE_ITLB: u64 = 4;
pub const PERF_COUNT_HW_CACHE_BPU: u64 = 5;
pub const PERF_COUNT_HW_CACHE_NODE: u64 = 6;
pub const PERF_COUNT_HW_CACHE_OP_READ: u64 = 0;
pub const PERF_COUNT_HW_CACHE_OP_WRITE: u64 = 1;
pub const PERF_COUNT_HW_CACHE_OP_PREFETCH: u64 = 2;
pub const PERF_COUNT_HW_CACHE_RESULT_ACCESS: u64 = 0;
pub const PERF_COUNT_HW_CACHE_RESULT_MISS: u64 = 1;

// perf_event_attr.config of PERF_TYPE_SOFTWARE
// Source: linux v7.2 include/uapi/linux/perf_event.h, enum perf_sw_ids
pub const PERF_COUNT_SW_CPU_CLOCK: u64 = 0;
pub const PERF_COUNT_SW_TASK_CLOCK: u64 = 1;
pub const PERF_COUNT_SW_PAGE_FAULTS: u64 = 2;
pub const PERF_COUNT_SW_CONTEXT_SWITCHES: u64 = 3;
pub const PERF_COUNT_SW_CPU_MIGRATIONS: u64 = 4;
pub const PERF_COUNT_SW_PAGE_FAULTS_MIN: u64 = 5;
pub const PERF_COUNT_SW_PAGE_FAULTS_MAJ: u64 = 6;
pub const PERF_COUNT_SW_ALIGNMENT_FAULTS: u64 = 7;
pub const PERF_COUNT_SW_EMULATION_FAULTS: u64 = 8;
pub const PERF_COUNT_SW_DUMMY: u64 = 9;
pub const PERF_COUNT_SW_BPF_OUTPUT: u64 = 10;
pub const PERF_COUNT_SW_CGROUP_SWITCHES: u64 = 11;

// perf_event_attr.sample_type
// Source: linux v7.2 include/uapi/linux/perf_event.h, enum perf_event_sample_format
pub const PERF_SAMPLE_IP: u64 = 0x1;
pub const PERF_SAMPLE_TID: u64 = 0x2;
pub const PERF_SAMPLE_TIME: u64 = 0x4;
pub const PERF_SAMPLE_ADDR: u64 = 0x8;
pub const PERF_SAMPLE_READ: u64 = 0x10;
pub const PERF_SAMPLE_CALLCHAIN: u64 = 0x20;
pub const PERF_SAMPLE_ID: u64 = 0x40;
pub const PERF_SAMPLE_CPU: u64 = 0x80;
pub const PERF_SAMPLE_PERIOD: u64 = 0x100;
pub const PERF_SAMPLE_STREAM_ID: u64 = 0x200;
pub const PERF_SAMPLE_RAW: u64 = 0x400;
pub const PERF_SAMPLE_BRANCH_STACK: u64 = 0x800;
pub const PERF_SAMPLE_REGS_USER: u64 = 0x1000;
pub const PERF_SAMPLE_STACK_USER: u64 = 0x2000;
pub const PERF_SAMPLE_WEIGHT: u64 = 0x4000;
pub const PERF_SAMPLE_DATA_SRC: u64 = 0x8000;
pub const PERF_SAMPLE_IDENTIFIER: u64 = 0x10000;
pub const PERF_SAMPLE_TRANSACTION: u64 = 0x20000;
pub const PERF_SAMPLE_REGS_INTR: u64 = 0x40000;
pub const PERF_SAMPLE_PHYS_ADDR: u64 = 0x80000;
pub const PERF_SAMPLE_AUX: u64 = 0x100000;
pub const PERF_SAMPLE_CGROUP: u64 = 0x200000;
pub const PERF_SAMPLE_DATA_PAGE_SIZE: u64 = 0x400000;
pub const PERF_SAMPLE_CODE_PAGE_SIZE: u64 = 0x800000;
pub const PERF_SAMPLE_WEIGHT_STRUCT: u64 = 0x1000000;

// perf_event_attr.branch_sample_type
// Source: linux v7.2 include/uapi/linux/perf_event.h, enum perf_branch_sample_type
pub const PERF_SAMPLE_BRANCH_USER: u64 = 0x1;
pub const PERF_SAMPLE_BRANCH_KERNEL: u64 = 0x2;
pub const PERF_SAMPLE_BRANCH_HV: u64 = 0x4;
pub const PERF_SAMPLE_BRANCH_ANY: u64 = 0x8;
pub const PERF_SAMPLE_BRANCH_ANY_CALL: u64 = 0x10;
pub const PERF_SAMPLE_BRANCH_ANY_RETURN: u64 = 0x20;
pub const PERF_SAMPLE_BRANCH_IND_CALL: u64 = 0x40;
pub const PERF_SAMPLE_BRANCH_ABORT_TX: u64 = 0x80;
pub const PERF_SAMPLE_BRANCH_IN_TX: u64 = 0x100;
pub const PERF_SAMPLE_BRANCH_NO_TX: u64 = 0x200;
pub const PERF_SAMPLE_BRANCH_COND: u64 = 0x400;
pub const PERF_SAMPLE_BRANCH_CALL_STACK: u64 = 0x800;
pub const PERF_SAMPLE_BRANCH_IND_JUMP: u64 = 0x1000;
pub const PERF_SAMPLE_BRANCH_CALL: u64 = 0x2000;
pub const PERF_SAMPLE_BRANCH_NO_FLAGS: u64 = 0x4000;
pub const PERF_SAMPLE_BRANCH_NO_CYCLES: u64 = 0x8000;
pub const PERF_SAMPLE_BRANCH_TYPE_SAVE: u64 = 0x10000;
pub const PERF_SAMPLE_BRANCH_HW_INDEX: u64 = 0x20000;
pub const PERF_SAMPLE_BRANCH_PRIV_SAVE: u64 = 0x40000;
pub const PERF_SAMPLE_BRANCH_COUNTERS: u64 = 0x80000;

// ABI of dumped registers
// Source: linux v7.2 include/uapi/linux/perf_event.h, enum perf_sample_regs_abi
pub const PERF_SAMPLE_REGS_ABI_NONE: u64 = 0;
pub const PERF_SAMPLE_REGS_ABI_32: u64 = 1;
pub const PERF_SAMPLE_REGS_ABI_64: u64 = 2;

// perf_event_attr.read_format
// Source: linux v7.2 include/uapi/linux/perf_event.h, enum perf_event_read_format
pub const PERF_FORMAT_TOTAL_TIME_ENABLED: u64 = 0x1;
pub const PERF_FORMAT_TOTAL_TIME_RUNNING: u64 = 0x2;
pub const PERF_FORMAT_ID: u64 = 0x4;
pub const PERF_FORMAT_GROUP: u64 = 0x8;
pub const PERF_FORMAT_LOST: u64 = 0x10;

// Sizes of perf_event_attr as published
// Source: linux v7.2 include/uapi/linux/perf_event.h
pub const PERF_ATTR_SIZE_VER0: u32 = 64;
pub const PERF_ATTR_SIZE_VER1: u32 = 72;
pub const PERF_ATTR_SIZE_VER2: u32 = 80;
pub const PERF_ATTR_SIZE_VER3: u32 = 96;
pub const PERF_ATTR_SIZE_VER4: u32 = 104;
pub const PERF_ATTR_SIZE_VER5: u32 = 112;
pub const PERF_ATTR_SIZE_VER6: u32 = 120;
pub const PERF_ATTR_SIZE_VER7: u32 = 128;
pub const PERF_ATTR_SIZE_VER8: u32 = 136;
pub const PERF_ATTR_SIZE_VER9: u32 = 144;

// perf_event_header.misc
// Source: linux v7.2 include/uapi/linux/perf_event.h
pub const PERF_RECORD_MISC_CPUMODE_MASK: u16 = 0x7;
pub const PERF_RECORD_MISC_CPUMODE_UNKNOWN: u16 = 0x0;
pub const PERF_RECORD_MISC_KERNEL: u16 = 0x1;
pub const PERF_RECORD_MISC_USER: u16 = 0x2;
pub const PERF_RECORD_MISC_HYPERVISOR: u16 = 0x3;
pub const PERF_RECORD_MISC_GUEST_KERNEL: u16 = 0x4;
pub const PERF_RECORD_MISC_GUEST_USER: u16 = 0x5;
pub const PERF_RECORD_MISC_PROC_MAP_PARSE_TIMEOUT: u16 = 0x1000;
pub const PERF_RECORD_MISC_MMAP_DATA: u16 = 0x2000;
pub const PERF_RECORD_MISC_COMM_EXEC: u16 = 0x2000;
pub const PERF_RECORD_MISC_FORK_EXEC: u16 = 0x2000;
pub const PERF_RECORD_MISC_SWITCH_OUT: u16 = 0x2000;
pub const PERF_RECORD_MISC_EXACT_IP: u16 = 0x4000;
pub const PERF_RECORD_MISC_SWITCH_OUT_PREEMPT: u16 = 0x4000;
pub const PERF_RECORD_MISC_MMAP_BUILD_ID: u16 = 0x4000;
pub const PERF_RECORD_MISC_EXT_RESERVED: u16 = 0x8000;

// Record types written by the kernel
// Source: linux v7.2 include/uapi/linux/perf_event.h, enum perf_event_type
pub const PERF_RECORD_MMAP: u32 = 1;
pub const PERF_RECORD_LOST: u32 = 2;
pub const PERF_RECORD_COMM: u32 = 3;
pub const PERF_RECORD_EXIT: u32 = 4;
pub const PERF_RECORD_THROTTLE: u32 = 5;
pub const PERF_RECORD_UNTHROTTLE: u32 = 6;
pub const PERF_RECORD_FORK: u32 = 7;
pub const PERF_RECORD_READ: u32 = 8;
pub const PERF_RECORD_SAMPLE: u32 = 9;
pub const PERF_RECORD_MMAP2: u32 = 10;
pub const PERF_RECORD_AUX: u32 = 11;
pub const PERF_RECORD_ITRACE_START: u32 = 12;
pub const PERF_RECORD_LOST_SAMPLES: u32 = 13;
pub const PERF_RECORD_SWITCH: u32 = 14;
pub const PERF_RECORD_SWITCH_CPU_WIDE: u32 = 15;
pub const PERF_RECORD_NAMESPACES: u32 = 16;
pub const PERF_RECORD_KSYMBOL: u32 = 17;
pub const PERF_RECORD_BPF_EVENT: u32 = 18;
pub const PERF_RECORD_CGROUP: u32 = 19;
pub const PERF_RECORD_TEXT_POKE: u32 = 20;
pub const PERF_RECORD_AUX_OUTPUT_HW_ID: u32 = 21;
pub const PERF_RECORD_CALLCHAIN_DEFERRED: u32 = 22;

// Record types written by perf's user space
// Source: linux v7.2 tools/lib/perf/include/perf/event.h, enum perf_user_event_type
pub const PERF_RECORD_HEADER_ATTR: u32 = 64;
pub const PERF_RECORD_HEADER_EVENT_TYPE: u32 = 65;
pub const PERF_RECORD_HEADER_TRACING_DATA: u32 = 66;
pub const PERF_RECORD_HEADER_BUILD_ID: u32 = 67;
pub const PERF_RECORD_FINISHED_ROUND: u32 = 68;
pub const PERF_RECORD_ID_INDEX: u32 = 69;
pub const PERF_RECORD_AUXTRACE_INFO: u32 = 70;
pub const PERF_RECORD_AUXTRACE: u32 = 71;
pub const PERF_RECORD_AUXTRACE_ERROR: u32 = 72;
pub const PERF_RECORD_THREAD_MAP: u32 = 73;
pub const PERF_RECORD_CPU_MAP: u32 = 74;
pub const PERF_RECORD_STAT_CONFIG: u32 = 75;
pub const PERF_RECORD_STAT: u32 = 76;
pub const PERF_RECORD_STAT_ROUND: u32 = 77;
pub const PERF_RECORD_EVENT_UPDATE: u32 = 78;
pub const PERF_RECORD_TIME_CONV: u32 = 79;
pub const PERF_RECORD_HEADER_FEATURE: u32 = 80;
pub const PERF_RECORD_COMPRESSED: u32 = 81;
pub const PERF_RECORD_FINISHED_INIT: u32 = 82;
pub const PERF_RECORD_COMPRESSED2: u32 = 83;
pub const PERF_RECORD_BPF_METADATA: u32 = 84;

// Call chain context markers
// Source: linux v7.2 include/uapi/linux/perf_event.h, enum perf_callchain_context
pub const PERF_CONTEXT_HV: u64 = 0xffff_ffff_ffff_ffe0;
pub const PERF_CONTEXT_KERNEL: u64 = 0xffff_ffff_ffff_ff80;
pub const PERF_CONTEXT_USER: u64 = 0xffff_ffff_ffff_fe00;
pub const PERF_CONTEXT_USER_DEFERRED: u64 = 0xffff_ffff_ffff_fd80;
pub const PERF_CONTEXT_GUEST: u64 = 0xffff_ffff_ffff_f800;
pub const PERF_CONTEXT_GUEST_KERNEL: u64 = 0xffff_ffff_ffff_f780;
pub const PERF_CONTEXT_GUEST_USER: u64 = 0xffff_ffff_ffff_f600;
pub const PERF_CONTEXT_MAX: u64 = 0xffff_ffff_ffff_f001;

// PERF_RECORD_KSYMBOL
// Source: same file
pub const PERF_RECORD_KSYMBOL_TYPE_UNKNOWN: u16 = 0;
pub const PERF_RECORD_KSYMBOL_TYPE_BPF: u16 = 1;
pub const PERF_RECORD_KSYMBOL_TYPE_OOL: u16 = 2;
pub const PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER: u16 = 1;

// PERF_RECORD_BPF_EVENT
// Source: linux v7.2 include/uapi/linux/perf_event.h, enum perf_bpf_event_type
pub const PERF_BPF_EVENT_UNKNOWN: u16 = 0;
pub const PERF_BPF_EVENT_PROG_LOAD: u16 = 1;
pub const PERF_BPF_EVENT_PROG_UNLOAD: u16 = 2;

// PERF_RECORD_AUX flags
// Source: linux v7.2 include/uapi/linux/perf_event.h
pub const PERF_AUX_FLAG_TRUNCATED: u64 = 0x1;
pub const PERF_AUX_FLAG_OVERWRITE: u64 = 0x2;
pub const PERF_AUX_FLAG_PARTIAL: u64 = 0x4;
pub const PERF_AUX_FLAG_COLLISION: u64 = 0x8;
pub const PERF_AUX_FLAG_PMU_FORMAT_TYPE_MASK: u64 = 0xff00;
pub const PERF_AUX_FLAG_CORESIGHT_FORMAT_CORESIGHT: u64 = 0x0;
pub const PERF_AUX_FLAG_CORESIGHT_FORMAT_RAW: u64 = 0x100;

// Branch types
// Source: linux v7.2 include/uapi/linux/perf_event.h
pub const PERF_BR_UNKNOWN: u8 = 0;
pub const PERF_BR_COND: u8 = 1;
pub const PERF_BR_UNCOND: u8 = 2;
pub const PERF_BR_IND: u8 = 3;
pub const PERF_BR_CALL: u8 = 4;
pub const PERF_BR_IND_CALL: u8 = 5;
pub const PERF_BR_RET: u8 = 6;
pub const PERF_BR_SYSCALL: u8 = 7;
pub const PERF_BR_SYSRET: u8 = 8;
pub const PERF_BR_COND_CALL: u8 = 9;
pub const PERF_BR_COND_RET: u8 = 10;
pub const PERF_BR_ERET: u8 = 11;
pub const PERF_BR_IRQ: u8 = 12;
pub const PERF_BR_SERROR: u8 = 13;
pub const PERF_BR_NO_TX: u8 = 14;
pub const PERF_BR_EXTEND_ABI: u8 = 15;
pub const PERF_BR_SPEC_NA: u8 = 0;
pub const PERF_BR_SPEC_WRONG_PATH: u8 = 1;
pub const PERF_BR_NON_SPEC_CORRECT_PATH: u8 = 2;
pub const PERF_BR_SPEC_CORRECT_PATH: u8 = 3;
pub const PERF_BR_NEW_FAULT_ALGN: u8 = 0;
pub const PERF_BR_NEW_FAULT_DATA: u8 = 1;
pub const PERF_BR_NEW_FAULT_INST: u8 = 2;
pub const PERF_BR_NEW_ARCH_1: u8 = 3;
pub const PERF_BR_NEW_ARCH_2: u8 = 4;
pub const PERF_BR_NEW_ARCH_3: u8 = 5;
pub const PERF_BR_NEW_ARCH_4: u8 = 6;
pub const PERF_BR_NEW_ARCH_5: u8 = 7;
pub const PERF_BR_PRIV_UNKNOWN: u8 = 0;
pub const PERF_BR_PRIV_USER: u8 = 1;
pub const PERF_BR_PRIV_KERNEL: u8 = 2;
pub const PERF_BR_PRIV_HV: u8 = 3;

// PERF_SAMPLE_TRANSACTION
// Source: linux v7.2 include/uapi/linux/perf_event.h
pub const PERF_TXN_ELISION: u64 = 0x1;
pub const PERF_TXN_TRANSACTION: u64 = 0x2;
pub const PERF_TXN_SYNC: u64 = 0x4;
pub const PERF_TXN_ASYNC: u64 = 0x8;
pub const PERF_TXN_RETRY: u64 = 0x10;
pub const PERF_TXN_CONFLICT: u64 = 0x20;
pub const PERF_TXN_CAPACITY_WRITE: u64 = 0x40;
pub const PERF_TXN_CAPACITY_READ: u64 = 0x80;
pub const PERF_TXN_ABORT_MASK: u64 = 0xffff_ffff_0000_0000;
pub const PERF_TXN_ABORT_SHIFT: u64 = 0x20;

// PERF_SAMPLE_DATA_SRC fields (perf_mem_data_src)
// Source: linux v7.2 include/uapi/linux/perf_event.h
pub const PERF_MEM_OP_NA: u64 = 0x1;
pub const PERF_MEM_OP_LOAD: u64 = 0x2;
pub const PERF_MEM_OP_STORE: u64 = 0x4;
pub const PERF_MEM_OP_PFETCH: u64 = 0x8;
pub const PERF_MEM_OP_EXEC: u64 = 0x10;
pub const PERF_MEM_OP_SHIFT: u64 = 0x0;
pub const PERF_MEM_LVL_NA: u64 = 0x1;
pub const PERF_MEM_LVL_HIT: u64 = 0x2;
pub const PERF_MEM_LVL_MISS: u64 = 0x4;
pub const PERF_MEM_LVL_L1: u64 = 0x8;
pub const PERF_MEM_LVL_LFB: u64 = 0x10;
pub const PERF_MEM_LVL_L2: u64 = 0x20;
pub const PERF_MEM_LVL_L3: u64 = 0x40;
pub const PERF_MEM_LVL_LOC_RAM: u64 = 0x80;
pub const PERF_MEM_LVL_REM_RAM1: u64 = 0x100;
pub const PERF_MEM_LVL_REM_RAM2: u64 = 0x200;
pub const PERF_MEM_LVL_REM_CCE1: u64 = 0x400;
pub const PERF_MEM_LVL_REM_CCE2: u64 = 0x800;
pub const PERF_MEM_LVL_IO: u64 = 0x1000;
pub const PERF_MEM_LVL_UNC: u64 = 0x2000;
pub const PERF_MEM_LVL_SHIFT: u64 = 0x5;
pub const PERF_MEM_REMOTE_REMOTE: u64 = 0x1;
pub const PERF_MEM_REMOTE_SHIFT: u64 = 0x25;
pub const PERF_MEM_LVLNUM_L1: u64 = 0x1;
pub const PERF_MEM_LVLNUM_L2: u64 = 0x2;
pub const PERF_MEM_LVLNUM_L3: u64 = 0x3;
pub const PERF_MEM_LVLNUM_L4: u64 = 0x4;
pub const PERF_MEM_LVLNUM_L2_MHB: u64 = 0x5;
pub const PERF_MEM_LVLNUM_MSC: u64 = 0x6;
pub const PERF_MEM_LVLNUM_L0: u64 = 0x7;
pub const PERF_MEM_LVLNUM_UNC: u64 = 0x8;
pub const PERF_MEM_LVLNUM_CXL: u64 = 0x9;
pub const PERF_MEM_LVLNUM_IO: u64 = 0xa;
pub const PERF_MEM_LVLNUM_ANY_CACHE: u64 = 0xb;
pub const PERF_MEM_LVLNUM_LFB: u64 = 0xc;
pub const PERF_MEM_LVLNUM_RAM: u64 = 0xd;
pub const PERF_MEM_LVLNUM_PMEM: u64 = 0xe;
pub const PERF_MEM_LVLNUM_NA: u64 = 0xf;
pub const PERF_MEM_LVLNUM_SHIFT: u64 = 0x21;
pub const PERF_MEM_SNOOP_NA: u64 = 0x1;
pub const PERF_MEM_SNOOP_NONE: u64 = 0x2;
pub const PERF_MEM_SNOOP_HIT: u64 = 0x4;
pub const PERF_MEM_SNOOP_MISS: u64 = 0x8;
pub const PERF_MEM_SNOOP_HITM: u64 = 0x10;
pub const PERF_MEM_SNOOP_SHIFT: u64 = 0x13;
pub const PERF_MEM_SNOOPX_FWD: u64 = 0x1;
pub const PERF_MEM_SNOOPX_PEER: u64 = 0x2;
pub const PERF_MEM_SNOOPX_SHIFT: u64 = 0x26;
pub const PERF_MEM_LOCK_NA: u64 = 0x1;
pub const PERF_MEM_LOCK_LOCKED: u64 = 0x2;
pub const PERF_MEM_LOCK_SHIFT: u64 = 0x18;
pub const PERF_MEM_TLB_NA: u64 = 0x1;
pub const PERF_MEM_TLB_HIT: u64 = 0x2;
pub const PERF_MEM_TLB_MISS: u64 = 0x4;
pub const PERF_MEM_TLB_L1: u64 = 0x8;
pub const PERF_MEM_TLB_L2: u64 = 0x10;
pub const PERF_MEM_TLB_WK: u64 = 0x20;
pub const PERF_MEM_TLB_OS: u64 = 0x40;
pub const PERF_MEM_TLB_SHIFT: u64 = 0x1a;
pub const PERF_MEM_BLK_NA: u64 = 0x1;
pub const PERF_MEM_BLK_DATA: u64 = 0x2;
pub const PERF_MEM_BLK_ADDR: u64 = 0x4;
pub const PERF_MEM_BLK_SHIFT: u64 = 0x28;
pub const PERF_MEM_HOPS_0: u64 = 0x1;
pub const PERF_MEM_HOPS_1: u64 = 0x2;
pub const PERF_MEM_HOPS_2: u64 = 0x3;
pub const PERF_MEM_HOPS_3: u64 = 0x4;
pub const PERF_MEM_HOPS_SHIFT: u64 = 0x2b;
pub const PERF_MEM_REGION_NA: u64 = 0x0;
pub const PERF_MEM_REGION_RSVD: u64 = 0x1;
pub const PERF_MEM_REGION_L_SHARE: u64 = 0x2;
pub const PERF_MEM_REGION_L_NON_SHARE: u64 = 0x3;
pub const PERF_MEM_REGION_O_IO: u64 = 0x4;
pub const PERF_MEM_REGION_O_SHARE: u64 = 0x5;
pub const PERF_MEM_REGION_O_NON_SHARE: u64 = 0x6;
pub const PERF_MEM_REGION_MMIO: u64 = 0x7;
pub const PERF_MEM_REGION_MEM0: u64 = 0x8;
pub const PERF_MEM_REGION_MEM1: u64 = 0x9;
pub const PERF_MEM_REGION_MEM2: u64 = 0xa;
pub const PERF_MEM_REGION_MEM3: u64 = 0xb;
pub const PERF_MEM_REGION_MEM4: u64 = 0xc;
pub const PERF_MEM_REGION_MEM5: u64 = 0xd;
pub const PERF_MEM_REGION_MEM6: u64 = 0xe;
pub const PERF_MEM_REGION_MEM7: u64 = 0xf;
pub const PERF_MEM_REGION_SHIFT: u64 = 0x2e;

// Header features
// Source: linux v7.2 tools/perf/util/header.h
pub const HEADER_TRACING_DATA: u32 = 1;
pub const HEADER_BUILD_ID: u32 = 2;
pub const HEADER_HOSTNAME: u32 = 3;
pub const HEADER_OSRELEASE: u32 = 4;
pub const HEADER_VERSION: u32 = 5;
pub const HEADER_ARCH: u32 = 6;
pub const HEADER_NRCPUS: u32 = 7;
pub const HEADER_CPUDESC: u32 = 8;
pub const HEADER_CPUID: u32 = 9;
pub const HEADER_TOTAL_MEM: u32 = 10;
pub const HEADER_CMDLINE: u32 = 11;
pub const HEADER_EVENT_DESC: u32 = 12;
pub const HEADER_CPU_TOPOLOGY: u32 = 13;
pub const HEADER_NUMA_TOPOLOGY: u32 = 14;
pub const HEADER_BRANCH_STACK: u32 = 15;
pub const HEADER_PMU_MAPPINGS: u32 = 16;
pub const HEADER_GROUP_DESC: u32 = 17;
pub const HEADER_AUXTRACE: u32 = 18;
pub const HEADER_STAT: u32 = 19;
pub const HEADER_CACHE: u32 = 20;
pub const HEADER_SAMPLE_TIME: u32 = 21;
pub const HEADER_MEM_TOPOLOGY: u32 = 22;
pub const HEADER_CLOCKID: u32 = 23;
pub const HEADER_DIR_FORMAT: u32 = 24;
pub const HEADER_BPF_PROG_INFO: u32 = 25;
pub const HEADER_BPF_BTF: u32 = 26;
pub const HEADER_COMPRESSED: u32 = 27;
pub const HEADER_CPU_PMU_CAPS: u32 = 28;
pub const HEADER_CLOCK_DATA: u32 = 29;
pub const HEADER_HYBRID_TOPOLOGY: u32 = 30;
pub const HEADER_PMU_CAPS: u32 = 31;
