//! The heat map of latencies over time as one SVG file.

use crate::foreign::xml;
use display::number::{bytes, duration_ns, grouped};
use profile::view::io::OverTime;
use std::io::{self, Write};

const LEFT: f64 = 90.0;
const TOP: f64 = 56.0;
const CELL_HEIGHT: f64 = 22.0;
const WIDTH: f64 = 1000.0;
/// Height of each of the two strips under the map.
const STRIP: f64 = 60.0;

/// In the dark many requests are bright, few are not.
const DARK: &str = "@media(prefers-color-scheme:dark){svg:root{background:#14171b}.back{fill:#14171b}text{fill:#9aa1ac}\
    .title{fill:#e8eaed}.ground{fill:#23272e}.bar{fill:#6b9ce0}.cell{filter:invert(1) hue-rotate(180deg)}}";
/// Marks on the axis of time.
const MARKS: u64 = 5;

/// Writes latencies over time, with requests in flight and bytes below.
///
/// # Errors
/// `out` can't be written.
pub fn write(out: &mut impl Write, time: &OverTime, title: &str) -> io::Result<()> {
    let map = time.heat.len() as f64 * CELL_HEIGHT;
    let height = TOP + map + 2.0 * (STRIP + 30.0) + 40.0;
    let (whole, middle) = (LEFT + WIDTH + 30.0, LEFT + WIDTH / 2.0);
    writeln!(
        out,
        "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"no\"?>\n\
         <svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" width=\"{whole}\" height=\"{height}\" \
         viewBox=\"0 0 {whole} {height}\">\n\
         <style>text{{font:12px system-ui,sans-serif;fill:#444}}.title{{font:600 17px system-ui,sans-serif;fill:#1a1a1a;\
         text-anchor:middle}}.left{{text-anchor:end}}.right{{text-anchor:end}}\
         .back{{fill:#fbfaf7}}.ground{{fill:#f1eee6}}.bar{{fill:#4f81bd}}{DARK}</style>\n\
         <rect class=\"back\" width=\"100%\" height=\"100%\"/>\n\
         <text class=\"title\" x=\"{middle}\" y=\"22\">{}</text>\n\
         <text style=\"text-anchor:middle\" x=\"{middle}\" y=\"40\">time requests spent in the device; a column is {}</text>",
        xml(title),
        duration_ns(time.slice_ns)
    )?;
    cells(out, time)?;
    let flying: Vec<f64> = time.slices.iter().map(|slice| slice.in_flight).collect();
    let top = TOP + map + 30.0;
    let flight = Strip { top, name: "in flight", values: &flying };
    flight.write(out, |value| format!("{value:.2} requests"))?;
    let second = 1e9 / time.slice_ns.max(1) as f64;
    let moved: Vec<f64> = time.slices.iter().map(|slice| slice.bytes as f64 * second).collect();
    let top = top + STRIP + 30.0;
    let rate = Strip { top, name: "bytes", values: &moved };
    rate.write(out, |value| format!("{}/s", bytes(value as u64)))?;
    let whole_ns = time.slice_ns.saturating_mul(time.slices.len() as u64);
    for mark in 0..=MARKS {
        let x = LEFT + WIDTH * mark as f64 / MARKS as f64;
        let (y, at) = (top + STRIP + 18.0, duration_ns(whole_ns / MARKS * mark));
        let class = if mark == MARKS { "right" } else { "" };
        writeln!(
            out,
            "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{}</text>",
            if mark == 0 { "0" } else { &at }
        )?;
    }
    key(out, time)?;
    writeln!(out, "</svg>")
}

/// The greatest number of requests in a cell.
fn most_in_cell(time: &OverTime) -> u64 {
    time.heat.iter().flat_map(|row| &row.counts).copied().max().unwrap_or(1).max(1)
}

/// The colours' key, above the map on the right.
fn key(out: &mut impl Write, time: &OverTime) -> io::Result<()> {
    const STEPS: u64 = 6;
    let most = most_in_cell(time);
    let (left, y) = (LEFT + WIDTH - 190.0, TOP - 10.0);
    writeln!(out, "<text class=\"left\" x=\"{left}\" y=\"{y}\">1</text>")?;
    for step in 0..STEPS {
        let (x, n) = (left + 6.0 + 14.0 * step as f64, (most * step / (STEPS - 1)).max(1));
        let (top, colour) = (y - 10.0, heat(n, most));
        writeln!(
            out,
            "<rect class=\"cell\" x=\"{x}\" y=\"{top}\" width=\"13\" height=\"12\" fill=\"{colour}\"/>"
        )?;
    }
    let after = left + 12.0 + 14.0 * STEPS as f64;
    writeln!(out, "<text x=\"{after}\" y=\"{y}\">{} in a cell</text>", grouped(most))
}

