//! x86 and x86-64 by iced-x86, brought to objdump's spelling.

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Formatter, GasFormatter, Instruction as Iced, IntelFormatter,
    MemorySizeOptions, OpKind, SymbolResolver, SymbolResult,
};

use super::objdump_dialect::respell;
use super::{BranchTarget, Instruction, Namer, Syntax};
use crate::Svma;

pub(super) fn disassemble(
    bits: u32,
    code: &[u8],
    start: Svma,
    syntax: Syntax,
    name: Namer<'_>,
) -> Vec<Instruction> {
    let mut decoder = Decoder::with_ip(bits, code, start.0, DecoderOptions::NONE);
    let mut formatter = formatter(syntax);
    let mut out = Vec::with_capacity(code.len() / 4);
    let mut iced = Iced::default();
    while decoder.can_decode() {
        let at = decoder.position();
        decoder.decode_out(&mut iced);
        let address = Svma(iced.ip());
        if iced.is_invalid() {
            // objdump continues after the first byte.
            out.push(Instruction { start: address, len: 1, text: "(bad)".to_owned(), branch: None });
            if decoder.set_position(at + 1).is_err() {
                break;
            }
            decoder.set_ip(address.0.wrapping_add(1));
            continue;
        }
        let mut text = String::with_capacity(48);
        // objdump shows a displacement of 0 if it is encoded.
        formatter.options_mut().set_show_zero_displacements(iced.memory_displ_size() > 0);
        formatter.format(&iced, &mut text);
        let branch = branch(&iced);
        let mut text = respell(&text, &iced, &code[at..at + iced.len()], syntax);
        append_symbol(&mut text, &iced, branch, name);
        out.push(Instruction { start: address, len: iced.len(), text, branch });
    }
    out
}

fn formatter(syntax: Syntax) -> Box<dyn Formatter> {
    let mut formatter: Box<dyn Formatter> = match syntax {
        Syntax::Att => Box::new(GasFormatter::with_options(Some(Box::new(Targets)), None)),
        Syntax::Intel => Box::new(IntelFormatter::with_options(Some(Box::new(Targets)), None)),
    };
    let options = formatter.options_mut();
    options.set_first_operand_char_index(7);
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_uppercase_hex(false);
    options.set_small_hex_numbers_in_decimal(false);
    options.set_space_after_operand_separator(false);
    options.set_rip_relative_addresses(true);
    options.set_add_leading_zero_to_hex_numbers(false);
    options.set_branch_leading_zeros(false);
    options.set_show_branch_size(false);
    options.set_always_show_scale(true);
    options.set_uppercase_keywords(syntax == Syntax::Intel);
    options.set_memory_size_options(MemorySizeOptions::Always);
    options.set_gas_space_after_memory_operand_comma(false);
    options.set_show_useless_prefixes(true);
    formatter
}

/// Branch targets are printed as bare hex.
struct Targets;

impl SymbolResolver for Targets {
    fn symbol(
        &mut self,
        instruction: &Iced,
        _: u32,
        operand: Option<u32>,
        address: u64,
        _: u32,
    ) -> Option<SymbolResult<'_>> {
        let near = [OpKind::NearBranch16, OpKind::NearBranch32, OpKind::NearBranch64];
        let kind = operand.filter(|o| *o < instruction.op_count()).map(|o| instruction.op_kind(o))?;
        near.contains(&kind).then(|| SymbolResult::with_string(address, format!("{address:x}")))
    }
}

fn branch(iced: &Iced) -> Option<BranchTarget> {
    let is_call = match iced.flow_control() {
        FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch | FlowControl::XbeginXabortXend => {
            false
        }
        FlowControl::Call => true,
        _ => return None,
    };
    let target = iced.near_branch_target();
    (iced.is_call_near() || iced.is_jcc_short_or_near() || iced.is_jmp_short_or_near() || target != 0)
        .then_some(BranchTarget { target: Svma(target), is_call })
}

/// ` <main+0x10>` after a branch, `        # 4010 <data>` after a rip-relative operand.
fn append_symbol(text: &mut String, iced: &Iced, branch: Option<BranchTarget>, name: Namer<'_>) {
    use std::fmt::Write;
    if let Some(branch) = branch {
        if let Some(name) = name(branch.target) {
            let _ = write!(text, " <{name}>");
        }
    } else if iced.is_ip_rel_memory_operand() {
        let address = iced.ip_rel_memory_address();
        let _ = write!(text, "        # {address:x}");
        if let Some(name) = name(Svma(address)) {
            let _ = write!(text, " <{name}>");
        }
    }
}
