//! Requests by OpenTelemetry's thread context: which one a thread works on, as the program itself publishes it.
//!
//! A BPF program (`bpf/otel.bpf.c`) looks at each thread a thousand times per second of its CPU time, and where it leaves
//! its CPU. A thread of ours gives it the places where processes keep their contexts, and takes
//! what changed.
//
// Source: OTEP 4947 (thread context) and OTEP 4719 (process context), opentelemetry-specification, oteps/profiles.

mod engine;
mod layout;
mod process;
mod process_context;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use perfdata::appendix::thread_contexts::{ContextChange, ThreadContexts};
use rustc_hash::FxHashMap;

use crate::accounting::summary::Notice;
use crate::open::target::Whom;
use crate::session::opts::RecordOpts;
use crate::sys::SignalReader;
use crate::sys::bpf_error::{BPF_RIGHTS, Error};
use engine::ContextEngine;
use layout::ChangeRecord;
use process::{ContextProcess, is_below};

pub use layout::{ContextRecord, parse_record};
pub use process_context::{attribute_keys, attributes};

/// The name of these requests where functions have theirs.
pub const SPAN_NAME: &str = "otel";

/// How often the ring is looked at: the keys of short programs are read while they live.
const TICK: Duration = Duration::from_millis(10);
/// Changes kept, 64 bytes each.
const MOST_CHANGES: usize = 4_000_000;
/// Routes kept: a program that puts what it was asked for in there has no end of them.
const MOST_ROUTES: usize = 10_000;

/// Attributes that are a request's route, best first, and those that go before it. Dots may be underscores.
const ROUTES: [&str; 6] =
    ["http.route", "trace endpoint", "url.template", "rpc.method", "local_root_span.name", "http.target"];
const METHODS: [&str; 2] = ["http.request.method", "http.method"];

/// The looks, going on.
#[derive(Debug)]
pub struct ContextWatch {
    stop: Arc<AtomicBool>,
    attached: Receiver<Option<String>>,
    thread: JoinHandle<ThreadContexts>,
}

impl ContextWatch {
    /// Starts them if they were asked for.
    ///
    /// # Errors
    /// If there are several files, or the thread can't be started.
    pub fn begin(opts: &RecordOpts) -> Result<Option<Self>, crate::error::Error> {
        if !opts.thread_contexts {
            return Ok(None);
        }
        if opts.file.overwrite || opts.file.switch_output.is_some() {
            return Err(crate::error::Error::OneFile);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (send, attached) = sync_channel(1);
        let of = Looking { stop: stop.clone(), roots: roots(&opts.target.whom), cpus: opts.target.cpus() };
        let thread = std::thread::Builder::new().name("tally-otel".to_owned());
        let thread = thread.spawn(move || of.run(&send));
        let thread = thread
            .map_err(crate::error::Error::system("starting a thread (raise ulimit -v or ulimit -u)"))?;
        Ok(Some(Self { stop, attached, thread }))
    }

    /// Waits until threads are looked at, or can't be: then why not.
    #[must_use]
    pub fn refusal(&self) -> Option<String> {
        self.attached.recv().unwrap_or_else(|_| Some("the thread that reads them has ended".to_owned()))
    }

    /// Ends it.
    #[must_use]
    pub fn finish(self) -> ThreadContexts {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or_default()
    }
}

/// The processes whose descendants are looked at, too; `None`: all processes are.
fn roots(whom: &Whom) -> Option<Vec<u32>> {
    match whom {
        // Views leave out the processes of other users.
        Whom::System | Whom::User(_) => None,
        Whom::Processes(pids) | Whom::Trees(pids) | Whom::Threads(pids) => Some(pids.clone()),
        Whom::Command => Some(vec![std::process::id()]),
    }
}

struct Looking {
    stop: Arc<AtomicBool>,
    roots: Option<Vec<u32>>,
    cpus: Vec<u32>,
}

impl Looking {
    fn run(self, attached: &SyncSender<Option<String>>) -> ThreadContexts {
        let _blocked = SignalReader::leave_to_recording();
        let mut engine = match ContextEngine::start(&self.cpus) {
            Ok(engine) => engine,
            Err(error) => {
                let _ = attached.try_send(Some(in_short(&error)));
                return ThreadContexts::default();
            }
        };
        let _ = attached.try_send(None);
        let mut seen = SeenContexts::default();
        while !self.stop.load(Ordering::Relaxed) {
            std::thread::park_timeout(TICK);
            self.poll(&mut engine, &mut seen);
        }
        engine.stop();
        self.poll(&mut engine, &mut seen);
        engine.counts().add_to(&mut seen.all);
        seen.all
    }

