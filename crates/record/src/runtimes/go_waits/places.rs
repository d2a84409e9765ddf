//! Reasons of goroutines' waits, by the names of their functions, and how many there are at each place.

use dso::unwind::GoFrame;
use perfdata::appendix::go_waits::{GoWaitKind, GoWaitPlace};
use rustc_hash::FxHashMap;

/// More places are added up in the last one.
const MOST_PLACES: usize = 4096;

/// First words of the functions that wait, and what for. Those that others build on come last.
// Source: the standard library of Go 1.18 to 1.26
const KINDS: [(&str, GoWaitKind); 19] = [
    ("internal/sync.(*Mutex).", GoWaitKind::Mutex),
    ("sync.(*Mutex).", GoWaitKind::Mutex),
    ("internal/sync.runtime_SemacquireMutex", GoWaitKind::Mutex),
    ("sync.runtime_SemacquireMutex", GoWaitKind::Mutex),
    ("sync.(*RWMutex).", GoWaitKind::RwMutex),
    ("sync.runtime_SemacquireRWMutex", GoWaitKind::RwMutex),
    ("sync.(*WaitGroup).", GoWaitKind::WaitGroup),
    ("sync.runtime_SemacquireWaitGroup", GoWaitKind::WaitGroup),
    ("sync.(*Cond).", GoWaitKind::Condition),
    ("sync.runtime_notifyListWait", GoWaitKind::Condition),
    ("runtime.chanrecv", GoWaitKind::Receive),
    ("runtime.chansend", GoWaitKind::Send),
    ("runtime.selectgo", GoWaitKind::Select),
    ("runtime.block", GoWaitKind::Select),
    ("runtime.netpollblock", GoWaitKind::Io),
    ("internal/poll.runtime_pollWait", GoWaitKind::Io),
    ("internal/poll.", GoWaitKind::Io),
    ("time.Sleep", GoWaitKind::Sleep),
    ("runtime.timeSleep", GoWaitKind::Sleep),
];

/// The standard library's packages, by the first part of their paths.
const STANDARD: [&str; 57] = [
    "archive",
    "bufio",
    "bytes",
    "cmp",
    "compress",
    "container",
    "context",
    "crypto",
    "database",
    "debug",
    "embed",
    "encoding",
    "errors",
    "expvar",
    "flag",
    "fmt",
    "go",
    "golang.org",
    "hash",
    "html",
    "image",
    "index",
    "internal",
    "io",
    "iter",
    "log",
    "maps",
    "math",
    "mime",
    "net",
    "os",
    "path",
    "plugin",
    "reflect",
    "regexp",
    "runtime",
    "slices",
    "sort",
    "strconv",
    "strings",
    "structs",
    "sync",
    "syscall",
    "testing",
    "text",
    "time",
    "unicode",
    "unique",
    "unsafe",
    "vendor",
    "weak",
    "_cgo",
    "cgo",
    "gogo",
    "simd",
    "uuid",
    "type:",
];

/// Packages in which a goroutine only waits for others.
const WAITING: [&str; 5] = ["runtime", "sync", "internal", "time", "syscall"];

/// Reason of a goroutine's wait, by its functions' names, leaf first; `None` for others.
pub(super) fn kind_of(names: &[&str]) -> Option<GoWaitKind> {
    let of = |name: &&str| KINDS.iter().find(|(begin, _)| name.starts_with(begin)).map(|(_, kind)| *kind);
    let own = waiting_function(names).unwrap_or(names.len());
    // Semaphores are part of all locks: the callers know more.
    names.iter().take(own.max(1)).filter(|name| !name.starts_with("runtime.sem")).find_map(of)
}

/// Index of the innermost function that is not the standard library's; else of the innermost that does more than wait.
/// `None` without either: the runtime itself waits.
pub(super) fn waiting_function(names: &[&str]) -> Option<usize> {
    let own = names.iter().position(|name| !STANDARD.contains(&first_part(name)));
    let other = || names.iter().position(|name| !WAITING.contains(&first_part(name)));
    own.or_else(other)
}

/// True for the runtime's own goroutines, and that of `os/signal`. `main` is run by the runtime.
pub(super) fn is_of_runtime(names: &[&str]) -> bool {
    let mut outermost = names.iter().rev().skip_while(|name| name.starts_with("runtime.goexit"));
    let Some(first) = outermost.next() else { return true };
    let is_runtimes = first_part(first) == "runtime" && *first != "runtime.main";
    is_runtimes || first.starts_with("os/signal.")
}

