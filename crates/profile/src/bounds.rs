//! The most a recording may ask for, whatever it expands to.

/// Distinct frames that need no justification: some 100 MB.
const FREE_FRAMES: usize = 1 << 20;

/// Distinct frames that a recording of `input_bytes` may have: an address not met before takes 8 bytes of a file, or
/// some of a compressed one. Those past it are shown as one frame of their DSO.
#[must_use]
pub fn distinct_frames(input_bytes: usize) -> usize {
    FREE_FRAMES.saturating_add(input_bytes)
}
