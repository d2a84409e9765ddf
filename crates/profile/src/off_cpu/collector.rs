//! Garbage collectors of language runtimes, by the names of their functions.

/// Functions in which a thread waits until the collector is done, or for memory that it frees, by how names begin.
///
/// At a safepoint of HotSpot (`SafepointSynchronize::block`) threads stop for other work, too; most of it is a
/// collection.
const WAITS: &[&str] = &[
    "SafepointSynchronize::block",
    "MemAllocator::allocate",
    "G1CollectedHeap::collect",
    "G1CollectedHeap::attempt_allocation",
    "ParallelScavengeHeap::collect",
    "GCLocker::",
    "WorkGang::run_task",
    "WorkerThreads::run_task",
    "runtime.gcstopm",
    "runtime.gcAssistAlloc",
    "runtime.gcStart",
    "runtime.gcMarkDone",
    "runtime.stopTheWorldWithSema",
    "v8::internal::LocalHeap::ParkSlowPath",
    "v8::internal::GlobalSafepoint::",
    "v8::internal::IsolateSafepoint::",
];

/// Functions that collect, none of which calls another, by how names begin.
const COLLECTS: &[&str] = &[
    // HotSpot: its workers, and the operations of its own thread.
    "GangWorker::run",
    "WorkerThread::run",
    "G1ConcurrentMarkThread::run_service",
    "G1ConcurrentRefineThread::run_service",
    "VM_G1",
    "VM_ParallelGC",
    "VM_ParallelCollect",
    "VM_GenCollect",
    "VM_CollectForMetadataAllocation",
    // Go: its workers, what goroutines do for them, and the sweeper.
    "runtime.gcBgMarkWorker",
    "runtime.gcAssistAlloc",
    "runtime.bgsweep",
    // V8: on the thread of the program, and its helpers.
    "v8::internal::Heap::CollectGarbage",
    "v8::internal::ScavengerCollector::JobTask::Run",
    "v8::internal::ConcurrentMarking::JobTask",
    "v8::internal::PageEvacuationJob::Run",
    "v8::internal::Sweeper::",
    // CPython, by version; only seen with the frames of the interpreter.
    "gc_collect_main",
    "gc_collect_region",
    // Ruby.
    "gc_start",
    "gc_continue",
];

fn begins(name: &str, with: &[&str]) -> bool {
    with.iter().any(|begin| name.starts_with(begin))
}

/// Where a thread of Go's is stopped for the collector, and from where it comes if it has no goroutine: that has parked
/// or ended, or there never was one.
const GO_STOPPED: &[&str] = &["runtime.gcstopm"];
const GO_WITHOUT_GOROUTINE: &[&str] = &["runtime.park_m", "runtime.goexit0", "runtime.mstart1"];

/// True if one of the user functions of a wait waits for the collector.
pub(crate) fn waits_for_collector<'n>(names: impl Iterator<Item = &'n str> + Clone) -> bool {
    let has = |with: &[&str]| names.clone().any(|name| begins(name, with));
    has(WAITS) && !(has(GO_STOPPED) && has(GO_WITHOUT_GOROUTINE))
}

/// True if one of the functions of a path collects.
pub(crate) fn collects<'n>(mut names: impl Iterator<Item = &'n str>) -> bool {
    names.any(|name| begins(name, COLLECTS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_stopped_for_a_collection_wait_for_it_and_idle_workers_do_not() {
        let waits = |names: &str| waits_for_collector(names.split('|'));
        assert!(waits("syscall|LinuxWaitBarrier::wait|SafepointSynchronize::block|Shop.price(int)"));
        assert!(waits(
            "__GI___lll_lock_wait|Mutex::lock|G1CollectedHeap::attempt_allocation_slow|Shop.churn(int)"
        ));
        assert!(waits("runtime.futex.abi0|runtime.mPark|runtime.stopm|runtime.gcstopm|runtime.schedule"));
        // A goroutine that was preempted, and a thread that had none.
        let stopped = "runtime.mPark|runtime.stopm|runtime.gcstopm|runtime.findRunnable|runtime.schedule";
        assert!(waits(&format!("{stopped}|runtime.goschedImpl|runtime.gopreempt_m|runtime.mcall")));
        assert!(!waits(&format!("{stopped}|runtime.park_m|runtime.mcall")));
        assert!(!waits("__new_sem_wait_slow64|PosixSemaphore::wait|GangWorker::loop|GangWorker::run"));
        assert!(!waits("runtime.futex.abi0|runtime.mPark|runtime.stopm|runtime.findRunnable"));
    }

    #[test]
    fn collecting_is_told_by_the_functions_that_do_it() {
        let is = |names: &str| collects(names.split('|'));
        assert!(is("G1ParScanThreadState::trim_queue|GangWorker::loop|GangWorker::run"));
        assert!(is("deduce_unreachable|gc_collect_main|_Py_RunGC"));
        assert!(!is("Shop.price(int)|Interpreter|JavaCalls::call_helper"));
    }
}
