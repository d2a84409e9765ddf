//! User stacks stored as bytes, unwound on all cores while the file is read.

use crate::object_files::ObjectFiles;
use dso::unwind::{AddressSpace, Regs, Stack, Stop, UnwindInfo, Unwinder};
use dso::{Avma, FileOffset, Machine};
use perfdata::Item;
use perfdata::abi::PERF_SAMPLE_REGS_ABI_32;
use perfdata::appendix::stack_notes::StopReason;
use profile::machine::Mappings;
use profile::reason::StackEnd;
use profile::session::{FrameFinder, KnownFrames, Session, UnwindJob, UnwoundStack};
use profile::table::{DsoKind, DsoTable, FrameId, FrameTable};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// An object file's unwind information, `None` for what is no object file.
type Module = Option<Arc<UnwindInfo>>;

/// Unwinds the jobs of one recording.
pub struct StackUnwinder<'a> {
    files: &'a ObjectFiles,
    machine: Machine,
    modules: Mutex<FxHashMap<u32, Module>>,
    /// By version of the mappings.
    spaces: Mutex<FxHashMap<u64, Arc<AddressSpace>>>,
    known: RwLock<KnownFrames>,
    /// Those that no thread uses.
    finders: Mutex<Vec<FrameFinder>>,
}

/// State that each thread keeps between jobs.
struct Bench {
    unwinder: Unwinder,
    chain: Vec<Avma>,
    regs: Vec<u64>,
}

/// The stacks of a piece's jobs, one after the other: a stack of its own memory would be freed by another thread.
#[derive(Default)]
struct PieceStacks {
    addrs: Vec<u64>,
    exact: Vec<usize>,
    /// By job: where its addresses and exact positions end.
    ends: Vec<(usize, usize, StackEnd)>,
    /// Frame of each address; empty before they were looked up.
    known: Vec<Option<FrameId>>,
}

impl PieceStacks {
    fn push<'c>(&mut self, chain: impl Iterator<Item = &'c Avma>, exact: &[usize], end: StackEnd) {
        self.addrs.extend(chain.map(|avma| avma.0));
        self.exact.extend_from_slice(exact);
        self.ends.push((self.addrs.len(), self.exact.len(), end));
    }

    fn iter(&self) -> impl Iterator<Item = UnwoundStack<'_>> {
        let (mut addr, mut exact) = (0, 0);
        self.ends.iter().map(move |&(next_addr, next_exact, end)| {
            let range = std::mem::replace(&mut addr, next_addr)..next_addr;
            UnwoundStack {
                addrs: &self.addrs[range.clone()],
                known: self.known.get(range).unwrap_or_default(),
                exact: &self.exact[std::mem::replace(&mut exact, next_exact)..next_exact],
                end,
            }
        })
    }
}

/// Address spaces kept; they are made again when needed.
const KEPT_SPACES: usize = 64;

/// Records from which a thread gets its next piece of work.
const PIECE: usize = 256;

/// Pieces made before the first of them is waited for.
const AHEAD: usize = 8;

thread_local! {
    static BENCH: RefCell<Bench> =
        RefCell::new(Bench { unwinder: Unwinder::new(), chain: Vec::new(), regs: Vec::new() });
}

/// A job with what was mapped when it was sampled.
type Placed<'i> = (UnwindJob<'i>, Arc<AddressSpace>);

impl<'a> StackUnwinder<'a> {
    /// For a recording made on `arch` (`uname -m`); `None` means this machine's.
    pub fn new(files: &'a ObjectFiles, arch: Option<&str>) -> Self {
        let machine = machine_of(arch.unwrap_or(std::env::consts::ARCH));
        Self {
            files,
            machine,
            modules: Mutex::default(),
            spaces: Mutex::default(),
            known: RwLock::default(),
            finders: Mutex::default(),
        }
    }

