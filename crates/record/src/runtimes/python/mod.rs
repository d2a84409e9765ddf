//! The functions of Python programs, running and waiting: CPython 3.8 to 3.14 as it is, without flags or a restart.
//!
//! BPF programs (`bpf/python.bpf.c`) copy the interpreter's frames at each sample and where a thread leaves its CPU.
//! A thread of ours takes them at once and reads the names of functions from the process's memory, once per code
//! object. The unwinding thread puts them between the native frames of the sample ([`weave`]).

pub mod binary;
pub mod code;
mod engine;
pub mod frames;
mod layout;
pub mod line_table;
mod poller;
mod stack_store;
mod thread_names;
pub mod versions;
mod waiting;
pub mod weave;

pub use code::read_code;
pub use engine::{PythonEngine, SwitchCopies, is_possible};
pub use layout::{CopiedAt, parse_record};
pub use poller::{PythonReader, StackMoment};
pub use stack_store::{StackStore, TimedCopy};
pub use versions::Offsets;
