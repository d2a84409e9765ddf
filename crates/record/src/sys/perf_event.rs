//! `perf_event_open` and the ioctls of its descriptors.
//!
//! Knows no event names: a caller gives the bytes of a `perf_event_attr` (see `perfdata::Attr`).

use std::ffi::{CStr, c_int, c_ulong};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::perf_abi::{self, ioctl};
use super::seccomp::GuardedCall;

/// True if calls of `perf_event_open` get to the kernel: it refuses flags that do not exist before it asks for any
/// right, a seccomp filter does not look at them.
//
// Source: linux v6.18 kernel/events/core.c, SYSCALL_DEFINE5(perf_event_open): PERF_FLAG_ALL
#[must_use]
pub fn reaches_kernel() -> bool {
    if GuardedCall::PerfEvents.is_deadly() {
        return false;
    }
    // SAFETY: with such flags the kernel returns before it looks at the null pointer, which it would not follow.
    let answer =
        unsafe { libc::syscall(libc::SYS_perf_event_open, std::ptr::null::<u8>(), 0, -1, -1, c_ulong::MAX) };
    answer < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL)
}

/// On which CPU an event counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cpu {
    /// Wherever the task runs.
    Any,
    /// Only on this logical CPU.
    One(u32),
}

/// Tasks and CPUs that an event watches: the `pid, cpu, group_fd, flags` arguments of `perf_event_open`.
#[derive(Debug, Clone, Copy)]
pub struct CounterPlace<'a> {
    /// A task id; 0 is the caller; −1 is every task (then `cpu` must be one). With `cgroup`: ignored.
    pub tid: i32,
    /// Where.
    pub cpu: Cpu,
    /// The group's leader, if the event joins a group.
    pub leader: Option<&'a Counter>,
    /// Count only tasks of this cgroup (an opened directory of the perf_event or unified hierarchy).
    pub cgroup: Option<BorrowedFd<'a>>,
}

impl CounterPlace<'_> {
    /// One task, on all CPUs.
    #[must_use]
    pub fn task(tid: i32) -> Self {
        Self { tid, cpu: Cpu::Any, leader: None, cgroup: None }
    }

    /// One CPU, all tasks.
    #[must_use]
    pub fn cpu(cpu: u32) -> Self {
        Self { tid: -1, cpu: Cpu::One(cpu), leader: None, cgroup: None }
    }
}

/// One opened event; closing it (drop) ends it.
#[derive(Debug)]
pub struct Counter {
    fd: OwnedFd,
}

