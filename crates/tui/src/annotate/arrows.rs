//! Jumps within a listing, drawn as lines from the branch to its target.
//!
//! ```text
//!   ╭── jmp  30      Jumps to one target share a line. Shorter ones are nearer to the code, so that loops in loops
//!  ┏━━▶ 10: add …    look it. Those of the row under the cursor are drawn heavy, above all others.
//!  ┃╰─▶ 30: cmp …
//!  ┗━━━ jne  10
//! ```

use profile::view::ranking::RankRows as _;

/// The lines of all jumps of a listing.
#[derive(Debug, Default)]
pub struct Arrows {
    lines: Vec<Arrow>,
    /// Lines next to each other, at most.
    lanes: usize,
    /// Some line found no room: a column is kept for the one under the cursor.
    has_spare: bool,
}

/// All jumps to one target.
#[derive(Debug)]
struct Arrow {
    target: usize,
    /// Rows jumped from, at least one.
    sources: Vec<usize>,
    /// 0 is next to the code; `None`: there was no room.
    lane: Option<usize>,
}

impl Arrow {
    fn span(&self) -> (usize, usize) {
        let rows = || self.sources.iter().copied().chain([self.target]);
        (rows().min().unwrap_or(self.target), rows().max().unwrap_or(self.target))
    }

    fn touches(&self, row: usize) -> bool {
        self.target == row || self.sources.contains(&row)
    }
}

/// Where a cell's line goes on.
const UP: u8 = 1;
const DOWN: u8 = 2;
const LEFT: u8 = 4;
const RIGHT: u8 = 8;
const UP_DOWN: u8 = UP | DOWN;
const LEFT_RIGHT: u8 = LEFT | RIGHT;

/// By the sum of directions.
const LIGHT: [char; 16] = [' ', '│', '│', '│', '─', '╯', '╮', '┤', '─', '╰', '╭', '├', '─', '┴', '┬', '┼'];
const HEAVY: [char; 16] = [' ', '┃', '┃', '┃', '━', '┛', '┓', '┫', '━', '┗', '┏', '┣', '━', '┻', '┳', '╋'];

/// One cell of the picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrowCell {
    /// Kind of arrow drawn.
    pub symbol: char,
    /// Whether it is of a jump under the cursor.
    pub selected: bool,
}

impl Arrows {
    /// Arrows of jumps from row to row, with room for this many lines next to each other.
    pub fn new(jumps: impl IntoIterator<Item = (usize, usize)>, most_lanes: usize) -> Self {
        let mut by_target: std::collections::BTreeMap<usize, Vec<usize>> = std::collections::BTreeMap::new();
        for (source, target) in jumps {
            by_target.entry(target).or_default().push(source);
        }
        let arrow = |(target, sources)| Arrow { target, sources, lane: None };
        let mut lines: Vec<Arrow> = by_target.into_iter().map(arrow).collect();
        lines.rank_by_key(|line| {
            let (first, last) = line.span();
            (last - first, first)
        });
        let lanes = assign_lanes(&mut lines, most_lanes);
        let has_spare = lines.iter().any(|line| line.lane.is_none());
        Self { lines, lanes, has_spare }
    }

    /// Columns of the picture: the lines, and one for the arrow's head.
    pub fn width(&self) -> usize {
        if self.lines.is_empty() { 0 } else { self.lanes + usize::from(self.has_spare) + 1 }
    }

    /// The cells of `row` from left to right while the cursor is in row `cursor`.
    pub fn row(&self, row: usize, cursor: usize) -> Vec<ArrowCell> {
        let mut light = vec![0u8; self.width()];
        let mut heavy = vec![0u8; self.width()];
        let mut head = (' ', false);
        for line in &self.lines {
            let Some(column) = self.column(line, cursor) else {
                if line.touches(row) && head.0 == ' ' {
                    head.0 = if line.target == row { '▶' } else { away(line.target, row) };
                }
                continue;
            };
            draw(&mut light, column, strokes(line.span(), row), line.touches(row));
            // From the target all its jumps are seen, from a jump only that one.
            let at_end = line.touches(row) && (line.target == cursor || line.target == row || row == cursor);
            let selected = selected_span(line, cursor).filter(|&(first, last)| first <= row && row <= last);
            if let Some(span) = selected {
                draw(&mut heavy, column, strokes(span, row), at_end);
            }
            let is_selected = selected.is_some() && at_end;
            if line.target == row {
                head = ('▶', is_selected || head.1);
            } else if line.touches(row) && head.0 == ' ' {
                head = ('─', is_selected);
            }
        }
        let cell = |(light, heavy): (u8, u8)| match (heavy, light & !heavy) {
            (0, _) => ArrowCell { symbol: LIGHT[usize::from(light)], selected: false },
            (UP_DOWN, RIGHT) => ArrowCell { symbol: '┠', selected: true },
            (UP_DOWN, LEFT_RIGHT) => ArrowCell { symbol: '╂', selected: true },
            _ => ArrowCell { symbol: HEAVY[usize::from(heavy)], selected: true },
        };
        let mut cells: Vec<ArrowCell> = light.into_iter().zip(heavy).map(cell).collect();
        if let Some(last) = cells.last_mut() {
            let symbol = if head.0 == '─' && head.1 { '━' } else { head.0 };
            *last = ArrowCell { symbol, selected: head.1 };
        }
        cells
    }

