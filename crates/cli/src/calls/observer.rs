//! Whoever looks at a recording while it is made.

use record::calls::CallSource;
use std::path::Path;

use calls::probing::ProbePlan;

/// Called every few milliseconds of a recording, and once at its end.
pub trait RecordingObserver {
    /// Whether single calls are looked at, not only sums.
    fn wants_calls(&self) -> bool;

    /// The folder that an instrumented program writes has grown.
    ///
    /// # Errors
    /// If it can't be read, or the result not be shown.
    fn look_at_folder(&mut self, dir: &Path, at_end: bool) -> anyhow::Result<()>;

    /// The probes have summed up more.
    ///
    /// # Errors
    /// If the result can't be shown.
    fn look_at_probes(
        &mut self,
        source: &dyn CallSource,
        chosen: &ProbePlan,
        at_end: bool,
    ) -> anyhow::Result<()>;
}
