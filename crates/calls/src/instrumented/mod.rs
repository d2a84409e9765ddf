//! Programs that record themselves: where their instrumentation is, and what of it is selected.

pub mod cyg_profile;
pub mod entry_hook;
pub mod overhead;
pub mod shadow_stack;
pub mod sleds;
pub mod source_files;