/// `net` of `net/http.(*conn).serve`, `main` of `main.work`.
fn first_part<'n>(name: &'n str) -> &'n str {
    let path: &'n str = name.split(['(', '[']).next().unwrap_or(name);
    match path.split_once('/') {
        Some((part, _)) => part,
        None => path.split('.').next().unwrap_or(path),
    }
}

/// Sums by place.
#[derive(Debug, Default)]
pub(super) struct Places {
    known: FxHashMap<(GoWaitKind, String, u32), usize>,
    sums: Vec<GoWaitPlace>,
}

impl Places {
    /// The number of a place.
    pub(super) fn find(&mut self, kind: GoWaitKind, frame: GoFrame<'_>) -> usize {
        let key = (kind, frame.function.to_owned(), frame.line);
        let next = self.sums.len();
        let at = *self.known.entry(key).or_insert(next.min(MOST_PLACES));
        if at == next {
            let (function, file) = (frame.function.to_owned(), frame.file.to_owned());
            self.sums.push(GoWaitPlace { kind, function, file, line: frame.line, seen: 0, longest_ns: 0 });
        }
        at
    }

    /// `weight` goroutines wait there, for so long already.
    pub(super) fn add(&mut self, at: usize, weight: u64, waited_ns: u64) {
        let Some(place) = self.sums.get_mut(at) else { return };
        place.seen = place.seen.saturating_add(weight);
        place.longest_ns = place.longest_ns.max(waited_ns);
    }

    pub(super) fn into_sums(self) -> Vec<GoWaitPlace> {
        self.sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<&str> {
        text.split(' ').collect()
    }

    #[test]
    fn the_functions_between_the_program_and_the_scheduler_tell_what_is_waited_for() {
        for (chain, kind) in [
            (
                "runtime.gopark runtime.goparkunlock runtime.semacquire1 internal/sync.runtime_SemacquireMutex \
              internal/sync.(*Mutex).lockSlow main.f",
                GoWaitKind::Mutex,
            ),
            (
                "runtime.gopark runtime.semacquire1 sync.runtime_SemacquireRWMutexR main.f",
                GoWaitKind::RwMutex,
            ),
            ("runtime.gopark runtime.chanrecv runtime.chanrecv1 main.f", GoWaitKind::Receive),
            ("runtime.gopark runtime.selectgo main.f", GoWaitKind::Select),
            (
                "runtime.gopark runtime.netpollblock internal/poll.runtime_pollWait net.(*conn).Read a.b/c.f",
                GoWaitKind::Io,
            ),
            ("runtime.gopark time.Sleep main.f", GoWaitKind::Sleep),
        ] {
            let names = names(chain);
            assert_eq!(kind_of(&names), Some(kind), "{chain}");
            assert_eq!(waiting_function(&names), Some(names.len() - 1), "{chain}");
        }
        // The program's own function is not what it waits for.
        assert_eq!(kind_of(&names("runtime.gopark time.Sleepers")), Some(GoWaitKind::Sleep));
        assert_eq!(kind_of(&names("runtime.gopark example.com/a.wait runtime.chanrecv")), None);
    }

    #[test]
    fn a_goroutine_of_the_library_has_the_function_that_does_more_than_wait() {
        let idle = names("runtime.gopark runtime.selectgo net/http.(*persistConn).writeLoop runtime.goexit");
        assert_eq!(waiting_function(&idle), Some(2));
        assert_eq!(waiting_function(&names("runtime.gopark runtime.gcenable runtime.main")), None);
        assert!(!is_of_runtime(&idle));
        assert!(is_of_runtime(&names(
            "runtime.gopark runtime.bgsweep runtime.gcenable.gowrap1 runtime.goexit"
        )));
        assert!(is_of_runtime(&names("runtime.gopark os/signal.loop runtime.goexit")));
        assert!(!is_of_runtime(&names("runtime.gopark time.Sleep main.main runtime.main runtime.goexit")));
    }

    #[test]
    fn generic_functions_and_methods_belong_to_their_package() {
        assert_eq!(first_part("main.(*pool[go.shape.int]).take"), "main");
        assert_eq!(first_part("github.com/x/y.f"), "github.com");
        assert_eq!(first_part("sync.(*Mutex).Lock"), "sync");
    }
}
