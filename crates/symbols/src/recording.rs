//! From the records of a file to a profile with names: reading in time order, unwinding, symbolizing.

mod image_addresses;

use crate::{FileFormats, NameOpts, ObjectFiles, StackUnwinder, UnnamedCode, name_unnamed, symbolize};
use perfdata::abi::PERF_SAMPLE_STACK_USER;
use perfdata::appendix::descriptors::NamedDescriptors;
use perfdata::appendix::disk_files::DiskFiles;
use perfdata::appendix::go_waits::GoWaits;
use perfdata::appendix::goroutine_labels::GoroutineLabels;
use perfdata::appendix::kept_window::KeptTime;
use perfdata::appendix::open_spans::OpenSpans;
use perfdata::appendix::python_functions::PythonFunctions;
use perfdata::appendix::same_paths::SamePaths;
use perfdata::appendix::stack_notes::StackNotes;
use perfdata::appendix::summed_stacks::SummedStacks;
use perfdata::appendix::thread_contexts::ThreadContexts;
use perfdata::{Features, Order, PerfData};
use profile::profile::Profile;
use profile::session::{Session, SessionOpts};
use profile::source::Want;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Parts of a recording to read.
#[derive(Default)]
pub struct LoadOpts {
    /// Data that the session keeps.
    pub session: SessionOpts,
    /// Requests to the object files.
    pub want: Want,
    /// Where names come from.
    pub names: NameOpts,
    /// Name of code without a symbol.
    pub unnamed: UnnamedCode,
}

/// A recording, read.
#[derive(Default)]
pub struct Recording {
    /// A recording, aggregated and named.
    pub profile: Profile,
    /// The object files, open.
    pub files: Arc<ObjectFiles>,
    /// The file's header.
    pub features: Features,
    /// Findings while reading.
    pub diagnostics: perfdata::FileDiagnostics,
}

/// Records handed to all cores at once, where stacks have to be unwound.
const BATCH: usize = 8192;
/// The same without stacks: few enough to stay in a core's cache until they are taken.
const BATCH_WITHOUT_STACKS: usize = 1024;

/// A recording while it is read.
pub struct ReadProgress<'r> {
    /// How far in the file, in bytes.
    pub offset: u64,
    session: &'r Session,
    files: &'r Arc<ObjectFiles>,
    features: &'r Features,
    unnamed: UnnamedCode,
    runtime_frames: bool,
}

impl ReadProgress<'_> {
    /// Part read by now, with the names of its functions.
    pub fn snapshot(&self) -> Recording {
        let mut profile = self.session.snapshot();
        name_all(&mut profile, self.files, Want::Names, self.unnamed);
        if !self.runtime_frames {
            profile.leave_out_v8_frames();
        }
        let (features, files) = (self.features.clone(), Arc::clone(self.files));
        Recording { profile, features, diagnostics: perfdata::FileDiagnostics::default(), files }
    }
}

/// Reads `file` with everything `opts` asks for. Damage is in the diagnostics, with what could be salvaged.
pub fn load(file: &PerfData<'_>, opts: LoadOpts) -> Recording {
    load_watched(file, opts, &mut |_| ControlFlow::Continue(()))
}

