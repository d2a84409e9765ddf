//! Parts of tally's appendix of a recording, after the stack notes.

pub mod jit_maps;
pub mod python_functions;
