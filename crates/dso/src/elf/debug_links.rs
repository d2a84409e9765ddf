//! Names of the files that have a file's debug information: `.gnu_debuglink` and `.gnu_debugaltlink`.

use std::path::PathBuf;

use object::Object as _;

use super::ObjectFile;
use crate::BuildId;

/// `.gnu_debuglink`: the debug file's name and checksum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebugLink {
    /// File name without folder.
    pub name: String,
    /// CRC-32 of the debug file's bytes.
    pub crc: u32,
}

/// `.gnu_debugaltlink`: the file dwz moved common DWARF to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AltLink {
    /// Path, absolute or relative to the file with the link.
    pub path: PathBuf,
    /// The build-id it must have.
    pub build_id: Option<BuildId>,
}

impl ObjectFile {
    /// `.gnu_debuglink`, `None` if there is none or it is damaged.
    pub fn debug_link(&self) -> Option<DebugLink> {
        let file = object::File::parse(&*self.bytes).ok()?;
        let (name, crc) = file.gnu_debuglink().ok()??;
        Some(DebugLink { name: String::from_utf8_lossy(name).into_owned(), crc })
    }

    /// `.gnu_debugaltlink`, `None` if there is none or it is damaged.
    pub fn alt_link(&self) -> Option<AltLink> {
        use std::os::unix::ffi::OsStrExt;
        let file = object::File::parse(&*self.bytes).ok()?;
        let (path, id) = file.gnu_debugaltlink().ok()??;
        Some(AltLink { path: std::ffi::OsStr::from_bytes(path).into(), build_id: BuildId::from_bytes(id) })
    }
}
