//! Names for the functions in which threads of a stripped Ruby wait, by what they call (x86-64).
//!
//! Ruby exports none of them, and distributions ship it without symbols. But it exports the functions for conditions and
//! mutexes, and calls them under their names. So the function that takes the global lock is the one among those that
//! wait on a condition that others of them call: they take the lock again after their own wait.

use iced_x86::{Code, Decoder, DecoderOptions, Instruction, OpKind};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::elf::plt;
use crate::unwind::cfi::Cfi;
use crate::{ElfSection, Machine, ObjectFile, Svma, SymbolTable};

/// The exported function by which a file is known to be Ruby's.
pub(crate) const EXPORTED: &str = "rb_native_cond_wait";

/// Files with more code than this, in bytes, aren't read.
const MAX_CODE: usize = 32 << 20;

/// A function that got a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RubyFunction {
    /// First address.
    pub start: Svma,
    /// Bytes.
    pub size: u64,
    /// As in Ruby's source; [`GLOBAL_LOCK`] for all versions.
    pub name: &'static str,
}

/// Takes the global lock: `gvl_acquire_common`, from 3.2 on `thread_sched_to_running`.
const GLOBAL_LOCK: &str = "gvl_acquire";

/// Those of `object`, whose exported functions are in `exported`; none if the code isn't as expected.
// Source: Ruby 2.7 to 3.2 thread_pthread.c, thread.c, thread_sync.c
pub(crate) fn find(object: &ObjectFile, exported: &SymbolTable) -> Vec<RubyFunction> {
    let calls = Calls::of(object, exported);
    let Some(lock) = calls.global_lock() else { return Vec::new() };
    let waiters = calls.callers_of_all(&[calls.function(EXPORTED), Some(lock)]);
    let (yields, sleeps): (Vec<u64>, Vec<u64>) =
        waiters.into_iter().partition(|&waiter| calls.calls(waiter, calls.function("sched_yield")));
    let timed = calls.callers_of_all(&[calls.function("pthread_cond_timedwait")]);
    let mut native_sleeps = calls.callers_of_all(&[Some(lock)]);
    native_sleeps.retain(|&function| sleeps.iter().any(|&sleep| calls.calls(function, Some(sleep))));
    let sleeps_natively = |f: u64| native_sleeps.iter().any(|&sleep| calls.calls(f, Some(sleep)));
    let called_by =
        |name: &str| calls.callees(calls.function(name)).filter(|&f| sleeps_natively(f)).collect();
    let polls = calls.callers_of_all(&[calls.function("ppoll")]).into_iter();
    let found: [(&str, Vec<u64>); 8] = [
        (GLOBAL_LOCK, vec![lock]),
        ("gvl_yield", yields),
        ("native_cond_sleep", sleeps),
        ("native_cond_timedwait", timed.into_iter().filter(|&f| calls.calls(lock, Some(f))).collect()),
        (
            "native_ppoll_sleep",
            polls.filter(|&f| native_sleeps.iter().any(|&s| calls.calls(s, Some(f)))).collect(),
        ),
        ("sleep_hrtime", called_by("rb_thread_wait_for")),
        ("do_mutex_lock", called_by("rb_mutex_lock")),
        ("native_sleep", native_sleeps.clone()),
    ];
    let named =
        found.into_iter().flat_map(|(name, starts)| starts.into_iter().map(move |start| (name, start)));
    named.filter_map(|(name, start)| calls.named(start, name)).collect()
}

/// Calls and jumps between functions: from the begin of the one to the begin of the other, or to its stub.
struct Calls<'o> {
    by_function: FxHashMap<u64, FxHashSet<u64>>,
    /// Begins of exported functions, and of stubs for those of other files.
    by_name: FxHashMap<String, u64>,
    exported: &'o SymbolTable,
    bounds: Cfi,
}

