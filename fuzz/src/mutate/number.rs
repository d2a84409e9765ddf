//! Changes of numbers: to their limits, by one, by the sign, to other numbers of the same file.

use super::random::Random;

/// Values at which lengths, counts and addresses are mishandled.
const LIMITS: [u64; 20] = [
    0,
    1,
    7,
    8,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0xffff,
    0x10_0000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    1 << 32,
    1 << 40,
    0x7fff_ffff_f000,
    0xffff_8000_0000_0000,
    i64::MAX as u64,
    i64::MIN as u64,
    u64::MAX,
];

/// Changes the number of 1, 2, 4 or 8 bytes at or before `at`, most often an aligned one.
pub fn change(random: &mut Random, bytes: &mut [u8], at: usize) {
    let width = (1_usize << random.below(4)).min(bytes.len());
    let at = if random.one_in(4) { at } else { at / width * width }.min(bytes.len() - width);
    let old = read(bytes, at, width);
    let new = match random.below(8) {
        0..3 => LIMITS[random.below(LIMITS.len())],
        3 => old.wrapping_add(1),
        4 => old.wrapping_sub(1),
        5 => old.wrapping_neg(),
        6 => old ^ 1 << random.below(8 * width),
        _ => {
            let other = random.below(bytes.len() - width + 1) / width * width;
            let found = read(bytes, other, width);
            if random.one_in(2) {
                write(bytes, other, width, old);
            }
            found
        }
    };
    write(bytes, at, width, new);
}

fn read(bytes: &[u8], at: usize, width: usize) -> u64 {
    bytes[at..at + width].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn write(bytes: &mut [u8], at: usize, width: usize, number: u64) {
    bytes[at..at + width].copy_from_slice(&number.to_le_bytes()[..width]);
}
