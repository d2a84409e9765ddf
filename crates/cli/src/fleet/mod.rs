//! Folders with the profiles of many machines, and the agent that writes them.

pub mod agent;
pub mod folder;
pub mod merged;
pub mod net;
pub mod source;
pub mod spool;
