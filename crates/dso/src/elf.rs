//! One ELF file: its headers, read once, and its bytes.
//!
//! Knows one file only: its debug file is found by `find`. Any class and byte order is read; damaged tables
//! give fewer sections, never a panic.

mod addresses;
pub mod build_id;
pub mod code_object;
mod debug_links;
pub(crate) mod exported;
pub mod kept_parts;
mod machine;
pub mod plt;
pub mod property;
pub mod sdt;
pub(crate) mod thread_local;
pub(crate) mod unpack;

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

use object::elf;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Object, ObjectSection};

use crate::bounds::Allowance;
use crate::files::system_file;
use crate::{BuildId, Bytes, Error, FileIdentity, FileRule, MappedFile, Svma};
pub use debug_links::{AltLink, DebugLink};
pub use machine::Machine;

/// Larger object files are refused. The largest debug files built are a tenth of it; it is mapped, not read.
const MAX_BYTES: u64 = 64 << 30;

/// Which files are opened as object files, whoever named them.
pub fn file_rule() -> FileRule {
    FileRule::up_to(MAX_BYTES).dense()
}

/// A loadable segment (`PT_LOAD`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Stated addresses it occupies in memory.
    pub svma: Range<u64>,
    /// Bytes of the file it is loaded from; shorter than `svma` for .bss.
    pub file: Range<u64>,
    /// `PF_X`.
    pub executable: bool,
}

/// A section's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElfSection {
    /// Name, lossily UTF-8.
    pub name: String,
    /// Stated addresses; empty for sections that are not loaded.
    pub svma: Range<u64>,
    /// File offsets of its bytes, `None` for `SHT_NOBITS`.
    pub file: Option<Range<u64>>,
    /// `SHF_EXECINSTR`.
    pub executable: bool,
    /// `SHF_COMPRESSED`, or a `.zdebug_` name.
    pub compressed: bool,
}

/// One ELF file, its tables read, its bytes at hand. Cheap to clone parts of, `Send` and `Sync`.
#[derive(Debug)]
pub struct ObjectFile {
    path: Option<PathBuf>,
    bytes: Bytes,
    machine: Machine,
    is_64: bool,
    is_little_endian: bool,
    is_relocatable: bool,
    entry: Svma,
    build_id: Option<BuildId>,
    segments: Vec<Segment>,
    sections: Vec<ElfSection>,
}

