//! How callchains are had.

/// How callchains are had, and what is left out of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackOpts {
    /// How user stacks are had.
    pub call_graph: CallGraph,
    /// Leave the kernel's frames out of callchains.
    pub without_kernel_chains: bool,
    /// Leave the user's frames out of callchains.
    pub without_user_chains: bool,
    /// Bytes that a snapshot of a stack takes at most in a ring (the kernel keeps them free, however small the stack is):
    /// at first, and once stacks were cut; `None` for what most programs need.
    pub snapshot_bytes: Option<[u32; 2]>,
    /// Frames of language runtimes (Python) are read along.
    pub runtimes: bool,
}

impl Default for StackOpts {
    fn default() -> Self {
        Self {
            call_graph: CallGraph::None,
            without_kernel_chains: false,
            without_user_chains: false,
            snapshot_bytes: None,
            runtimes: true,
        }
    }
}

/// How user stacks are had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CallGraph {
    /// No callchains.
    #[default]
    None,
    /// The kernel follows frame pointers.
    FramePointer,
    /// A copy of this many bytes of stack goes to the file with the registers; reports unwind it.
    Dwarf(u32),
    /// The CPU's branch records, where it has them.
    Lbr,
    /// Unwound here while recording; the file gets plain callchains.
    Live,
}
