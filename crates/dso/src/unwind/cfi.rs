//! .eh_frame and .debug_frame: from a stated address to the row of rules that covers it.
//!
//! Three ways to the entry: the sorted table of .eh_frame_hdr, else an own index of .eh_frame, else one of
//! .debug_frame (Go's programs have only that). Damage in one entry costs that entry.

use std::sync::{Arc, OnceLock};

use gimli::{BaseAddresses, CfaRule, EndianSlice, RegisterRule, RunTimeEndian, UnwindContext, UnwindSection};

use super::arch::{Arm, Arm64, X86};
use super::eh_table::EhTable;
use super::expression::{decode, register_index};
use super::rule::{Cfa, Restore, Row, Step};
use super::start_code::StartCode;
use crate::{Bytes, Machine, ObjectFile};

type Reader<'a> = EndianSlice<'a, RunTimeEndian>;

/// The sections of one file, found once.
#[derive(Debug)]
pub(crate) struct Cfi {
    machine: Machine,
    endian: RunTimeEndian,
    /// Bytes.
    address_size: u8,
    bases: BaseAddresses,
    eh_frame: Bytes,
    eh_frame_hdr: Option<Bytes>,
    debug_frame: Bytes,
    eh_index: OnceLock<Index>,
    debug_index: OnceLock<Index>,
    start_code: StartCode,
}

/// Entries by address: (first, past the last, offset in the section).
type Index = Vec<(u64, u64, usize)>;

impl Cfi {
    pub(crate) fn new(object: &ObjectFile) -> Self {
        let bytes = |name: &str| object.section_bytes(name).ok().flatten();
        let address = |name: &str| object.section(name).map_or(0, |s| s.svma.start);
        let bases = BaseAddresses::default()
            .set_eh_frame_hdr(address(".eh_frame_hdr"))
            .set_eh_frame(address(".eh_frame"))
            .set_text(address(".text"))
            .set_got(address(".got"));
        Self {
            machine: object.machine(),
            address_size: if object.is_64() { 8 } else { 4 },
            endian: if object.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big },
            bases,
            eh_frame: bytes(".eh_frame").unwrap_or_else(|| Bytes::from_vec(Vec::new())),
            eh_frame_hdr: bytes(".eh_frame_hdr"),
            debug_frame: bytes(".debug_frame").unwrap_or_else(|| Bytes::from_vec(Vec::new())),
            eh_index: OnceLock::new(),
            debug_index: OnceLock::new(),
            start_code: StartCode::new(object),
        }
    }

    /// Whether it has no rules.
    pub(super) fn is_empty(&self) -> bool {
        self.eh_frame.is_empty() && self.debug_frame.is_empty()
    }

    /// The rules for the code at `svma`.
    pub(super) fn step(&self, context: &mut UnwindContext<usize>, svma: u64) -> Step {
        self.eh_step(context, svma)
            .or_else(|| self.debug_step(context, svma))
            .or_else(|| self.start_code.step(svma))
            .unwrap_or(Step::Nothing)
    }

    /// First address and the one past the last of the function around `svma`.
    pub(crate) fn function_range(&self, svma: u64) -> Option<(u64, u64)> {
        if self.eh_frame.is_empty() {
            return None;
        }
        let mut section = gimli::EhFrame::new(&self.eh_frame, self.endian);
        section.set_address_size(self.address_size);
        let index = self.eh_index.get_or_init(|| index(&section, &self.bases));
        let at = index.partition_point(|e| e.0 <= svma).checked_sub(1)?;
        index.get(at).filter(|e| svma < e.1).map(|e| (e.0, e.1))
    }

    fn eh_step(&self, context: &mut UnwindContext<usize>, svma: u64) -> Option<Step> {
        if self.eh_frame.is_empty() {
            return None;
        }
        let mut section = gimli::EhFrame::new(&self.eh_frame, self.endian);
        section.set_address_size(self.address_size);
        section.set_vendor(self.vendor());
        let offset = match self.offset_by_header(svma) {
            Some(offset) => offset,
            None => find(self.eh_index.get_or_init(|| index(&section, &self.bases)), svma)?,
        };
        self.step_of_entry(&section, gimli::EhFrameOffset(offset), context, svma)
    }

    fn debug_step(&self, context: &mut UnwindContext<usize>, svma: u64) -> Option<Step> {
        if self.debug_frame.is_empty() {
            return None;
        }
        let mut section = gimli::DebugFrame::new(&self.debug_frame, self.endian);
        section.set_address_size(self.address_size);
        section.set_vendor(self.vendor());
        let offset = find(self.debug_index.get_or_init(|| index(&section, &self.bases)), svma)?;
        self.step_of_entry(&section, gimli::DebugFrameOffset(offset), context, svma)
    }

    fn vendor(&self) -> gimli::Vendor {
        if self.machine == Machine::Aarch64 { gimli::Vendor::AArch64 } else { gimli::Vendor::Default }
    }

    /// Through the binary search table; `None` if there is none that can be used.
    fn offset_by_header(&self, svma: u64) -> Option<usize> {
        let bytes = self.eh_frame_hdr.as_deref()?;
        if let Some(table) = self.common_table(bytes) {
            return table.entry(svma);
        }
        let header = gimli::EhFrameHdr::new(bytes, self.endian).parse(&self.bases, self.address_size).ok()?;
        let table = header.table()?;
        let pointer = table.lookup(svma, &self.bases).ok()?;
        table.pointer_to_offset(pointer).ok().map(|o| o.0)
    }

    fn common_table<'b>(&self, bytes: &'b [u8]) -> Option<EhTable<'b>> {
        let is_common = self.address_size == 8 && self.endian == RunTimeEndian::Little;
        EhTable::of(bytes, self.bases.eh_frame_hdr.section.filter(|_| is_common)?)
    }

    fn step_of_entry<'a, S: UnwindSection<Reader<'a>>>(
        &self,
        section: &S,
        offset: S::Offset,
        context: &mut UnwindContext<usize>,
        svma: u64,
    ) -> Option<Step> {
        let entry = section.fde_from_offset(&self.bases, offset, S::cie_from_offset).ok()?;
        if !entry.contains(svma) {
            return None;
        }
        let row = entry.unwind_info_for_address(section, &self.bases, context, svma).ok()?;
        let encoding = entry.cie().encoding();
        // The CIE names the column of the return address; it is the architecture's in all files met.
        let ra = entry.cie().return_address_register();
        if matches!(row.register(ra), Some(RegisterRule::Undefined)) {
            return Some(Step::Root);
        }
        let general = general_row(section, row, encoding, entry.is_signal_trampoline())?;
        let simple = match self.machine {
            Machine::Aarch64 => general.simple::<Arm64>(),
            Machine::Arm => general.simple::<Arm>(),
            _ => general.simple::<X86>(),
        };
        Some(simple.map_or_else(|| Step::General(Arc::new(general)), Step::Simple))
    }
}

