//! One thread's events → its calls, as the words of its file.

mod words;

use tracer::layout::sleds;

use super::{CallAddresses, FunctionRules, WrittenCalls};
use crate::calls::call_gate::{CallFilters, CallGate};
use crate::calls::stacks::{CallStacks, STEP_BYTES};
use crate::calls::thread_file::ThreadFile;
use crate::calls::{CallEvent, CallEventKind};

/// Bytes held at most while a call in them may have to be taken back.
const HELD_BYTES: usize = 8 << 20;
/// System calls by which the kernel's own uprobes come back: not the program's (x86-64, Linux 6.11, 6.18).
const PROBE_SYSTEM_CALLS: [u32; 2] = [335, 336];

/// Marks the numbers of kernel functions among those of system calls.
const KERNEL_FUNCTION: u32 = 1 << 31;

#[derive(Clone, Copy, PartialEq, Eq)]
struct Open {
    sp: u64,
    /// As [`CallStacks`] has it.
    stack: u64,
    function: u32,
    in_kernel: bool,
    written: bool,
    /// To be written once a function is called whose callers alone are requested.
    held: bool,
    rules: u32,
    address: u64,
    entered_ns: u64,
    /// To be taken back from there on if it takes less.
    unless_slow: Option<Mark>,
}

/// The way in which a call ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CallEnd {
    Returned,
    /// By a jump out of it, or with its program.
    Left,
}

/// The state of the file when a call began that is kept only if it is slow.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Mark {
    least_ns: u64,
    /// Bytes of the block.
    at: usize,
    /// Which block: what was handed to the file stays there.
    block: u64,
    /// Calls of the thread.
    calls: u64,
}

/// One thread: its open calls, and the words of its file.
pub(super) struct Thread {
    open: Vec<Open>,
    stacks: CallStacks,
    gate: CallGate,
    /// Not yet handed to the file.
    pub bytes: Vec<u8>,
    file: ThreadFile,
    first_ns: u64,
    time_high: u64,
    addr_high: u64,
    last: Option<CallEvent>,
    left_at: u64,
    /// Blocks written.
    blocks: u64,
    /// Calls written that were not taken back.
    pub calls: u64,
}

impl Thread {
    /// Nothing has happened yet.
    pub fn new(filters: &CallFilters) -> Self {
        Self {
            open: Vec::new(),
            stacks: CallStacks::default(),
            gate: CallGate::new(filters),
            bytes: Vec::new(),
            file: ThreadFile::default(),
            first_ns: 0,
            time_high: 0,
            addr_high: 0,
            last: None,
            left_at: 0,
            blocks: 0,
            calls: 0,
        }
    }

    /// Number of open calls.
    pub fn depth(&self) -> usize {
        self.open.len()
    }

    /// Whether two links, of which one replaces the other, saw the same moment.
    pub fn is_double(&mut self, event: &CallEvent) -> bool {
        let same = self.last.is_some_and(|last| {
            (last.kind, last.function, last.sp) == (event.kind, event.function, event.sp)
                && last.generation != event.generation
        });
        self.last = Some(*event);
        same
    }

    /// Takes the next event, in the order of time.
    pub fn take(&mut self, event: &CallEvent, rules: &FunctionRules, written: &mut WrittenCalls) {
        let FunctionRules { addresses, filters } = rules;
        let time_ns = event.time_ns;
        match event.kind {
            CallEventKind::Enter if event.loops && self.is_on_top(event) => {}
            CallEventKind::Enter => {
                let stack = self.make_room(event.sp, time_ns, addresses);
                let stack = self.stacks.push(stack, event.sp);
                let rules = filters.of(event.function);
                let is_written = self.gate.enter(rules);
                let leads = !filters.callers || rules & sleds::CALLER != 0;
                if is_written && filters.callers && leads {
                    self.calls += self.write_held();
                }
                let unless_slow = self.mark(filters, event.function).filter(|_| is_written && leads);
                self.calls += u64::from(is_written && leads);
                let address = addresses.functions.get(event.function as usize).copied().unwrap_or(0);
                self.enter(Open {
                    sp: event.sp,
                    stack,
                    function: event.function,
                    in_kernel: false,
                    written: is_written && leads,
                    held: is_written && !leads,
                    rules,
                    address,
                    entered_ns: time_ns,
                    unless_slow,
                });
            }
            CallEventKind::Exit => self.exit(event, written),
            CallEventKind::Unwound => {
                if let Some(at) = self.find(event) {
                    self.close_at(at, time_ns, CallEnd::Left);
                }
            }
            CallEventKind::Exec => self.close_all(time_ns),
            CallEventKind::Fork => {}
            CallEventKind::System
            | CallEventKind::SystemEnd
            | CallEventKind::Fault
            | CallEventKind::Off
            | CallEventKind::Block
            | CallEventKind::Kernel
            | CallEventKind::KernelEnd => {
                self.take_kernel(event, addresses);
            }
        }
    }