/// The same; `watch` goes along with it, and when it requests a stop, what is read by then is the recording.
pub fn load_watched(
    file: &PerfData<'_>,
    opts: LoadOpts,
    watch: &mut dyn FnMut(&ReadProgress<'_>) -> ControlFlow<()>,
) -> Recording {
    let files = Arc::new(ObjectFiles::of_recording(file, &opts.names));
    let features = file.features();
    let runtime_frames = opts.session.runtime_frames || opts.names.runtime_frames;
    let mut session = session_of_profile(file, SessionOpts { runtime_frames, ..opts.session }, &files);
    let unnamed = opts.unnamed;
    let unwinder = StackUnwinder::new(&files, features.arch.as_deref());
    let has_stacks = file.events().iter().any(|event| event.attr.samples(PERF_SAMPLE_STACK_USER));
    let batch = if has_stacks { BATCH } else { BATCH_WITHOUT_STACKS };
    let diagnostics = file.visit_batches(Order::Time, batch, |items| {
        unwinder.unwind_along(&mut session, items, Session::push, Session::complete);
        let offset = items.last().map_or(0, |item| item.offset);
        watch(&ReadProgress { offset, session: &session, files: &files, features, unnamed, runtime_frames })
    });
    let mut profile = session.finish();
    if let Some(layout) = &features.cpu_topology {
        profile.cpu_sockets = layout.cpus.iter().map(|cpu| cpu.socket_id).collect();
    }
    name_all(&mut profile, &files, opts.want, unnamed);
    if !runtime_frames {
        profile.leave_out_v8_frames();
    }
    Recording { profile, features: features.clone(), diagnostics, files }
}

/// Names what is not named yet, with as much as is wanted.
pub fn name_all(profile: &mut Profile, files: &ObjectFiles, want: Want, unnamed: UnnamedCode) {
    symbolize(profile, files, want);
    if unnamed == UnnamedCode::Functions {
        name_unnamed(profile, files);
    }
}

/// A session for the records of `file`, with the build-ids of its header.
#[must_use]
pub fn session_of(file: &PerfData<'_>, opts: SessionOpts) -> Session {
    let mut session = Session::new(file.events(), file.endian(), opts);
    session.set_input_bytes(file.bytes().len());
    if let Some(arch) = &file.features().arch {
        session.set_arch(arch);
    }
    let ids = file.features().build_ids.iter();
    let ids: Vec<_> = ids.map(|id| (String::from_utf8_lossy(&id.filename), id.build_id.as_slice())).collect();
    session.set_build_ids(ids.iter().map(|(path, id)| (path.as_ref(), *id)));
    if let Some(files) = file.appendix().and_then(|appendix| SamePaths::read(appendix, file.endian())) {
        session.set_same_paths(&files);
    }
    if let Some(labels) = file.appendix().and_then(|appendix| GoroutineLabels::read(appendix, file.endian()))
    {
        session.set_goroutine_labels(&labels);
    }
    session
}

/// The same with all that a profile needs of the file.
fn session_of_profile(file: &PerfData<'_>, mut opts: SessionOpts, files: &ObjectFiles) -> Session {
    if opts.trace_text.is_none()
        && let Some(formats) = FileFormats::of(file)
    {
        opts.trace_text = Some(Box::new(formats));
    }
    let mut session = session_of(file, opts);
    if file.is_unfinished() {
        session.set_unfinished();
    }
    if let Some(kept) = file.appendix().and_then(|appendix| KeptTime::read(appendix, file.endian())) {
        session.set_kept_time(kept);
    }
    if let Some(notes) = file.appendix().and_then(|appendix| StackNotes::read(appendix, file.endian())) {
        session.set_stack_notes(notes);
    }
    if let Some(python) = file.appendix().and_then(|appendix| PythonFunctions::read(appendix, file.endian()))
    {
        session.set_runtimes(&python.runtimes);
    }
    if let Some(names) = file.appendix().and_then(|appendix| NamedDescriptors::read(appendix, file.endian()))
    {
        session.set_descriptors(names);
    }
    if let Some(files) = file.appendix().and_then(|appendix| DiskFiles::read(appendix, file.endian())) {
        session.set_disk_files(files);
    }
    if let Some(waits) = file.appendix().and_then(|appendix| GoWaits::read(appendix, file.endian())) {
        session.set_go_waits(waits);
    }
    if let Some(open) = file.appendix().and_then(|appendix| OpenSpans::read(appendix, file.endian())) {
        session.set_open_spans(&open);
    }
    if let Some(of) = file.appendix().and_then(|appendix| ThreadContexts::read(appendix, file.endian())) {
        session.set_thread_contexts(of);
    }
    if let Some(mut stacks) = file.appendix().and_then(|appendix| SummedStacks::read(appendix, file.endian()))
    {
        image_addresses::place(&mut stacks, files);
        session.add_summed_stacks(&stacks);
    }
    for group in &file.features().groups {
        session.set_group(group.leader as usize, group.members as usize, group.given_name());
    }
    session
}
