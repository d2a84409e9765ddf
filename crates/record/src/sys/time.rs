//! Clocks, read as nanoseconds.

/// A clock of the kernel; the numbers are those of `attr.clockid`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// `CLOCK_MONOTONIC`: what records are stamped with by default.
    Monotonic,
    /// `CLOCK_MONOTONIC_RAW`.
    MonotonicRaw,
    /// `CLOCK_REALTIME`.
    Realtime,
    /// `CLOCK_BOOTTIME`.
    Boottime,
    /// `CLOCK_TAI`.
    Tai,
}

impl Clock {
    /// The number in `clock_gettime` and in `attr.clockid`.
    #[must_use]
    pub fn id(self) -> i32 {
        match self {
            Self::Monotonic => libc::CLOCK_MONOTONIC,
            Self::MonotonicRaw => libc::CLOCK_MONOTONIC_RAW,
            Self::Realtime => libc::CLOCK_REALTIME,
            Self::Boottime => libc::CLOCK_BOOTTIME,
            Self::Tai => libc::CLOCK_TAI,
        }
    }

    /// Now, in ns of this clock.
    #[must_use]
    pub fn now_ns(self) -> u64 {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the pointer is to a live timespec; the clock ids above exist on every Linux since 3.10.
        unsafe { libc::clock_gettime(self.id(), &mut time) };
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }
}

/// The time stamp counter with `CLOCK_MONOTONIC` in ns at the same moment (within the time that two readings take);
/// `None` where user space has no counter.
#[must_use]
pub fn ticks_and_ns() -> Option<(u64, u64)> {
    #[cfg(target_arch = "x86_64")]
    {
        const TRIES: u32 = 8;
        // SAFETY: readable from user space on every Linux that sets no PR_TSC_SIGSEGV.
        let ticks = || unsafe { core::arch::x86_64::_rdtsc() };
        let tries = (0..TRIES).map(|_| {
            let (before, ns, after) = (ticks(), Clock::Monotonic.now_ns(), ticks());
            (after.wrapping_sub(before), before.wrapping_add(after.wrapping_sub(before) / 2), ns)
        });
        // The quickest reading was not interrupted.
        tries.min().map(|(_, ticks, ns)| (ticks, ns))
    }
    #[cfg(not(target_arch = "x86_64"))]
    None
}
