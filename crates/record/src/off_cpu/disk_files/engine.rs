//! The BPF program, loaded, attached, read.

use std::io::{self, BufRead};
use std::os::fd::OwnedFd;

use aya::maps::{Array, MapData, PerCpuArray, RingBuf};
use dso::system_file;

use super::super::own_pid_namespace;
use super::layout::{DiskRecord, parse_record};
use crate::files::packed::PackedBytes;
use crate::machine::capabilities::Rights;
use crate::sys::bpf::KernelAddresses;
use crate::sys::bpf_error::{Error, load_error, map_error, missing};
use crate::sys::bpf_object::{KernelTypes, LoadedObject, ObjectSettings, at_tracepoint};

/// The object of all kernels; `cargo xtask bpf` rebuilds it.
static OBJECT: PackedBytes =
    PackedBytes(include_bytes!(concat!(env!("OUT_DIR"), "/disk_files.bpf.o.deflate")));

/// Programs and their tracepoints.
const PROGRAMS: [(&str, &str); 2] = [("disk_insert", "block_rq_insert"), ("disk_issue", "block_rq_issue")];

/// Functions at the end of bios, in the order of `struct disk_control`.
const ENDS: [&str; 9] = [
    "bio_chain_endio",
    "iomap_dio_bio_end_io",
    "dio_bio_end_io",
    "dio_bio_end_aio",
    "blkdev_bio_end_io",
    "blkdev_bio_end_io_simple",
    "blkdev_bio_end_io_async",
    "end_swap_bio_read",
    "end_swap_bio_write",
];

/// Records handed out at once.
const MOST_AT_ONCE: usize = 100_000;

/// The attached program. Dropping it detaches it.
pub(super) struct DiskFileEngine {
    object: LoadedObject,
    links: Vec<OwnedFd>,
    ring: RingBuf<MapData>,
}

impl DiskFileEngine {
    /// Loads and attaches: requests are seen from here on.
    pub(super) fn start() -> Result<Self, Error> {
        // Before all that is prepared for a refusal of the kernel.
        if !Rights::own().may_bpf() {
            return Err(load_error("object", &io::Error::from_raw_os_error(libc::EPERM)));
        }
        let kernel = KernelTypes::read()?;
        let settings =
            ObjectSettings { constants: vec![("pid_ns_inum", own_pid_namespace())], ..Default::default() };
        let mut object = LoadedObject::new(OBJECT, &kernel, &settings)?;
        let programs = PROGRAMS.map(|(name, point)| Ok((name, at_tracepoint(&kernel, name, point)?)));
        object.load(&programs.into_iter().collect::<Result<Vec<_>, Error>>()?)?;
        let ring = object.take_map("disk_ring").ok_or_else(|| missing("disk_ring"))?;
        let ring = RingBuf::try_from(ring).map_err(|error| map_error("disk_ring", &error))?;
        let mut engine = Self { object, links: Vec::new(), ring };
        engine.set_control()?;
        for (name, _) in PROGRAMS {
            engine.links.push(engine.object.attach_tracepoint(name)?);
        }
        Ok(engine)
    }

    // Layout: struct disk_control. Source: bpf/disk_files_shared.h
    fn set_control(&mut self) -> Result<(), Error> {
        let map = self.object.map_mut("disk_controls").ok_or_else(|| missing("disk_controls"))?;
        let mut map = Array::<_, [u64; 9]>::try_from(map).map_err(|e| map_error("disk_controls", &e))?;
        map.set(0, addresses_of(ENDS), 0).map_err(|error| map_error("disk_controls", &error))
    }

    /// Hands out what waits in the ring. Never blocks.
    pub(super) fn poll(&mut self, sink: &mut dyn FnMut(DiskRecord)) {
        for _ in 0..MOST_AT_ONCE {
            let Some(item) = self.ring.next() else { return };
            parse_record(&item).into_iter().for_each(&mut *sink);
        }
    }

    /// Detaches; what waits in the ring can still be read.
    pub(super) fn stop(&mut self) {
        self.links.clear();
    }

    /// Records that were lost.
    pub(super) fn lost(&self) -> u64 {
        let map = self.object.map("disk_losses").and_then(|map| PerCpuArray::<_, u64>::try_from(map).ok());
        map.and_then(|map| map.get(&0, 0).ok()).map_or(0, |values| values.iter().sum())
    }
}

/// Addresses of functions of the kernel; 0 for those it lacks or hides.
fn addresses_of<const N: usize>(names: [&str; N]) -> [u64; N] {
    // Linux before 5.16, or one that hides addresses, doesn't answer.
    asked_of_kernel(names).unwrap_or_else(|_| read_of_list(names))
}

fn asked_of_kernel<const N: usize>(names: [&str; N]) -> io::Result<[u64; N]> {
    let (kernel, mut found) = (KernelAddresses::load()?, [0; N]);
    for (name, address) in names.iter().zip(&mut found) {
        *address = kernel.of(name)?.unwrap_or(0);
    }
    Ok(found)
}

/// The same from the list of all symbols: 200,000 lines, which the kernel makes for each reader.
fn read_of_list<const N: usize>(names: [&str; N]) -> [u64; N] {
    let mut found = [0; N];
    let Ok(symbols) = system_file::open("/proc/kallsyms") else { return found };
    let mut symbols = io::BufReader::with_capacity(1 << 16, symbols);
    // One buffer for all lines.
    let mut line = Vec::new();
    while symbols.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
        let mut words = line.split(|byte| matches!(byte, b' ' | b'\t' | b'\n'));
        let (address, name) = (words.next().unwrap_or_default(), words.nth(1).unwrap_or_default());
        if let Some(at) = names.iter().position(|wanted| wanted.as_bytes() == name) {
            let address =
                std::str::from_utf8(address).ok().and_then(|text| u64::from_str_radix(text, 16).ok());
            found[at] = address.unwrap_or(0);
        }
        line.clear();
    }
    found
}