impl Counter {
    /// Opens the event described by `attr`, the bytes of a `perf_event_attr` of any published size.
    ///
    /// The descriptor is close-on-exec. Errors are the kernel's own (`EACCES`, `EINVAL`, `ENODEV`, `EMFILE` …),
    /// and `InvalidInput` if `attr` is too short to hold its own size field.
    pub fn open(attr: &[u8], place: CounterPlace<'_>) -> io::Result<Self> {
        if attr.len() < perf_abi::ATTR_BYTES_AT_LEAST {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "perf_event_attr shorter than 64 bytes"));
        }
        // A copy: on E2BIG the kernel writes the size it knows into the structure. Whole words, so that it is aligned.
        let mut words = vec![0u64; attr.len().div_ceil(8)];
        for (word, bytes) in words.iter_mut().zip(attr.chunks(8)) {
            let mut whole = [0u8; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_ne_bytes(whole);
        }
        let said = u32::from_ne_bytes([attr[4], attr[5], attr[6], attr[7]]);
        if said as usize > words.len() * 8 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "perf_event_attr.size is larger than its bytes",
            ));
        }
        let cpu = match place.cpu {
            Cpu::Any => -1,
            Cpu::One(n) => c_int::try_from(n).map_err(|_| io::ErrorKind::InvalidInput)?,
        };
        let (pid, cgroup_flag) = match place.cgroup {
            Some(dir) => (dir.as_raw_fd(), perf_abi::FLAG_CGROUP),
            None => (place.tid, 0),
        };
        let leader = place.leader.map_or(-1, |c| c.fd.as_raw_fd());
        let flags = perf_abi::FLAG_CLOSE_ON_EXEC | cgroup_flag;
        GuardedCall::PerfEvents.check()?;
        // SAFETY: `words` is a live, writable, 8-aligned buffer of at least `attr.size` bytes (checked above), which
        // is what the kernel reads and may write.
        let fd =
            unsafe { libc::syscall(libc::SYS_perf_event_open, words.as_mut_ptr(), pid, cpu, leader, flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call succeeded, so `fd` is a fresh descriptor that nobody else owns.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd as c_int) } })
    }

    /// A request whose argument is a number: a flag, or a descriptor.
    fn ask(&self, request: u32, value: c_ulong) -> io::Result<()> {
        // SAFETY: the descriptor is an open perf event for as long as `self` lives; the kernel follows no pointer.
        check(unsafe { libc::ioctl(self.fd.as_raw_fd(), request as _, value) })
    }

    /// Starts counting, also in the children that inherited the event.
    pub fn enable(&self) -> io::Result<()> {
        self.ask(ioctl::ENABLE, 0)
    }

    /// Stops counting, also in the children that inherited the event.
    pub fn disable(&self) -> io::Result<()> {
        self.ask(ioctl::DISABLE, 0)
    }

    /// Sets the count to zero.
    pub fn reset(&self) -> io::Result<()> {
        self.ask(ioctl::RESET, 0)
    }

    /// Changes the sampling period (or the frequency, if `attr.freq` is set).
    pub fn set_period(&self, period: u64) -> io::Result<()> {
        // SAFETY: the kernel reads eight bytes from the pointer, which is a live u64.
        check(unsafe { libc::ioctl(self.fd.as_raw_fd(), ioctl::PERIOD as _, &raw const period) })
    }

    /// Lets this event write its records into `other`'s ring, which must be mapped and on the same CPU.
    pub fn set_output(&self, other: &Counter) -> io::Result<()> {
        self.ask(ioctl::SET_OUTPUT, other.fd.as_raw_fd() as c_ulong)
    }

    /// Stops (`true`) or goes on (`false`) writing into the ring: for reading a ring that is overwritten.
    pub fn pause_output(&self, paused: bool) -> io::Result<()> {
        self.ask(ioctl::PAUSE_OUTPUT, c_ulong::from(paused))
    }

    /// The kernel's number of this event, as samples carry it in their ID field.
    pub fn id(&self) -> io::Result<u64> {
        let mut id = 0u64;
        // SAFETY: the kernel writes eight bytes to the pointer, which is a live u64.
        check(unsafe { libc::ioctl(self.fd.as_raw_fd(), ioctl::ID as _, &raw mut id) })?;
        Ok(id)
    }

    /// Sets a tracepoint filter ("prev_pid == 7") or an address filter of a PMU that has them.
    pub fn set_filter(&self, filter: &CStr) -> io::Result<()> {
        // SAFETY: the kernel reads a NUL-terminated string, which a CStr is.
        check(unsafe { libc::ioctl(self.fd.as_raw_fd(), ioctl::SET_FILTER as _, filter.as_ptr()) })
    }

    /// Runs this BPF program at each hit of the event.
    pub fn set_bpf(&self, program: BorrowedFd<'_>) -> io::Result<()> {
        self.ask(ioctl::SET_BPF, program.as_raw_fd() as c_ulong)
    }

    /// Reads the count; the layout is that of `attr.read_format`, in u64 words. Returns the words filled.
    pub fn read(&self, words: &mut [u64]) -> io::Result<usize> {
        // SAFETY: the buffer is live and writable for exactly the length given, and any bytes make a valid u64.
        let n = unsafe { libc::read(self.fd.as_raw_fd(), words.as_mut_ptr().cast(), size_of_val(words)) };
        if n < 0 { Err(io::Error::last_os_error()) } else { Ok(n as usize / 8) }
    }
}

impl AsFd for Counter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The kernel's −1 as an error.
fn check(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A task-clock counter of ourselves, as the 64 bytes of the first published `perf_event_attr`.
    fn task_clock() -> Vec<u8> {
        let mut attr = vec![0u8; 64];
        attr[0] = 1; // PERF_TYPE_SOFTWARE
        attr[4] = 64; // size
        attr[8] = 1; // PERF_COUNT_SW_TASK_CLOCK
        attr[40] = 1 << 5; // exclude_kernel, for perf_event_paranoid = 2
        attr
    }

    #[test]
    #[ignore = "live: records on this machine"]
    fn a_counter_counts_and_has_an_id() {
        let counter = match Counter::open(&task_clock(), CounterPlace::task(0)) {
            Ok(c) => c,
            Err(e) => return eprintln!("skipped: perf_event_open: {e}"),
        };
        std::hint::black_box((0..100_000u64).fold(0, |a, b| a ^ b.wrapping_mul(a | 1)));
        let mut words = [0u64; 1];
        assert_eq!(counter.read(&mut words).expect("readable"), 1);
        assert!(words[0] > 0);
        assert!(counter.id().expect("has an id") > 0);
        counter.set_period(1_000_000).expect_err("a counting event has no period to change");
    }

    #[test]
    fn a_short_attr_is_refused_before_the_kernel_sees_it() {
        let error = Counter::open(&[0; 8], CounterPlace::task(0)).expect_err("too short");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}
