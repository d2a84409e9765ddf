//! Faults of the machine under every recorder: no space, limits of the process, files that shrink, tally killed.
//!
//! Whatever happens, the recorded program prints what it always prints and exits as it always does, tally ends without a
//! panic or a signal, and what was written can be read and names what is missing. Heavy forms are ignored by default:
//! `cargo test --test faults -- --include-ignored`.

#[path = "faults/agent.rs"]
mod agent;
#[path = "faults/calls.rs"]
mod calls;
#[path = "faults/killed.rs"]
mod killed;
#[path = "faults/limits.rs"]
mod limits;
#[path = "faults/machine.rs"]
mod machine;
#[path = "faults/matrix.rs"]
mod matrix;
#[path = "faults/recorders.rs"]
mod recorders;
#[path = "faults/recordings.rs"]
mod recordings;
#[path = "faults/shrinking.rs"]
mod shrinking;
