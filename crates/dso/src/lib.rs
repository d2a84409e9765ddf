//! The contents of one object file: symbols, lines, inlined calls, unwind rules, code bytes.
//!
//! Duties: read ELF files of any class, find what belongs to them (debug files, dwz, split DWARF), name
//! addresses, unwind stacks by their rules, disassemble. It also reads the stand-ins for object files:
//! kallsyms, perf-PID.map and the vdso.
//!
//! It does not know about processes (the caller passes where a file is mapped), print, read the environment
//! except where documented, or panic on any input.
//!
//! Symbolize an address:
//!
//! ```
//! use dso::loader::{Loader, Wanted};
//! use dso::{DebugSearch, Svma};
//!
//! # let path = std::path::Path::new("../../tests/golden/annotate/root/tmp/counter");
//! let loader = Loader::new(DebugSearch::default());
//! let program = loader.load(&Wanted::File { path, build_id: None })?;
//! let address = Svma(0x400170);
//! println!("{}", dso::demangle(program.symbol(address)?.name));
//! let mut frames = Vec::new();
//! program.frames(address, &mut frames)?; // inlined functions first
//! for frame in &frames {
//!     println!("{:?} at {:?}:{:?}", frame.function, frame.file, frame.line);
//! }
//! # assert_eq!(program.symbol(address)?.name, "weigh");
//! # assert!(frames[0].file.as_ref().is_some_and(|file| file.ends_with("counter.c")));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod addr;
pub mod bounds;
pub mod code;
pub mod demangle;
pub mod dwarf;
pub mod elf;
mod error;
mod files;
pub mod fuzz;
pub mod kernel;
pub mod loader;
mod missing;
pub mod process;
pub mod symtab;
pub mod unwind;

pub use addr::{Avma, FileOffset, Svma};
pub use code::flow::{FunctionFlow, function_flow, straight_bytes};
pub use demangle::{
    V8Function, brief, demangle, demangle_with_parameters, of_any_compiler, v8_function, without_parameters,
    without_version,
};
pub use dwarf::{
    LineOffset, LineResolver, LineRow, SampledFrame, SampledPlace, SampledUnits, SourceFrame,
    is_panic_expected,
};
pub use elf::build_id::BuildId;
pub use elf::exported::{Exported, exported, exported_data, span_of_functions};
pub use elf::thread_local::{ThreadLocalAccess, thread_local_access};
pub use elf::{ElfSection, Machine, ObjectFile, Segment};
pub use error::Error;
pub use files::file_identity::FileIdentity;
pub use files::mapped_memory::{bound_file_memory, release_files_above, release_files_above_bound};
pub use files::mmap::{Bytes, MappedFile, shrunken_files};
pub use files::own_rights::{self, OwnRights};
pub use files::source_file::SourceAccess;
pub use files::untrusted_file::{FileRule, Refused};
pub use files::{named_file, private_folder, source_file, system_file, untrusted_file};
pub use kernel::recorded_kernel::RecordedKernel;
pub use loader::debug_search::{
    ArchivedDebugFiles, DebugSearch, KernelNames, configured_build_id_cache, set_build_id_cache,
};
pub use loader::{Loaded, Loader, Wanted};
pub use missing::Missing;
pub use process::{
    MapLine, container_id, container_of_cgroup, innermost_pid, parse_map_line, user_of_process,
};
pub use symtab::index::SymbolIndex;
pub use symtab::unnamed::{is_unnamed_function, unnamed_function};
pub use symtab::{Symbol, SymbolSource, SymbolTable};
