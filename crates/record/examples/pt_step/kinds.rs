//! Properties of an instruction that the encoder needs.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Mnemonic};

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Plain,
    Conditional,
    Jump,
    JumpIndirect,
    Call,
    CallIndirect,
    Return,
    Syscall,
}

#[derive(Clone, Copy)]
pub struct Decoded {
    pub kind: Kind,
    pub next: u64,
    pub target: u64,
}

pub fn decode(ip: u64, code: &[u8]) -> Decoded {
    let instruction = Decoder::with_ip(64, code, ip, DecoderOptions::NONE).decode();
    let kind = match instruction.flow_control() {
        FlowControl::ConditionalBranch => Kind::Conditional,
        FlowControl::UnconditionalBranch => Kind::Jump,
        FlowControl::IndirectBranch => Kind::JumpIndirect,
        FlowControl::Return => Kind::Return,
        FlowControl::Call if instruction.mnemonic() == Mnemonic::Syscall => Kind::Syscall,
        FlowControl::Call => Kind::Call,
        FlowControl::IndirectCall => Kind::CallIndirect,
        FlowControl::Interrupt => Kind::Syscall,
        _ => Kind::Plain,
    };
    Decoded { kind, next: instruction.next_ip(), target: instruction.near_branch_target() }
}
