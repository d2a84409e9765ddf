//! Patching of loaded code: sleds, slots of imported functions, and the stubs that both lead to.

pub mod code;
pub mod import;
pub mod object;
pub mod sled;
pub mod stubs;
