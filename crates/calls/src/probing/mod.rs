//! Uprobes to be put on programs: which functions a user selects, where they are entered and left, and whether a program
//! survives return probes.

pub mod definition;
mod probe_plan;
mod probe_selection;
pub mod return_hazards;
pub mod sdt_probes;
pub mod searched_files;
pub mod span_functions;

pub use probe_plan::ProbePlan;
pub use probe_selection::ProbeSelection;
pub use searched_files::SearchedFile;