    /// The column of a line's vertical part; without room only the cursor's line has one.
    fn column(&self, line: &Arrow, cursor: usize) -> Option<usize> {
        match line.lane {
            Some(lane) => Some(self.width() - 2 - lane),
            None => line.touches(cursor).then_some(0),
        }
    }
}

/// The part of a line that the cursor's jump is: all of it if the cursor is at the target.
fn selected_span(line: &Arrow, cursor: usize) -> Option<(usize, usize)> {
    if line.target == cursor {
        return Some(line.span());
    }
    line.sources.contains(&cursor).then(|| (cursor.min(line.target), cursor.max(line.target)))
}

/// Part of a vertical line from the first to the last row of `span` in `row`; nothing outside.
fn strokes(span: (usize, usize), row: usize) -> u8 {
    let (first, last) = span;
    let up = if first < row && row <= last { UP } else { 0 };
    let down = if first <= row && row < last { DOWN } else { 0 };
    up | down
}

/// Adds the strokes of a line to its column; with `at_end` the way to the code as well.
fn draw(cells: &mut [u8], column: usize, strokes: u8, at_end: bool) {
    cells[column] |= strokes;
    if at_end {
        cells[column] |= RIGHT;
        let end = cells.len() - 1;
        cells[column + 1..end].iter_mut().for_each(|cell| *cell |= LEFT_RIGHT);
    }
}

fn away(target: usize, row: usize) -> char {
    if target <= row { '↑' } else { '↓' }
}

/// Gives each line, shortest first, the innermost free lane. Returns the number of lanes.
fn assign_lanes(lines: &mut [Arrow], most: usize) -> usize {
    let mut taken: Vec<Vec<(usize, usize)>> = Vec::new();
    for line in lines {
        let (first, last) = line.span();
        let is_free = |spans: &Vec<(usize, usize)>| spans.iter().all(|&(a, b)| last < a || b < first);
        let lane = taken.iter().position(is_free).unwrap_or(taken.len());
        if lane < most {
            if lane == taken.len() {
                taken.push(Vec::new());
            }
            taken[lane].push((first, last));
            line.lane = Some(lane);
        }
    }
    taken.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(jumps: &[(usize, usize)], rows: usize, cursor: usize, lanes: usize) -> Vec<String> {
        let arrows = Arrows::new(jumps.iter().copied(), lanes);
        (0..rows).map(|row| arrows.row(row, cursor).iter().map(|cell| cell.symbol).collect()).collect()
    }

    #[test]
    fn a_loop_in_a_loop_lies_within_it() {
        let lines = picture(&[(5, 0), (4, 1)], 6, 9, 4);
        assert_eq!(lines, ["╭─▶", "│╭▶", "││ ", "││ ", "│╰─", "╰──"]);
    }

    #[test]
    fn jumps_to_one_target_share_a_line() {
        assert_eq!(picture(&[(0, 3), (1, 3)], 4, 9, 4), ["╭─", "├─", "│ ", "╰▶"]);
    }

    #[test]
    fn the_cursors_jump_is_heavy_up_to_its_target_only() {
        assert_eq!(picture(&[(0, 3), (1, 3)], 4, 1, 4), ["╭─", "┏━", "┃ ", "┗▶"]);
        assert_eq!(picture(&[(0, 3), (1, 3)], 4, 3, 4), ["┏━", "┣━", "┃ ", "┗▶"]);
        assert_eq!(picture(&[(0, 3), (1, 3)], 4, 0, 4), ["┏━", "┠─", "┃ ", "┗▶"]);
    }

    #[test]
    fn what_finds_no_room_is_marked_and_drawn_when_the_cursor_is_there() {
        let jumps = [(0, 5), (1, 4), (2, 3)];
        assert_eq!(picture(&jumps, 6, 9, 2), ["   ↓", " ╭──", " │╭─", " │╰▶", " ╰─▶", "   ▶"]);
        assert_eq!(picture(&jumps, 6, 0, 2), ["┏━━━", "┃╭──", "┃│╭─", "┃│╰▶", "┃╰─▶", "┗━━▶"]);
    }

    #[test]
    fn lines_that_cross_are_drawn_as_crossing() {
        assert_eq!(picture(&[(0, 2), (1, 3)], 4, 9, 4), [" ╭─", "╭┼─", "│╰▶", "╰─▶"]);
    }
}
