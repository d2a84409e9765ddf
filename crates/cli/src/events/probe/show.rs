//! `--vars` and `--line`: what can be seen at a place, which lines can be probed.

use std::io::{self, Write};
use std::path::Path;

use anyhow::Context;
use dso::dwarf::probe::SourceLines;
use dso::{Refused, SourceAccess};

use crate::terminal::out::harmless;
use calls::probing::definition::Program;
use calls::probing::definition::spec::{ProbePlace, ProbePoint};

/// Prints the variables at each address of `place`, sorted by type.
pub fn variables(
    program: &mut Program,
    place: &ProbePlace,
    globals: bool,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let points = program.points(place)?;
    writeln!(out, "Available variables at {}", place_text(place))?;
    for point in points {
        let offset = point.svma.0.wrapping_sub(point.function_svma.0);
        writeln!(out, "\t@<{}+{offset}>", harmless(&point.function))?;
        let seen = program.info()?.variables(&point, globals);
        let mut lines: Vec<String> = seen
            .into_iter()
            .filter(|v| v.is_available)
            .map(|v| format!("{}\t{}", v.type_name, v.name))
            .collect();
        lines.sort();
        lines.dedup();
        if lines.is_empty() {
            writeln!(out, "\t\t(No matched variables)")?;
        }
        for line in lines {
            writeln!(out, "\t\t{}", line.split('\t').map(harmless).collect::<Vec<_>>().join("\t"))?;
        }
    }
    Ok(())
}

/// The range of lines asked for: `FUNC[@FILE][:FROM[-TO|+N]]` or `FILE[:FROM[-TO|+N]]`.
pub fn lines(program: &mut Program, text: &str, out: &mut dyn Write) -> anyhow::Result<()> {
    let (head, range) = match text.rsplit_once(':') {
        Some((head, range)) if range.starts_with(|c: char| c.is_ascii_digit()) => (head, Some(range)),
        _ => (text, None),
    };
    let mut found = program.source_lines(head)?;
    if let Some((from, to)) = range.map(parse_range).transpose()? {
        found.first = found.base.saturating_add(from);
        found.last = to.map_or(found.last, |t| found.base.saturating_add(t));
    }
    // perf shows two lines more after the last one, so that the end of the function is seen.
    let last =
        if range.is_some_and(|r| r.contains(['-', '+'])) { found.last } else { found.last.saturating_add(3) };
    let name = if found.base == 0 { found.file.clone() } else { format!("{head}@{}", found.file) };
    writeln!(out, "<{}:{}>", harmless(&name), found.first - found.base.min(found.first))?;
    let source = SourceAccess::for_owner(program.owner()).read(Path::new(&found.file));
    Ok(print_lines(&found, last, source, out)?)
}

fn print_lines(
    lines: &SourceLines,
    last: u32,
    source: Result<Vec<u8>, Refused>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let source = match source {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => {
            writeln!(out, "  (cannot read the source: {error}; lines that can be probed:)")?;
            String::new()
        }
    };
    let source: Vec<&str> = source.lines().collect();
    for number in lines.first..=last {
        let text = source.get(number.saturating_sub(1) as usize);
        let probeable = lines.probeable.contains(&number);
        let shown = text.map(|t| harmless(t)).unwrap_or_default();
        match (probeable, text) {
            (true, _) => writeln!(out, "{:>7}  {shown}", number - lines.base)?,
            (false, Some(_)) => writeln!(out, "         {shown}")?,
            (false, None) => {}
        }
    }
    Ok(())
}

/// `4`, `4-9` or `4+5`.
fn parse_range(text: &str) -> anyhow::Result<(u32, Option<u32>)> {
    let number = |t: &str| t.parse::<u32>().with_context(|| format!("'{t}' is not a line number"));
    if let Some((from, to)) = text.split_once('-') {
        return Ok((number(from)?, Some(number(to)?)));
    }
    if let Some((from, more)) = text.split_once('+') {
        let from = number(from)?;
        return Ok((from, Some(from.saturating_add(number(more)?))));
    }
    Ok((number(text)?, None))
}

fn place_text(place: &ProbePlace) -> String {
    match place {
        ProbePlace::Function { name, at: ProbePoint::Line(line), .. } => format!("{name}:{line}"),
        ProbePlace::Function { name, at: ProbePoint::Offset(offset), .. } => format!("{name}+{offset}"),
        ProbePlace::Function { name, .. } => name.clone(),
        ProbePlace::Line(file, line) => format!("{file}:{line}"),
        ProbePlace::Pattern { of, pattern } => format!("{of};{pattern}"),
        ProbePlace::Address(address) => format!("{address:#x}"),
    }
}
