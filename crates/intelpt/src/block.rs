//! Stretches of code between branches, each decoded once.

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic};
use rustc_hash::FxHashMap;

/// The code that was executed: the caller knows which file is mapped where.
pub trait Image {
    /// The bytes from `ip` on, at least one instruction if possible.
    ///
    /// # Errors
    /// Why there are none.
    fn code(&self, ip: u64) -> Result<&[u8], MissingCode>;

    /// A number for the function that contains `ip`, and whether `ip` is its first instruction. A jump from one
    /// number to another leaves the function.
    fn unit(&self, ip: u64) -> (u32, bool);

    /// Execution begins, at this estimated TSC: which address space is it in from here on? Code at one
    /// address is taken to be the same as long as the answer is.
    fn space(&self, tsc: Option<u64>) -> u32;

    /// Whether the answer of `space` may be another one by now, though execution went on without a break: code was
    /// replaced. Asked at packets of time.
    fn is_stale(&self, _tsc: Option<u64>) -> bool {
        false
    }
}

/// Why code can't be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum MissingCode {
    /// Nothing is mapped there.
    NotMapped,
    /// The file mapped there can't be read.
    NoFile,
    /// The file is not the one that was executed.
    WrongFile,
    /// The bytes are not an instruction.
    BadCode,
    /// It was generated at run time, and its bytes are not known.
    MadeAtRunTime,
    /// The program may have written to it since it was mapped.
    Rewritten,
}

/// How a block ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockEnd {
    /// By no branch: it was only cut for length.
    None,
    /// Conditional jump.
    Conditional,
    /// Jump to a fixed address.
    Jump,
    /// Jump to a computed address.
    JumpIndirect,
    /// Call of a fixed address.
    Call,
    /// Call of a computed address.
    CallIndirect,
    /// Return.
    Return,
    /// Entry into the kernel by an instruction.
    Syscall,
    /// Return from the kernel or an interrupt.
    FarReturn,
    /// Any other far transfer.
    Far,
}

/// A block's number in its cache.
pub(crate) type BlockId = u32;
/// Not looked up yet.
pub(crate) const UNLINKED: BlockId = u32::MAX;

/// The data of a block that the walk needs. Four fit in a cache line, because large programs have many blocks.
#[derive(Clone, Copy, Debug)]
#[repr(align(16))]
pub(crate) struct Hop {
    /// The blocks at `next` and at `target`: that of a branch not taken, that of one taken.
    pub links: [BlockId; 2],
    pub unit: u32,
    pub instructions: u16,
    pub branch: BlockEnd,
    /// `start` is its function's first instruction.
    pub at_start: bool,
    /// The block at `target` is linked, and of another unit.
    pub leaves: bool,
}

impl Hop {
    /// The next block.
    #[inline]
    pub const fn next_id(&self) -> BlockId {
        self.links[0]
    }

    /// The block at the target.
    #[inline]
    pub const fn target_id(&self) -> BlockId {
        self.links[1]
    }
}

/// Location of a block.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(crate) struct Block {
    pub start: u64,
    /// Address of the last instruction.
    pub last: u64,
    /// Address after it.
    pub next: u64,
    /// Where a direct branch goes, or a computed one went the last time (while that block is linked).
    pub target: u64,
}

/// Most instructions of a block, so that one step's work is bounded.
const MAX_INSTRUCTIONS: u16 = 256;

/// Blocks by address space and address.
#[derive(Clone, Debug, Default)]
pub struct BlockCache {
    hops: Vec<Hop>,
    blocks: Vec<Block>,
    by_ip: FxHashMap<(u64, u64), BlockId>,
    space: u64,
}

impl BlockCache {
    /// Empty.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Blocks decoded so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Whether none was decoded yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Switches to the addresses of this space, with code of `bits` bits; true if that is a change.
    pub(crate) fn enter(&mut self, space: u32, bits: u8) -> bool {
        let space = u64::from(space) << 8 | u64::from(bits);
        std::mem::replace(&mut self.space, space) != space
    }

    /// Location of a block.
    #[inline]
    pub(crate) fn block(&self, id: BlockId) -> &Block {
        &self.blocks[id as usize]
    }

    /// Where it leads.
    #[inline]
    pub(crate) fn hop(&self, id: BlockId) -> &Hop {
        &self.hops[id as usize]
    }

    /// The block that starts at `ip`.
    #[inline]
    pub(crate) fn at(&mut self, image: &impl Image, ip: u64) -> Result<BlockId, MissingCode> {
        if let Some(id) = self.by_ip.get(&(self.space, ip)) {
            return Ok(*id);
        }
        self.decode(image, ip)
    }

    /// The block after `id`'s last instruction.
    #[inline]
    pub(crate) fn after(&mut self, image: &impl Image, id: BlockId) -> Result<BlockId, MissingCode> {
        let next = self.hop(id).next_id();
        if next != UNLINKED { Ok(next) } else { self.link_next(image, id) }
    }

