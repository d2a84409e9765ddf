//! The BPF object of `bpf/calls.bpf.c`: its maps, and its uprobe programs loaded for multi links.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use aya::maps::{Map, MapData};

use super::{CallMode, Error, Exits, ProbeOptions};
use crate::files::packed::PackedBytes;
use crate::sys::bpf::{self, Attach};
use crate::sys::bpf_error::{self, Denied};
use crate::sys::bpf_object::{KernelTypes, LoadedObject, ObjectSettings};

/// Placeholder (`KFUNC_IS_RETURN` in `bpf/calls/state.h`) and name of the kernel's function that tells a session's two
/// sides apart: 6.13.
const IS_RETURN: (i32, &str) = (0x7a12, "bpf_session_is_return");

/// The object of all kernels; `cargo xtask bpf` rebuilds it.
static OBJECT: PackedBytes = PackedBytes(include_bytes!(concat!(env!("OUT_DIR"), "/calls.bpf.o.deflate")));

/// The programs that uprobes run.
#[derive(Debug)]
pub(super) struct Programs {
    /// On first instructions.
    pub enter: OwnedFd,
    /// When a function returns, or on its return instructions and jumps out, as [`Exits`] has it; `None` if ends are
    /// not seen.
    pub exit: Option<OwnedFd>,
    /// Does what both do, for [`Exits::Return`] (Linux 6.13).
    pub session: Option<OwnedFd>,
    /// One link holds many probes (Linux 6.6).
    pub multi: bool,
}

/// Loads the maps, sized for `functions` functions, and the uprobe programs.
pub(super) fn load(functions: u32, options: &ProbeOptions) -> Result<(LoadedObject, Programs), Error> {
    let sums = options.mode == CallMode::Totals;
    let entries = vec![
        ("call_rates", functions.max(1)),
        ("call_sums", if sums { functions.max(1) } else { 1 }),
        ("call_ring", options.ring_bytes),
    ];
    let settings = ObjectSettings { entries, kernel_calls: vec![IS_RETURN], ..ObjectSettings::default() };
    let object = LoadedObject::new(OBJECT, &*KernelTypes::read()?, &settings)?;
    let programs = load_programs(&object, options)?;
    Ok((object, programs))
}

fn load_programs(object: &LoadedObject, options: &ProbeOptions) -> Result<Programs, Error> {
    let of = |attach| load_pair(object, options, attach);
    match of(Attach::Uprobes) {
        Ok((enter, exit)) if bpf::has_uprobe_links(enter.as_fd()) => {
            let session = load_session(object, options);
            Ok(Programs { enter, exit, session, multi: true })
        }
        Err(
            error @ Error::Bpf(bpf_error::Error::Load {
                denied: Denied::ForRights | Denied::ByFilter, ..
            }),
        ) => Err(error),
        _ => {
            let (enter, exit) = of(Attach::Event)?;
            Ok(Programs { enter, exit, session: None, multi: false })
        }
    }
}

fn load_pair(
    object: &LoadedObject,
    options: &ProbeOptions,
    attach: Attach,
) -> Result<(OwnedFd, Option<OwnedFd>), Error> {
    let (enter, exit) = match (options.mode, options.exits) {
        (_, Exits::None) => ("on_count", None),
        (CallMode::Events, Exits::Sites) => ("on_enter", Some("on_leave")),
        (CallMode::Events, Exits::Return) => ("on_enter", Some("on_return")),
        (_, Exits::Sites) => ("on_enter_track", Some("on_leave_track")),
        (_, Exits::Return) => ("on_enter_track", Some("on_return_track")),
    };
    let exit = exit.map(|exit| object.loaded(exit, attach)).transpose()?;
    Ok((object.loaded(enter, attach)?, exit))
}

/// `None` where the kernel has no sessions: then two links do it.
fn load_session(object: &LoadedObject, options: &ProbeOptions) -> Option<OwnedFd> {
    if options.exits != Exits::Return {
        return None;
    }
    let name = if options.mode == CallMode::Events { "on_session" } else { "on_session_track" };
    let program = object.loaded(name, Attach::Sessions).ok()?;
    bpf::has_uprobe_sessions(program.as_fd()).then_some(program)
}

/// The descriptor of a map of the kinds used here.
pub(super) fn fd_of(map: &Map) -> Option<BorrowedFd<'_>> {
    let data: &MapData = match map {
        Map::Array(data)
        | Map::HashMap(data)
        | Map::PerCpuArray(data)
        | Map::RingBuf(data)
        | Map::Unsupported(data) => data,
        _ => return None,
    };
    Some(data.fd().as_fd())
}
