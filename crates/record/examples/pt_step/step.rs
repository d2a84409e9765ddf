//! Runs a program one instruction at a time and notes where each thread was.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::io;
use std::ops::Range;

use rustc_hash::FxHashMap;

/// One note.
#[derive(Clone, Debug)]
pub enum Note {
    /// The instruction at this address was executed.
    Executed(u64),
    /// A signal came before the instruction at this address, which was not executed.
    Signal(u64),
}

/// An event in addition to the instructions.
#[derive(Clone, Debug)]
pub enum Side {
    /// A new thread.
    Clone {
        /// Id.
        child: i32,
    },
    /// A thread or the process ended.
    Exit,
    /// Another program was started in the process.
    Exec {
        /// File's name.
        comm: String,
    },
    /// Executable mappings as they are from here on.
    Maps(Vec<Mapping>),
}

/// An executable mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// After the last.
    pub end: u64,
    /// Offset in the file.
    pub offset: u64,
    /// The file, a name in brackets, or `//anon`.
    pub name: String,
    /// `PROT_*` bits.
    pub prot: u32,
}

/// All that was noted, in order.
#[derive(Debug, Default)]
pub struct Steps {
    /// The process.
    pub pid: i32,
    /// Thread and note.
    pub notes: Vec<(i32, Note)>,
    /// Events before the note of this number, by thread.
    pub sides: Vec<(usize, i32, Side)>,
    /// Code by generation and address, as it was when first executed: at most 15 bytes from each.
    pub code: FxHashMap<(u32, u64), Vec<u8>>,
    /// The note with which each generation of code but the first begins: mappings went before it, or code was
    /// overwritten.
    pub generations: Vec<usize>,
    /// At system calls: the note, and the machine's own time stamp counter.
    pub clock: Vec<(usize, u64)>,
    /// Executable memory that can be written to.
    pub writable: Vec<Range<u64>>,
}

impl Steps {
    /// The code at an address of the running program, as it is now.
    fn code_at(&mut self, ip: u64) -> &[u8] {
        let pid = self.pid;
        if self.writable.iter().any(|range| range.contains(&ip)) {
            let generation = self.generations.len() as u32;
            let now = read_code(pid, ip);
            if self.code.get(&(generation, ip)).is_some_and(|before| *before != now) {
                self.generations.push(self.notes.len());
            }
        }
        let generation = self.generations.len() as u32;
        self.code.entry((generation, ip)).or_insert_with(|| read_code(pid, ip))
    }
}

struct Thread {
    signal: i32,
    blocked: bool,
}

/// Runs `command` until it ends, or `most` instructions; a thread's turn lasts `quantum` steps. Both run on `cpu`, if
/// given. Handing over between stepper and program is then a switch of tasks, far faster than waking another CPU.
pub fn run(command: &[String], quantum: u32, most: usize, cpu: Option<usize>) -> io::Result<Steps> {
    let before = cpu.map(stay_on);
    let steps = follow(start(command)?, quantum, most);
    before.iter().for_each(stay_within);
    steps
}

/// Stays on this of the CPUs allowed, counted round; those that were allowed.
fn stay_on(number: usize) -> libc::cpu_set_t {
    // SAFETY: plain data.
    let mut allowed: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is as large as stated.
    unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut allowed) };
    // SAFETY: the numbers are within the set.
    let is_allowed = |cpu: &usize| unsafe { libc::CPU_ISSET(*cpu, &allowed) };
    let cpus: Vec<usize> = (0..libc::CPU_SETSIZE as usize).filter(is_allowed).collect();
    // SAFETY: plain data.
    let mut one: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    if let Some(cpu) = cpus.get(number % cpus.len().max(1)) {
        // SAFETY: the number is within the set.
        unsafe { libc::CPU_SET(*cpu, &mut one) };
        stay_within(&one);
    }
    allowed
}

/// Stays on these CPUs; where that is refused, all is only slower.
fn stay_within(cpus: &libc::cpu_set_t) {
    // SAFETY: the set is as large as stated and only read.
    unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), cpus) };
}

fn follow(pid: i32, quantum: u32, most: usize) -> io::Result<Steps> {
    let mut steps = Steps { pid, ..Steps::default() };
    let mut threads = BTreeMap::from([(pid, Thread { signal: 0, blocked: false })]);
    note_maps(&mut steps, pid);
    let mut turn = pid;
    while !threads.is_empty() {
        if steps.notes.len() >= most {
            end(pid);
            break;
        }
        let ready = |thread: &&i32| threads.get(thread).is_some_and(|thread| !thread.blocked);
        let next = threads.range(turn + 1..).map(|(tid, _)| tid).chain(threads.keys()).find(ready).copied();
        let Some(tid) = next else {
            wait_any(&mut steps, &mut threads)?;
            continue;
        };
        turn = tid;
        for _ in 0..quantum {
            if !one_step(&mut steps, &mut threads, tid)? {
                break;
            }
        }
        poll_blocked(&mut steps, &mut threads)?;
    }
    Ok(steps)
}

