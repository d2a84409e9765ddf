//! Parcels from files, and back.

use std::io;
use std::path::Path;

use fuzz::parcel::{Parcel, ParcelPart};

/// Writes the files of `pairs` (`NAME=FILE`) as one parcel.
///
/// # Errors
/// If a pair isn't one, or a file can't be read or written.
pub fn pack(out: &Path, pairs: &[&str]) -> io::Result<()> {
    let part = |pair: &&str| -> io::Result<ParcelPart> {
        let (name, file) =
            pair.split_once('=').ok_or_else(|| io::Error::other(format!("no NAME=FILE: {pair}")))?;
        Ok(ParcelPart { name: name.to_owned(), bytes: std::fs::read(file)? })
    };
    let parts = pairs.iter().map(part).collect::<io::Result<_>>()?;
    std::fs::write(out, Parcel { parts }.to_bytes())
}

/// Writes the parts of the parcel `file` to `folder`, a `/` in their names as `,`.
///
/// # Errors
/// If a file can't be read or written.
pub fn unpack(file: &Path, folder: &Path) -> io::Result<()> {
    for part in Parcel::parse(&std::fs::read(file)?).parts {
        std::fs::write(folder.join(part.name.replace('/', ",")), part.bytes)?;
    }
    Ok(())
}
