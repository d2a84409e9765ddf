//! Text output: numbers, and the views that are printed.

pub mod annotate;
pub mod callgraph;
pub mod diff;
pub mod findings;
pub mod first_screen;
pub mod lock;
pub mod present;
pub mod report;
pub mod run_screen;
pub mod sched;
pub mod view_form;
pub mod wall;