fn cells(out: &mut impl Write, time: &OverTime) -> io::Result<()> {
    let most = most_in_cell(time);
    let width = WIDTH / time.slices.len().max(1) as f64;
    for (at, row) in time.heat.iter().rev().enumerate() {
        let y = TOP + at as f64 * CELL_HEIGHT;
        let (from, to) = (duration_ns(row.from_ns), duration_ns(row.from_ns.saturating_mul(2)));
        let (label_x, label_y) = (LEFT - 8.0, y + CELL_HEIGHT + 4.0);
        writeln!(out, "<text class=\"left\" x=\"{label_x}\" y=\"{label_y}\">{from}</text>")?;
        writeln!(
            out,
            "<rect x=\"{LEFT}\" y=\"{y}\" width=\"{WIDTH}\" height=\"{:.1}\" class=\"ground\"/>",
            CELL_HEIGHT - 1.0
        )?;
        for (slice, &n) in row.counts.iter().enumerate().filter(|(_, n)| **n > 0) {
            let x = LEFT + slice as f64 * width;
            let moment = duration_ns(slice as u64 * time.slice_ns);
            writeln!(
                out,
                "<rect x=\"{x:.2}\" y=\"{y}\" width=\"{:.2}\" height=\"{:.1}\" class=\"cell\" fill=\"{}\"><title>{} requests of {from} \
                 to {to}, at {moment}</title></rect>",
                width.max(0.5),
                CELL_HEIGHT - 1.0,
                heat(n, most),
                grouped(n)
            )?;
        }
    }
    Ok(())
}

/// Pale to dark. A single request is visibly darker than none.
fn heat(n: u64, most: u64) -> String {
    let part = (n as f64 / most as f64).sqrt();
    let mix = |from: f64, to: f64| (from + (to - from) * part) as u8;
    format!("#{:02x}{:02x}{:02x}", mix(253.0, 120.0), mix(205.0, 10.0), mix(150.0, 20.0))
}

/// A strip of bars, one for each column of time.
struct Strip<'v> {
    /// Upper edge.
    top: f64,
    name: &'v str,
    /// By column.
    values: &'v [f64],
}

impl Strip<'_> {
    fn write(&self, out: &mut impl Write, show: impl Fn(f64) -> String) -> io::Result<()> {
        let &Self { top, name, values } = self;
        let most = values.iter().copied().fold(0.0, f64::max);
        let width = WIDTH / values.len().max(1) as f64;
        let (label_x, bottom) = (LEFT - 8.0, top + STRIP);
        writeln!(out, "<text class=\"left\" x=\"{label_x}\" y=\"{bottom}\">{name}</text>")?;
        writeln!(out, "<text x=\"{LEFT}\" y=\"{:.1}\">up to {}</text>", top - 4.0, xml(&show(most)))?;
        writeln!(
            out,
            "<rect x=\"{LEFT}\" y=\"{top}\" width=\"{WIDTH}\" height=\"{STRIP}\" class=\"ground\"/>"
        )?;
        for (slice, &value) in values.iter().enumerate().filter(|(_, value)| **value > 0.0) {
            let height = value / most * STRIP;
            writeln!(
                out,
                "<rect x=\"{:.2}\" y=\"{:.2}\" width=\"{:.2}\" height=\"{height:.2}\" class=\"bar\"><title>{}</title></rect>",
                LEFT + slice as f64 * width,
                bottom - height,
                width.max(0.5),
                xml(&show(value))
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::view::io::{HeatRow, Slice};

    #[test]
    fn each_cell_with_requests_is_drawn_once_and_says_how_many() {
        let slices = vec![Slice { done: 3, bytes: 4096, ..Slice::default() }; 2];
        let heat = vec![
            HeatRow { from_ns: 1024, counts: vec![3, 0] },
            HeatRow { from_ns: 2048, counts: vec![0, 3] },
        ];
        let time = OverTime { slice_ns: 1000, slices, heat, ..OverTime::default() };
        let mut out = Vec::new();
        write(&mut out, &time, "a <b>").expect("writing to memory");
        let svg = String::from_utf8(out).expect("UTF-8");
        assert_eq!(svg.matches("3 requests of").count(), 2);
        assert!(svg.contains("prefers-color-scheme:dark") && svg.contains(">3 in a cell<"));
        assert!(svg.contains("a &lt;b&gt;") && svg.ends_with("</svg>\n"));
    }
}