impl<'o> Calls<'o> {
    fn of(object: &ObjectFile, exported: &'o SymbolTable) -> Self {
        let mut by_name: FxHashMap<String, u64> = FxHashMap::default();
        by_name.extend(exported.iter().map(|symbol| (plain(symbol.name).to_owned(), symbol.start.0)));
        let mut of_stub: FxHashMap<u64, u64> = FxHashMap::default();
        for stub in plt::stubs(object) {
            let start = stub.start.0;
            // Ruby calls its own exported functions by stubs.
            let function = *by_name.entry(plain(&stub.name).to_owned()).or_insert(start);
            of_stub.insert(start, function);
        }
        let mut all = Self { by_function: FxHashMap::default(), by_name, exported, bounds: Cfi::new(object) };
        if object.machine() == Machine::X86_64 {
            let is_code = |section: &&ElfSection| section.name == ".text";
            object.sections().iter().filter(is_code).for_each(|text| all.read(object, text, &of_stub));
        }
        all
    }

    fn read(&mut self, object: &ObjectFile, text: &ElfSection, of_stub: &FxHashMap<u64, u64>) {
        let bytes = usize::try_from(text.svma.end.saturating_sub(text.svma.start)).unwrap_or(usize::MAX);
        let Some(code) = object.bytes_at(Svma(text.svma.start), bytes).filter(|_| bytes <= MAX_CODE) else {
            return;
        };
        let mut decoder = Decoder::with_ip(64, code, text.svma.start, DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        let mut function = 0..0;
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            let leads = instruction.code() != Code::INVALID && instruction.op0_kind() == OpKind::NearBranch64;
            let (from, to) = (instruction.ip(), instruction.near_branch64());
            if !leads || function.contains(&from) && function.contains(&to) {
                continue;
            }
            if !function.contains(&from) {
                function = self.bounds.function_range(from).map_or(0..0, |(start, end)| start..end);
            }
            if !function.is_empty() && !function.contains(&to) {
                let callee = of_stub.get(&to).copied().unwrap_or(to);
                self.by_function.entry(function.start).or_default().insert(callee);
            }
        }
    }

    fn function(&self, name: &str) -> Option<u64> {
        self.by_name.get(name).copied()
    }

    fn calls(&self, caller: u64, callee: Option<u64>) -> bool {
        callee
            .is_some_and(|callee| self.by_function.get(&caller).is_some_and(|calls| calls.contains(&callee)))
    }

    fn callees(&self, caller: Option<u64>) -> impl Iterator<Item = u64> {
        caller.and_then(|caller| self.by_function.get(&caller)).into_iter().flatten().copied()
    }

    /// Functions that call each of these, ascending.
    fn callers_of_all(&self, callees: &[Option<u64>]) -> Vec<u64> {
        let calls_all = |caller: &u64| callees.iter().all(|&callee| self.calls(*caller, callee));
        let mut callers: Vec<u64> = self.by_function.keys().copied().filter(calls_all).collect();
        callers.sort_unstable();
        callers
    }

    /// The function that waits on a condition and that most others that do call; `None` if several are called equally
    /// often.
    fn global_lock(&self) -> Option<u64> {
        let waiters = self.callers_of_all(&[self.function(EXPORTED)]);
        let callers = |lock: u64| waiters.iter().filter(|&&w| w != lock && self.calls(w, Some(lock))).count();
        let most = waiters.iter().map(|&waiter| callers(waiter)).max().filter(|&most| most > 0)?;
        let mut locks = waiters.iter().filter(|&&waiter| callers(waiter) == most);
        locks.next().filter(|_| locks.next().is_none()).copied()
    }

    /// With its bounds; `None` for a function that has a name.
    fn named(&self, start: u64, name: &'static str) -> Option<RubyFunction> {
        let (first, end) = self.bounds.function_range(start)?;
        let has_name = self.exported.find(Svma(start)).is_some_and(|symbol| symbol.start.0 == start);
        (first == start && !has_name).then(|| RubyFunction { start: Svma(start), size: end - start, name })
    }
}

