//! Wrappers of C library functions that the tracer must notice: those that load objects, and those that
//! restrict the program's system calls. Each overrides the real function of the same name and calls it.

use crate::entry::hook;
use crate::entry::unwind_guards::NextDefinition;
use crate::patch::object;
use crate::process::init;
use crate::sys;

static OPEN: NextDefinition = NextDefinition::new(c"dlopen");
static PRCTL: NextDefinition = NextDefinition::new(c"prctl");
static SYSCALL: NextDefinition = NextDefinition::new(c"syscall");

/// Two words, as the calling convention returns them in two registers.
#[repr(C)]
struct Pair(usize, usize);

/// Before `dlopen`, called from `caller`: where to return to, and the real function.
///
/// The loader looks where its caller's own object wants libraries to be looked for, by the return address. So
/// the return address has to be in that object: that of a `ret` instruction, which comes back to us. 0 if none
/// is found (or a shadow stack forbids it): then the loader sees us as its caller.
#[unsafe(no_mangle)]
extern "C" fn tally_before_dlopen(caller: u64) -> Pair {
    Pair(object::return_instruction(caller).unwrap_or(0) as usize, OPEN.find())
}

/// After it.
#[unsafe(no_mangle)]
extern "C" fn tally_after_dlopen() {
    init::loaded();
}

/// Before `prctl` and `syscall`, with their first two arguments: the real function.
#[unsafe(no_mangle)]
extern "C" fn tally_before_system_call(which: u32, first: usize, second: usize) -> usize {
    const PR_SET_SECCOMP: usize = 22;
    let restricts = match which {
        0 => first == PR_SET_SECCOMP,
        _ => first == sys::SECCOMP || first == sys::PRCTL && second == PR_SET_SECCOMP,
    };
    if restricts {
        hook::restrict();
    }
    if which == 0 { PRCTL.find() } else { SYSCALL.find() }
}
