//! Programs that record themselves: where their instrumentation is, and what of it is selected.

pub mod price;
pub mod reported;
pub mod shadow_stack;
pub mod sleds;
pub mod source_files;
pub mod starts;
