//! Callchains: one function turns what a sample carries into leaf-first addresses, each with its
//! mode and with the address to look it up by.
//!
//! ```text
//!   sample   ip, [KERNEL] k0 k1 [USER] u0 u1 …          k0, u0 exact; k1, u1 … return addresses
//!            or [KERNEL] k0 k1 + registers and stack    u0 … come from the unwinder, later
//!            or [KERNEL] k0 k1 + branches               u0 … come from the LBR's call stack
//! ```

mod glue;
pub mod precise;

use crate::machine::{LookupAddr, Mode};
use perfdata::appendix::goroutine_labels::set_at;
use perfdata::{ChainEntry, Context, CpuMode, Sample};

/// A step of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainStep {
    /// Owner of the code.
    pub mode: Mode,
    /// Where.
    pub addr: LookupAddr,
}

impl Mode {
    /// From a record's misc bits.
    #[must_use]
    pub fn of_cpu(mode: CpuMode) -> Self {
        match mode {
            CpuMode::Kernel => Self::Kernel,
            CpuMode::User => Self::User,
            CpuMode::GuestKernel => Self::GuestKernel,
            CpuMode::GuestUser => Self::GuestUser,
            CpuMode::Hypervisor | CpuMode::Unknown => Self::Hypervisor,
        }
    }

    fn of_context(context: Context) -> Option<Self> {
        Some(match context {
            Context::Kernel => Self::Kernel,
            Context::User => Self::User,
            Context::Hypervisor => Self::Hypervisor,
            Context::Guest | Context::GuestKernel => Self::GuestKernel,
            Context::GuestUser => Self::GuestUser,
            Context::UserDeferred | Context::Other(_) => return None,
        })
    }
}

/// Where the sampled address and the chain of a sample were taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeafOrigin {
    /// At one instruction: the steps are one call path.
    #[default]
    Chain,
    /// The address by the hardware at the event (PEBS, IBS, SPE), the chain by the interrupt some
    /// instructions later, or the chain by the LBR, which only knows where the last call went.
    /// The second step may be another address in the leaf's own function and not its caller.
    Precise,
}

/// Fills `steps` with the chain of `sample`, **leaf first**, as far as it is known without
/// unwinding. The first step is always the sampled address itself, if there is one.
pub fn steps_of(sample: &Sample<'_>, call_stack_lbr: bool, steps: &mut Vec<ChainStep>) -> LeafOrigin {
    steps.clear();
    // As perf: the LBR knows the user part only, and only of a sample that has one.
    let user_by_lbr = call_stack_lbr && has_user_marker(sample);
    push_recorded(sample, user_by_lbr, steps);
    if user_by_lbr {
        push_lbr(sample, steps);
    }
    let own = sample
        .ip
        .map(|ip| ChainStep { mode: Mode::of_cpu(sample.cpu_mode()), addr: LookupAddr::exact(ip.0) });
    let Some(own) = own else { return LeafOrigin::Chain };
    match steps.first().copied() {
        Some(first) if first.addr.avma == own.addr.avma => {
            steps[0] = own;
            LeafOrigin::Chain
        }
        first => {
            steps.insert(0, own);
            first.map_or(LeafOrigin::Chain, |first| leaf_origin(own.mode, first.mode))
        }
    }
}

/// Origin of a leaf whose address is not the chain's first. Kernel code above a chain of user code
/// is a call path all the same: it is what `exclude_callchain_kernel` leaves.
fn leaf_origin(leaf: Mode, first: Mode) -> LeafOrigin {
    match (leaf, first) {
        (Mode::User, Mode::User | Mode::Kernel) | (Mode::Kernel, Mode::Kernel) => LeafOrigin::Precise,
        _ => LeafOrigin::Chain,
    }
}

fn has_user_marker(sample: &Sample<'_>) -> bool {
    let marker = ChainEntry::Context(Context::User);
    sample.callchain.is_some_and(|chain| chain.iter().any(|entry| entry == marker))
}

/// The chain the kernel (or a live unwinder) wrote; without its user part when the LBR has that.
fn push_recorded(sample: &Sample<'_>, kernel_only: bool, steps: &mut Vec<ChainStep>) {
    let Some(chain) = sample.callchain else { return };
    let mut mode = Some(Mode::User); // perf's mode for addresses before any marker
    let mut exact = true;
    for entry in chain.iter() {
        match entry {
            ChainEntry::Context(Context::UserDeferred) => return, // followed by a cookie
            ChainEntry::Context(context) => {
                mode = Mode::of_context(context);
                exact = true;
            }
            ChainEntry::Address(addr) => {
                // The labels of a goroutine.
                if set_at(addr.0).is_some() {
                    continue;
                }
                if let Some(mode) = mode.filter(|&mode| !(kernel_only && mode == Mode::User)) {
                    let is_return = !std::mem::replace(&mut exact, false);
                    steps.push(ChainStep { mode, addr: LookupAddr { avma: addr.0, is_return } });
                }
            }
        }
    }
}

/// The user part as the hardware's call stack has it: where the newest call went, then the call
/// instructions outwards.
fn push_lbr(sample: &Sample<'_>, steps: &mut Vec<ChainStep>) {
    let Some(branches) = sample.branches else { return };
    let mut push = |avma: u64| steps.push(ChainStep { mode: Mode::User, addr: LookupAddr::exact(avma) });
    if let Some(newest) = branches.get(0) {
        push(newest.to.0);
    }
    for branch in branches.iter() {
        push(branch.from.0);
    }
}

/// Does the chain have a user part?
#[must_use]
pub fn has_user_part(steps: &[ChainStep]) -> bool {
    steps.iter().any(|step| matches!(step.mode, Mode::User))
}
