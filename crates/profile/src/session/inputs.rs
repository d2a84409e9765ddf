//! Inputs of a session besides records: from the file's header and its appendix.

use perfdata::appendix::descriptors::NamedDescriptors;
use perfdata::appendix::disk_files::DiskFiles;
use perfdata::appendix::go_waits::GoWaits;
use perfdata::appendix::goroutine_labels::GoroutineLabels;
use perfdata::appendix::kept_window::KeptTime;
use perfdata::appendix::open_spans::OpenSpans;
use perfdata::appendix::same_paths::SamePaths;
use perfdata::appendix::stack_notes::StackNotes;
use perfdata::appendix::thread_contexts::ThreadContexts;

use super::Session;
use super::labels::SessionLabels;
use super::runtimes::Runtimes;
use crate::off_cpu::{RecordedLives, SyscallNumbering};

impl Session {
    /// Makes the build ids of the file's header known.
    pub fn set_build_ids<'b>(&mut self, build_ids: impl Iterator<Item = (&'b str, &'b [u8])>) {
        for (path, build_id) in build_ids {
            self.machine.set_build_id(path, build_id, &mut self.profile.dsos);
        }
    }

    /// Makes the build ids of files known that share their paths with others.
    pub fn set_same_paths(&mut self, files: &SamePaths) {
        for file in &files.files {
            let path = String::from_utf8_lossy(&file.path);
            self.machine.set_build_id_of_inode(&path, file.inode, &file.build_id);
        }
    }

    /// The recorded machine, as `uname -m` names it.
    pub fn set_arch(&mut self, arch: &str) {
        self.profile.off_cpu.numbering = SyscallNumbering::of_arch(arch);
    }

    /// Keeps no more distinct frames than an input of `bytes` justifies ([`crate::bounds::distinct_frames`]).
    pub fn set_input_bytes(&mut self, bytes: usize) {
        self.most_frames = crate::bounds::distinct_frames(bytes);
    }

    /// The recorder was cut off: threads without totals of their time off the CPU get totals of their recorded times.
    pub fn set_unfinished(&mut self) {
        self.lives = RecordedLives::Unfinished;
    }

    /// The file has only the records of this time: sums of threads are cut to it.
    pub fn set_kept_time(&mut self, kept: KeptTime) {
        self.lives = RecordedLives::Window(kept);
    }

    /// Makes known how the chains ended that were unwound while recording.
    pub fn set_stack_notes(&mut self, notes: StackNotes) {
        self.stack_notes = Some(notes);
    }

    /// Makes known the files of interpreters: their frames are left out of stacks with frames of their language.
    pub fn set_runtimes(&mut self, files: &[String]) {
        if !self.opts.runtime_frames {
            self.runtimes = Runtimes::of(files);
        }
    }

    /// Makes known what the descriptors were that threads waited for.
    pub fn set_descriptors(&mut self, descriptors: NamedDescriptors) {
        self.profile.off_cpu.descriptors = descriptors;
    }

    /// Makes known which files the requests to disks were for.
    pub fn set_disk_files(&mut self, files: DiskFiles) {
        self.profile.block_io.files = files;
    }

    /// Makes known where goroutines waited.
    pub fn set_go_waits(&mut self, waits: GoWaits) {
        self.profile.off_cpu.go_waits = waits;
    }

    /// Makes known which labels programs gave their goroutines.
    pub fn set_goroutine_labels(&mut self, labels: &GoroutineLabels) {
        self.labels = SessionLabels::new(labels, &mut self.profile);
    }

    /// Makes known which calls of spans had no end: their begins may be older than the file's window.
    pub fn set_open_spans(&mut self, open: &OpenSpans) {
        self.spans.expect_open(open);
    }

    /// Makes known which requests threads worked on.
    pub fn set_thread_contexts(&mut self, contexts: ThreadContexts) {
        self.contexts = contexts;
    }

    /// Makes known that `members` events from `leader` on are a group (as `GROUP_DESC` has them).
    pub fn set_group(&mut self, leader: usize, members: usize, name: Option<&str>) {
        for info in self.profile.events.iter_mut().skip(leader).take(members) {
            info.leader = leader;
        }
        if let Some(info) = self.profile.events.get_mut(leader) {
            info.group_name = name.map(str::to_owned);
        }
    }
}
