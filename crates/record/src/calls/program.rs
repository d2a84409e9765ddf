//! The BPF object of `bpf/calls.bpf.c`: its maps by `aya`, its uprobe programs loaded for multi links.
//!
//! `aya` 0.14 knows no `uprobe_multi`: a program for it must be loaded with that attach type. So the maps are made by
//! `aya`, and the same object is parsed once more by `aya_obj`, relocated against those maps and the kernel's types.

use std::collections::HashSet;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::OnceLock;

use aya::maps::{Map, MapData};
use aya::{Btf, Ebpf, EbpfLoader};
use aya_obj::Object;
use aya_obj::btf::{BtfError, BtfKind};
use aya_obj::generated::bpf_insn;

use super::{CallMode, Error, Exits, ProbeOptions};
use crate::sys::bpf::{self, Attach};
use crate::sys::bpf_error::{self, Denied, load_error, missing};

/// The object of all kernels; `cargo xtask bpf` rebuilds it.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../../bpf/calls.bpf.o");

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

/// The object, relocated: programs can still be loaded from it.
#[derive(Debug)]
pub(super) struct Code {
    object: Object,
    /// BTF types of the functions, loaded into the kernel.
    types: Option<OwnedFd>,
}

impl Code {
    /// Loads one of its programs.
    pub fn load(&self, name: &'static str, attach: Attach) -> Result<OwnedFd, Error> {
        let function = self.object.programs.get(name);
        let function = function.and_then(|program| self.object.functions.get(&program.function_key()));
        let function = function.ok_or_else(|| missing(name))?;
        let instructions =
            function.instructions.iter().map(with_kernel_call).collect::<Result<Vec<_>, _>>()?;
        let instructions: Vec<u8> = instructions.iter().flat_map(encoded).collect();
        let infos = function.func_info.func_info_bytes();
        let types = self.types.as_ref().map(|types| (types.as_fd(), infos.as_slice()));
        let code = bpf::BpfCode { name, instructions: &instructions, types };
        bpf::load_program(&code, attach).map_err(|error| load_error(name, &error).into())
    }
}

/// The kernel's types: reading them lasts, and they stay the same.
pub(super) fn kernel_types() -> Result<&'static Btf, Error> {
    static TYPES: OnceLock<Result<Btf, BtfError>> = OnceLock::new();
    let types = TYPES.get_or_init(Btf::from_sys_fs);
    types.as_ref().map_err(|reason| bpf_error::Error::NoBtf { reason: reason.to_string() }.into())
}

/// Loads the maps, sized for `functions` functions, and the uprobe programs.
pub(super) fn load(functions: u32, options: &ProbeOptions) -> Result<(Ebpf, Programs, Code), Error> {
    let sums = options.mode == CallMode::Totals;
    let btf = kernel_types()?;
    let ebpf = EbpfLoader::new()
        .btf(Some(btf))
        .allow_unsupported_maps()
        .map_max_entries("call_rates", functions.max(1))
        .map_max_entries("call_sums", if sums { functions.max(1) } else { 1 })
        .map_max_entries("call_ring", options.ring_bytes)
        .load(OBJECT)
        .map_err(|error| load_error("object", &error))?;
    let code = relocated(&ebpf, btf)?;
    let programs = load_programs(&code, options)?;
    Ok((ebpf, programs, code))
}

fn relocated(ebpf: &Ebpf, btf: &Btf) -> Result<Code, Error> {
    let mut object = Object::parse(OBJECT).map_err(|error| load_error("object", &error))?;
    let types = match aya::features().btf() {
        Some(known) => object.fixup_and_sanitize_btf(known).map_err(|error| load_error("object", &error))?,
        None => None,
    };
    let types = types.map(|types| bpf::load_types(&types.to_bytes())).transpose();
    let types = types.map_err(|error| load_error("types", &error))?;
    object.relocate_btf(btf).map_err(|error| load_error("object", &error))?;
    let texts: HashSet<usize> = object.functions.keys().map(|(section, _)| *section).collect();
    let maps = std::mem::take(&mut object.maps);
    let fds: Vec<(&str, RawFd, &aya_obj::Map)> = maps
        .iter()
        .filter_map(|(name, map)| Some((name.as_str(), fd_of(ebpf.map(name)?)?.as_raw_fd(), map)))
        .collect();
    object.relocate_maps(fds.into_iter(), &texts).map_err(|error| load_error("object", &error))?;
    object.relocate_calls(&texts).map_err(|error| load_error("object", &error))?;
    Ok(Code { object, types })
}

fn load_programs(code: &Code, options: &ProbeOptions) -> Result<Programs, Error> {
    let of = |attach| load_pair(code, options, attach);
    match of(Attach::Uprobes) {
        Ok((enter, exit)) if bpf::has_uprobe_links(enter.as_fd()) => {
            let session = load_session(code, options);
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
    code: &Code,
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
    let exit = exit.map(|exit| code.load(exit, attach)).transpose()?;
    Ok((code.load(enter, attach)?, exit))
}

/// `None` where the kernel has no sessions: then two links do it.
fn load_session(code: &Code, options: &ProbeOptions) -> Option<OwnedFd> {
    if options.exits != Exits::Return {
        return None;
    }
    let name = if options.mode == CallMode::Events { "on_session" } else { "on_session_track" };
    let program = code.load(name, Attach::Sessions).ok()?;
    bpf::has_uprobe_sessions(program.as_fd()).then_some(program)
}

/// The instruction itself, or a call of the kernel function that `KFUNC_IS_RETURN` in `bpf/calls/state.h` is a
/// placeholder for.
///
/// # Errors
/// If the kernel has no such function.
//
// Source: linux v6.18 include/uapi/linux/bpf.h: BPF_PSEUDO_KFUNC_CALL; `imm` is the function's number in the kernel's BTF
fn with_kernel_call(instruction: &bpf_insn) -> Result<bpf_insn, Error> {
    const CALL: u8 = 0x85;
    const PSEUDO_KFUNC_CALL: u8 = 2;
    const PLACEHOLDER: i32 = 0x7a12;
    let mut instruction = *instruction;
    if (instruction.code, instruction.src_reg(), instruction.imm) == (CALL, 0, PLACEHOLDER) {
        let id = kernel_types()?.id_by_type_name_kind("bpf_session_is_return", BtfKind::Func);
        instruction.imm = id.map_err(|error| load_error("bpf_session_is_return", &error))? as i32;
        instruction.set_src_reg(PSEUDO_KFUNC_CALL);
    }
    Ok(instruction)
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

/// An instruction as the kernel reads it.
///
/// Layout: `struct bpf_insn`: code u8, dst_reg:4 src_reg:4, off s16, imm s32. Source: include/uapi/linux/bpf.h.
fn encoded(instruction: &bpf_insn) -> [u8; bpf::INSTRUCTION_BYTES] {
    let [off0, off1] = instruction.off.to_le_bytes();
    let [imm0, imm1, imm2, imm3] = instruction.imm.to_le_bytes();
    let registers = instruction.dst_reg() | instruction.src_reg() << 4;
    [instruction.code, registers, off0, off1, imm0, imm1, imm2, imm3]
}
