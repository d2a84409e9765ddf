//! Code that runs before a program's or thread's own functions.

/// True for the main thread's start, whose caller is `_start`, with a name or without.
pub(crate) fn is_start_of_main(name: &str) -> bool {
    name.starts_with("__libc_start_main")
}

/// True for a thread's start; a version may follow the name: `__libc_start_main@@GLIBC_2.34`.
pub(crate) fn is_start_up(name: &str) -> bool {
    let name = name.split_once('@').map_or(name, |(name, _)| name);
    is_start_of_main(name)
        || matches!(
            name,
            "_start"
                | "__libc_start_call_main"
                | "start_thread"
                | "thread_start"
                | "clone"
                | "__clone"
                | "clone3"
                | "__clone3"
                | "__GI___clone"
                | "__GI___clone3"
        )
}

/// True for the start-up code of a runtime. Other functions may have such a name, too: only right below a thread's start.
pub(crate) fn is_runtime_start(name: &str) -> bool {
    const BEGINS: [&str; 8] = [
        "thread_native_entry",
        "Thread::call_run",
        "JavaThread::run",
        "JavaThread::thread_main_inner",
        "JavaCalls::call_",
        "StubRoutines::call_stub",
        "std::rt::lang_start",
        "std::execute_native_thread_routine",
    ];
    const RUST: [&str; 9] = [
        "std::sys::backtrace::",
        "std::sys::pal::unix::thread::",
        "std::sys::thread::unix::",
        "std::thread::lifecycle::spawn_unchecked",
        "std::panicking::",
        "std::panic::catch_unwind",
        "core::ops::function::FnOnce",
        "core::panic::unwind_safe::AssertUnwindSafe",
        "alloc::boxed::Box<",
    ];
    let plain = name.trim_start_matches('<');
    matches!(
        name,
        "Thread._bootstrap (threading.py)"
            | "Thread._bootstrap_inner (threading.py)"
            | "Thread.run (threading.py)"
            | "thread_entry"
            | "node::Start"
            | "node::NodeMainInstance::Run"
            | "node::SpinEventLoopInternal"
            | "runtime.goexit"
            | "runtime.goexit.abi0"
            | "runtime.main"
    ) || BEGINS.iter().any(|begin| name.starts_with(begin))
        || RUST.iter().any(|begin| plain.starts_with(begin))
        || name.starts_with("java.lang.Thread.run")
}

/// Number of frames, from the root on, before the program's own; 0 where there would be none left.
pub(crate) fn start_up_frames<'n>(names: impl Iterator<Item = &'n str>) -> usize {
    let (mut count, mut has_more) = (0, false);
    for (at, name) in names.enumerate() {
        let is_next = at == count;
        if is_start_of_main(name) && at <= 1
            || is_next && (is_start_up(name) || at > 0 && is_runtime_start(name))
        {
            count = at + 1;
        } else if at > 0 {
            has_more = true;
            break;
        }
    }
    if has_more { count } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rest(stack: &str) -> String {
        let names: Vec<&str> = stack.split(';').collect();
        names[start_up_frames(names.iter().copied())..].join(";")
    }

    #[test]
    fn frames_before_the_program_are_counted_and_no_other() {
        assert_eq!(
            rest("_start;__libc_start_main@@GLIBC_2.34;__libc_start_call_main;main;work"),
            "main;work"
        );
        assert_eq!(rest("function 0x3df0;__libc_start_main_impl;main"), "main", "_start without a name");
        assert_eq!(
            rest("clone3;start_thread;Thread._bootstrap (threading.py);worker (a.py)"),
            "worker (a.py)"
        );
        assert_eq!(rest("clone3;<std::sys::thread::unix::Thread>::new::thread_start;app::work"), "app::work");
        let boxed = "<std::thread::lifecycle::spawn_unchecked<f>::{closure#1} as core::ops::function::FnOnce<()>>::call_once::{shim:vtable#0}";
        assert_eq!(
            rest(&format!(
                "clone3;<std::sys::thread::unix::Thread>::new::thread_start;{boxed};std::panicking::try;f"
            )),
            "f"
        );
        assert_eq!(rest("main;clone;wait"), "main;clone;wait", "a program calls clone()");
        assert_eq!(
            rest("Thread.run (threading.py);f"),
            "Thread.run (threading.py);f",
            "its start is missing"
        );
        assert_eq!(rest("_start"), "_start");
        assert_eq!(rest("clone3;start_thread"), "clone3;start_thread");
    }
}
