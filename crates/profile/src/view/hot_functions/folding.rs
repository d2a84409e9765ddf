//! Names for what a reader doesn't want in full: work of the kernel, start code, and the frames of a language runtime.

use crate::machine::language_runtime::leads_to_program;
use crate::verdict::{EntryReason, entry_of};

/// Activity of the kernel, from its functions (leaf first).
pub(super) fn kernel_work(names: &[&str]) -> String {
    let name = match entry_of(names) {
        (EntryReason::Call, Some(call)) => return call_work(&call).to_owned(),
        (EntryReason::Call, None) => "system call entry and exit",
        (EntryReason::Fault, _) => "page fault",
        (EntryReason::Interrupt, _) => "interrupt",
        _ if names.iter().any(|name| ["ret_from_fork_asm", "ret_from_fork", "kthread"].contains(name)) => {
            "kernel thread"
        }
        _ => "other kernel work",
    };
    name.to_owned()
}

/// A system call by the name that people know it by.
pub(crate) fn call_work(call: &str) -> &str {
    match call {
        "futex" | "futex_wait" | "futex_wake" => "futex wait and wake",
        "nanosleep" | "clock_nanosleep" => "sleep",
        "exit" | "exit_group" | "group_exit" => "process exit",
        "execve" | "execveat" => "program start (execve)",
        "clone" | "clone3" | "fork" | "vfork" | "kernel_clone" => "process or thread start",
        "wait4" | "waitid" => "wait for a child",
        "getdents64" => "read directory",
        "openat" | "sys_openat2" => "open",
        "newfstatat" | "newstat" | "newfstat" | "statx" | "fstatat" => "stat",
        "pread64" => "pread",
        "pwrite64" => "pwrite",
        "rt_sigreturn" => "return from signal",
        "pselect6" => "select",
        other => other,
    }
}

/// True for code that runs before `main` or a thread's own function. A version may follow the name.
#[must_use]
pub fn is_start_code(name: &str) -> bool {
    const EXACT: &[&str] = &[
        "_start",
        "start_thread",
        "clone",
        "clone3",
        "__clone",
        "__clone3",
        "__GI___clone",
        "__GI___clone3",
    ];
    let base = name.split('@').next().unwrap_or(name);
    EXACT.contains(&base) || base.starts_with("__libc_start")
}

/// True for start code of programs, threads and runtimes, which nearly every sample has, and for functions of a
/// runtime's library that lead to a program's.
pub(super) fn is_process_wide(name: &str) -> bool {
    const EXACT: &[&str] = &[
        "main",
        "[unknown]",
        "main.main",
        "JavaMain",
        "thread_native_entry(Thread*)",
        "Thread::call_run()",
        "JavaThread::run()",
        "ThreadJavaMain",
        "call_stub",
        // All of Java's methods that aren't compiled.
        "Interpreter",
        "lang_start_internal",
        "pymain_main",
        "run_mod",
        "run_eval_code_obj",
        "perl_run",
        "S_run_body",
        "perl_main",
        "execute_native_thread_routine",
    ];
    const BEGINS: &[&str] = &[
        "_dl_start",
        "_dl_sysdep_start",
        "runtime.main",
        "runtime.goexit",
        "runtime.mstart",
        "runtime.mcall",
        "runtime.systemstack",
        "Py_RunMain",
        "Py_BytesMain",
        "Py_Main",
        "pymain_",
        "_PyRun_",
        "PyRun_",
        "PyEval_EvalCode",
        "JavaCalls::",
        "JavaThread::thread_main",
        // With a number or a word.
        "StubRoutines (",
        "StubRoutines::call_stub",
        "jni_invoke",
        "std::rt::lang_start",
        "std::rt::init",
        "std::sys::backtrace::__rust_begin_short",
        "std::sys_common::backtrace::__rust_begin_short",
        "std::panicking::",
        "std::panic::",
        "std::thread::Builder::spawn_unchecked",
        "std::thread::lifecycle::",
        "std::thread::spawn",
        "std::sys::thread::",
        "std::sys::pal::unix::thread::",
        "std::thread::_State_impl",
        "std::thread::_Invoker",
        "std::__invoke",
        "std::invoke",
        "std::_Function_handler",
        "core::ops::function::",
        "alloc::boxed::Box<",
        "__rust_try",
        "__rust_begin_short_backtrace",
        "node::Start",
        "node::LoadEnvironment",
        "node::SpinEventLoop",
        "node::NodeMainInstance",
        "uv_run",
    ];
    let base = name.split('@').next().unwrap_or(name);
    // Rust's `<Type as Trait>::function`.
    let head = base.trim_start_matches(['<', '&']);
    let is_known = EXACT.contains(&base) || BEGINS.iter().any(|begin| head.starts_with(begin));
    let is_call_of_closure = head.contains(" as core::ops::function::Fn");
    is_known || is_call_of_closure || is_start_code(base) || leads_to_program(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_of_the_kernel_has_the_name_of_its_entry() {
        let of = |names: &str| kernel_work(&names.split_whitespace().collect::<Vec<_>>());
        assert_eq!(of("futex_wake do_futex __x64_sys_futex do_syscall_64"), "futex wait and wake");
        assert_eq!(of("clear_page_erms exc_page_fault asm_exc_page_fault"), "page fault");
        assert_eq!(of("vfs_read ksys_read do_syscall_64"), "read");
        assert_eq!(of("do_syscall_64"), "system call entry and exit");
        assert_eq!(of("worker_thread kthread ret_from_fork"), "kernel thread");
    }

    #[test]
    fn start_code_of_programs_and_runtimes_is_process_wide() {
        assert!(
            is_process_wide("__libc_start_call_main")
                && is_process_wide("main")
                && !is_process_wide("main_loop")
        );
        let spawn = "<std::thread::lifecycle::spawn_unchecked<…>::{closure#1} as core::ops::function::FnOnce<…>>::call_once";
        assert!(
            is_process_wide(spawn) && is_process_wide("<std::sys::thread::unix::Thread>::new::thread_start")
        );
        assert!(is_process_wide(
            "<&dyn core::ops::function::Fn<…> as core::ops::function::FnOnce<…>>::call_once"
        ));
        assert!(
            is_process_wide("std::thread::_State_impl<…>::_M_run") && is_process_wide("std::__invoke<…>")
        );
        assert!(
            !is_process_wide("std::thread::sleep") && !is_process_wide("<app::Parser as app::Parse>::parse")
        );
        assert!(is_process_wide("Thread.run (threading.py)") && !is_process_wide("run (app.py)"));
        let (node, own) = ("JS:emit node:events:471:44", "JS:handler /srv/node:app/a.js:2:9");
        assert!(is_process_wide(node) && !is_process_wide(own));
    }
}
