//! Where HotSpot keeps what is read: offsets in its structures.
// Source: HotSpot's vmStructs.cpp, JDK 9 to 25

use super::debug_offsets::{LineOffsets, ScopeOffsets};
use super::number_stream::NumberEncoding;
use super::tables::{Fields, StructTables, TableAddresses};
use crate::runtimes::memory::{ProcessMemory, read_u32};

/// Offsets of the fields that are read, in bytes from the start of their structures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JvmOffsets {
    /// Avma of the pointer to the interpreter's `StubQueue`.
    pub interpreter_code: u64,
    /// `StubQueue`: the first address of code.
    pub code_start: u64,
    /// `StubQueue`: the number of bytes of it.
    pub code_limit: u64,
    /// `Method`: its `ConstMethod`.
    pub const_method: u64,
    /// `ConstMethod`: its `ConstantPool`.
    pub constants: u64,
    /// `ConstMethod`: entry of the pool with the name, u16.
    pub name_index: u64,
    /// `ConstMethod`: entry of the pool with the types, u16.
    pub signature_index: u64,
    /// `ConstantPool`: the class.
    pub holder: u64,
    /// Bytes of a `ConstantPool`, after which its entries begin.
    pub pool_bytes: u64,
    /// `Klass`: its name.
    pub class_name: u64,
    /// `Symbol`: number of bytes, u16.
    pub symbol_length: u64,
    /// `Symbol`: the first byte.
    pub symbol_body: u64,
    /// For compiled code; `None` if a version has other fields.
    pub code: Option<CodeOffsets>,
    /// For lines; `None` if a version has other fields.
    pub(super) lines: Option<LineOffsets>,
    /// For inlined methods, the same.
    pub(super) scopes: Option<ScopeOffsets>,
    /// Avma of the pointer to the list of stubs.
    pub(super) stubs: Option<u64>,
}

/// Offsets of the fields by which compiled code is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeOffsets {
    /// Avma of the pointer to the array of heaps.
    pub heaps: u64,
    /// `GrowableArray`: number of elements, i32.
    pub array_length: u64,
    /// `GrowableArray`: its elements.
    pub array_data: u64,
    /// `CodeHeap`: the `VirtualSpace` of code.
    pub heap_memory: u64,
    /// `CodeHeap`: the `VirtualSpace` of the map of its segments.
    pub heap_segments: u64,
    /// `CodeHeap`: bytes of a segment, as a power of two, i32.
    pub segment_log2: u64,
    /// `VirtualSpace`: first address reserved.
    pub space_start: u64,
    /// `VirtualSpace`: end of what is reserved.
    pub space_end: u64,
    /// `HeapBlock`: whether it is in use, bool.
    pub block_used: u64,
    /// Bytes of a `HeapBlock`, after which its `CodeBlob` begins.
    pub block_bytes: u64,
    /// `CodeBlob`: the name of its kind.
    pub blob_name: u64,
    /// `CodeBlob`: bytes from its start to the end of its code, i32.
    pub blob_code_end: u64,
    /// `CodeBlob`: where its code begins.
    pub blob_code: CodeStart,
    /// `CodeBlob`: words of its frames, i32.
    pub frame_words: u64,
    /// `nmethod`: its `Method`.
    pub method: u64,
}

/// How a `CodeBlob` has the start of its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeStart {
    /// An address, at this offset.
    Address(u64),
    /// Bytes from the start of the blob, i32, at this offset.
    Offset(u64),
}

