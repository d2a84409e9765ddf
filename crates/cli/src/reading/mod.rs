//! Recordings opened and read for a command, with notes about what is damaged or has no name.

pub mod damage;
pub mod load;
pub mod spans;
pub mod tracepoints;
pub mod wall;
