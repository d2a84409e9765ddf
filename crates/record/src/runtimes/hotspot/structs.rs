//! Where HotSpot keeps what is read: it states the layout of its structures in tables of its own, for debuggers.
//!
//! The tables are arrays without a length; an entry without a type's name ends each. Their own layout is stated in
//! numbers beside them.
// Source: HotSpot's vmStructs.hpp and vmStructs.cpp (`gHotSpotVMStructs`, `gHotSpotVMTypes`), JDK 8 to 25

use dso::{ObjectFile, SymbolTable};
use rustc_hash::FxHashMap;

use crate::runtimes::memory::{ProcessMemory, read_u64};

/// More entries than a table has in any version.
const MOST_ENTRIES: usize = 20_000;
/// Longer names than a table has.
const MOST_NAME_BYTES: usize = 64;

/// Addresses of the tables in the library (Svma).
#[derive(Clone, Copy, Debug)]
pub struct TableAddresses {
    fields: FieldTable,
    types: TypeTable,
}

/// The table of fields: all are addresses of numbers of 8 bytes.
#[derive(Clone, Copy, Debug)]
struct FieldTable {
    table: u64,
    stride: u64,
    type_name: u64,
    field_name: u64,
    offset: u64,
    address: u64,
}

/// The table of types: the same.
#[derive(Clone, Copy, Debug)]
struct TypeTable {
    table: u64,
    stride: u64,
    name: u64,
    size: u64,
}

impl TableAddresses {
    /// In the library (Svma); `None` if it isn't HotSpot's, or hides them.
    #[must_use]
    pub fn in_library(object: &ObjectFile) -> Option<Self> {
        let symbols = SymbolTable::load(object, None);
        let at = |name: &str| symbols.by_name(name).next().map(|symbol| symbol.start.0);
        let fields = FieldTable {
            table: at("gHotSpotVMStructs")?,
            stride: at("gHotSpotVMStructEntryArrayStride")?,
            type_name: at("gHotSpotVMStructEntryTypeNameOffset")?,
            field_name: at("gHotSpotVMStructEntryFieldNameOffset")?,
            offset: at("gHotSpotVMStructEntryOffsetOffset")?,
            address: at("gHotSpotVMStructEntryAddressOffset")?,
        };
        let types = TypeTable {
            table: at("gHotSpotVMTypes")?,
            stride: at("gHotSpotVMTypeEntryArrayStride")?,
            name: at("gHotSpotVMTypeEntryTypeNameOffset")?,
            size: at("gHotSpotVMTypeEntrySizeOffset")?,
        };
        Some(Self { fields, types })
    }
}

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
        let mut names = Names::default();
        let fields = read_fields(tables.fields, bias, memory, &mut names)?;
        let field = |type_name, field_name| fields.get(&(type_name, field_name)).copied();
        let pool_bytes = size_of_type(tables.types, bias, memory, "ConstantPool")?;
        let block_bytes = size_of_type(tables.types, bias, memory, "HeapBlock");
        Some(Self {
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
        method: 0x18,
    };

    /// Under the names of JDK 9 to 25.
    fn of(fields: &Fields, block_bytes: u64) -> Option<Self> {
        let field = |type_name, field_name| fields.get(&(type_name, field_name)).copied();
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
            method: ["nmethod", "CompiledMethod"].into_iter().find_map(|base| field(base, "_method"))?,
        })
    }
}

/// The types whose fields are read, and those fields.
const WANTED: [(&str, &[&str]); 17] = [
    ("AbstractInterpreter", &["_code"]),
    ("StubQueue", &["_stub_buffer", "_buffer_limit"]),
    ("Method", &["_constMethod"]),
    ("ConstMethod", &["_constants", "_name_index", "_signature_index"]),
    ("ConstantPool", &["_pool_holder"]),
    ("Klass", &["_name"]),
    ("Symbol", &["_length", "_body", "_body[0]"]),
    ("CodeCache", &["_heaps"]),
    ("GrowableArrayBase", &["_len"]),
    ("GenericGrowableArray", &["_len"]),
    ("GrowableArray<int>", &["_data"]),
    ("CodeHeap", &["_memory", "_segmap", "_log2_segment_size"]),
    ("VirtualSpace", &["_low_boundary", "_high_boundary"]),
    ("HeapBlock::Header", &["_used"]),
    ("CodeBlob", &["_name", "_data_offset", "_code_begin", "_code_offset"]),
    ("CompiledMethod", &["_method"]),
    ("nmethod", &["_method"]),
];

/// By type and field: the offset, or the address of a static one.
type Fields = FxHashMap<(&'static str, &'static str), u64>;

fn read_fields(
    at: FieldTable,
    bias: u64,
    memory: &mut ProcessMemory<'_>,
    names: &mut Names,
) -> Option<Fields> {
    let mut number = |address: u64| read_u64(memory, address.wrapping_add(bias));
    let (table, stride) = (number(at.table)?, number(at.stride)?);
    let (type_name, field_name) = (number(at.type_name)?, number(at.field_name)?);
    let (offset, address) = (number(at.offset)?, number(at.address)?);
    let mut found = Fields::default();
    for entry in entries(table, stride) {
        let mut word = |at: u64| read_u64(memory, entry.wrapping_add(at));
        let (of_type, of_field) = (word(type_name)?, word(field_name)?);
        if of_type == 0 {
            break;
        }
        // A static field has an address and the offset 0.
        let place = word(address)?.max(word(offset)?);
        let type_name = names.read(of_type, memory);
        let Some((type_name, wanted)) = WANTED.iter().find(|(name, _)| *name == type_name) else { continue };
        let field_name = names.read(of_field, memory);
        if let Some(field_name) = wanted.iter().find(|name| **name == field_name) {
            found.insert((*type_name, *field_name), place);
        }
    }
    Some(found)
}

fn size_of_type(at: TypeTable, bias: u64, memory: &mut ProcessMemory<'_>, wanted: &str) -> Option<u64> {
    let mut number = |address: u64| read_u64(memory, address.wrapping_add(bias));
    let (table, stride) = (number(at.table)?, number(at.stride)?);
    let (name, size) = (number(at.name)?, number(at.size)?);
    for entry in entries(table, stride) {
        let of_type = read_u64(memory, entry.wrapping_add(name)).filter(|name| *name != 0)?;
        if read_name(of_type, memory) == wanted {
            return read_u64(memory, entry.wrapping_add(size));
        }
    }
    None
}

/// Addresses of a table's entries.
fn entries(table: u64, stride: u64) -> impl Iterator<Item = u64> {
    (0..MOST_ENTRIES as u64).map(move |index| table.wrapping_add(index.wrapping_mul(stride)))
}

/// Names by their addresses: many entries share one.
#[derive(Default)]
struct Names(FxHashMap<u64, String>);

impl Names {
    fn read(&mut self, address: u64, memory: &mut ProcessMemory<'_>) -> &str {
        self.0.entry(address).or_insert_with(|| read_name(address, memory))
    }
}

/// A name that ends with a byte 0; empty if it can't be read.
pub(super) fn read_name(address: u64, memory: &mut ProcessMemory<'_>) -> String {
    let mut bytes = [0; MOST_NAME_BYTES];
    let got = memory(address, &mut bytes).min(bytes.len());
    let name = bytes[..got].split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}
