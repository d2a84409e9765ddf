//! A thread's samples in blocks: what it does changes with time, and with it what chance makes of short calls.

use crate::grow::Grow as _;
use rustc_hash::FxHashMap;

/// Samples in a row that are looked at by themselves.
const BLOCK: u64 = 100;

/// Samples of a block with a function, and stretches of them that begin in it.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    samples: u64,
    stretches: u64,
}

/// Share of each function in each block of samples.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    blocks: Vec<FxHashMap<usize, Counts>>,
    samples: u64,
}

impl Blocks {
    /// The next sample.
    pub(super) fn begin_sample(&mut self) {
        if self.samples.is_multiple_of(BLOCK) {
            self.blocks.push(FxHashMap::default());
        }
        self.samples += 1;
    }

    /// This sample has a function; whether a stretch of it begins here.
    pub(super) fn add(&mut self, function: usize, begins: bool) {
        let Some(block) = self.blocks.last_mut() else { return };
        let counts = block.entry(function).or_default();
        counts.samples.grow(1);
        counts.stretches.grow(u64::from(begins));
    }

    /// A function's share of the blocks in which a stretch of it is and of the two around, without the stretch itself,
    /// 0 to 1.
    pub(super) fn share_around(&self, function: usize, first: u64, samples: u64) -> f64 {
        let blocks = (first / BLOCK).saturating_sub(1)..=(first + samples) / BLOCK + 1;
        let (mut of_function, mut all) = (0, 0);
        for block in blocks {
            let counts = self.blocks.get(block as usize).and_then(|block| block.get(&function));
            of_function += counts.map_or(0, |counts| counts.samples);
            all += self.length(block);
        }
        (of_function.saturating_sub(samples)) as f64 / all.saturating_sub(samples).max(1) as f64
    }

    fn length(&self, block: u64) -> u64 {
        self.samples.saturating_sub(block * BLOCK).min(BLOCK)
    }

    /// True if a function's samples are in far fewer stretches than chance would make of them, nearly everywhere. It
    /// tells long calls of a function that has most samples, where each stretch by itself may be chance.
    pub(super) fn has_few_stretches(&self, function: usize) -> bool {
        const LEAST_BY_CHANCE: f64 = 8.0;
        const LEAST_BLOCKS: usize = 3;
        let of_block = |(at, block): (usize, &FxHashMap<usize, Counts>)| {
            let counts = block.get(&function).copied().unwrap_or_default();
            let share = counts.samples as f64 / self.length(at as u64).max(1) as f64;
            let by_chance = counts.samples as f64 * (1.0 - share);
            (by_chance >= LEAST_BY_CHANCE).then_some(counts.stretches as f64 * 2.0 <= by_chance)
        };
        let counted: Vec<bool> = self.blocks.iter().enumerate().filter_map(of_block).collect();
        let few = counted.iter().filter(|is_few| **is_few).count();
        counted.len() >= LEAST_BLOCKS && few * 4 >= counted.len() * 3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Function 0 is in these samples.
    fn blocks(has: impl Iterator<Item = bool>) -> Blocks {
        let mut blocks = Blocks::default();
        let mut before = false;
        for has in has {
            blocks.begin_sample();
            if has {
                blocks.add(0, !before);
            }
            before = has;
        }
        blocks
    }

    #[test]
    fn long_calls_make_fewer_stretches_than_short_ones_with_the_same_share() {
        let long = blocks((0..600).map(|at| at % 50 < 40));
        let short = blocks((0..600).map(|at| at % 5 < 4));
        assert!(long.has_few_stretches(0) && !short.has_few_stretches(0));
        assert!(!blocks((0..600).map(|at| at > 250)).has_few_stretches(0), "a load that begins");
        assert!(!blocks((0..200).map(|at| at % 50 < 40)).has_few_stretches(0), "too short to tell");
    }

    #[test]
    fn the_share_around_a_stretch_is_that_of_its_time() {
        // 300 samples of start-up, 300 of load; a stretch of 20 in it, and one in the start.
        let load = blocks((0..600).map(|at| at >= 300 && at % 10 != 0));
        assert!(load.share_around(0, 401, 9) > 0.85);
        let once = blocks((0..600).map(|at| (100..150).contains(&at)));
        assert!(once.share_around(0, 100, 50) < 0.01);
    }
}
