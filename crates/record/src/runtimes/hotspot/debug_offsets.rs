//! Where HotSpot keeps what it knows about compiled code for debuggers: lines, and which methods were inlined.

use super::number_stream::NumberEncoding;
use super::tables::Fields;

/// Offsets of the fields by which lines are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LineOffsets {
    /// Bytes of a `ConstMethod`, after which its bytecodes begin; the table of lines is next.
    pub(super) header_bytes: u64,
    /// `ConstMethod`: words of it with all that comes after, i32.
    pub(super) words: u64,
    /// `ConstMethod`: bytes of its bytecodes, u16.
    pub(super) code_size: u64,
    /// `ConstMethod`: flags, of which the first byte is looked at.
    pub(super) flags: u64,
    /// `ConstantPool`: entry with the name of the source file, u16.
    pub(super) pool_file: u64,
    pub(super) encoding: NumberEncoding,
}

/// Offsets of the fields by which inlined methods are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ScopeOffsets {
    /// `nmethod`: number of the compilation, i32.
    pub(super) compile_id: u64,
    /// Bytes of a `PcDesc`.
    pub(super) pc_bytes: u64,
    /// `PcDesc`: bytes from the start of the code, i32.
    pub(super) pc_offset: u64,
    /// `PcDesc`: where its scope begins in the stream of scopes, i32.
    pub(super) pc_scope: u64,
    pub(super) tables: ScopeTables,
    pub(super) encoding: NumberEncoding,
}

/// Where an `nmethod` has its tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScopeTables {
    /// After its code: the offsets are bytes from its own start.
    Inside(InsideTables),
    /// In memory of their own.
    Outside(OutsideTables),
}

/// Offsets in an `nmethod`, JDK 9 to 22.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InsideTables {
    /// First `PcDesc`, i32.
    pub(super) pcs: u64,
    /// End of the `PcDesc`s, i32.
    pub(super) pcs_end: u64,
    /// Address of the stream of scopes, which ends where the `PcDesc`s begin.
    pub(super) scopes: u64,
    /// The `Method`s that scopes name by their numbers, i32.
    pub(super) metadata: u64,
}

/// Offsets in an `nmethod`, JDK 25.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OutsideTables {
    /// Address of what stays as it was compiled.
    pub(super) fixed: u64,
    /// Bytes of that, i32.
    pub(super) fixed_bytes: u64,
    /// First `PcDesc` in it, i32.
    pub(super) pcs: u64,
    /// Stream of scopes in it, after the `PcDesc`s, i32.
    pub(super) scopes: u64,
    /// Address of what the JVM changes.
    pub(super) changed: u64,
    /// The bytes of it before the `Method`s, i32.
    pub(super) relocations: u64,
}

impl LineOffsets {
    /// `header_bytes`: of a `ConstMethod`.
    pub(super) fn of(fields: &Fields, header_bytes: u64, encoding: NumberEncoding) -> Option<Self> {
        let method = |name| fields.find("ConstMethod", name);
        Some(Self {
            header_bytes,
            words: method("_constMethod_size")?,
            code_size: method("_code_size")?,
            flags: method("_flags").or_else(|| method("_flags._flags"))?,
            pool_file: fields.find("ConstantPool", "_source_file_name_index")?,
            encoding,
        })
    }
}

impl ScopeOffsets {
    /// `pc_bytes`: of a `PcDesc`.
    pub(super) fn of(fields: &Fields, pc_bytes: u64, encoding: NumberEncoding) -> Option<Self> {
        let field = |type_name, name| fields.find(type_name, name);
        let inside = || InsideTables::of(fields).map(ScopeTables::Inside);
        Some(Self {
            compile_id: field("nmethod", "_compile_id")?,
            pc_bytes: Some(pc_bytes).filter(|bytes| *bytes > 0)?,
            pc_offset: field("PcDesc", "_pc_offset")?,
            pc_scope: field("PcDesc", "_scope_decode_offset")?,
            tables: OutsideTables::of(fields).map(ScopeTables::Outside).or_else(inside)?,
            encoding,
        })
    }
}

impl InsideTables {
    fn of(fields: &Fields) -> Option<Self> {
        let method = |name| fields.find("nmethod", name);
        Some(Self {
            pcs: method("_scopes_pcs_offset")?,
            pcs_end: method("_dependencies_offset")?,
            scopes: fields.find("CompiledMethod", "_scopes_data_begin")?,
            metadata: method("_metadata_offset")?,
        })
    }
}

impl OutsideTables {
    fn of(fields: &Fields) -> Option<Self> {
        let field = |type_name, name| fields.find(type_name, name);
        Some(Self {
            fixed: field("nmethod", "_immutable_data")?,
            fixed_bytes: field("nmethod", "_immutable_data_size")?,
            pcs: field("nmethod", "_scopes_pcs_offset")?,
            scopes: field("nmethod", "_scopes_data_offset")?,
            changed: field("CodeBlob", "_mutable_data")?,
            relocations: field("CodeBlob", "_relocation_size")?,
        })
    }
}

impl LineOffsets {
    /// Not of a version: small, for memory that is made up.
    pub(super) const MADE_UP: Self = Self {
        header_bytes: 0x30,
        words: 0x18,
        code_size: 0x20,
        flags: 0x1c,
        pool_file: 0x36,
        encoding: NumberEncoding::AllBytes,
    };
}

impl ScopeOffsets {
    /// The same, with tables inside.
    pub(super) const MADE_UP: Self = Self {
        compile_id: 0x20,
        pc_bytes: 8,
        pc_offset: 0,
        pc_scope: 4,
        tables: ScopeTables::Inside(InsideTables { pcs: 0x24, pcs_end: 0x28, scopes: 0x30, metadata: 0x2c }),
        encoding: NumberEncoding::AllBytes,
    };
    /// The same, with tables outside.
    pub(super) const MADE_UP_OUTSIDE: Self = Self {
        tables: ScopeTables::Outside(OutsideTables {
            fixed: 0x30,
            fixed_bytes: 0x2c,
            pcs: 0x24,
            scopes: 0x28,
            changed: 0x38,
            relocations: 0x40,
        }),
        encoding: NumberEncoding::NoZeros,
        ..Self::MADE_UP
    };
}