fn start(command: &[String]) -> io::Result<i32> {
    let words: Vec<CString> = command.iter().filter_map(|word| CString::new(word.as_str()).ok()).collect();
    let mut pointers: Vec<*const libc::c_char> = words.iter().map(|word| word.as_ptr()).collect();
    pointers.push(std::ptr::null());
    // SAFETY: the child only makes system calls before it execs.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: a system call with a constant argument.
        unsafe { libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong) };
        // SAFETY: a system call with constant arguments.
        unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) };
        // SAFETY: the strings and the array of them, which ends with null, outlive the call.
        unsafe { libc::execvp(pointers[0], pointers.as_ptr()) };
        // SAFETY: ends the child without running what belongs to the parent.
        unsafe { libc::_exit(127) };
    }
    let mut status = 0;
    // SAFETY: waits for our child.
    unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL) };
    if !libc::WIFSTOPPED(status) {
        return Err(io::Error::other(format!("can't start {}", command[0])));
    }
    let options = libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_EXITKILL;
    // SAFETY: the child is stopped and traced by us.
    unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, pid, 0, options) };
    Ok(pid)
}

/// Enough was seen.
fn end(pid: i32) {
    // SAFETY: a signal to our own child.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    // SAFETY: waits for our own child.
    unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::__WALL) };
}

fn registers(tid: i32) -> io::Result<libc::user_regs_struct> {
    // SAFETY: plain data that the kernel fills.
    let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    // SAFETY: the thread is stopped; the kernel writes the whole struct.
    let answer = unsafe { libc::ptrace(libc::PTRACE_GETREGS, tid, 0, &raw mut registers) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(registers) }
}

/// At most 15 bytes of a process's code; none where nothing can be read.
pub fn read_code(pid: i32, ip: u64) -> Vec<u8> {
    let mut bytes = vec![0u8; 15];
    for length in [15usize, 8, 4, 2, 1] {
        let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: length };
        let remote = libc::iovec { iov_base: ip as *mut libc::c_void, iov_len: length };
        // SAFETY: the local buffer is `length` bytes or more; the remote side is only read.
        let n = unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
        if n > 0 {
            bytes.truncate(n as usize);
            return bytes;
        }
    }
    Vec::new()
}

/// One instruction of one thread; false when its turn is over.
fn one_step(steps: &mut Steps, threads: &mut BTreeMap<i32, Thread>, tid: i32) -> io::Result<bool> {
    let Some(thread) = threads.get_mut(&tid) else { return Ok(false) };
    let signal = std::mem::take(&mut thread.signal);
    let Ok(registers) = registers(tid) else {
        threads.remove(&tid);
        return Ok(false);
    };
    let ip = registers.rip;
    let pid = steps.pid;
    let syscall = steps.code_at(ip).starts_with(&[0x0f, 0x05]).then_some(registers.rax);
    if syscall.is_some() {
        steps.clock.push((steps.notes.len(), ticks()));
    }
    if signal == 0 {
        steps.notes.push((tid, Note::Executed(ip)));
    } else {
        steps.notes.push((tid, Note::Signal(ip)));
    }
    // SAFETY: the thread is stopped.
    if unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, tid, 0, signal) } < 0 {
        return Ok(false);
    }
    // Only a system call may block: anything else ends, and is waited for without looking again and again.
    let (polls, options) = if syscall.is_some() { (200, libc::WNOHANG) } else { (1, 0) };
    for _ in 0..polls {
        let mut status = 0;
        // SAFETY: waits for a thread we trace.
        let got = unsafe { libc::waitpid(tid, &raw mut status, libc::__WALL | options) };
        if got == tid {
            let alive = stopped(steps, threads, tid, status);
            if alive && syscall.is_some_and(changes_maps) {
                note_maps(steps, pid);
            }
            return Ok(alive);
        }
        if got < 0 {
            threads.remove(&tid);
            steps.sides.push((steps.notes.len(), tid, Side::Exit));
            return Ok(false);
        }
        // It waits for something: others' turn.
        if is_asleep(pid, tid) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_micros(10));
    }
    if let Some(thread) = threads.get_mut(&tid) {
        thread.blocked = true;
    }
    Ok(false)
}

/// The machine's time stamp counter, as a stepped program reads it.
fn ticks() -> u64 {
    // SAFETY: every x86-64 has the instruction, and nothing forbids it to programs here.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Whether a thread sleeps in the kernel.
fn is_asleep(pid: i32, tid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).unwrap_or_default();
    // After the name, which may hold anything but ends with the last of these.
    stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('S'))
}

