//! Where a variable is at an address: the one register, memory or constant that a location expression names.

use gimli::{
    AttributeValue, BaseAddresses, CfaRule, Dwarf, Expression, Operation, UnwindSection, constants as dw,
};

use super::tree::{DieId, UnitTree};
use super::{Cfi, Unavailable};
use crate::dwarf::resolver::Reader;

/// A variable's place at one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VariablePlace {
    /// In this register (DWARF's number).
    Register(u16),
    /// In memory, at a register's value plus an offset in bytes.
    Memory(u16, i64),
    /// In memory at a fixed Svma.
    Static(u64),
    /// Nowhere; it always has this value.
    Constant(i64),
}

impl UnitTree {
    /// Where the variable `id` of function `function` is at `address`.
    pub(super) fn place(
        &self,
        dwarf: &Dwarf<Reader>,
        cfi: &Cfi,
        id: DieId,
        function: DieId,
        address: u64,
    ) -> Result<VariablePlace, Unavailable> {
        if let Some(value) = self.attr(id, dw::DW_AT_const_value) {
            let constant = value.sdata_value().or_else(|| value.udata_value().map(u64::cast_signed));
            return constant.map(VariablePlace::Constant).ok_or(Unavailable::Computed);
        }
        let location = self.attr(id, dw::DW_AT_location).ok_or(Unavailable::OptimizedOut)?;
        let expression = self.expression(dwarf, location, address).ok_or(Unavailable::NotHere)?;
        self.evaluate(dwarf, &expression, || self.frame_base(dwarf, cfi, function, address))
    }

    /// The expression that holds at `address`; `None` if no range covers it.
    fn expression(
        &self,
        dwarf: &Dwarf<Reader>,
        value: AttributeValue<Reader>,
        address: u64,
    ) -> Option<Expression<Reader>> {
        if let AttributeValue::Exprloc(expression) = value {
            return Some(expression);
        }
        let mut list = dwarf.attr_locations(&self.unit, value).ok()??;
        while let Ok(Some(entry)) = list.next() {
            if (entry.range.begin..entry.range.end).contains(&address) && !entry.data.0.slice().is_empty() {
                return Some(entry.data);
            }
        }
        None
    }

    fn evaluate(
        &self,
        dwarf: &Dwarf<Reader>,
        expression: &Expression<Reader>,
        frame_base: impl FnOnce() -> Result<(u16, i64), Unavailable>,
    ) -> Result<VariablePlace, Unavailable> {
        let mut ops = expression.operations(self.unit.encoding());
        let mut all = Vec::new();
        while let Some(op) = ops.next().map_err(|_| Unavailable::Damaged)? {
            all.push(op);
        }
        match all.as_slice() {
            [Operation::Register { register }] => Ok(VariablePlace::Register(register.0)),
            [Operation::RegisterOffset { register, offset, .. }] => {
                Ok(VariablePlace::Memory(register.0, *offset))
            }
            [Operation::FrameOffset { offset }] => {
                let (register, base) = frame_base()?;
                Ok(VariablePlace::Memory(register, base.wrapping_add(*offset)))
            }
            [Operation::Address { address }] => Ok(VariablePlace::Static(*address)),
            [Operation::AddressIndex { index }] => {
                dwarf.address(&self.unit, *index).map(VariablePlace::Static).map_err(|_| Unavailable::Damaged)
            }
            [Operation::UnsignedConstant { value }, Operation::StackValue] => {
                Ok(VariablePlace::Constant(value.cast_signed()))
            }
            [Operation::SignedConstant { value }, Operation::StackValue] => {
                Ok(VariablePlace::Constant(*value))
            }
            [] => Err(Unavailable::OptimizedOut),
            [.., Operation::Piece { .. }] => Err(Unavailable::InPieces),
            _ => Err(Unavailable::Computed),
        }
    }

    /// `DW_AT_frame_base` of the function as register and offset.
    fn frame_base(
        &self,
        dwarf: &Dwarf<Reader>,
        cfi: &Cfi,
        function: DieId,
        address: u64,
    ) -> Result<(u16, i64), Unavailable> {
        let value = self.attr(function, dw::DW_AT_frame_base).ok_or(Unavailable::Damaged)?;
        let expression = self.expression(dwarf, value, address).ok_or(Unavailable::Damaged)?;
        let mut ops = expression.operations(self.unit.encoding());
        match (ops.next(), ops.next()) {
            (Ok(Some(Operation::CallFrameCFA)), Ok(None)) => cfi.cfa(address).ok_or(Unavailable::NoFrame),
            (Ok(Some(Operation::Register { register })), Ok(None)) => Ok((register.0, 0)),
            (Ok(Some(Operation::RegisterOffset { register, offset, .. })), Ok(None)) => {
                Ok((register.0, offset))
            }
            _ => Err(Unavailable::NoFrame),
        }
    }
}

impl Cfi {
    /// The canonical frame address at `address` as register and offset.
    fn cfa(&self, address: u64) -> Option<(u16, i64)> {
        let bases = BaseAddresses::default().set_eh_frame(self.eh_frame_svma).set_text(self.text_svma);
        let by_eh_frame = cfa_in(&self.eh_frame, &bases, address);
        by_eh_frame.or_else(|| cfa_in(&self.debug_frame, &bases, address))
    }
}

fn cfa_in<S>(section: &S, bases: &BaseAddresses, address: u64) -> Option<(u16, i64)>
where
    S: UnwindSection<Reader>,
{
    let mut context = gimli::UnwindContext::new();
    let row = section.unwind_info_for_address(bases, &mut context, address, S::cie_from_offset).ok()?;
    match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => Some((register.0, *offset)),
        CfaRule::Expression(_) => None,
    }
}
