//! Parts that tally adds to a recording: how stacks ended and more, after the last feature section; archived files and
//! findings at the file's end.

pub mod archive;
pub mod descriptors;
pub mod disk_files;
pub mod findings_note;
pub mod go_waits;
pub mod goroutine_labels;
pub mod jit_maps;
pub mod kept_window;
pub mod open_spans;
pub mod python_functions;
pub mod same_paths;
mod section;
pub mod stack_notes;
pub mod summed_stacks;
pub mod thread_contexts;
