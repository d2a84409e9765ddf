//! A BPF object whose maps exist, and whose programs can be loaded and attached.

use std::collections::HashSet;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use aya::maps::{Map, MapData};
use aya_obj::generated::bpf_insn;
use aya_obj::generated::bpf_map_type::BPF_MAP_TYPE_TASK_STORAGE;
use aya_obj::{EbpfSectionKind, Object};
use rustc_hash::FxHashMap;

use super::function_checks::{features_for, release_without_thread_data, running_release};
use super::kernel_types::{KernelTypes, TypeKind};
use super::needed_types::needed_types;
use crate::files::packed::PackedBytes;
use crate::sys::bpf::{self, Attach};
use crate::sys::bpf_error::{Error, load_error, map_error, missing};
use crate::sys::seccomp::GuardedCall;

/// Settings of an object before it is loaded.
#[derive(Debug, Default)]
pub struct ObjectSettings<'a> {
    /// Values of constants; each must be in the object.
    pub constants: Vec<(&'a str, u32)>,
    /// Entries of maps, in place of the object's; bytes of rings, a power of two of pages.
    pub entries: Vec<(&'a str, u32)>,
    /// Helper numbers in whose place functions of the kernel are called, which clang can't name: placeholders of
    /// `bpf/kernel.h` and others. Where the kernel lacks the function, programs that call it can't be loaded.
    pub kernel_calls: Vec<(i32, &'a str)>,
}

/// The object. Dropping it detaches nothing: links are their holders'.
pub struct LoadedObject {
    maps: FxHashMap<String, Map>,
    object: Object,
    /// BTF types of the functions, loaded into the kernel.
    types: Option<OwnedFd>,
    programs: FxHashMap<&'static str, OwnedFd>,
    /// Placeholder and number of the kernel's function.
    kernel_calls: Vec<(i32, u32)>,
}

impl std::fmt::Debug for LoadedObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoadedObject").field("programs", &self.programs).finish_non_exhaustive()
    }
}

impl LoadedObject {
    /// Makes the maps, and relocates the programs for them and for the kernel's types.
    ///
    /// # Errors
    /// The object is damaged or wants fields that no kernel type has; the kernel refuses a map or the types.
    pub fn new(
        packed: PackedBytes,
        kernel: &KernelTypes,
        settings: &ObjectSettings<'_>,
    ) -> Result<Self, Error> {
        let refused = |error: &dyn std::error::Error| load_error("object", error);
        // Before the library that makes maps asks the kernel what it can do.
        GuardedCall::Bpf.check().map_err(|error| refused(&error))?;
        let bytes = packed.unpacked().map_err(|error| refused(&error))?;
        let mut object = Object::parse(&bytes).map_err(|error| refused(&error))?;
        set_constants(&mut object, settings)?;
        let needed = object.btf.as_ref().and_then(|types| KernelTypes::from_bytes(types.to_bytes()));
        let needed = needed.map(|own| needed_types(kernel, &own));
        let types = match aya::features().btf() {
            Some(known) => object
                .fixup_and_sanitize_btf(&features_for(known, &running_release()))
                .map_err(|error| refused(&error))?,
            None => None,
        };
        let types = types.map(|types| bpf::load_types(&types.to_bytes())).transpose();
        let types = types.map_err(|error| load_error("types", &error))?;
        if let Some(needed) = needed {
            let needed = aya::Btf::parse(&needed, aya::Endianness::default());
            let needed = needed.map_err(|error| refused(&error))?;
            object.relocate_btf(&needed).map_err(|error| refused(&error))?;
        }
        let maps = create_maps(&mut object, types.as_ref(), settings)?;
        let found =
            |(placeholder, name): &(i32, &str)| Some((*placeholder, kernel.find(TypeKind::Func, name)?));
        let kernel_calls = settings.kernel_calls.iter().filter_map(found).collect();
        Ok(Self { maps, object, types, programs: FxHashMap::default(), kernel_calls })
    }

    /// A map by its name.
    #[must_use]
    pub fn map(&self, name: &str) -> Option<&Map> {
        self.maps.get(name)
    }

