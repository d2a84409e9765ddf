//! Calls as they happen: a line each, as text or JSON.

use super::follow::TracedThreads;
use super::session::CallSink;
use super::summary::CallSummary;
use crate::text::view_form::ViewForm;
use record::syscalls::waiting_call;
use serde_json::json;
use std::fmt::Write as _;
use std::io::{self, Write};
use syscalls::argument::ArgKind;
use syscalls::decode::{self, CallContext};
use syscalls::errno;
use syscalls::filter::CallFilter;
use syscalls::layout::{CallRecord, CallSum, RecordKind, SumKey};
use syscalls::table::{CallSignature, CallTable};

/// Which calls are shown, and how.
#[derive(Clone, Debug)]
pub struct ShownCalls {
    /// By number.
    pub filter: CallFilter,
    /// Shorter ones are not, ns.
    pub min_ns: u64,
    /// Only those that failed.
    pub only_failed: bool,
    /// As text, or JSON with one object a line.
    pub form: ViewForm,
    /// Time 0 of the first column, ns.
    pub begin_ns: u64,
}

/// Writes lines, and adds up what it writes.
pub struct CallPrinter<'a> {
    table: &'a CallTable,
    shown: ShownCalls,
    to: Box<dyn Write + 'a>,
    line: String,
    /// Threads and their files.
    pub threads: TracedThreads,
    /// Sums of the shown calls.
    pub summary: CallSummary,
    /// Threads of which a call was shown that returned.
    returned: std::collections::HashSet<u32>,
}

impl std::fmt::Debug for CallPrinter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Printer").field("shown", &self.shown).finish_non_exhaustive()
    }
}

impl<'a> CallPrinter<'a> {
    /// Writes to `to`.
    pub fn new(table: &'a CallTable, shown: ShownCalls, to: Box<dyn Write + 'a>) -> Self {
        let (threads, summary) = (TracedThreads::default(), CallSummary::default());
        let returned = std::collections::HashSet::new();
        Self { table, shown, to, line: String::new(), threads, summary, returned }
    }

    fn wants(&self, record: &CallRecord<'_>) -> bool {
        let is_long = record.start_ns == 0 || duration_ns(record) >= self.shown.min_ns;
        let is_named =
            if record.is_compat { self.shown.filter.wants_all() } else { self.shown.filter.wants(record.nr) };
        is_named && is_long && (!self.shown.only_failed || errno::of(record.ret).is_some())
    }

    fn show(&mut self, signature: Option<&CallSignature>, record: &CallRecord<'_>) -> io::Result<()> {
        let is_exec = signature.is_some_and(|signature| matches!(signature.name, "execve" | "execveat"));
        let program = if is_exec { self.threads.program(record) } else { None };
        let (mut call, mut returned) = (String::new(), String::new());
        match signature {
            Some(signature) => {
                let mut context = CallContext { files: &mut self.threads.files, program: program.as_ref() };
                decode::write_call(signature, record, &mut context, &mut call);
                // The descriptor that the call made is known after it.
                if !record.is_open && matches!(signature.returns, ArgKind::Fd) {
                    context.files.learn(signature, record);
                }
                decode::write_return(signature, record, &mut context, &mut returned);
            }
            None => write_unknown(record, &mut call, &mut returned),
        }
        match self.shown.form {
            ViewForm::Json => self.write_json(signature, record, &call),
            ViewForm::Text => self.write_line(record, &call, &returned),
        }
    }

    /// `    12.345 (  0.012 ms) cat/1234  close(3) = 0`
    fn write_line(&mut self, record: &CallRecord<'_>, call: &str, returned: &str) -> io::Result<()> {
        let at_ns = if record.start_ns == 0 { record.end_ns } else { record.start_ns };
        let at_ms = at_ns.saturating_sub(self.shown.begin_ns) as f64 / 1e6;
        let comm = self.threads.comm(record.tid);
        let tid = record.tid;
        self.line.clear();
        let _ = if record.start_ns == 0 || record.is_open {
            write!(self.line, "{at_ms:10.3} (          ) {comm}/{tid} {call} = {returned}")
        } else {
            let ms = duration_ns(record) as f64 / 1e6;
            write!(self.line, "{at_ms:10.3} ({ms:7.3} ms) {comm}/{tid} {call} = {returned}")
        };
        self.line.push('\n');
        self.to.write_all(self.line.as_bytes())
    }

