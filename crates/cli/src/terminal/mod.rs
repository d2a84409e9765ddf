//! What reaches a terminal: output, its pager and colours, lines about progress; text of others made harmless;
//! the colours and letters of states.

pub mod foreign;
pub mod interrupts_off;
pub mod out;
pub mod pager;
pub mod palette;
pub mod status_line;
pub mod term;
