//! `tally probe`: places in programs, made into the kernel's uprobe definitions.
//!
//! [`spec`] reads what the user wrote, [`define`] makes definitions of it with the file's debug information,
//! [`tracefs`] gives them to the kernel and reads them back, [`show`] prints variables and lines.

pub mod define;
mod pattern;
pub mod show;
pub mod spec;
#[cfg(test)]
mod tests;
pub mod tracefs;