/// A function's name without the version or the mark of a stub.
fn plain(name: &str) -> &str {
    name.split('@').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::process::Command;

    /// Functions that call each other as Ruby's do.
    const SOURCE: &str = r#"
        #define _GNU_SOURCE
        #include <poll.h>
        #include <pthread.h>
        #include <sched.h>
        #define INNER static __attribute__((noinline, noclone))
        pthread_cond_t c; pthread_mutex_t m; volatile int n;
        void rb_native_cond_wait(void) { pthread_cond_wait(&c, &m); n++; }
        INNER void timedwait(void) { struct timespec t = {0}; pthread_cond_timedwait(&c, &m, &t); n++; }
        INNER void acquire(void) { if (n) rb_native_cond_wait(); else timedwait(); n++; }
        INNER void yield_lock(void) { rb_native_cond_wait(); sched_yield(); acquire(); n++; }
        INNER void cond_sleep(int t) { if (t) timedwait(); else rb_native_cond_wait(); acquire(); n++; }
        INNER void poll_sleep(void) { struct pollfd p = {0}; ppoll(&p, 1, 0, 0); n++; }
        INNER void sleep_any(int t) { if (n) cond_sleep(t); else { poll_sleep(); acquire(); } n++; }
        INNER void hrtime(int t) { while (n) sleep_any(t); n++; }
        INNER void lock_it(int t) { while (n) sleep_any(t); n++; }
        INNER void await_io(void) { struct pollfd p = {0}; ppoll(&p, 1, 0, 0); acquire(); n++; }
        void rb_thread_wait_for(int t) { n++; hrtime(t); }
        void rb_mutex_lock(int t) { n++; lock_it(t); }
        void rb_thread_schedule(void) { yield_lock(); n++; }
        void rb_wait_for_single_fd(void) { await_io(); n++; }
    "#;

    /// The file, stripped, and the symbols it had.
    fn build(folder: &Path) -> Option<(ObjectFile, Vec<(String, u64)>)> {
        std::fs::create_dir_all(folder).ok()?;
        std::fs::write(folder.join("t.c"), SOURCE).ok()?;
        let run =
            |program: &str, args: &[&str]| Command::new(program).args(args).current_dir(folder).status();
        run("gcc", &["-O1", "-fPIC", "-shared", "-o", "t.so", "t.c"]).ok()?.success().then_some(())?;
        let nm = Command::new("nm").arg("t.so").current_dir(folder).output().ok()?;
        run("strip", &["t.so"]).ok()?.success().then_some(())?;
        let row = |line: &str| {
            let [start, _, name] = line.split_whitespace().collect::<Vec<_>>()[..] else { return None };
            Some((name.to_owned(), u64::from_str_radix(start, 16).ok()?))
        };
        let listed = String::from_utf8(nm.stdout).ok()?.lines().filter_map(row).collect();
        Some((ObjectFile::open(&folder.join("t.so")).ok()?, listed))
    }

    #[test]
    fn functions_that_wait_in_a_stripped_ruby_have_names() {
        let folder = std::env::temp_dir().join(format!("tally-ruby-waits-{}", std::process::id()));
        let built = build(&folder);
        let _ = std::fs::remove_dir_all(&folder);
        let Some((object, listed)) = built else { return println!("skipped: no gcc, nm and strip") };
        if object.machine() != Machine::X86_64 {
            return println!("skipped: not an x86-64 machine");
        }
        let table = SymbolTable::load(&object, None);
        let name_at = |own: &str| {
            let (_, start) = listed.iter().find(|(name, _)| name == own).expect("nm lists it");
            table.find(Svma(*start)).map(|symbol| symbol.name)
        };
        let named = [
            ("acquire", GLOBAL_LOCK),
            ("yield_lock", "gvl_yield"),
            ("cond_sleep", "native_cond_sleep"),
            ("timedwait", "native_cond_timedwait"),
            ("sleep_any", "native_sleep"),
            ("poll_sleep", "native_ppoll_sleep"),
            ("hrtime", "sleep_hrtime"),
            ("lock_it", "do_mutex_lock"),
            ("rb_mutex_lock", "rb_mutex_lock"),
        ];
        for (own, name) in named {
            assert_eq!(name_at(own), Some(name), "{own}");
        }
        assert_eq!(name_at("await_io"), None, "it waits for a file");
    }
}
