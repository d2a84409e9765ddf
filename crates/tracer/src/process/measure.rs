//! Measures the cost of a traced call on this machine: a tree of calls, with and without the hooks, which write
//! to the same kind of file as for the program (x86-64).
//!
//! Asked for by `layout::MEASURE_VARIABLE`; the process, which is one of tally's own, ends then. Half of the
//! calls make two others, the rest none. The result is CPU time of the thread, so it includes the kernel's
//! share in growing the file.

use core::arch::global_asm;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::instrumented_fn::Site;
use crate::layout::values::{FROM_GENERAL, HEAD_BYTES, HOW_PLAIN, ITEM_BYTES, ValueItem};
use crate::layout::{self, sleds};
use crate::{entry, sys};

/// One item of an argument and none of a result.
const SPEC_BYTES: usize = HEAD_BYTES + ITEM_BYTES;

/// A function that calls itself twice, to as many levels as its argument. `$first` is placed before its
/// prologue, `$enter` after it, `$leave` before its end.
macro_rules! measured {
    ($name:literal, $first:expr, $enter:expr, $leave:expr) => {
        concat!(
            ".text\n.p2align 4\n.hidden ",
            $name,
            "\n.globl ",
            $name,
            "\n",
            $name,
            ":\n",
            $first,
            "push rbp\nmov rbp, rsp\npush rbx\npush rdi\n",
            $enter,
            "mov rbx, [rsp]\n",
            "sub rbx, 1\n",
            "jc 4f\n",
            "mov rdi, rbx\n",
            "call ",
            $name,
            "\n",
            "mov rdi, rbx\n",
            "call ",
            $name,
            "\n",
            "4:\n",
            $leave,
            "pop rdi\npop rbx\npop rbp\nret\n",
        )
    };
}

macro_rules! report {
    ($name:literal, $to:literal) => {
        concat!("lea rdi, [rip + ", $name, "]\nmov rsi, [rbp + 8]\ncall ", $to, "@PLT\n")
    };
}

global_asm!(
    measured!("tally_measured_plain", "", "", ""),
    measured!("tally_measured_called", "", "call mcount@PLT\n", ""),
    measured!("tally_measured_sled", "lea r11, [rip + 3f]\njmp tally_sled\n3:\n", "", ""),
    measured!(
        "tally_measured_reported",
        "",
        report!("tally_measured_reported", "__cyg_profile_func_enter"),
        report!("tally_measured_reported", "__cyg_profile_func_exit")
    ),
    measured!(
        "tally_measured_values",
        "mov r11, [rip + {site}]\njmp tally_site\n.hidden tally_measured_body\n.globl tally_measured_body\n\
        tally_measured_body:\n",
        "",
        ""
    ),
    site = sym SITE,
);

type Measured = unsafe extern "C" fn(u64);

unsafe extern "C" {
    fn tally_measured_plain(levels: u64);
    fn tally_measured_called(levels: u64);
    fn tally_measured_sled(levels: u64);
    fn tally_measured_reported(levels: u64);
    fn tally_measured_values(levels: u64);
    fn tally_measured_body();
}

/// The [`Site`] of `tally_measured_values`.
static SITE: AtomicUsize = AtomicUsize::new(0);

/// Measures the ways whose letters are in `ways`, prints a line for each on standard output (format:
/// `layout::MEASURE_VARIABLE`), and ends the process.
pub fn run(ways: &[u8]) -> ! {
    let plain = Times::of(tally_measured_plain).least(Times::of(tally_measured_plain));
    for way in ways {
        let function: Measured = match *way {
            layout::MEASURE_CALLED => tally_measured_called,
            layout::MEASURE_SLED => tally_measured_sled,
            layout::MEASURE_REPORTED => tally_measured_reported,
            layout::MEASURE_VALUES => tally_measured_values,
            _ => continue,
        };
        tell(*way, function, plain);
    }
    sys::exit_group(0)
}

fn tell(way: u8, function: Measured, plain: Times) {
    const WARM_LEVELS: u64 = 6;
    let spec = spec();
    let site = Site {
        target: tally_measured_body as *const () as u64,
        addr: tally_measured_body as *const () as u64,
        spec: spec.as_ptr(),
        spec_bytes: spec.len(),
        rules: sleds::VALUES,
        depth: u32::MAX,
        min_ticks: 0,
    };
    SITE.store(&raw const site as usize, Ordering::Relaxed);
    // SAFETY: the functions above, which keep to the calling convention.
    unsafe { function(WARM_LEVELS) };
    let times = Times::of(function);
    let before = offset();
    tree(function);
    if !is_recording() {
        // A call that is only counted costs something else.
        return;
    }
    let bytes = (offset() - before) * 1000 / CALLS;
    let mut line = sys::Text::<96>::new();
    line.push(&[way, b' ']).number(times.leaf_ps.saturating_sub(plain.leaf_ps)).push(b" ");
    line.number(times.tree_ps.saturating_sub(plain.tree_ps)).push(b" ").number(bytes).push(b"\n");
    sys::write(1, line.bytes());
}

/// Where this thread's next event goes.
fn offset() -> u64 {
    // SAFETY: this thread's own state; nothing else runs in this process.
    let thread = unsafe { &*entry::thread() };
    if thread.is_live() { thread.offset() } else { 0 }
}

/// Whether all that was measured was recorded: there was space for it.
fn is_recording() -> bool {
    // SAFETY: as above.
    let thread = unsafe { &*entry::thread() };
    thread.is_live() && thread.file.refusal == 0
}

/// One argument, the first, of 8 bytes.
fn spec() -> [u8; SPEC_BYTES] {
    let item = ValueItem { from: FROM_GENERAL, number: 0, how: HOW_PLAIN, bytes: 8, offset: 0 };
    let mut spec = [0; SPEC_BYTES];
    spec[0] = 1;
    spec[HEAD_BYTES..].copy_from_slice(&item.to_bytes());
    spec
}

const LEVELS: u64 = 12;
/// Calls of a tree.
const CALLS: u64 = (1 << (LEVELS + 1)) - 1;
const ROUNDS: u64 = 12;

/// CPU time of a call, ps.
#[derive(Clone, Copy)]
struct Times {
    /// A call that makes no other.
    leaf_ps: u64,
    /// A call in the tree.
    tree_ps: u64,
}

impl Times {
    fn of(function: Measured) -> Self {
        Self { leaf_ps: average(|| leaves(function)), tree_ps: average(|| tree(function)) }
    }

    fn least(self, other: Self) -> Self {
        Self { leaf_ps: self.leaf_ps.min(other.leaf_ps), tree_ps: self.tree_ps.min(other.tree_ps) }
    }
}

fn average(work: impl Fn()) -> u64 {
    let from_ns = sys::thread_cpu_ns();
    for _ in 0..ROUNDS {
        work();
    }
    (sys::thread_cpu_ns() - from_ns) * 1000 / (CALLS * ROUNDS)
}

fn tree(function: Measured) {
    // SAFETY: one of the functions above, which keep to the calling convention.
    unsafe { function(LEVELS) };
}

fn leaves(function: Measured) {
    for _ in 0..CALLS {
        // SAFETY: as above.
        unsafe { function(0) };
    }
}
