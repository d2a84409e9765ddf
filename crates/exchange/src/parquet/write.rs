//! Files written, group of rows by group.

use super::column::{ColumnKind, ColumnSchema, ColumnValues};
use super::thrift::ThriftStruct;
use super::{MAGIC, code, pages};
use std::io::{self, Write};

/// Level of Zstandard: higher ones take more time than bytes here.
const LEVEL: i32 = 3;

/// Writes a table.
pub struct ParquetWriter<W> {
    out: W,
    schema: &'static [ColumnSchema],
    written: u64,
    groups: Vec<ThriftStruct>,
    rows: usize,
}

/// A page, or the dictionary of one.
struct Page {
    /// Fields of its header after the sizes.
    header: fn(ThriftStruct, i64) -> ThriftStruct,
    kind: i64,
    values: usize,
    content: Vec<u8>,
}

impl<W: Write> ParquetWriter<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// If writing fails.
    pub fn new(mut out: W, schema: &'static [ColumnSchema]) -> io::Result<Self> {
        out.write_all(MAGIC)?;
        Ok(Self { out, schema, written: MAGIC.len() as u64, groups: Vec::new(), rows: 0 })
    }

    /// Writes rows: one column of values for each column of the schema, all of one length.
    ///
    /// # Errors
    /// If writing fails.
    pub fn group(&mut self, columns: &[ColumnValues]) -> io::Result<()> {
        let rows = columns.first().map_or(0, ColumnValues::len);
        if rows == 0 {
            return Ok(());
        }
        let before = self.written;
        let mut chunks = Vec::new();
        for (schema, values) in self.schema.iter().zip(columns) {
            chunks.push(self.chunk(schema, values)?);
        }
        let bytes = (self.written - before).cast_signed();
        self.groups.push(ThriftStruct::default().structs(1, chunks).i64(2, bytes).i64(3, rows as i64));
        self.rows += rows;
        Ok(())
    }

    /// Ends the file.
    ///
    /// # Errors
    /// If writing fails.
    pub fn finish(mut self) -> io::Result<()> {
        let root = ThriftStruct::default().text(4, "rows").i32(5, self.schema.len() as i64);
        let elements = [root].into_iter().chain(self.schema.iter().map(element)).collect();
        let footer = ThriftStruct::default()
            .i32(1, 1)
            .structs(2, elements)
            .i64(3, self.rows as i64)
            .structs(4, std::mem::take(&mut self.groups))
            .text(6, concat!("tally version ", env!("CARGO_PKG_VERSION")))
            .finish();
        self.out.write_all(&footer)?;
        self.out.write_all(&(footer.len() as u32).to_le_bytes())?;
        self.out.write_all(MAGIC)?;
        self.out.flush()
    }

    fn chunk(&mut self, schema: &ColumnSchema, values: &ColumnValues) -> io::Result<ThriftStruct> {
        let begin = self.written;
        let (mut unpacked, mut encodings, mut dictionary) = (0, vec![code::PLAIN, code::RLE], None);
        let content = match values {
            ColumnValues::Numbers(numbers) => pages::plain_numbers(numbers),
            ColumnValues::Texts(texts) => {
                let content = pages::plain_texts(&texts.texts);
                let page = Page {
                    header: dictionary_header,
                    kind: code::DICTIONARY_PAGE,
                    values: texts.texts.len(),
                    content,
                };
                unpacked += self.page(page)?;
                dictionary = Some(begin.cast_signed());
                encodings.push(code::RLE_DICTIONARY);
                pages::indices(&texts.rows)
            }
        };
        let data = self.written.cast_signed();
        let header = if dictionary.is_some() { indices_header } else { plain_header };
        unpacked += self.page(Page { header, kind: code::DATA_PAGE, values: values.len(), content })?;
        let mut meta = ThriftStruct::default()
            .i32(1, physical(schema.kind))
            .i32s(2, &encodings)
            .texts(3, &[schema.name])
            .i32(4, code::ZSTD)
            .i64(5, values.len() as i64)
            .i64(6, unpacked.cast_signed())
            .i64(7, (self.written - begin).cast_signed())
            .i64(9, data);
        if let Some(at) = dictionary {
            meta = meta.i64(11, at);
        }
        Ok(ThriftStruct::default().i64(2, begin.cast_signed()).within(3, meta))
    }

    /// Returns the size without compression, header included.
    fn page(&mut self, page: Page) -> io::Result<u64> {
        let packed = zstd::bulk::compress(&page.content, LEVEL)?;
        let sizes = ThriftStruct::default()
            .i32(1, page.kind)
            .i32(2, page.content.len() as i64)
            .i32(3, packed.len() as i64);
        let header = (page.header)(sizes, page.values as i64).finish();
        self.out.write_all(&header)?;
        self.out.write_all(&packed)?;
        self.written += (header.len() + packed.len()) as u64;
        Ok((header.len() + page.content.len()) as u64)
    }
}

fn dictionary_header(page: ThriftStruct, values: i64) -> ThriftStruct {
    page.within(7, ThriftStruct::default().i32(1, values).i32(2, code::PLAIN))
}

fn indices_header(page: ThriftStruct, values: i64) -> ThriftStruct {
    data_header(page, values, code::RLE_DICTIONARY)
}

fn plain_header(page: ThriftStruct, values: i64) -> ThriftStruct {
    data_header(page, values, code::PLAIN)
}

fn data_header(page: ThriftStruct, values: i64, encoding: i64) -> ThriftStruct {
    let header = ThriftStruct::default().i32(1, values).i32(2, encoding);
    page.within(5, header.i32(3, code::RLE).i32(4, code::RLE))
}

fn physical(kind: ColumnKind) -> i64 {
    match kind {
        ColumnKind::Text => code::BYTE_ARRAY,
        ColumnKind::Number | ColumnKind::TimeUs => code::INT64,
    }
}

/// A required column of the schema.
fn element(column: &ColumnSchema) -> ThriftStruct {
    let element = ThriftStruct::default().i32(1, physical(column.kind)).i32(3, 0).text(4, column.name);
    match column.kind {
        ColumnKind::Text => element.i32(6, code::UTF8),
        ColumnKind::TimeUs => element.i32(6, code::TIMESTAMP_MICROS),
        ColumnKind::Number => element,
    }
}
