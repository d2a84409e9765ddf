//! The kernel's form of a filter of system calls, as far as it shows whether the filter can end a program.
//
// Layout: struct sock_fprog { u16 len; struct sock_filter *filter; },
//         struct sock_filter { u16 code; u8 jt, jf; u32 k; }.
// Source: linux include/uapi/linux/filter.h; include/uapi/linux/seccomp.h (SECCOMP_RET_*).

/// Bytes of a step.
pub const STEP_BYTES: u64 = 8;

/// A filter: where its steps are in the program's memory, and how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterProgram {
    /// Number of steps.
    pub count: u64,
    /// Address of the first.
    pub steps: u64,
}

impl FilterProgram {
    /// From the structure that `prctl` and `seccomp` take.
    #[must_use]
    pub const fn parse(bytes: &[u8; 16]) -> Self {
        let [low, high, _, _, _, _, _, _, at @ ..] = *bytes;
        Self { count: u16::from_ne_bytes([low, high]) as u64, steps: u64::from_ne_bytes(at) }
    }
}

/// True if a step can end the program or send it a signal: it returns such an action, or one that it computes.
#[must_use]
pub const fn is_deadly(step: &[u8; 8]) -> bool {
    const RETURN_NUMBER: u16 = 0x06;
    const RETURN_REGISTER: u16 = 0x16;
    const KILL_PROCESS: u32 = 0x8000_0000;
    const KILL_THREAD: u32 = 0;
    const TRAP: u32 = 0x0003_0000;
    let [a, b, _, _, k @ ..] = *step;
    let action = u32::from_ne_bytes(k) & 0xffff_0000;
    match u16::from_ne_bytes([a, b]) {
        RETURN_REGISTER => true,
        RETURN_NUMBER => matches!(action, KILL_PROCESS | KILL_THREAD | TRAP),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(code: u16, k: u32) -> [u8; 8] {
        let [a, b] = code.to_ne_bytes();
        let [c, d, e, f] = k.to_ne_bytes();
        [a, b, 1, 2, c, d, e, f]
    }

    #[test]
    fn only_returns_that_kill_or_trap_are_deadly() {
        for (k, deadly) in
            [(0x8000_0000, true), (0, true), (0x0003_0001, true), (0x7fff_0000, false), (0x0005_0001, false)]
        {
            assert_eq!(is_deadly(&step(0x06, k)), deadly, "{k:#x}");
        }
        assert!(is_deadly(&step(0x16, 0x7fff_0000)), "an action that the filter computes");
        assert!(!is_deadly(&step(0x15, 0)), "a jump");
    }

    #[test]
    fn a_filters_steps_follow_a_gap_of_six_bytes() {
        let mut bytes = [0xff; 16];
        bytes[..2].copy_from_slice(&3u16.to_ne_bytes());
        bytes[8..].copy_from_slice(&0x7fff_1234u64.to_ne_bytes());
        assert_eq!(FilterProgram::parse(&bytes), FilterProgram { count: 3, steps: 0x7fff_1234 });
    }
}
