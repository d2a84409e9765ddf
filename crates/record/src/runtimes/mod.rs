//! Names of code that no file has: functions of interpreted languages, and what JIT compilers make.

pub mod command_variable;
pub mod goroutines;
pub mod hotspot;
pub mod jit_maps;
pub mod python;