impl ObjectFile {
    /// Opens and reads the file at `path` if it satisfies [`file_rule`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        let map = MappedFile::open_by(&file_rule(), path)
            .map_err(|source| Error::Io { path: path.into(), source })?;
        let mut file = Self::parse(Bytes::new(map))?;
        file.path = Some(path.into());
        Ok(file)
    }

    /// Reads an already open file (such as one reached through /proc/PID/map_files); `path` is for messages
    /// and for finding its debug file.
    pub fn from_file(file: File, path: &Path) -> Result<Self, Error> {
        let map = MappedFile::from_file(file).map_err(|source| Error::Io { path: path.into(), source })?;
        let mut object = Self::parse(Bytes::new(map))?;
        object.path = Some(path.into());
        Ok(object)
    }

    /// Reads a file that is in memory, such as the vdso.
    pub fn parse(bytes: Bytes) -> Result<Self, Error> {
        let head: &[u8] = &bytes;
        if !head.starts_with(b"\x7fELF") {
            return Err(Error::Elf("no ELF magic"));
        }
        let file = object::File::parse(head).map_err(|_| Error::Elf("damaged ELF headers"))?;
        let (machine, segments) = match &file {
            object::File::Elf64(f) => headers(f.elf_header(), head)?,
            object::File::Elf32(f) => headers(f.elf_header(), head)?,
            _ => return Err(Error::Elf("not ELF")),
        };
        let build_id = file.build_id().ok().flatten().and_then(BuildId::from_bytes);
        let mut names = Allowance::of(bytes.len());
        let sections = file.sections().map(|s| section_of(&s, &mut names)).collect();
        let (is_64, is_little_endian) = (file.is_64(), file.is_little_endian());
        let is_relocatable = file.kind() == object::ObjectKind::Relocatable;
        let entry = Svma(file.entry());
        drop(file);
        Ok(Self {
            path: None,
            bytes,
            machine,
            is_64,
            is_little_endian,
            is_relocatable,
            entry,
            build_id,
            segments,
            sections,
        })
    }

    /// The same file, known by `path`: for one in memory.
    #[must_use]
    pub fn named(self, path: PathBuf) -> Self {
        Self { path: Some(path), ..self }
    }

    /// Where it was opened; `None` for one in memory.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Which file it was when it was opened; `None` for one in memory.
    pub fn identity(&self) -> Option<FileIdentity> {
        self.bytes.identity()
    }

    /// The user id of the file's owner when it was opened; `None` for one in memory.
    pub fn owner(&self) -> Option<u32> {
        self.identity().map(|identity| identity.owner())
    }

    /// All its bytes.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The processor it is for.
    pub fn machine(&self) -> Machine {
        self.machine
    }

    /// Whether addresses have 64 bits.
    pub fn is_64(&self) -> bool {
        self.is_64
    }

    /// Whether numbers in it are little-endian.
    pub fn is_little_endian(&self) -> bool {
        self.is_little_endian
    }

    /// A `.o` or `.ko`: its sections have no addresses of their own.
    pub fn is_relocatable(&self) -> bool {
        self.is_relocatable
    }

    /// `e_entry`; 0 for a library.
    pub fn entry(&self) -> Svma {
        self.entry
    }

    /// Build-id, `None` if it was linked without.
    pub fn build_id(&self) -> Option<&BuildId> {
        self.build_id.as_ref()
    }

    /// The loadable segments in the file's order.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// All sections in the file's order.
    pub fn sections(&self) -> &[ElfSection] {
        &self.sections
    }

    /// The first section of that name.
    pub fn section(&self, name: &str) -> Option<&ElfSection> {
        self.sections.iter().find(|s| s.name == name)
    }

    /// The content of the section of that name, decompressed (`SHF_COMPRESSED` zlib and zstd, and old
    /// `.zdebug_*`). `Ok(None)` if there is none or it has no bytes in the file; `Err(TooLarge)` if it asks for more
    /// memory than [`crate::bounds`] allows.
    pub fn section_bytes(&self, name: &str) -> Result<Option<Bytes>, Error> {
        let old_name = name.strip_prefix(".debug_").map(|rest| format!(".zdebug_{rest}"));
        let known = self.sections.iter().find(|s| s.name == name || Some(&s.name) == old_name.as_ref());
        let Some(section) = known else { return Ok(None) };
        let Some(range) = section.file.clone() else { return Ok(None) };
        if !section.compressed {
            return Ok(self.bytes.slice(range.start as usize..range.end as usize));
        }
        match unpack::section(self, name)? {
            Some(bytes) => Ok(Some(bytes)),
            None => Ok(self.bytes.slice(range.start as usize..range.end as usize)),
        }
    }

    /// Whether it has DWARF of its own for lines.
    pub fn has_dwarf(&self) -> bool {
        let filled = |s: &ElfSection| {
            matches!(s.name.as_str(), ".debug_info" | ".zdebug_info")
                && s.file.as_ref().is_some_and(|r| !r.is_empty())
        };
        self.sections.iter().any(filled)
    }

    /// Whether it has a full symbol table.
    pub fn has_symtab(&self) -> bool {
        self.section(".symtab").is_some_and(|s| s.file.as_ref().is_some_and(|r| !r.is_empty()))
    }

    /// Whether this is what `file` was split off from, or a debug file of it: same build-id if both have one.
    pub fn matches(&self, id: &BuildId) -> bool {
        self.build_id.as_ref().is_none_or(|own| own.same_as(id))
    }
}

