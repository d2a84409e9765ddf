//! `tally probe`: places in programs, made into the kernel's uprobe definitions.
//!
//! The crate `calls` makes definitions of what the user wrote, with the file's debug information;
//! [`record::event::probe_list`] gives them to the kernel and reads them back, [`show`] prints variables and lines.

pub mod show;
#[cfg(test)]
mod tests;
