//! Files read: all rows of the flat columns that this module writes.

use super::column::{ColumnValues, TextColumn};
use super::thrift::{ThriftValue, read_struct, take};
use super::{MAGIC, code, field, pages};
use crate::import::{ImportError, ImportFormat, MOST_BYTES};
use zstd::bulk::Decompressor;

const FORMAT: ImportFormat = ImportFormat::Parquet;

/// A table as read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParquetTable {
    /// Columns with their names; all have the same number of rows.
    pub columns: Vec<(String, ColumnValues)>,
    /// Groups of rows that were not read, because none of their rows is wanted.
    pub left_out: usize,
}

/// Which names or texts are wanted.
pub type TextTest<'w> = &'w dyn Fn(&str) -> bool;

/// The part of a table to read.
#[derive(Clone, Copy)]
pub struct WantedPart<'w> {
    /// Columns by their names.
    pub columns: TextTest<'w>,
    /// Name of a column of texts, and which of its texts are wanted: groups of rows without any aren't read. `None` for
    /// all groups.
    pub groups: Option<(&'w str, TextTest<'w>)>,
}

impl ParquetTable {
    /// The texts of a column.
    #[must_use]
    pub fn texts(&self, name: &str) -> Option<&TextColumn> {
        self.columns.iter().find(|(known, _)| known == name).and_then(|(_, values)| match values {
            ColumnValues::Texts(texts) => Some(texts),
            ColumnValues::Numbers(_) => None,
        })
    }

    /// The numbers of a column.
    #[must_use]
    pub fn numbers(&self, name: &str) -> Option<&[i64]> {
        self.columns.iter().find(|(known, _)| known == name).and_then(|(_, values)| match values {
            ColumnValues::Numbers(numbers) => Some(numbers.as_slice()),
            ColumnValues::Texts(_) => None,
        })
    }

    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |(_, values)| values.len())
    }
}

/// Memory that one file leaves for the next. Large pieces that go back to the kernel after each file cost as much as
/// reading it.
#[derive(Default)]
pub struct ReadMemory {
    decompressor: Option<Decompressor<'static>>,
    page: Vec<u8>,
    texts: Vec<Vec<u8>>,
}

impl ReadMemory {
    /// Takes the memory of a table that isn't needed any more, for one with the same columns.
    pub fn take_back(&mut self, table: ParquetTable) {
        let texts = table.columns.into_iter().map(|(_, values)| match values {
            ColumnValues::Texts(column) => column.texts.into_memory(),
            ColumnValues::Numbers(_) => Vec::new(),
        });
        self.texts = texts.collect();
    }

    /// Memory for the texts of the column at this place among those that are read.
    fn of_column(&mut self, at: usize) -> Vec<u8> {
        self.texts.get_mut(at).map(std::mem::take).unwrap_or_default()
    }
}

/// Reads a whole file.
///
/// # Errors
/// If it is damaged, larger than [`MOST_BYTES`] without compression, or has columns of another form.
pub fn read(bytes: &[u8]) -> Result<ParquetTable, ImportError> {
    read_part(bytes, WantedPart { columns: &|_| true, groups: None }, &mut ReadMemory::default())
}

