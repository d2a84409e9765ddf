//! No column has more running than there are CPUs.
//!
//! Where a thread ran between its kept waits and samples is a guess. A thread with few samples is drawn on the CPU around
//! each for longer than it ran there, and several such threads may run in one column. Their sums are exact: so running
//! that has no room in its column changes places with a wait of the same thread that was guessed as well, in the nearest
//! column with room.

use super::Column;
use super::strip::Strip;
use crate::grow::GrownSum as _;
use crate::view::wall::Part;

/// Moves running out of columns that have more than `cpus` CPUs' worth. Each thread's sums by state, and its time in
/// each column, stay the same.
pub(super) fn balance(strips: &mut [Strip], column_ns: u64, cpus: usize) {
    let room_ns = column_ns.saturating_mul(cpus as u64);
    let columns = strips.first().map_or(0, |strip| strip.columns.len());
    let running = |at: usize| strips.iter().map(|strip| strip.columns[at].ns(Part::On)).grown_sum();
    let mut sums: Vec<u64> = (0..columns).map(running).collect();
    for at in 0..columns {
        let over = sums[at].saturating_sub(room_ns);
        if over == 0 {
            continue;
        }
        let guessed = strips.iter().map(|strip| strip.guessed[at].ns(Part::On)).grown_sum();
        for strip in strips.iter_mut() {
            let mine = u128::from(strip.guessed[at].ns(Part::On));
            let give = (u128::from(over) * mine).div_ceil(u128::from(guessed.max(1))).min(mine) as u64;
            move_running(strip, at, give, &mut sums, room_ns);
        }
    }
}

/// Up to `give` ns of running leave column `at`.
fn move_running(strip: &mut Strip, at: usize, give: u64, sums: &mut [u64], room_ns: u64) {
    let mut left = give;
    for other in nearest(at, sums.len()) {
        if left == 0 {
            return;
        }
        let room = room_ns.saturating_sub(sums[other]).min(left);
        let waits = strip.guessed[other].parts().into_iter().filter(|&(part, _)| part != Part::On);
        let mut moved = 0;
        for (part, ns) in if room > 0 { waits.collect() } else { Vec::new() } {
            let ns = ns.min(room - moved);
            let exchange = Exchange { from: at, to: other, part, ns };
            exchange.within(&mut strip.columns);
            exchange.within(&mut strip.guessed);
            moved += ns;
        }
        (sums[at], sums[other], left) = (sums[at] - moved, sums[other] + moved, left - moved);
    }
}

/// `ns` of running in one column change places with as much of `part` in another.
#[derive(Clone, Copy)]
struct Exchange {
    from: usize,
    to: usize,
    part: Part,
    ns: u64,
}

impl Exchange {
    fn within(self, columns: &mut [Column]) {
        columns[self.from].take(Part::On, self.ns);
        columns[self.from].add(self.part.into(), self.ns);
        columns[self.to].take(self.part, self.ns);
        columns[self.to].add(Part::On.into(), self.ns);
    }
}

/// All other columns, by distance.
fn nearest(at: usize, columns: usize) -> impl Iterator<Item = usize> {
    let steps = (1..columns).flat_map(move |step| [at.checked_add(step), at.checked_sub(step)]);
    steps.flatten().filter(move |&other| other < columns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::off_cpu::WaitReason;

    const WAIT: Part = Part::Blocked(WaitReason::Unknown);

    fn strip(columns: &[(u64, u64)]) -> Strip {
        let columns: Vec<Column> =
            columns.iter().map(|&(on, wait)| Column::of(&[(Part::On, on), (WAIT, wait)])).collect();
        Strip::of_guesses(columns)
    }

    fn running(strips: &[Strip]) -> Vec<Vec<u64>> {
        strips.iter().map(|strip| strip.columns.iter().map(|column| column.ns(Part::On)).collect()).collect()
    }

    #[test]
    fn running_without_room_goes_to_the_nearest_column_with_room_and_sums_stay() {
        let mut strips = vec![
            strip(&[(0, 100), (90, 10), (20, 80)]),
            strip(&[(0, 100), (60, 40), (0, 100)]),
            strip(&[(0, 0), (50, 0), (0, 0)]),
        ];
        balance(&mut strips, 100, 1);
        let on = running(&strips);
        let columns: Vec<u64> = (0..3).map(|at| on.iter().map(|row| row[at]).sum()).collect();
        // The third thread lived in one column only: what it ran has nowhere to go.
        assert!(columns[1] <= 126 && columns[0] <= 100 && columns[2] <= 100, "{on:?}");
        assert_eq!(on.iter().map(|row| row.iter().sum::<u64>()).collect::<Vec<_>>(), [110, 60, 50]);
        assert!(strips[0].columns.iter().all(|column| column.total_ns() == 100));
    }

    #[test]
    fn columns_with_room_for_all_are_left_as_they_are() {
        let mut strips = vec![strip(&[(50, 50), (50, 50)]), strip(&[(50, 50), (0, 100)])];
        let before = running(&strips);
        balance(&mut strips, 100, 1);
        assert_eq!(running(&strips), before);
    }
}
