//! Changes that break readers: of raw bytes, and of fields where the format is known.

mod elf;
mod number;
mod perf_data;
mod random;
mod sized;
mod text;

use fuzz::parcel::{Parcel, ParcelPart};
use fuzz::program::VIEWS;
use random::Random;

/// A source of mutated inputs; the same seed gives the same inputs.
pub struct Mutator {
    random: Random,
}

/// Inputs grow no larger than this.
const LARGEST: usize = 1 << 20;

impl Mutator {
    /// A source that starts at `seed`.
    pub fn new(seed: u64) -> Self {
        Self { random: Random::new(seed) }
    }

    /// The next input, made from one or two of `seeds` (not empty).
    pub fn next(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let random = &mut self.random;
        // The latest inputs reach code that the others do not.
        let from = if random.one_in(2) { seeds.len() - seeds.len().div_ceil(8) } else { 0 };
        let mut input = seeds[from + random.below(seeds.len() - from)].clone();
        let other = &seeds[random.below(seeds.len())];
        if Parcel::is_one(&input) {
            return change_parcel(random, Parcel::parse(&input), &Parcel::parse(other)).to_bytes();
        }
        // Most often one change: several break the head, and nothing after it is read.
        for _ in 0..changes(random) {
            change(random, &mut input, other);
            input.truncate(LARGEST);
        }
        input
    }
}

fn changes(random: &mut Random) -> usize {
    if random.one_in(3) { 1 + random.below(8) } else { 1 }
}

/// Changes one or two of the files, and selects a few views, because all views take a hundred times as long.
fn change_parcel(random: &mut Random, mut parcel: Parcel, other: &Parcel) -> Parcel {
    parcel.parts.retain(|part| part.name != VIEWS);
    if parcel.parts.is_empty() {
        parcel.parts.push(ParcelPart { name: "perf.data".to_owned(), bytes: Vec::new() });
    }
    if random.one_in(16) && parcel.parts.len() > 1 {
        parcel.parts.remove(random.below(parcel.parts.len()));
    }
    for _ in 0..if random.one_in(4) { 2 } else { 1 } {
        // The recording is first, and as important as the others together.
        let at = if random.one_in(2) { 0 } else { random.below(parcel.parts.len()) };
        let part = &mut parcel.parts[at];
        let twin = other.part(&part.name).unwrap_or_default();
        if random.one_in(24) && !twin.is_empty() {
            part.bytes = twin.to_vec();
        }
        for _ in 0..changes(random) {
            change(random, &mut part.bytes, twin);
            part.bytes.truncate(LARGEST);
        }
    }
    let views = (0..1 + random.below(3)).map(|_| random.next() as u8).collect();
    parcel.parts.push(ParcelPart { name: VIEWS.to_owned(), bytes: views });
    parcel
}

/// One change, most often one that the format of `input` invites.
fn change(random: &mut Random, input: &mut Vec<u8>, other: &[u8]) {
    if input.is_empty() {
        input.extend(random.next().to_le_bytes());
        return;
    }
    if random.one_in(5) {
        return change_bytes(random, input, other);
    }
    if perf_data::is_one(input) {
        perf_data::change(random, input, other);
    } else if elf::is_one(input) {
        elf::change(random, input);
    } else if sized::is_one(input) {
        sized::change(random, input);
    } else if text::is_one(input) {
        text::change(random, input);
    } else if random.one_in(2) {
        let at = position(random, input.len());
        number::change(random, input, at);
    } else {
        change_bytes(random, input, other);
    }
}

/// Flipped, cut, doubled and spliced bytes.
fn change_bytes(random: &mut Random, input: &mut Vec<u8>, other: &[u8]) {
    let at = position(random, input.len());
    match random.below(8) {
        0 => input[at] ^= 1 << random.below(8),
        1 => input[at] = random.next() as u8,
        2 | 3 => number::change(random, input, at),
        4 => input.truncate(at),
        5 => {
            let end = (at + 1 + random.below(128)).min(input.len());
            let part = input[at..end].to_vec();
            input.splice(at..at, part);
        }
        6 => {
            let end = (at + 1 + random.below(64)).min(input.len());
            input.drain(at..end);
        }
        _ => splice(random, input, at, other),
    }
}

/// Heads are changed more often than bodies: a quarter of the positions are in the first 256 bytes.
fn position(random: &mut Random, len: usize) -> usize {
    if random.one_in(4) { random.below(len.min(256)) } else { random.below(len) }
}

fn splice(random: &mut Random, input: &mut Vec<u8>, at: usize, other: &[u8]) {
    let from = random.below(other.len().max(1)).min(other.len());
    let to = (from + random.below(512)).min(other.len());
    let end = (at + (to - from)).min(input.len());
    input.splice(at..end, other[from..to].iter().copied());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_input_can_be_changed_for_long() {
        let elf = std::fs::read("/bin/true").unwrap_or_default();
        let perf = perf_data::sample_of_tests();
        let jit = [&b"JiTD"[..], &[1, 0, 0, 0, 40, 0, 0, 0], &[0; 28], &[0, 0, 0, 0, 16, 0, 0, 0], &[7; 8]]
            .concat();
        let kinds = [elf.clone(), perf.clone(), jit, b"7f00 10 name\n7f10 20 other\n".to_vec(), vec![0; 9]];
        let parts = kinds.iter().zip(["a", "perf.data", "b", "c", "d"]);
        let parts = parts.map(|(bytes, name)| ParcelPart { name: name.to_owned(), bytes: bytes.clone() });
        let mut seeds = kinds.to_vec();
        seeds.push(Parcel { parts: parts.collect() }.to_bytes());
        let mut mutator = Mutator::new(7);
        for _ in 0..20_000 {
            let input = mutator.next(&seeds);
            assert!(input.len() <= 3 << 20);
            if input.len() < 4096 {
                let at = mutator.random.below(5);
                seeds[at] = input;
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_inputs() {
        let seeds = [b"one".to_vec(), b"two".to_vec()];
        let inputs = || {
            let mut mutator = Mutator::new(3);
            (0..50).map(|_| mutator.next(&seeds)).collect::<Vec<_>>()
        };
        assert_eq!(inputs(), inputs());
    }
}
