//! The processor that a file's code is for.

/// The processor an object file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Machine {
    /// AMD64.
    X86_64,
    /// i386 and later, 32 bit.
    X86,
    /// ARM 64 bit.
    Aarch64,
    /// ARM 32 bit.
    Arm,
    /// RISC-V, either width.
    RiscV,
    /// Another, by its ELF `e_machine`.
    Other(u16),
}

impl Machine {
    /// From ELF's `e_machine`.
    pub fn from_elf(e_machine: u16) -> Self {
        match e_machine {
            62 => Self::X86_64,
            3 => Self::X86,
            183 => Self::Aarch64,
            40 => Self::Arm,
            243 => Self::RiscV,
            other => Self::Other(other),
        }
    }

    /// The machine this program runs on.
    pub fn host() -> Self {
        match std::env::consts::ARCH {
            "x86_64" => Self::X86_64,
            "x86" => Self::X86,
            "aarch64" => Self::Aarch64,
            "arm" => Self::Arm,
            "riscv64" => Self::RiscV,
            _ => Self::Other(0),
        }
    }
}