fn general_row<'a, S: UnwindSection<Reader<'a>>>(
    section: &S,
    row: &gimli::UnwindTableRow<usize>,
    encoding: gimli::Encoding,
    is_signal_frame: bool,
) -> Option<Row> {
    let program = |e: &gimli::UnwindExpression<usize>| decode(e.get(section).ok()?, encoding);
    let cfa = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => Cfa::Register(register_index(*register)?, *offset),
        CfaRule::Expression(e) => Cfa::Program(program(e)?),
    };
    let mut registers = Vec::new();
    for &(register, ref rule) in row.registers() {
        // Vector and pseudo registers don't matter.
        let Some(register) = register_index(register) else { continue };
        registers.push((
            register,
            match rule {
                RegisterRule::Undefined => Restore::Undefined,
                RegisterRule::Offset(offset) => Restore::AtCfa(*offset),
                RegisterRule::ValOffset(offset) => Restore::CfaPlus(*offset),
                RegisterRule::Register(other) => Restore::Register(register_index(*other)?),
                RegisterRule::Expression(e) => Restore::WalkState(program(e)?),
                RegisterRule::ValExpression(e) => Restore::Is(program(e)?),
                _ => continue,
            },
        ));
    }
    Some(Row { cfa, registers, is_signal_frame })
}

fn find(index: &Index, svma: u64) -> Option<usize> {
    let at = index.partition_point(|e| e.0 <= svma).checked_sub(1)?;
    index.get(at).filter(|e| svma < e.1).map(|e| e.2)
}

/// All entries of a section by address.
fn index<'a, S: UnwindSection<Reader<'a>>>(section: &S, bases: &BaseAddresses) -> Index {
    let mut entries = section.entries(bases);
    let mut found = Index::new();
    let mut cie: Option<(usize, gimli::CommonInformationEntry<Reader<'a>>)> = None;
    while let Ok(Some(entry)) = entries.next() {
        let gimli::CieOrFde::Fde(partial) = entry else { continue };
        let cached = |section: &S, bases: &BaseAddresses, offset: S::Offset| match &cie {
            Some((at, known)) if *at == gimli::UnwindOffset::into(offset) => Ok(known.clone()),
            _ => section.cie_from_offset(bases, offset),
        };
        let Ok(fde) = partial.parse(cached) else { continue };
        cie = Some((gimli::UnwindOffset::into(partial.cie_offset()), fde.cie().clone()));
        found.push((fde.initial_address(), fde.end_address(), fde.offset()));
    }
    found.sort_unstable();
    found
}