    /// Kernel events count while a probed function is open.
    fn take_kernel(&mut self, event: &CallEvent, addresses: &CallAddresses) {
        let time_ns = event.time_ns;
        if !self.gate.any_written()
            || PROBE_SYSTEM_CALLS.contains(&event.function) && event.kind == CallEventKind::System
        {
            return;
        }
        let is_written = self.open.last().is_some_and(|open| open.written);
        let here = Open {
            sp: 0,
            stack: 0,
            function: event.function,
            in_kernel: true,
            written: is_written,
            held: false,
            rules: 0,
            address: 0,
            entered_ns: time_ns,
            unless_slow: None,
        };
        match event.kind {
            CallEventKind::System => {
                self.leave_system_call(time_ns);
                self.enter(Open { address: addresses.system_calls + u64::from(event.function), ..here });
            }
            CallEventKind::SystemEnd => self.leave_system_call(time_ns),
            CallEventKind::Fault | CallEventKind::Block => {
                let address =
                    if event.kind == CallEventKind::Fault { addresses.fault } else { addresses.block };
                // A moment; the functions of the kernel around it go on.
                self.enter(Open { address, ..here });
                self.close_at(self.open.len() - 1, time_ns, CallEnd::Returned);
            }
            CallEventKind::Kernel => {
                let function = event.function | KERNEL_FUNCTION;
                let address = addresses.kernel_functions + u64::from(event.function);
                self.enter(Open { function, address, ..here });
            }
            CallEventKind::KernelEnd => self.leave_kernel_function(event.function | KERNEL_FUNCTION, time_ns),
            _ => self.off_cpu(event.sp),
        }
    }

    /// Ends what an entry at `sp` shows to be over; the stack that it is on, `None` for a new one.
    fn make_room(&mut self, sp: u64, time_ns: u64, addresses: &CallAddresses) -> Option<u64> {
        self.leave_kernel(time_ns);
        let stack = self.stacks.find(sp, STEP_BYTES)?;
        self.leave_below(stack, sp, time_ns);
        while let Some(at) = self.top_of(stack).filter(|at| self.open[*at].sp == sp) {
            // At the same place it may have jumped here instead of returning.
            let function = self.open[at].function as usize;
            let may_jump = addresses.jumps_out.get(function).copied().unwrap_or(false);
            let end = if may_jump { CallEnd::Returned } else { CallEnd::Left };
            self.close_at(at, time_ns, end);
        }
        Some(stack)
    }

    /// Calls below this place on its stack can't return any more.
    fn leave_below(&mut self, stack: u64, sp: u64, time_ns: u64) {
        while let Some(at) = self.top_of(stack).filter(|at| self.open[*at].sp < sp) {
            self.close_at(at, time_ns, CallEnd::Left);
        }
    }

    /// The innermost call of a stack.
    fn top_of(&self, stack: u64) -> Option<usize> {
        self.stacks.top(stack)?;
        self.open.iter().rposition(|open| !open.in_kernel && open.stack == stack)
    }

    fn exit(&mut self, event: &CallEvent, written: &mut WrittenCalls) {
        self.leave_kernel(event.time_ns);
        let Some(at) = self.find(event) else {
            // After a jump the return is seen once more for the function that jumped. A computed jump within the
            // function doesn't end it.
            if self.left_at != event.sp && !event.maybe {
                written.strays += 1;
            }
            return;
        };
        self.leave_below(self.open[at].stack, event.sp, event.time_ns);
        self.close_at(at, event.time_ns, CallEnd::Returned);
        self.left_at = event.sp;
    }

    fn is_on_top(&self, event: &CallEvent) -> bool {
        self.open.last().is_some_and(|open| (open.sp, open.function) == (event.sp, event.function))
    }

    fn find(&self, event: &CallEvent) -> Option<usize> {
        self.open
            .iter()
            .rposition(|open| !open.in_kernel && open.sp == event.sp && open.function == event.function)
    }

    /// Ends this function of the kernel, and what was left open in it.
    fn leave_kernel_function(&mut self, function: u32, time_ns: u64) {
        self.leave_in_kernel(|open| open.function == function, time_ns);
    }

    /// Ends the system call, and what was left open in it. Functions of the kernel that made it go on.
    fn leave_system_call(&mut self, time_ns: u64) {
        self.leave_in_kernel(|open| open.function & KERNEL_FUNCTION == 0, time_ns);
    }

    /// Ends the innermost such part of the kernel, and what is inside; nothing without one.
    fn leave_in_kernel(&mut self, is: impl Fn(&Open) -> bool, time_ns: u64) {
        let inner = self.open.iter().rev().take_while(|open| open.in_kernel).position(is);
        for _ in 0..inner.map_or(0, |inner| inner + 1) {
            self.close_at(self.open.len() - 1, time_ns, CallEnd::Returned);
        }
    }

    fn leave_kernel(&mut self, time_ns: u64) {
        while self.open.last().is_some_and(|open| open.in_kernel) {
            self.close_at(self.open.len() - 1, time_ns, CallEnd::Returned);
        }
    }

    fn close_all(&mut self, time_ns: u64) {
        while !self.open.is_empty() {
            self.close_at(self.open.len() - 1, time_ns, CallEnd::Left);
        }
    }

    fn enter(&mut self, open: Open) {
        self.left_at = 0;
        self.open.push(open);
        if open.written {
            self.write_entry(open);
        }
    }
}
