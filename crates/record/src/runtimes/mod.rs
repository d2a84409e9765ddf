//! Names of code that no file has: functions of interpreted languages, and what JIT compilers make.

pub mod command_variable;
pub mod dotnet;
pub mod go_waits;
pub mod goroutine_labels;
pub mod goroutines;
pub mod hotspot;
pub mod jit_maps;
mod memory;
pub mod method_addresses;
pub mod otel;
pub mod python;
pub mod v8;

pub use memory::ProcessMemory;