    fn write_json(
        &mut self,
        signature: Option<&CallSignature>,
        record: &CallRecord<'_>,
        call: &str,
    ) -> io::Result<()> {
        let is_known = record.start_ns != 0;
        let arguments = call.split_once('(').map_or("", |(_, rest)| rest.strip_suffix(')').unwrap_or(rest));
        let errno = errno::of(record.ret).filter(|_| !record.is_open);
        let value = json!({
            "time_ns": if is_known { record.start_ns } else { record.end_ns },
            "duration_ns": (is_known && !record.is_open).then(|| duration_ns(record)),
            "comm": &*self.threads.comm(record.tid),
            "pid": record.tgid,
            "tid": record.tid,
            "syscall": signature.map(|signature| signature.name),
            "nr": record.nr,
            "abi": if record.is_compat { "32-bit" } else { "64-bit" },
            "args": arguments,
            "raw_args": &record.args[..signature.map_or(6, |signature| signature.arguments.len().min(6))],
            "ret": (!record.is_open).then_some(record.ret),
            "errno": errno.and_then(errno::name),
        });
        writeln!(self.to, "{value}")
    }

    /// The calls that threads wait in: at the begin all, at the end those that began before the trace and still last.
    ///
    /// # Errors
    /// The output can't be written.
    pub fn show_waiting(&mut self, threads: &[(u32, u32)], at_end: bool) -> io::Result<()> {
        for &(tid, tgid) in threads {
            let is_new = !at_end || self.returned.contains(&tid);
            if let Some(record) = waiting_call(tid, tgid).filter(|_| is_new) {
                self.take(&record)?;
            }
        }
        Ok(())
    }

    /// Writes text after the lines.
    ///
    /// # Errors
    /// The output can't be written.
    pub fn write(&mut self, text: &str) -> io::Result<()> {
        self.to.write_all(text.as_bytes())?;
        self.to.flush()
    }
}

impl CallSink for CallPrinter<'_> {
    fn take(&mut self, record: &CallRecord<'_>) -> io::Result<()> {
        if record.kind != RecordKind::Call {
            self.threads.learn(record);
            return Ok(());
        }
        let signature = if record.is_compat { None } else { self.table.of(record.nr) };
        if self.wants(record) {
            if !record.is_open {
                self.returned.insert(record.tid);
                self.summary.add(key_of(record), sum_of(record));
            } else if record.start_ns != 0 {
                self.summary.add_open(key_of(record));
            }
            self.show(signature, record)?;
        }
        if let Some(signature) = signature.filter(|_| !record.is_open) {
            self.threads.learn_call(signature, record);
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

fn duration_ns(record: &CallRecord<'_>) -> u64 {
    record.end_ns.saturating_sub(record.start_ns)
}

/// Thread and call of a record.
#[must_use]
pub fn key_of(record: &CallRecord<'_>) -> SumKey {
    SumKey { tid: record.tid, tgid: record.tgid, nr: record.nr, is_compat: record.is_compat }
}

fn sum_of(record: &CallRecord<'_>) -> CallSum {
    let ns = if record.start_ns == 0 { 0 } else { duration_ns(record) };
    let errors = u64::from(errno::of(record.ret).is_some());
    CallSum { count: 1, errors, total_ns: ns, min_ns: ns, max_ns: ns }
}

fn write_unknown(record: &CallRecord<'_>, call: &mut String, returned: &mut String) {
    let abi = if record.is_compat { "32-bit " } else { "" };
    let _ = write!(call, "{abi}syscall_{}(", record.nr);
    for (at, arg) in record.args.iter().enumerate() {
        let _ = write!(call, "{}{arg:#x}", if at > 0 { ", " } else { "" });
    }
    call.push(')');
    if record.is_open {
        returned.push('?');
    } else {
        let _ = write!(returned, "{}", record.ret);
    }
}