/// The build-id of the file at `path`, `None` if it can't be read or has none.
pub fn read_build_id(path: &Path) -> Option<BuildId> {
    ObjectFile::open(path).ok()?.build_id
}

/// The build-id of the running kernel, from /sys/kernel/notes.
pub fn kernel_build_id() -> Option<BuildId> {
    build_id::parse_notes(&system_file::read("/sys/kernel/notes").ok()?)
}

fn headers<H: FileHeader<Endian = object::Endianness>>(
    header: &H,
    bytes: &[u8],
) -> Result<(Machine, Vec<Segment>), Error> {
    let endian = header.endian().map_err(|_| Error::Elf("byte order"))?;
    let machine = Machine::from_elf(header.e_machine(endian).0);
    let program = header.program_headers(endian, bytes).unwrap_or(&[]);
    let segment = |p: &H::ProgramHeader| {
        let (start, offset): (u64, u64) = (p.p_vaddr(endian).into(), p.p_offset(endian).into());
        let (in_memory, in_file): (u64, u64) = (p.p_memsz(endian).into(), p.p_filesz(endian).into());
        Some(Segment {
            svma: start..start.checked_add(in_memory)?,
            file: offset..offset.checked_add(in_file.min(in_memory))?,
            executable: p.p_flags(endian).0 & elf::PF_X.0 != 0,
        })
    };
    Ok((machine, program.iter().filter(|p| p.p_type(endian) == elf::PT_LOAD).filter_map(segment).collect()))
}

/// Without its name if the names of all sections are longer than `names` allows.
fn section_of(s: &object::Section<'_, '_>, names: &mut Allowance) -> ElfSection {
    let name = s.name_bytes().ok().filter(|name| names.take(name.len())).unwrap_or_default();
    let name = String::from_utf8_lossy(name).into_owned();
    let flags = match s.flags() {
        object::SectionFlags::Elf { sh_flags, .. } => sh_flags.0,
        _ => 0,
    };
    let loaded = flags & elf::SHF_ALLOC.0 != 0;
    let start = s.address();
    ElfSection {
        svma: if loaded { start..start.saturating_add(s.size()) } else { 0..0 },
        file: s.file_range().map(|(at, len)| at..at.saturating_add(len)),
        executable: flags & elf::SHF_EXECINSTR.0 != 0,
        compressed: flags & elf::SHF_COMPRESSED.0 != 0 || name.starts_with(".zdebug_"),
        name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FileOffset;

    fn own() -> ObjectFile {
        ObjectFile::open(&std::env::current_exe().unwrap()).unwrap()
    }

    #[test]
    fn our_own_test_binary_is_read() {
        let o = own();
        assert_eq!(o.machine(), Machine::host());
        assert!(o.has_symtab() && o.section(".text").is_some_and(|s| s.executable));
        let text = o.section(".text").unwrap().clone();
        let offset = FileOffset(text.file.unwrap().start);
        assert_eq!(o.svma_of(offset), Some(Svma(text.svma.start)));
        assert_eq!(o.file_offset_of(Svma(text.svma.start)), Some(offset));
        assert_eq!(o.bytes_at(Svma(text.svma.start), 16).unwrap().len(), 16);
        assert_eq!(
            o.bytes_at(Svma(text.svma.start), 16),
            o.bytes().get(offset.0 as usize..offset.0 as usize + 16)
        );
    }

    #[test]
    fn other_files_are_reported_as_not_elf() {
        assert!(matches!(ObjectFile::parse(Bytes::from_vec(b"#!/bin/sh\n".to_vec())), Err(Error::Elf(_))));
        assert!(matches!(ObjectFile::parse(Bytes::from_vec(b"\x7fELF".to_vec())), Err(Error::Elf(_))));
        assert_eq!(
            ObjectFile::open(Path::new("/nonexistent")).unwrap_err().missing(),
            crate::Missing::NoFile
        );
    }
}
