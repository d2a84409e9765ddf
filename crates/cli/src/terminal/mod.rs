//! Output to a terminal: the pager, lines about progress, signals that end a view; text of others made harmless.

pub mod end_signals;
pub mod interrupts_off;
pub mod out;
pub mod pager;
pub mod status_line;

pub use exchange::foreign;