/// Reads a part. Damage in others isn't noticed.
///
/// # Errors
/// As [`read`].
pub fn read_part(
    bytes: &[u8],
    part: WantedPart<'_>,
    memory: &mut ReadMemory,
) -> Result<ParquetTable, ImportError> {
    let footer = footer(bytes).ok_or_else(|| malformed("no whole footer", bytes.len()))?;
    let all = columns(&footer)?;
    let wanted: Vec<bool> = all.iter().map(|(name, _)| (part.columns)(name)).collect();
    let decompressor = memory.decompressor.take().map_or_else(Decompressor::new, Ok);
    let decompressor = decompressor.map_err(|_| malformed("no memory to decompress", 0))?;
    let mut reader = Reader { bytes, budget: MOST_BYTES, decompressor, memory };
    let deciding = part.groups.and_then(|(column, is_wanted)| {
        let at = all.iter().position(|(name, _)| name == column)?;
        Some((at, is_wanted))
    });
    let mut table = ParquetTable { columns: all, left_out: 0 };
    for group in footer.list(field::GROUPS) {
        let chunks = group.list(1);
        if chunks.len() != table.columns.len() {
            return Err(malformed("a group of rows without all columns", bytes.len()));
        }
        if let Some((at, is_wanted)) = deciding
            && !reader.texts(&chunks[at])?.texts.iter().any(is_wanted)
        {
            table.left_out += 1;
            continue;
        }
        let columns = chunks.iter().zip(&mut table.columns).zip(&wanted);
        for (at, ((chunk, (_, values)), _)) in columns.filter(|(_, wanted)| **wanted).enumerate() {
            reader.chunk(chunk, at, values)?;
        }
    }
    reader.memory.decompressor = Some(reader.decompressor);
    let mut wanted = wanted.into_iter();
    table.columns.retain(|_| wanted.next() == Some(true));
    let rows = table.rows();
    if table.columns.iter().any(|(_, values)| values.len() != rows) {
        return Err(malformed("columns of several lengths", bytes.len()));
    }
    Ok(table)
}

/// The columns of the schema, without rows.
fn columns(footer: &ThriftValue<'_>) -> Result<Vec<(String, ColumnValues)>, ImportError> {
    let mut columns = Vec::new();
    let elements = footer.list(field::SCHEMA);
    for element in elements.iter().skip(1) {
        let name = String::from_utf8_lossy(element.bytes(4)).into_owned();
        let values = match (element.number(1), element.number(3), element.number(5)) {
            (Some(code::INT64), Some(0), None) => ColumnValues::Numbers(Vec::new()),
            (Some(code::BYTE_ARRAY), Some(0), None) => ColumnValues::Texts(TextColumn::default()),
            _ => {
                return Err(ImportError::Unsupported(
                    "Parquet with other columns than tally writes: texts and 64-bit numbers without missing values",
                ));
            }
        };
        columns.push((name, values));
    }
    Ok(columns)
}

fn malformed(problem: &'static str, offset: usize) -> ImportError {
    ImportError::at(FORMAT, problem, offset)
}

fn footer(bytes: &[u8]) -> Option<ThriftValue<'_>> {
    let content = bytes.strip_prefix(MAGIC)?.strip_suffix(MAGIC)?;
    let (content, len) = content.split_last_chunk::<4>()?;
    let begin = content.len().checked_sub(u32::from_le_bytes(*len) as usize)?;
    read_struct(&mut &content[begin..])
}

struct Reader<'a, 'm> {
    bytes: &'a [u8],
    /// Bytes without compression that may still be read.
    budget: usize,
    decompressor: Decompressor<'static>,
    memory: &'m mut ReadMemory,
}

/// A page without compression.
struct Page<'a> {
    header: ThriftValue<'a>,
    content: Vec<u8>,
}

impl Page<'_> {
    /// Number of values, and their encoding.
    fn values(&self, header: i16) -> Option<(usize, i64)> {
        let header = self.header.field(header)?;
        Some((usize::try_from(header.number(1)?).ok()?, header.number(2)?))
    }
}

