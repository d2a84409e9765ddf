//! The folder that a recording of calls is kept in: its files, read.

pub mod folder;
pub mod folder_file;
pub mod function;
pub mod function_list;
pub mod functions;
pub mod imports;
pub mod kernel;
pub mod switches;
pub mod tail_reader;
pub mod totals;
