//! Views: pure functions from a profile to rows. Renderers format rows and compute nothing.

pub mod annotate;
pub mod blame;
pub mod call_sites;
pub mod check;
pub mod diff;
pub mod flame;
pub mod goroutines;
pub mod hot_functions;
pub mod io;
pub mod locks;
pub mod page;
pub mod ranking;
pub mod report;
pub mod sample_profile;
pub mod selected;
pub mod spans;
mod subject;
pub mod timeline;
pub mod wall;

pub use subject::subject;
