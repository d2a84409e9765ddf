//! Compressed parts of object files: debug sections (zlib, zstd) and the small ELF file of `.gnu_debugdata` (xz).

use std::io::Read;

use flate2::{Decompress, FlushDecompress};
use object::{CompressionFormat, Object, ObjectSection};

use crate::bounds::{self, Room};
use crate::{Bytes, Error, ObjectFile};

/// Most memory that an xz decoder may take for its dictionary, in KiB.
const DICTIONARY_KB: u32 = 128 << 10;

/// Content of the compressed section `name` of `object`; `None` if it is not compressed after all.
pub(crate) fn section(object: &ObjectFile, name: &str) -> Result<Option<Bytes>, Error> {
    let damaged = |_| Error::Compressed { name: name.to_owned() };
    let file = object::File::parse(&**object.bytes()).map_err(damaged)?;
    let section = file.section_by_name(name).ok_or_else(|| Error::Compressed { name: name.to_owned() })?;
    let data = section.compressed_data().map_err(damaged)?;
    let Some(room) = Room::take(data.data.len() as u64, data.uncompressed_size) else {
        bounds::refuse(object.path(), name);
        return Err(Error::TooLarge { name: name.to_owned(), bytes: data.uncompressed_size });
    };
    let size = usize::try_from(data.uncompressed_size).ok();
    let unpacked = match data.format {
        CompressionFormat::None => return Ok(None),
        CompressionFormat::Zlib => size.and_then(|size| zlib(data.data, size)),
        CompressionFormat::Zstandard => size.and_then(|size| zstd(data.data, size)),
        _ => None,
    };
    let bytes = unpacked.ok_or_else(|| Error::Compressed { name: name.to_owned() })?;
    Ok(Some(Bytes::unpacked(bytes, room)))
}

/// Room for `size` bytes; `None` where memory is short.
fn reserved(size: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(size).ok()?;
    Some(bytes)
}

/// Content of `size` bytes; `None` if it is damaged or has another size.
fn zlib(packed: &[u8], size: usize) -> Option<Vec<u8>> {
    let mut bytes = reserved(size)?;
    Decompress::new(true).decompress_vec(packed, &mut bytes, FlushDecompress::Finish).ok()?;
    (bytes.len() == size).then_some(bytes)
}

/// The same of zstd frames.
fn zstd(packed: &[u8], size: usize) -> Option<Vec<u8>> {
    let mut bytes = reserved(size)?;
    zstd::bulk::Decompressor::new().ok()?.decompress_to_buffer(packed, &mut bytes).ok()?;
    (bytes.len() == size).then_some(bytes)
}

/// Content of the xz data `packed`, section `name` of `object`; `None` if it is damaged or too large.
pub(crate) fn xz(object: &ObjectFile, name: &str, packed: &[u8]) -> Option<Bytes> {
    let most = bounds::justified_by(packed.len() as u64);
    let refuse = || bounds::refuse(object.path(), name);
    let Some(mut room) = Room::take(packed.len() as u64, most) else {
        refuse();
        return None;
    };
    // One byte more than the limit shows that the data is longer.
    let mut reader = lzma_rust2::XzReader::new_mem_limit(packed, true, DICTIONARY_KB).take(most + 1);
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).ok()?;
    if bytes.len() as u64 > most {
        refuse();
        return None;
    }
    room.shrink_to(bytes.len() as u64);
    Some(Bytes::unpacked(bytes, room))
}