    /// Makes jobs of `items` while the other cores unwind those made before: `make` applies a record and may ask
    /// for a stack, `take` gets it. Both are called on this thread, and `take` always the same number of records
    /// after `make`: what they do to the session does not depend on how fast the others are.
    pub fn unwind_along<'s, 'i>(
        &self,
        session: &mut Session,
        items: &'s [Item<'i>],
        mut make: impl FnMut(&mut Session, &'s Item<'i>) -> Option<UnwindJob<'i>>,
        mut take: impl FnMut(&mut Session, UnwindJob<'i>, &UnwoundStack<'_>),
    ) {
        let mut take_all = |session: &mut Session, piece: Receiver<(Vec<Placed<'i>>, PieceStacks)>| {
            // A thread that panicked sends nothing; the scope passes its panic on.
            let (jobs, stacks) = piece.recv().unwrap_or_default();
            jobs.into_iter().zip(stacks.iter()).for_each(|((job, _), stack)| take(session, job, &stack));
            self.publish(&session.profile().frames);
        };
        rayon::in_place_scope(|scope| {
            let mut ahead = VecDeque::with_capacity(AHEAD);
            let mut last: Option<(u64, Arc<AddressSpace>)> = None;
            for items in items.chunks(PIECE) {
                let mut jobs: Vec<Placed<'i>> = Vec::new();
                for item in items {
                    if let Some(job) = make(session, item) {
                        if jobs.is_empty() {
                            jobs.reserve_exact(items.len());
                        }
                        let last = match &mut last {
                            Some(last) if last.0 == job.map_version => last,
                            last => last.insert((job.map_version, self.space(&job, &session.profile().dsos))),
                        };
                        jobs.push((job, Arc::clone(&last.1)));
                    }
                }
                let (sender, receiver) = sync_channel(1);
                if !jobs.is_empty() {
                    scope.spawn(move |_| {
                        let mut stacks = PieceStacks::default();
                        jobs.iter().for_each(|(job, space)| self.unwind(job, space, &mut stacks));
                        self.find_frames(&jobs, &mut stacks);
                        // Nobody listens any more only when this thread's caller panicked.
                        let _ = sender.send((jobs, stacks));
                    });
                }
                if ahead.len() == AHEAD
                    && let Some(first) = ahead.pop_front()
                {
                    take_all(session, first);
                }
                ahead.push_back(receiver);
            }
            ahead.into_iter().for_each(|piece| take_all(session, piece));
        });
    }

    /// Appends the job's stack to `stacks`.
    fn unwind(&self, job: &UnwindJob<'_>, space: &AddressSpace, stacks: &mut PieceStacks) {
        BENCH.with_borrow_mut(|bench| {
            bench.regs.clear();
            bench.regs.extend(job.regs.values.iter());
            let machine = self.machine_of_task(job.regs.abi);
            let Some(regs) = Regs::from_perf(machine, job.regs.mask, &bench.regs) else {
                return stacks.push([].iter(), &[], StackEnd::NoRegisters);
            };
            bench.chain.clear();
            let stack = Stack::new(regs.sp(), job.stack.bytes);
            let stop = bench.unwinder.unwind(space, &regs, stack, job.max_frames, &mut bench.chain);
            stacks.push(bench.chain.iter(), bench.unwinder.exact_frames(), end_of(stop));
        })
    }

    /// Looks up the frames of a piece's stacks, as far as they were published.
    fn find_frames(&self, jobs: &[Placed<'_>], stacks: &mut PieceStacks) {
        let finders = || self.finders.lock().unwrap_or_else(PoisonError::into_inner);
        let mut finder = finders().pop().unwrap_or_default();
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let mut frames = Vec::with_capacity(stacks.addrs.len());
        for ((job, _), stack) in jobs.iter().zip(stacks.iter()) {
            finder.find(&known, job, &stack, &mut frames);
        }
        stacks.known = frames;
        finders().push(finder);
    }

    /// Publishes the session's frames if there are many new ones and nobody looks some up at this moment.
    fn publish(&self, table: &FrameTable) {
        if let Ok(mut known) = self.known.try_write()
            && known.is_behind(table)
        {
            known.follow(table);
        }
    }

    /// The processor of a task: 64-bit kernels of ARM run programs of 32 bits too.
    fn machine_of_task(&self, abi: u64) -> Machine {
        if self.machine == Machine::Aarch64 && abi == PERF_SAMPLE_REGS_ABI_32 {
            Machine::Arm
        } else {
            self.machine
        }
    }

    fn space(&self, job: &UnwindJob<'_>, dsos: &DsoTable) -> Arc<AddressSpace> {
        let mut spaces = self.spaces.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(space) = spaces.get(&job.map_version) {
            return Arc::clone(space);
        }
        if spaces.len() >= KEPT_SPACES {
            spaces.clear();
        }
        let space = Arc::new(self.build_space(&job.maps, dsos));
        spaces.insert(job.map_version, Arc::clone(&space));
        space
    }

    fn build_space(&self, maps: &Mappings, dsos: &DsoTable) -> AddressSpace {
        let mut space = AddressSpace::new();
        for mapping in maps.as_slice() {
            let (start, end) = (Avma(mapping.start), Avma(mapping.end));
            match self.module(mapping.dso.0, dsos) {
                Some(info) => {
                    let (offset, size) = (FileOffset(mapping.base), mapping.end - mapping.start);
                    match info.object().svma_of_mapping(offset, size) {
                        Some(svma) => space.map(start, end, svma, info),
                        None => space.map_anonymous(start, end),
                    }
                }
                None => space.map_anonymous(start, end),
            }
        }
        space
    }

    fn module(&self, dso: u32, dsos: &DsoTable) -> Option<Arc<UnwindInfo>> {
        let known = self.modules.lock().unwrap_or_else(PoisonError::into_inner).get(&dso).cloned();
        known.unwrap_or_else(|| {
            let module = self.open(dso, dsos);
            let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
            modules.entry(dso).or_insert(module).clone()
        })
    }

    fn open(&self, dso: u32, dsos: &DsoTable) -> Module {
        let dso = dsos.of(profile::table::DsoId(dso));
        if !matches!(dso.kind, DsoKind::File | DsoKind::Vdso) {
            return None;
        }
        let file = self.files.open(dso);
        let object = Arc::clone(file.as_ref().as_ref().ok()?.object()?);
        Some(UnwindInfo::new(object))
    }
}

/// The processor `uname -m` names.
fn machine_of(arch: &str) -> Machine {
    match arch {
        "x86_64" | "amd64" => Machine::X86_64,
        "aarch64" | "arm64" => Machine::Aarch64,
        arch if arch.starts_with("arm") => Machine::Arm,
        "i386" | "i486" | "i586" | "i686" | "x86" => Machine::X86,
        _ => Machine::Other(0),
    }
}

fn end_of(stop: Stop) -> StackEnd {
    match stop {
        Stop::ReachedRoot => StackEnd::ReachedRoot,
        Stop::StackEnd { .. } => StackEnd::StackCut,
        Stop::NoUnwindInfo { .. }
        | Stop::OtherStack { .. }
        | Stop::NoModule { .. }
        | Stop::FileShrank { .. } => StackEnd::NoUnwindInfo,
        Stop::InterruptedStack { .. } => StackEnd::Stopped(StopReason::InterruptedStack),
        Stop::BadCfa { .. } => StackEnd::BadUnwind,
        Stop::Loop => StackEnd::Loop,
        Stop::TooDeep => StackEnd::MaxStack,
    }
}
