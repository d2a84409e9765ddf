//! Every fuzz target of the workspace in one list.
//!
//! A target is an ordinary `fn(&[u8])`. For no input may it panic, loop, or allocate much memory. Each crate lists its
//! own targets in `fuzz::TARGETS`; this crate prefixes them with the crate's name. The targets of [`program`] run the
//! whole program over several files at once.
#![forbid(unsafe_code)]

pub mod parcel;
pub mod program;
pub mod scratch;

/// A target: its name within the crate, and the function.
pub type Target = (&'static str, fn(&[u8]));

/// The crates' lists.
const CRATES: &[(&str, &[Target])] = &[
    ("program", program::TARGETS),
    ("calls", calls::fuzz::TARGETS),
    ("cli", cli::TARGETS),
    ("dso", dso::fuzz::TARGETS),
    ("counts", counts::fuzz::TARGETS),
    ("exchange", exchange::fuzz::TARGETS),
    ("intelpt", intelpt::fuzz::TARGETS),
    ("perfdata", perfdata::fuzz::TARGETS),
    ("profile", profile::fuzz::TARGETS),
    ("record", record::fuzz::TARGETS),
    ("syscalls", syscalls::fuzz::TARGETS),
];

/// All targets as `crate-name`, in the order of the crates.
pub fn targets() -> impl Iterator<Item = (String, fn(&[u8]))> {
    CRATES
        .iter()
        .flat_map(|(krate, list)| list.iter().map(move |(name, call)| (format!("{krate}-{name}"), *call)))
}
