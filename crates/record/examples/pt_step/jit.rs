//! A stepped program's `jit-PID.dump`: its times are the machine's, those of the trace are made up. A copy next to
//! the recording has the trace's times, and the recording names the copy.

use std::io;
use std::path::{Path, PathBuf};

use super::encode::{SideKind, Traced};
use super::step::Side;

/// Bytes of the header; its length and that of each record are at these offsets, the time at these.
const HEADER_BYTES: usize = 40;
const HEADER_TIME: usize = 24;
const RECORD_SIZE: usize = 4;
const RECORD_TIME: usize = 8;

/// Copies the dump that the program mapped, if any, to the folder `OUTPUT.jit`, and names that in the mappings.
pub fn follow(traced: &mut Traced, output: &Path) -> io::Result<()> {
    let folder = output.with_extension("jit");
    for side in &mut traced.sides {
        let SideKind::Step(Side::Maps(mappings)) = &mut side.what else { continue };
        for mapping in mappings.iter_mut().filter(|mapping| is_dump(&mapping.name)) {
            let copy = folder.join(file_name(&mapping.name));
            if !copy.is_file() {
                std::fs::create_dir_all(&folder)?;
                std::fs::write(&copy, converted(std::fs::read(&mapping.name)?, &traced.clock))?;
            }
            mapping.name = std::path::absolute(copy)?.to_string_lossy().into_owned();
        }
    }
    Ok(())
}

fn file_name(path: &str) -> PathBuf {
    PathBuf::from(path.rsplit('/').next().unwrap_or(path))
}

fn is_dump(name: &str) -> bool {
    let file = file_name(name);
    let file = file.to_string_lossy();
    file.starts_with("jit-") && file.ends_with(".dump")
}

/// The file with each time replaced.
fn converted(mut bytes: Vec<u8>, clock: &[(u64, u64)]) -> Vec<u8> {
    set_time(&mut bytes, HEADER_TIME, clock);
    let mut at = HEADER_BYTES;
    while let Some(size) = bytes.get(at + RECORD_SIZE..at + RECORD_SIZE + 4).map(number) {
        set_time(&mut bytes, at + RECORD_TIME, clock);
        at += (size as usize).max(1);
    }
    bytes
}

/// Little-endian, as the machines with Intel PT are.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Replaces the stored time by the first moment noted from then on, because the program reports its code by a system
/// call right after it read the clock.
fn set_time(bytes: &mut [u8], at: usize, clock: &[(u64, u64)]) {
    let Some(time) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<8>()) else { return };
    let told = number(time);
    let next = clock.partition_point(|(ticks, _)| *ticks < told);
    let virtual_ticks = clock.get(next).or(clock.last()).map_or(0, |(_, tsc)| *tsc);
    *time = virtual_ticks.to_le_bytes();
}
