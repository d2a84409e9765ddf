//! Names of block devices: `vda` is 254:0 on the machine where it was recorded.

use anyhow::{Context, bail};
use dso::system_file;
use std::fs;
use std::path::Path;

/// The kernel's number of a device.
#[must_use]
pub fn number(major: u32, minor: u32) -> u32 {
    major << 20 | (minor & 0xf_ffff)
}

/// `vda` if this machine has such a device and `here` (it was recorded on it), else `254:0`.
#[must_use]
pub fn name(dev: u32, here: bool) -> String {
    let numbers = format!("{}:{}", dev >> 20, dev & 0xf_ffff);
    let link = fs::read_link(format!("/sys/dev/block/{numbers}")).ok().filter(|_| here);
    let base = link.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    base.unwrap_or(numbers)
}

/// The number of `vda`, `/dev/vda` or `254:0`; of a partition, its disk's: requests name only that.
///
/// # Errors
/// If this machine has no such device.
pub fn parse(text: &str) -> anyhow::Result<u32> {
    if let Some(dev) = parse_numbers(text) {
        return Ok(dev);
    }
    let name = text.trim_start_matches("/dev/");
    let folder = fs::canonicalize(format!("/sys/class/block/{name}"))
        .with_context(|| format!("no block device '{text}' here: want vda, /dev/vda or 254:0"))?;
    let is_part = folder.join("partition").exists();
    let disk = if is_part { folder.parent().unwrap_or(&folder) } else { &folder };
    let numbers = system_file::read_text(disk.join("dev")).with_context(|| format!("no number of {text}"))?;
    match parse_numbers(numbers.trim()) {
        Some(dev) => Ok(dev),
        None => bail!("'{}' is not a device number", numbers.trim()),
    }
}

/// `254:0` or `254,0`.
fn parse_numbers(text: &str) -> Option<u32> {
    let (major, minor) = text.split_once([':', ','])?;
    let (major, minor) = (major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?);
    (major < 1 << 12 && minor < 1 << 20).then(|| number(major, minor))
}

/// True if the recording was made on this machine, as far as its name shows.
#[must_use]
pub fn is_here(features: &perfdata::Features) -> bool {
    let own = system_file::read_text("/proc/sys/kernel/hostname").unwrap_or_default();
    features.hostname.as_deref().is_some_and(|name| name == own.trim())
}

/// Fuzz entry: any text as numbers of a device.
pub fn fuzz(data: &[u8]) {
    let _ = parse_numbers(&String::from_utf8_lossy(data));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_have_numbers() {
        assert_eq!(parse("254:3").expect("numbers"), 254 << 20 | 3);
        assert_eq!(parse("8,16").expect("numbers"), 8 << 20 | 16);
        assert!(parse("no-such-disk").is_err() && parse("9999:1").is_err());
        assert_eq!(name(number(4000, 77), true), "4000:77");
    }
}