impl<'a> Reader<'a, '_> {
    /// Reads a part of a column of texts for itself.
    fn texts(&mut self, chunk: &ThriftValue<'_>) -> Result<TextColumn, ImportError> {
        let mut values = ColumnValues::Texts(TextColumn::default());
        self.chunk(chunk, usize::MAX, &mut values)?;
        match values {
            ColumnValues::Texts(texts) => Ok(texts),
            ColumnValues::Numbers(_) => Ok(TextColumn::default()),
        }
    }

    /// Reads a part of the column that is at this place among those that are read.
    fn chunk(
        &mut self,
        chunk: &ThriftValue<'_>,
        at: usize,
        to: &mut ColumnValues,
    ) -> Result<(), ImportError> {
        let number = |id| chunk.field(3).and_then(|meta| meta.number(id));
        let count = number(field::VALUES).and_then(|count| usize::try_from(count).ok());
        let begin = number(field::DICTIONARY_OFFSET).or(number(field::DATA_OFFSET));
        let begin = begin.and_then(|begin| usize::try_from(begin).ok());
        let (Some(count), Some(begin), Some(codec)) = (count, begin, number(field::CODEC)) else {
            return Err(malformed("a column without position", self.bytes.len()));
        };
        self.spend(count.saturating_mul(4))?;
        let broken = || malformed("a damaged page", begin);
        let mut rest = self.bytes.get(begin..).ok_or_else(broken)?;
        let mut base = None;
        let end = to.len() + count;
        while to.len() < end {
            let page = self.page(&mut rest, codec)?;
            match (page.header.number(1), &mut *to) {
                (Some(code::DICTIONARY_PAGE), ColumnValues::Texts(texts)) => {
                    base = Some(texts.texts.len());
                    dictionary(&page, texts, self.memory.of_column(at)).ok_or_else(broken)?;
                }
                (Some(code::DATA_PAGE), to) => data(&page, to, base).ok_or_else(broken)?,
                _ => return Err(broken()),
            }
            self.memory.page = page.content;
        }
        Ok(())
    }

    fn page(&mut self, rest: &mut &'a [u8], codec: i64) -> Result<Page<'a>, ImportError> {
        let offset = self.bytes.len() - rest.len();
        let broken = || malformed("a damaged page", offset);
        let header = read_struct(rest).ok_or_else(broken)?;
        let size = |id| header.number(id).and_then(|size| usize::try_from(size).ok());
        let (Some(unpacked), Some(packed)) = (size(2), size(3)) else { return Err(broken()) };
        self.spend(unpacked.saturating_add(1))?;
        let content = take(rest, packed).ok_or_else(broken)?;
        let mut page = Page { header, content: std::mem::take(&mut self.memory.page) };
        page.content.clear();
        match codec {
            code::UNCOMPRESSED => page.content.extend(content),
            code::ZSTD => {
                page.content.reserve(unpacked);
                self.decompressor.decompress_to_buffer(content, &mut page.content).map_err(|_| broken())?;
            }
            _ => return Err(ImportError::Unsupported("Parquet that is not compressed with Zstandard")),
        }
        Ok(page)
    }

    fn spend(&mut self, bytes: usize) -> Result<(), ImportError> {
        let left = self.budget.checked_sub(bytes);
        self.budget = left.ok_or(ImportError::TooLarge { format: FORMAT, most: MOST_BYTES })?;
        Ok(())
    }
}

fn dictionary(page: &Page<'_>, texts: &mut TextColumn, memory: Vec<u8>) -> Option<()> {
    let (count, _) = page.values(field::DICTIONARY_HEADER)?;
    pages::read_texts(&page.content, count, &mut texts.texts, memory)
}

/// Appends a page's rows; `base` is the first text of the dictionary in use.
fn data(page: &Page<'_>, to: &mut ColumnValues, base: Option<usize>) -> Option<()> {
    let (count, encoding) = page.values(field::DATA_HEADER)?;
    // An empty page would be read for ever.
    let count = Some(count).filter(|count| *count > 0)?;
    match (to, encoding, base) {
        (ColumnValues::Numbers(numbers), code::PLAIN, _) => {
            numbers.extend(pages::read_numbers(&page.content, count)?);
        }
        (ColumnValues::Texts(texts), code::RLE_DICTIONARY | code::PLAIN_DICTIONARY, Some(base)) => {
            let rows = pages::read_indices(&page.content, count, texts.texts.len() - base)?;
            texts.rows.extend(rows.into_iter().map(|row| row + base as u32));
        }
        (ColumnValues::Texts(texts), code::PLAIN, _) => {
            let first = texts.texts.len() as u32;
            pages::read_texts(&page.content, count, &mut texts.texts, Vec::new())?;
            texts.rows.extend(first..texts.texts.len() as u32);
        }
        _ => return None,
    }
    Some(())
}
