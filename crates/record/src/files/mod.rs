//! Files that a recording writes: where they are, how they are named and split, and their headers.

pub mod build_id_cache;
mod build_id_cache_limit;
pub mod features;
pub mod output;
pub mod output_file;
pub mod output_split;
pub mod packed;
pub mod part_names;
mod round_pace;
pub mod scratch;
pub mod state_replay;
pub mod window;
