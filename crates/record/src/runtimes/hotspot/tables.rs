//! HotSpot states the layout of its structures in tables of its own, for debuggers.
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
    /// The pointer to the list of stubs. `None` in a library without its own symbols.
    pub(super) stubs: Option<u64>,
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
        Some(Self { fields, types, stubs: at("_ZN12StubCodeDesc5_listE") })
    }
}

/// The types whose fields are read, and those fields.
const WANTED: [(&str, &[&str]); 19] = [
    ("AbstractInterpreter", &["_code"]),
    ("StubQueue", &["_stub_buffer", "_buffer_limit"]),
    ("Method", &["_constMethod"]),
    (
        "ConstMethod",
        &[
            "_constants",
            "_name_index",
            "_signature_index",
            "_constMethod_size",
            "_code_size",
            "_flags",
            "_flags._flags",
        ],
    ),
    ("ConstantPool", &["_pool_holder", "_source_file_name_index"]),
    ("Klass", &["_name"]),
    ("Symbol", &["_length", "_body", "_body[0]"]),
    ("CodeCache", &["_heaps"]),
    ("GrowableArrayBase", &["_len"]),
    ("GenericGrowableArray", &["_len"]),
    ("GrowableArray<int>", &["_data"]),
    ("CodeHeap", &["_memory", "_segmap", "_log2_segment_size"]),
    ("VirtualSpace", &["_low_boundary", "_high_boundary"]),
    ("HeapBlock::Header", &["_used"]),
    (
        "CodeBlob",
        &[
            "_name",
            "_data_offset",
            "_code_begin",
            "_code_offset",
            "_mutable_data",
            "_relocation_size",
            "_frame_size",
        ],
    ),
    ("CompiledMethod", &["_method", "_scopes_data_begin"]),
    (
        "nmethod",
        &[
            "_method",
            "_compile_id",
            "_scopes_pcs_offset",
            "_scopes_data_offset",
            "_dependencies_offset",
            "_metadata_offset",
            "_immutable_data",
            "_immutable_data_size",
        ],
    ),
    ("PcDesc", &["_pc_offset", "_scope_decode_offset"]),
    ("Abstract_VM_Version", &["_vm_major_version"]),
];

/// The types whose sizes are read.
const SIZED: [&str; 4] = ["ConstantPool", "HeapBlock", "ConstMethod", "PcDesc"];

/// Contents of a process's tables.
pub(super) struct StructTables {
    pub(super) fields: Fields,
    /// By type.
    pub(super) sizes: FxHashMap<&'static str, u64>,
}

impl StructTables {
    /// `bias`: of the library. `None` if they can't be read.
    pub(super) fn read(at: TableAddresses, bias: u64, memory: &mut ProcessMemory<'_>) -> Option<Self> {
        let fields = read_fields(at.fields, bias, memory, &mut Names::default())?;
        Some(Self { fields, sizes: read_sizes(at.types, bias, memory)? })
    }
}

/// By type and field: the offset, or the address of a static one.
#[derive(Default)]
pub(super) struct Fields(FxHashMap<(&'static str, &'static str), u64>);

impl Fields {
    /// `None` if the JVM has no such field, or it isn't one of [`WANTED`].
    pub(super) fn find(&self, type_name: &'static str, field_name: &'static str) -> Option<u64> {
        self.0.get(&(type_name, field_name)).copied()
    }
}

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
            found.0.insert((*type_name, *field_name), place);
        }
    }
    Some(found)
}

/// Bytes of the types in [`SIZED`].
fn read_sizes(
    at: TypeTable,
    bias: u64,
    memory: &mut ProcessMemory<'_>,
) -> Option<FxHashMap<&'static str, u64>> {
    let mut number = |address: u64| read_u64(memory, address.wrapping_add(bias));
    let (table, stride) = (number(at.table)?, number(at.stride)?);
    let (name, size) = (number(at.name)?, number(at.size)?);
    let mut found = FxHashMap::default();
    for entry in entries(table, stride) {
        let of_type = read_u64(memory, entry.wrapping_add(name))?;
        if of_type == 0 || found.len() == SIZED.len() {
            break;
        }
        let of_type = read_name(of_type, memory);
        if let Some(of_type) = SIZED.iter().find(|wanted| **wanted == of_type) {
            found.insert(*of_type, read_u64(memory, entry.wrapping_add(size))?);
        }
    }
    Some(found)
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