    #[cold]
    fn link_next(&mut self, image: &impl Image, id: BlockId) -> Result<BlockId, MissingCode> {
        let next = self.at(image, self.block(id).next)?;
        self.hops[id as usize].links[0] = next;
        Ok(next)
    }

    /// The block that `id`'s direct branch goes to.
    #[inline]
    pub(crate) fn taken(&mut self, image: &impl Image, id: BlockId) -> Result<BlockId, MissingCode> {
        let target = self.hop(id).target_id();
        if target != UNLINKED { Ok(target) } else { self.link_target(image, id) }
    }

    #[cold]
    fn link_target(&mut self, image: &impl Image, id: BlockId) -> Result<BlockId, MissingCode> {
        let target = self.at(image, self.block(id).target)?;
        let leaves = self.hop(target).unit != self.hop(id).unit;
        let hop = &mut self.hops[id as usize];
        (hop.links[1], hop.leaves) = (target, leaves);
        Ok(target)
    }

    /// The block at `ip`, to which `id` branched by a computed address or returned.
    #[inline]
    pub(crate) fn computed(
        &mut self,
        image: &impl Image,
        id: BlockId,
        ip: u64,
    ) -> Result<BlockId, MissingCode> {
        let known = self.hop(id).target_id();
        if known != UNLINKED && self.block(id).target == ip {
            return Ok(known);
        }
        let target = self.at(image, ip)?;
        self.hops[id as usize].links[1] = target;
        self.blocks[id as usize].target = ip;
        Ok(target)
    }

    #[cold]
    fn decode(&mut self, image: &impl Image, ip: u64) -> Result<BlockId, MissingCode> {
        let (hop, block) = decode(image, ip, self.space as u8)?;
        let id = BlockId::try_from(self.blocks.len()).map_err(|_| MissingCode::BadCode)?;
        self.hops.push(hop);
        self.blocks.push(block);
        self.by_ip.insert((self.space, ip), id);
        Ok(id)
    }
}

fn decode(image: &impl Image, start: u64, bits: u8) -> Result<(Hop, Block), MissingCode> {
    let mut instruction = Instruction::default();
    let mut code = image.code(start)?;
    let mut decoder = Decoder::with_ip(bits.into(), code, start, DecoderOptions::NONE);
    let (unit, at_start) = image.unit(start);
    let mut block = Block { start, last: start, next: start, target: 0 };
    let mut hop =
        Hop { links: [UNLINKED; 2], unit, instructions: 0, branch: BlockEnd::None, at_start, leaves: false };
    while hop.instructions < MAX_INSTRUCTIONS {
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() {
            // The bytes at hand may end within the instruction: ask once for those that begin with it.
            code = match image.code(block.next) {
                Ok(code) if decoder.ip() != block.next || block.next != start => code,
                _ if hop.instructions > 0 => break,
                Ok(_) => return Err(MissingCode::BadCode),
                Err(why) => return Err(why),
            };
            decoder = Decoder::with_ip(bits.into(), code, block.next, DecoderOptions::NONE);
            decoder.decode_out(&mut instruction);
            if instruction.is_invalid() {
                return if hop.instructions > 0 { Ok((hop, block)) } else { Err(MissingCode::BadCode) };
            }
        }
        hop.instructions += 1;
        block.last = instruction.ip();
        block.next = instruction.next_ip();
        if let Some(branch) = branch_of(&instruction) {
            hop.branch = branch;
            if matches!(branch, BlockEnd::Conditional | BlockEnd::Jump | BlockEnd::Call) {
                block.target = instruction.near_branch_target();
            }
            break;
        }
    }
    Ok((hop, block))
}

fn branch_of(instruction: &Instruction) -> Option<BlockEnd> {
    Some(match instruction.flow_control() {
        FlowControl::Next => return None,
        FlowControl::ConditionalBranch => BlockEnd::Conditional,
        FlowControl::UnconditionalBranch if instruction.is_jmp_far() => BlockEnd::Far,
        FlowControl::UnconditionalBranch => BlockEnd::Jump,
        FlowControl::IndirectBranch if instruction.is_jmp_far_indirect() => BlockEnd::Far,
        FlowControl::IndirectBranch => BlockEnd::JumpIndirect,
        FlowControl::Return => match instruction.mnemonic() {
            Mnemonic::Ret => BlockEnd::Return,
            _ => BlockEnd::FarReturn,
        },
        FlowControl::Call => match instruction.code() {
            Code::Syscall | Code::Sysenter => BlockEnd::Syscall,
            _ if instruction.is_call_far() => BlockEnd::Far,
            _ => BlockEnd::Call,
        },
        FlowControl::IndirectCall if instruction.is_call_far_indirect() => BlockEnd::Far,
        FlowControl::IndirectCall => match instruction.code() {
            Code::Syscall | Code::Sysenter => BlockEnd::Syscall,
            _ => BlockEnd::CallIndirect,
        },
        FlowControl::Interrupt => BlockEnd::Syscall,
        // A transaction's begin and end are ordinary instructions to the trace; a fault is asynchronous.
        FlowControl::XbeginXabortXend | FlowControl::Exception => return None,
    })
}
