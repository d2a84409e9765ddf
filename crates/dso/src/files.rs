//! The doors to the file system: one module for each kind of path, and the bytes of an opened file.
//!
//! A path from a recording, from debug information or from another process: `untrusted_file`. A path that the user of
//! this program named: `named_file`. A fixed place of the system: `system_file`. Nothing else in the workspace opens
//! files to read them; tidy has the list.

pub mod file_identity;
pub mod mapped_memory;
pub mod mmap;
pub mod named_file;
pub mod own_rights;
pub mod private_folder;
pub mod source_file;
pub mod system_file;
pub mod untrusted_file;
