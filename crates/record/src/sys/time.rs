//! Clocks, read as nanoseconds.

/// A clock of the kernel; the numbers are those of `attr.clockid`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Clock {
    /// `CLOCK_MONOTONIC`: what records are stamped with by default.
    #[default]
    Monotonic,
    /// `CLOCK_MONOTONIC_RAW`.
    MonotonicRaw,
    /// `CLOCK_REALTIME`.
    Realtime,
    /// `CLOCK_BOOTTIME`.
    Boottime,
    /// `CLOCK_TAI`.
    Tai,
    /// The kernel's own clock, the only one that can be computed from time stamps of the processor. It can't be read
    /// from here; it is near `CLOCK_MONOTONIC` (both begin at boot, that one is slewed).
    Perf,
}

impl Clock {
    /// The number in `clock_gettime` and, but for [`Clock::Perf`], in `attr.clockid`.
    #[must_use]
    pub fn id(self) -> i32 {
        match self {
            Self::Monotonic | Self::Perf => libc::CLOCK_MONOTONIC,
            Self::MonotonicRaw => libc::CLOCK_MONOTONIC_RAW,
            Self::Realtime => libc::CLOCK_REALTIME,
            Self::Boottime => libc::CLOCK_BOOTTIME,
            Self::Tai => libc::CLOCK_TAI,
        }
    }

    /// Now, in ns of this clock.
    #[must_use]
    pub fn now_ns(self) -> u64 {
        now_ns(self.id())
    }
}

/// How long the machine was suspended since it was booted, ns, within the time that two readings take.
#[must_use]
pub fn suspended_ns() -> u64 {
    let awake_ns = Clock::Monotonic.now_ns();
    Clock::Boottime.now_ns().saturating_sub(awake_ns)
}

/// CPU time of the calling thread so far, ns.
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    now_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// `CLOCK_MONOTONIC` as of the kernel's last tick, at most some milliseconds ago, ns: for moments of every record.
#[must_use]
pub fn coarse_ns() -> u64 {
    now_ns(libc::CLOCK_MONOTONIC_COARSE)
}

fn now_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec; the clocks asked for exist on every Linux since 3.10.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The time stamp counter, on aarch64 the generic timer's, with `CLOCK_MONOTONIC` in ns at the same moment (within the
/// time that two readings take); `None` where user space has no counter.
#[must_use]
pub fn ticks_and_ns() -> Option<(u64, u64)> {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    {
        const TRIES: u32 = 8;
        let tries = (0..TRIES).map(|_| {
            let (before, ns, after) = (ticks(), Clock::Monotonic.now_ns(), ticks());
            (after.wrapping_sub(before), before.wrapping_add(after.wrapping_sub(before) / 2), ns)
        });
        // The quickest reading was not interrupted.
        tries.min().map(|(_, ticks, ns)| (ticks, ns))
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    None
}

#[cfg(target_arch = "x86_64")]
fn ticks() -> u64 {
    // SAFETY: readable from user space on every Linux that sets no PR_TSC_SIGSEGV.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "aarch64")]
fn ticks() -> u64 {
    let ticks: u64;
    // SAFETY: Linux lets user space read the generic timer.
    unsafe { core::arch::asm!("mrs {0}, cntvct_el0", out(reg) ticks, options(nostack, nomem)) };
    ticks
}

/// TSC ticks for each tick of the crystal clock, as a fraction (CPUID 15H: EBX, EAX); zeros where the CPU doesn't
/// report it.
#[must_use]
pub fn tsc_per_crystal() -> (u32, u32) {
    #[cfg(target_arch = "x86_64")]
    {
        const LEAF: u32 = 0x15;
        let cpuid = |leaf| {
            // SAFETY: every processor of this architecture has the instruction. Newer compilers know that.
            #[allow(unused_unsafe)]
            unsafe {
                core::arch::x86_64::__cpuid(leaf)
            }
        };
        let (highest, leaf) = (cpuid(0).eax, cpuid(LEAF));
        if highest >= LEAF { (leaf.ebx, leaf.eax) } else { (0, 0) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    (0, 0)
}
