//! HotSpot's heaps of code. Code is in blobs, one in each used block of a heap. A map has a byte for each segment of the
//! heap: how many segments to go back towards the start of the block.
// Source: HotSpot's heap.cpp, `CodeHeap::find_block_for`, JDK 9 to 25

use super::Look;
use super::structs::CodeOffsets;

/// More heaps than HotSpot has.
const MOST_HEAPS: u32 = 16;
/// A segment that belongs to no block.
const FREE_SEGMENT: u8 = 0xff;
/// Steps back to the start of a block: a larger one than HotSpot makes needs more.
const MOST_STEPS: usize = 1 << 14;

/// A range of code and the map of its segments (Avma).
#[derive(Clone, Copy, Debug)]
pub(super) struct CodeHeap {
    pub(super) start: u64,
    pub(super) end: u64,
    segments: u64,
    segment_log2: u32,
}

/// All heaps of a JVM; `None` before it has started.
pub(super) fn read_heaps(offsets: &CodeOffsets, look: &mut Look<'_, '_>) -> Option<Vec<CodeHeap>> {
    let array = look.u64(offsets.heaps).filter(|array| *array != 0)?;
    let count = look.u32(array.wrapping_add(offsets.array_length))?.min(MOST_HEAPS);
    let data = look.u64(array.wrapping_add(offsets.array_data))?;
    let heap_at = |index: u32| data.wrapping_add(8 * u64::from(index));
    (0..count)
        .map(|index| look.u64(heap_at(index)).and_then(|heap| CodeHeap::read(heap, offsets, look)))
        .collect()
}

impl CodeHeap {
    fn read(heap: u64, offsets: &CodeOffsets, look: &mut Look<'_, '_>) -> Option<Self> {
        let memory = heap.wrapping_add(offsets.heap_memory);
        let segments = heap.wrapping_add(offsets.heap_segments);
        let segment_log2 = look.u32(heap.wrapping_add(offsets.segment_log2))?;
        Some(Self {
            start: look.u64(memory.wrapping_add(offsets.space_start))?,
            end: look.u64(memory.wrapping_add(offsets.space_end))?,
            segments: look.u64(segments.wrapping_add(offsets.space_start))?,
            segment_log2: Some(segment_log2).filter(|log2| (1..32).contains(log2))?,
        })
    }

    /// The `CodeBlob` around `pc`, which is in this heap.
    pub(super) fn blob_at(&self, pc: u64, offsets: &CodeOffsets, look: &mut Look<'_, '_>) -> Option<u64> {
        let mut segment = (pc - self.start) >> self.segment_log2;
        for _ in 0..MOST_STEPS {
            match look.u8(self.segments.wrapping_add(segment))? {
                FREE_SEGMENT => return None,
                0 => {
                    let block = self.start + (segment << self.segment_log2);
                    let is_used = look.u8(block.wrapping_add(offsets.block_used))? != 0;
                    return is_used.then_some(block.wrapping_add(offsets.block_bytes));
                }
                back => segment = segment.checked_sub(u64::from(back))?,
            }
        }
        None
    }
}