    /// The same, to be changed.
    pub fn map_mut(&mut self, name: &str) -> Option<&mut Map> {
        self.maps.get_mut(name)
    }

    /// Gives a map away.
    pub fn take_map(&mut self, name: &str) -> Option<Map> {
        self.maps.remove(name)
    }

    /// Loads programs, all at once: the kernel checks each on the CPU that asks.
    ///
    /// # Errors
    /// The kernel refuses one.
    pub fn load(&mut self, programs: &[(&'static str, Attach)]) -> Result<(), Error> {
        let load = |(name, attach): &(&'static str, Attach)| Ok((*name, self.loaded(name, *attach)?));
        let (first, others) = programs.split_at(programs.len().min(1));
        let (first, others) = std::thread::scope(|scope| {
            let others = || others.iter().map(load).collect::<Result<Vec<_>, Error>>();
            let beside = std::thread::Builder::new().spawn_scoped(scope, others);
            let first = first.iter().map(load).collect::<Result<Vec<_>, Error>>();
            (first, beside.ok().and_then(|beside| beside.join().ok()))
        });
        let others = others.unwrap_or_else(|| programs.iter().skip(1).map(load).collect())?;
        self.programs.extend(first?.into_iter().chain(others));
        Ok(())
    }

    /// Loads one of its programs for the caller.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn loaded(&self, name: &'static str, attach: Attach) -> Result<OwnedFd, Error> {
        let function = self.object.programs.get(name);
        let function = function.and_then(|program| self.object.functions.get(&program.function_key()));
        let function = function.ok_or_else(|| missing(name))?;
        let instructions =
            function.instructions.iter().map(|instruction| self.with_kernel_call(*instruction));
        let instructions: Vec<u8> = instructions.flat_map(encoded).collect();
        let infos = function.func_info.func_info_bytes();
        let types = self.types.as_ref().map(|types| (types.as_fd(), infos.as_slice()));
        let code = bpf::BpfCode { name, instructions: &instructions, types };
        bpf::load_program(&code, attach).map_err(|error| load_error(name, &error))
    }

    /// The instruction itself, or a call of the kernel function that it is a placeholder for.
    //
    // Source: linux v6.18 include/uapi/linux/bpf.h: BPF_PSEUDO_KFUNC_CALL; `imm` is the function's number in the kernel's BTF
    fn with_kernel_call(&self, mut instruction: bpf_insn) -> bpf_insn {
        const CALL: u8 = 0x85;
        const PSEUDO_KFUNC_CALL: u8 = 2;
        if (instruction.code, instruction.src_reg()) == (CALL, 0)
            && let Some((_, number)) = self.kernel_calls.iter().find(|(of, _)| *of == instruction.imm)
        {
            instruction.imm = *number as i32;
            instruction.set_src_reg(PSEUDO_KFUNC_CALL);
        }
        instruction
    }

    /// A program that [`LoadedObject::load`] has loaded.
    ///
    /// # Errors
    /// It has not.
    pub fn program(&self, name: &'static str) -> Result<BorrowedFd<'_>, Error> {
        self.programs.get(name).map(AsFd::as_fd).ok_or_else(|| missing(name))
    }

    /// Attaches a loaded program to its tracepoint; closing the descriptor detaches it.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn attach_tracepoint(&self, name: &'static str) -> Result<OwnedFd, Error> {
        bpf::link_tracepoint(self.program(name)?)
            .map_err(|error| Error::Attach { program: name, reason: error.to_string() })
    }

    /// A file whose reading runs a loaded iterator.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn open_iterator(&self, name: &'static str) -> Result<File, Error> {
        bpf::open_iterator(self.program(name)?)
            .map(File::from)
            .map_err(|error| Error::Attach { program: name, reason: error.to_string() })
    }
}

/// How to load a program of a tracepoint.
///
/// # Errors
/// The kernel has no such tracepoint.
pub fn at_tracepoint(kernel: &KernelTypes, program: &'static str, tracepoint: &str) -> Result<Attach, Error> {
    let number = kernel.find(TypeKind::Typedef, &format!("btf_trace_{tracepoint}"));
    number.map(Attach::Tracepoint).ok_or_else(|| no_type(program, tracepoint))
}

/// Number of the kernel's iterator over all tasks.
///
/// # Errors
/// The kernel has none.
pub fn task_iterator(kernel: &KernelTypes, program: &'static str) -> Result<u32, Error> {
    kernel.find(TypeKind::Func, "bpf_iter_task").ok_or_else(|| no_type(program, "bpf_iter_task"))
}

/// Part of the error of [`no_type`].
pub const NO_TYPE: &str = "the kernel has no type";

/// The error for a tracepoint or function that this kernel lacks.
pub fn no_type(program: &'static str, name: &str) -> Error {
    load_error(program, &std::io::Error::other(format!("{NO_TYPE} {name}")))
}

fn set_constants(object: &mut Object, settings: &ObjectSettings<'_>) -> Result<(), Error> {
    let values: Vec<(&str, [u8; 4])> =
        settings.constants.iter().map(|(name, value)| (*name, value.to_ne_bytes())).collect();
    let values = values.iter().map(|(name, bytes)| (*name, (&bytes[..], true))).collect();
    object.patch_map_data(values).map_err(|error| load_error("object", &error))
}

fn create_maps(
    object: &mut Object,
    types: Option<&OwnedFd>,
    settings: &ObjectSettings<'_>,
) -> Result<FxHashMap<String, Map>, Error> {
    let mut maps = FxHashMap::default();
    let mut kept = Vec::new();
    for (name, mut map) in std::mem::take(&mut object.maps) {
        if let Some((_, entries)) = settings.entries.iter().find(|(of, _)| *of == name) {
            map.set_max_entries(*entries);
        }
        let data = map.data().to_vec();
        let is_constant = map.section_kind() == EbpfSectionKind::Rodata;
        let created = MapData::create(map.clone(), &name, types.map(AsFd::as_fd));
        let created = created.map_err(|error| {
            // Asked only now: makers of kernels carry features back to older ones.
            let is_per_thread = map.map_type() == BPF_MAP_TYPE_TASK_STORAGE as u32;
            let old = is_per_thread.then(release_without_thread_data).flatten();
            old.map_or_else(|| load_error("object", &error), |release| Error::OldKernel { release })
        })?;
        let fd = created.fd().as_fd();
        let filled = if data.is_empty() { Ok(()) } else { bpf::update_map(fd, &0u32.to_ne_bytes(), &data) };
        let filled = filled.and_then(|()| if is_constant { bpf::freeze_map(fd) } else { Ok(()) });
        filled.map_err(|error| map_error("constants", &error))?;
        kept.push((name.clone(), fd.as_raw_fd(), map));
        let created = Map::from_map_data(created).map_err(|error| load_error("object", &error))?;
        maps.insert(name, created);
    }
    let texts: HashSet<usize> = object.functions.keys().map(|(section, _)| *section).collect();
    let fds: Vec<(&str, RawFd, &aya_obj::Map)> =
        kept.iter().map(|(name, fd, map)| (name.as_str(), *fd, map)).collect();
    object.relocate_maps(fds.into_iter(), &texts).map_err(|error| load_error("object", &error))?;
    object.relocate_calls(&texts).map_err(|error| load_error("object", &error))?;
    Ok(maps)
}

/// An instruction as the kernel reads it.
///
/// Layout: `struct bpf_insn`: code u8, dst_reg:4 src_reg:4, off s16, imm s32. Source: include/uapi/linux/bpf.h.
fn encoded(instruction: bpf_insn) -> [u8; bpf::INSTRUCTION_BYTES] {
    let [off0, off1] = instruction.off.to_le_bytes();
    let [imm0, imm1, imm2, imm3] = instruction.imm.to_le_bytes();
    let registers = instruction.dst_reg() | instruction.src_reg() << 4;
    [instruction.code, registers, off0, off1, imm0, imm1, imm2, imm3]
}
