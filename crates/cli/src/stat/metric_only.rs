//! `--metric-only`: one line a unit of aggregation, one column a metric.
//
// Source of the columns: perf 6.1 prints what is neither a rate nor a use of CPUs, 20 columns wide; what only has a
// share for its unit is in the event's name.

use std::io::{self, Write};

use super::print::{Form, bare_number, json_text, key_name, text_prefix};
use counts::{Block, CountFrame, Metric, metrics};

const COLUMN: usize = 20;

/// The metrics of one unit of aggregation, with their headings.
fn of_block(frame: &CountFrame<'_>, block: &Block) -> Vec<(String, Metric)> {
    let events = frame.events.iter().enumerate();
    let all = events.flat_map(|(nth, event)| {
        let found = metrics(frame.events, &block.cells, nth, frame.wall_ns).into_iter();
        found
            .filter(|metric| is_told(&metric.unit))
            .map(|metric| (heading(&event.name, &metric.unit), metric))
    });
    all.collect()
}

/// Rates and the use of CPUs are meaningless without their counts.
fn is_told(unit: &str) -> bool {
    !unit.ends_with("/sec") && unit != "CPUs utilized"
}

fn heading(event: &str, unit: &str) -> String {
    if unit.starts_with("of all") { format!("{event} {unit}") } else { unit.to_owned() }
}

/// Prints the metrics of `frame`; a line with the reason if there are none.
pub fn print(form: &Form, frame: &CountFrame<'_>, out: &mut dyn Write) -> io::Result<()> {
    let blocks: Vec<(&Block, Vec<(String, Metric)>)> =
        frame.blocks.iter().map(|block| (block, of_block(frame, block))).collect();
    let Some((_, columns)) = blocks.iter().find(|(_, metrics)| !metrics.is_empty()) else {
        return match form {
            Form::Json => writeln!(out, "{{}}"),
            _ => writeln!(
                out,
                "# no metric: the events they follow from (cycles, instructions …) were not counted"
            ),
        };
    };
    let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
    match form {
        Form::Json => blocks.iter().try_for_each(|(block, metrics)| json(block, metrics, out)),
        Form::Csv(separator) => csv(separator, &names, &blocks, out),
        Form::Text => text(frame, &names, &blocks, out),
    }
}

type Rows<'a> = [(&'a Block, Vec<(String, Metric)>)];

fn text(frame: &CountFrame<'_>, names: &[&str], blocks: &Rows<'_>, out: &mut dyn Write) -> io::Result<()> {
    let prefix = |block: &Block| text_prefix(frame.at_ns, &block.key, block.places);
    let first = blocks.first().map_or(0, |(block, _)| prefix(block).chars().count());
    write!(out, "{:first$}", "")?;
    names.iter().try_for_each(|name| write!(out, "{name:>COLUMN$} "))?;
    writeln!(out)?;
    for (block, metrics) in blocks {
        write!(out, "{}", prefix(block))?;
        for name in names {
            let found = metrics.iter().find(|(known, _)| known == name);
            write!(out, "{:>COLUMN$} ", found.map_or("", |(_, metric)| metric.text.trim()))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn csv(separator: &str, names: &[&str], blocks: &Rows<'_>, out: &mut dyn Write) -> io::Result<()> {
    for (nth, (block, metrics)) in blocks.iter().enumerate() {
        let key = key_name(&block.key);
        let lead = if key.is_empty() { String::new() } else { format!("{key}{separator}") };
        if nth == 0 {
            let blank = if lead.is_empty() { "" } else { separator };
            writeln!(out, "{blank}{}{separator}", names.join(separator))?;
        }
        let value = |name: &&str| metrics.iter().find(|(known, _)| known == name);
        let values: Vec<&str> = names
            .iter()
            .map(|name| value(name).map_or("", |(_, metric)| bare_number(&metric.text)))
            .collect();
        writeln!(out, "{lead}{}{separator}", values.join(separator))?;
    }
    Ok(())
}

fn json(block: &Block, metrics: &[(String, Metric)], out: &mut dyn Write) -> io::Result<()> {
    let key = key_name(&block.key);
    let unit = (!key.is_empty()).then(|| format!("\"unit\" : {}", json_text(&key)));
    let values = metrics.iter().map(|(name, metric)| format!("{} : {:.6}", json_text(name), metric.value));
    let all: Vec<String> = unit.into_iter().chain(values).collect();
    writeln!(out, "{{{}}}", all.join(", "))
}
