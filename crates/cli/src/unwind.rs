//! User stacks stored as bytes, unwound on all cores while the file is read.

use crate::symbols::ObjectFiles;
use dso::unwind::{AddressSpace, Regs, Stack, Stop, UnwindInfo, Unwinder};
use dso::{Avma, FileOffset, Machine};
use profile::machine::Mappings;
use profile::reason::StackEnd;
use profile::session::{UnwindJob, Unwound};
use profile::table::{DsoKind, DsoTable};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};

/// An object file's unwind information, `None` for what is no object file.
type Module = Option<Arc<UnwindInfo>>;

/// Unwinds the jobs of one recording.
pub struct StackUnwinder<'a> {
    files: &'a ObjectFiles,
    machine: Machine,
    modules: Mutex<FxHashMap<u32, Module>>,
    /// Tells this recording's address spaces from those of another in the threads' caches.
    recording: u64,
}

/// What each thread keeps between jobs.
struct Bench {
    unwinder: Unwinder,
    /// By recording and version of the mappings.
    spaces: FxHashMap<(u64, u64), Arc<AddressSpace>>,
    chain: Vec<Avma>,
}

/// Address spaces a thread keeps; they are made again when needed.
const KEPT_SPACES: usize = 64;

thread_local! {
    static BENCH: RefCell<Bench> =
        RefCell::new(Bench { unwinder: Unwinder::new(), spaces: FxHashMap::default(), chain: Vec::new() });
}

impl<'a> StackUnwinder<'a> {
    /// For a recording made on `arch` (`uname -m`); `None` means this machine's.
    pub fn new(files: &'a ObjectFiles, arch: Option<&str>) -> Self {
        use std::sync::atomic::{AtomicU64, Ordering};
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            files,
            machine: machine_of(arch.unwrap_or(std::env::consts::ARCH)),
            modules: Mutex::default(),
            recording: NEXT.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// The call chains of all jobs, in their order.
    pub fn unwind_all(&self, jobs: &[UnwindJob<'_>], dsos: &DsoTable) -> Vec<Unwound> {
        jobs.par_iter().with_min_len(16).map(|job| self.unwind(job, dsos)).collect()
    }

    fn unwind(&self, job: &UnwindJob<'_>, dsos: &DsoTable) -> Unwound {
        let values: Vec<u64> = job.regs.values.iter().collect();
        let Some(regs) = Regs::from_perf(self.machine, job.regs.mask, &values) else {
            return Unwound { addrs: Vec::new(), end: StackEnd::NoRegisters };
        };
        BENCH.with_borrow_mut(|bench| {
            let space = self.space(bench, job, dsos);
            bench.chain.clear();
            let stack = Stack { start: regs.sp(), bytes: job.stack.bytes };
            let stop = bench.unwinder.unwind(&space, &regs, stack, job.max_frames, &mut bench.chain);
            Unwound { addrs: bench.chain.iter().map(|avma| avma.0).collect(), end: end_of(stop) }
        })
    }

    fn space(&self, bench: &mut Bench, job: &UnwindJob<'_>, dsos: &DsoTable) -> Arc<AddressSpace> {
        let key = (self.recording, job.map_version);
        if let Some(space) = bench.spaces.get(&key) {
            return Arc::clone(space);
        }
        if bench.spaces.len() >= KEPT_SPACES {
            bench.spaces.clear();
        }
        let space = Arc::new(self.build_space(&job.maps, dsos));
        bench.spaces.insert(key, Arc::clone(&space));
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
        Stop::NoUnwindInfo { .. } | Stop::NoModule { .. } => StackEnd::NoUnwindInfo,
        Stop::BadCfa { .. } | Stop::Loop => StackEnd::BadUnwind,
        Stop::TooDeep => StackEnd::MaxStack,
    }
}