    fn poll(&self, engine: &mut ContextEngine, seen: &mut SeenContexts) {
        let mut asked = Vec::new();
        engine.poll(&mut |record| match record {
            ContextRecord::Change(change) => seen.take(&change),
            ContextRecord::Ask(ask) => asked.push(ask),
        });
        for ask in asked {
            let is_wanted = self.roots.as_ref().is_none_or(|roots| is_below(ask.pid, roots));
            let found = is_wanted.then(|| ContextProcess::find(ask.pid)).flatten();
            let Some(found) = found else { continue };
            engine.watch(ask.tgid, found.value(ask.mm));
            seen.processes.insert(ask.pid, found);
        }
        seen.all.processes = u64::try_from(seen.processes.len()).unwrap_or(u64::MAX);
    }
}

/// The error without what the kernel's verifier wrote about the program.
fn in_short(error: &Error) -> String {
    if error.is_for_rights() {
        return format!("they are read by a BPF program, which this user may not load: {BPF_RIGHTS}");
    }
    let text = error.to_string();
    let number = text.find("(os error").and_then(|at| Some(at + text[at..].find(')')? + 1));
    text[..number.unwrap_or(text.len())].to_owned()
}

/// Changes so far.
#[derive(Default)]
struct SeenContexts {
    processes: FxHashMap<u32, ContextProcess>,
    routes: FxHashMap<String, u32>,
    all: ThreadContexts,
}

impl SeenContexts {
    fn take(&mut self, record: &ChangeRecord<'_>) {
        if self.all.changes.len() >= MOST_CHANGES {
            self.all.lost += 1;
            return;
        }
        let route = self.route_of(record);
        self.all.changes.push(ContextChange {
            time_ns: record.time_ns,
            before_ns: record.before_ns,
            off_ns: record.off_ns,
            pid: record.pid,
            tid: record.tid,
            has_context: record.has_context,
            route,
            trace: record.trace,
            span: record.span,
        });
    }

    /// Number of the route's name, from 1 on; 0 without one.
    fn route_of(&mut self, record: &ChangeRecord<'_>) -> u32 {
        let Some(process) = self.processes.get_mut(&record.pid).filter(|_| record.has_context) else {
            return 0;
        };
        let (entries, is_whole) = attributes(record.attributes);
        // A later entry is the newer value.
        let mut other_text = 0;
        let mut value = |wanted: &str| {
            let is_it = |key: &str| key == wanted || key.replace('_', ".") == wanted;
            let last = entries.iter().rev().find(|(key, _)| process.key(*key).is_some_and(is_it));
            let text = std::str::from_utf8(last?.1).inspect_err(|_| other_text = 1).ok()?;
            Some(text.to_owned()).filter(|text| !text.is_empty())
        };
        let route = ROUTES.iter().find_map(|key| value(key));
        let method = METHODS.iter().find_map(|key| value(key));
        self.all.damaged += u64::from(!is_whole) | other_text;
        let Some(route) = route else { return 0 };
        let name = match method {
            Some(method) if !route.starts_with(&method) => format!("{method} {route}"),
            _ => route,
        };
        if let Some(known) = self.routes.get(&name) {
            return *known;
        }
        if self.all.routes.len() >= MOST_ROUTES {
            return 0;
        }
        self.all.routes.push(name.clone());
        let number = self.all.routes.len() as u32;
        self.routes.insert(name, number);
        number
    }
}

/// Notice about a recording without any request.
#[must_use]
pub(crate) fn notice_of(contexts: &ThreadContexts) -> Option<Notice> {
    let why = if contexts.processes == 0 {
        "no process publishes OpenTelemetry's thread context (it would export the variable otel_thread_ctx_v1)"
    } else if contexts.changes.iter().all(|change| !change.has_context) {
        "no thread had a context when it was looked at"
    } else {
        return None;
    };
    Some(Notice::NoSpans(SPAN_NAME.to_owned(), why.to_owned()))
}