/// mmap, mprotect, munmap, brk, execve.
fn changes_maps(number: u64) -> bool {
    matches!(number, 9..=12 | 25 | 59)
}

/// A thread stopped or ended; whether it goes on.
fn stopped(steps: &mut Steps, threads: &mut BTreeMap<i32, Thread>, tid: i32, status: i32) -> bool {
    if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
        threads.remove(&tid);
        steps.sides.push((steps.notes.len(), tid, Side::Exit));
        return false;
    }
    let signal = libc::WSTOPSIG(status);
    let event = status >> 16;
    if event == libc::PTRACE_EVENT_CLONE {
        let mut child: libc::c_ulong = 0;
        // SAFETY: the kernel writes one word.
        unsafe { libc::ptrace(libc::PTRACE_GETEVENTMSG, tid, 0, &raw mut child) };
        let child = child as i32;
        let mut status = 0;
        // SAFETY: waits for the new thread's first stop.
        unsafe { libc::waitpid(child, &raw mut status, libc::__WALL) };
        steps.sides.push((steps.notes.len(), tid, Side::Clone { child }));
        threads.insert(child, Thread { signal: 0, blocked: false });
    }
    if event == 0
        && signal != libc::SIGTRAP
        && signal != libc::SIGSTOP
        && let Some(thread) = threads.get_mut(&tid)
    {
        thread.signal = signal;
    }
    if event != 0 {
        // The step is not done yet: let it finish.
        // SAFETY: the thread is stopped.
        unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, tid, 0, 0) };
        let mut status = 0;
        // SAFETY: waits for that thread.
        unsafe { libc::waitpid(tid, &raw mut status, libc::__WALL) };
        if event == libc::PTRACE_EVENT_EXEC {
            let comm = std::fs::read_to_string(format!("/proc/{}/comm", steps.pid)).unwrap_or_default();
            let comm = comm.trim_end().to_owned();
            steps.sides.push((steps.notes.len(), tid, Side::Exec { comm }));
            note_maps(steps, steps.pid);
        }
        return stopped(steps, threads, tid, status);
    }
    true
}

/// Looks whether blocked threads are back from their system calls.
fn poll_blocked(steps: &mut Steps, threads: &mut BTreeMap<i32, Thread>) -> io::Result<()> {
    let blocked: Vec<i32> =
        threads.iter().filter(|(_, thread)| thread.blocked).map(|(tid, _)| *tid).collect();
    for tid in blocked {
        let mut status = 0;
        // SAFETY: asks for a thread we trace.
        let got = unsafe { libc::waitpid(tid, &raw mut status, libc::__WALL | libc::WNOHANG) };
        if got == tid {
            if let Some(thread) = threads.get_mut(&tid) {
                thread.blocked = false;
            }
            stopped(steps, threads, tid, status);
        } else if got < 0 {
            threads.remove(&tid);
        }
    }
    Ok(())
}

/// All threads are blocked: waits for any.
fn wait_any(steps: &mut Steps, threads: &mut BTreeMap<i32, Thread>) -> io::Result<()> {
    std::thread::sleep(std::time::Duration::from_micros(200));
    poll_blocked(steps, threads)
}

/// Notes the executable mappings if they changed.
fn note_maps(steps: &mut Steps, pid: i32) {
    let text = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let mappings: Vec<Mapping> = text.lines().filter(|line| is_code(line)).filter_map(mapping).collect();
    let may_write = |mapping: &&Mapping| mapping.prot & 2 != 0;
    steps.writable = mappings.iter().filter(may_write).map(|mapping| mapping.start..mapping.end).collect();
    let last = steps.sides.iter().rev().find_map(|(_, _, side)| match side {
        Side::Maps(mappings) => Some(mappings),
        _ => None,
    });
    if last.is_some_and(|last| last.iter().any(|mapping| !mappings.contains(mapping))) {
        steps.generations.push(steps.notes.len());
    }
    if last != Some(&mappings) && !mappings.is_empty() {
        steps.sides.push((steps.notes.len(), pid, Side::Maps(mappings)));
    }
}

/// Whether a line of /proc/PID/maps is code that can be read.
fn is_code(line: &str) -> bool {
    let rights = line.split_whitespace().nth(1);
    rights.is_some_and(|rights| rights.contains('x')) && !line.ends_with("[vsyscall]")
}

/// A line of /proc/PID/maps.
pub fn mapping(line: &str) -> Option<Mapping> {
    let mut words = line.split_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let rights = words.next()?;
    let prot = "rwx".chars().enumerate().map(|(bit, right)| u32::from(rights.contains(right)) << bit).sum();
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let offset = hex(words.next()?)?;
    let name = words.nth(2).unwrap_or("//anon").to_owned();
    Some(Mapping { start: hex(start)?, end: hex(end)?, offset, name, prot })
}