impl JvmOffsets {
    /// Reads the tables of a process whose library is loaded with this bias. `None` if something is missing.
    #[must_use]
    pub fn read(tables: TableAddresses, bias: u64, memory: &mut ProcessMemory<'_>) -> Option<Self> {
        let StructTables { fields, sizes } = StructTables::read(tables, bias, memory)?;
        let field = |type_name, field_name| fields.find(type_name, field_name);
        let size = |name| sizes.get(name).copied();
        let pool_bytes = size("ConstantPool")?;
        let block_bytes = size("HeapBlock");
        let (method_bytes, pc_bytes) = (size("ConstMethod"), size("PcDesc"));
        let release = field("Abstract_VM_Version", "_vm_major_version");
        let release = release.and_then(|at| read_u32(memory, at));
        let encoding = release.map(NumberEncoding::of_release);
        let stubs = tables.stubs.map(|at| at.wrapping_add(bias));
        Some(Self {
            stubs,
            interpreter_code: field("AbstractInterpreter", "_code")?,
            code_start: field("StubQueue", "_stub_buffer")?,
            code_limit: field("StubQueue", "_buffer_limit")?,
            const_method: field("Method", "_constMethod")?,
            constants: field("ConstMethod", "_constants")?,
            name_index: field("ConstMethod", "_name_index")?,
            signature_index: field("ConstMethod", "_signature_index")?,
            holder: field("ConstantPool", "_pool_holder")?,
            pool_bytes,
            class_name: field("Klass", "_name")?,
            symbol_length: field("Symbol", "_length")?,
            symbol_body: field("Symbol", "_body").or_else(|| field("Symbol", "_body[0]"))?,
            code: block_bytes.and_then(|bytes| CodeOffsets::of(&fields, bytes)),
            lines: method_bytes.zip(encoding).and_then(|(bytes, by)| LineOffsets::of(&fields, bytes, by)),
            scopes: pc_bytes.zip(encoding).and_then(|(bytes, by)| ScopeOffsets::of(&fields, bytes, by)),
        })
    }
}

impl JvmOffsets {
    /// Not of a version: small, for memory that is made up.
    pub(crate) const MADE_UP: Self = Self {
        interpreter_code: 0,
        code_start: 0,
        code_limit: 0,
        const_method: 8,
        constants: 8,
        name_index: 0x22,
        signature_index: 0x24,
        holder: 0x18,
        pool_bytes: 0x40,
        class_name: 0x10,
        symbol_length: 4,
        symbol_body: 6,
        code: Some(CodeOffsets::MADE_UP),
        lines: Some(LineOffsets::MADE_UP),
        scopes: Some(ScopeOffsets::MADE_UP),
        stubs: Some(0x180),
    };
}

impl CodeOffsets {
    const MADE_UP: Self = Self {
        heaps: 0x100,
        array_length: 0,
        array_data: 8,
        heap_memory: 0,
        heap_segments: 0x20,
        segment_log2: 0x40,
        space_start: 0,
        space_end: 8,
        block_used: 4,
        block_bytes: 8,
        blob_name: 0,
        blob_code_end: 0x10,
        blob_code: CodeStart::Offset(0x14),
        frame_words: 8,
        method: 0x18,
    };

    /// Under the names of JDK 9 to 25.
    fn of(fields: &Fields, block_bytes: u64) -> Option<Self> {
        let field = |type_name, field_name| fields.find(type_name, field_name);
        let address = field("CodeBlob", "_code_begin").map(CodeStart::Address);
        let offset = || field("CodeBlob", "_code_offset").map(CodeStart::Offset);
        let lengths = ["GrowableArrayBase", "GenericGrowableArray"];
        Some(Self {
            heaps: field("CodeCache", "_heaps")?,
            array_length: lengths.into_iter().find_map(|base| field(base, "_len"))?,
            array_data: field("GrowableArray<int>", "_data")?,
            heap_memory: field("CodeHeap", "_memory")?,
            heap_segments: field("CodeHeap", "_segmap")?,
            segment_log2: field("CodeHeap", "_log2_segment_size")?,
            space_start: field("VirtualSpace", "_low_boundary")?,
            space_end: field("VirtualSpace", "_high_boundary")?,
            block_used: field("HeapBlock::Header", "_used")?,
            block_bytes,
            blob_name: field("CodeBlob", "_name")?,
            blob_code_end: field("CodeBlob", "_data_offset")?,
            blob_code: address.or_else(offset)?,
            frame_words: field("CodeBlob", "_frame_size")?,
            method: ["nmethod", "CompiledMethod"].into_iter().find_map(|base| field(base, "_method"))?,
        })
    }
}
