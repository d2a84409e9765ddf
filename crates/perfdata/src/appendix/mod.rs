//! Parts that tally adds to a recording: its appendix, after the stack notes, and archived files at the file's end.

pub mod archive;
pub mod descriptors;
pub mod jit_maps;
pub mod python_functions;
