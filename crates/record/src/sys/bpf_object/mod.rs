//! Loads BPF objects without reading all of the kernel's types into memory: `aya`'s own loader does that for each object,
//! which takes as long as the kernel's check of the programs.
//!
//! `aya_obj` parses and relocates an object, `aya` makes and reads its maps; types, programs and links are ours.

mod function_checks;
mod kernel_types;
mod loaded_object;
mod needed_types;

pub use kernel_types::{KernelTypes, TypeKind};
pub use loaded_object::{LoadedObject, NO_TYPE, ObjectSettings, at_tracepoint, no_type, task_iterator};
pub use needed_types::needed_types;
