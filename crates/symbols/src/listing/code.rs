//! One function's listing: disassembly, hits and source brought together by address.

use super::source::{ObjectSources, Sources};
use super::{CodeLine, Line, ListedFunction, Listing, ListingOpts, without_code};
use crate::svma_of;
use dso::code::disasm::{self, Instruction, Syntax};
use dso::{LineRow, Loaded, Machine, Missing, SourceFrame, Svma};
use profile::profile::Sums;
use profile::view::annotate::AnnotateFunction;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::path::Path;

/// Larger symbols are cut here.
pub(super) const CODE_LIMIT_BYTES: u64 = 16 << 20;
/// Source lines shown before the first of a file, and to bridge a gap.
const CONTEXT_LINES: u32 = 5;

pub(super) fn listing(
    of: ListedFunction<'_>,
    file: &Loaded,
    sources: &Sources,
    opts: &ListingOpts,
) -> Listing {
    let Some(start) = svma_of(of.dso, file, of.function.start) else {
        return without_code(of, Missing::OutsideSegments);
    };
    let instructions = instructions(file, start, of.function.size.min(CODE_LIMIT_BYTES), opts);
    listing_of(instructions, of, file, sources, opts)
}

/// The listing of a function with this code.
pub(super) fn listing_of(
    instructions: Vec<Instruction>,
    of: ListedFunction<'_>,
    file: &Loaded,
    sources: &Sources,
    opts: &ListingOpts,
) -> Listing {
    let Some(start) = instructions.first().map(|first| first.start) else {
        return without_code(of, Missing::OutsideSegments);
    };
    let ListedFunction { dso, name, function } = of;
    let mut code: Vec<CodeLine> =
        instructions.into_iter().map(|i| code_line(i, function.totals.len())).collect();
    let lost = add_hits(&mut code, function, start);
    let places = places(file, &code, opts.source);
    for (line, place) in code.iter_mut().zip(&places) {
        line.place = place.as_ref().and_then(|p| Some((p.file.clone()?, p.line.unwrap_or(0))));
    }
    let full = file.symbol(start).ok().filter(|s| s.start == start);
    let full = full.map(|s| dso::demangle_with_parameters(s.name).into_owned());
    let name = full.or(name.map(str::to_owned)).unwrap_or_else(|| "[unknown]".to_owned());
    let lines = if opts.source {
        interleave(code, &places, sources.of_object(file.object().map(|o| &**o)), &name)
    } else {
        plain(code)
    };
    let section = |object: &dso::ObjectFile| {
        object.sections().iter().find(|s| s.svma.contains(&start.0)).map(|s| s.name.clone())
    };
    Listing {
        name,
        dso: dso.short_name.clone(),
        path: file.path(),
        section: file.object().and_then(|o| section(o)).unwrap_or_default(),
        start,
        totals: function.totals.clone(),
        lines: lines.into_iter().chain(lost).collect(),
        no_code: None,
    }
}

fn instructions(file: &Loaded, start: Svma, size: u64, opts: &ListingOpts) -> Vec<Instruction> {
    let Some(object) = file.object() else { return Vec::new() };
    if !disasm::is_supported(object.machine()) {
        let program = opts.objdump.as_deref().unwrap_or(Path::new("objdump"));
        let end = Svma(start.0.saturating_add(size));
        let text = object.path().map(|path| disasm::objdump(program, path, start, end, opts.syntax));
        return text.and_then(Result::ok).unwrap_or_default();
    }
    let code = object.bytes_at(start, size as usize).unwrap_or_default();
    disassembled(file, &CodeBytes { machine: object.machine(), start, bytes: code }, opts.syntax)
}

/// Machine code, and where it begins.
pub(super) struct CodeBytes<'a> {
    /// Owner of the instructions.
    pub machine: Machine,
    /// Stated address of the first byte.
    pub start: Svma,
    /// The code.
    pub bytes: &'a [u8],
}

/// The instructions, with names from the file's symbols.
pub(super) fn disassembled(file: &Loaded, code: &CodeBytes<'_>, syntax: Syntax) -> Vec<Instruction> {
    let names: RefCell<FxHashMap<Svma, String>> = RefCell::default();
    let name = |at: Svma| {
        let symbol = file.symbol(at).ok()?;
        let mut names = names.borrow_mut();
        let text = names
            .entry(symbol.start)
            .or_insert_with(|| dso::demangle_with_parameters(symbol.name).into_owned());
        let offset = at.0 - symbol.start.0;
        Some(if offset == 0 { text.clone() } else { format!("{text}+{offset:#x}") })
    };
    disasm::disassemble(code.machine, code.bytes, code.start, syntax, &name)
}

fn code_line(instruction: Instruction, events: usize) -> CodeLine {
    CodeLine {
        svma: instruction.start,
        len: instruction.len,
        text: instruction.text,
        branch: instruction.branch,
        sums: vec![Sums::default(); events],
        place: None,
    }
}

/// Gives each hit to the instruction it is in. Hits past the code come back as lines of their own.
fn add_hits(code: &mut [CodeLine], function: &AnnotateFunction, start: Svma) -> Vec<Line> {
    let mut lost = Vec::new();
    for hit in &function.addresses {
        let svma = Svma(start.0.wrapping_add(hit.addr.wrapping_sub(function.start)));
        let at =
            code.partition_point(|line| line.svma <= svma).checked_sub(1).and_then(|at| code.get_mut(at));
        match at.filter(|line| svma.0 - line.svma.0 < line.len as u64) {
            Some(line) => line.sums.iter_mut().zip(&hit.sums).for_each(|(sum, more)| sum.add(*more)),
            None => lost.push(Line::Code(CodeLine {
                svma,
                len: 0,
                text: String::new(),
                branch: None,
                sums: hit.sums.clone(),
                place: None,
            })),
        }
    }
    lost
}

/// The innermost source frame of each instruction. One question per stretch of one line, not per instruction.
fn places(file: &Loaded, code: &[CodeLine], with_functions: bool) -> Vec<Option<SourceFrame>> {
    let (Some(first), Some(last)) = (code.first(), code.last()) else { return Vec::new() };
    let (low, high) = (first.svma, Svma(last.svma.0.saturating_add(last.len as u64)));
    let Ok(rows) = file.with_lines(|lines| lines.rows(low, high)) else { return vec![None; code.len()] };
    let mut frames: Vec<Option<SourceFrame>> = vec![None; rows.len()];
    let mut found = Vec::with_capacity(code.len());
    for line in code {
        let at = rows.partition_point(|row| row.start <= line.svma).checked_sub(1);
        let Some(at) = at.filter(|&at| line.svma.0 < rows[at].start.0.saturating_add(rows[at].size)) else {
            found.push(None);
            continue;
        };
        if frames[at].is_none() {
            frames[at] = Some(frame_of(file, &rows[at], line.svma, with_functions));
        }
        found.push(frames[at].clone());
    }
    found
}

fn frame_of(file: &Loaded, row: &LineRow, svma: Svma, with_functions: bool) -> SourceFrame {
    let mut frames = Vec::new();
    if with_functions && file.frames(svma, &mut frames).is_ok() && !frames.is_empty() {
        let is_outermost = frames.len() == 1;
        let mut frame = frames.swap_remove(0);
        if is_outermost {
            frame.function = None; // the function itself
        }
        return frame;
    }
    SourceFrame { function: None, file: row.file.clone(), line: row.line, column: None }
}

fn plain(code: Vec<CodeLine>) -> Vec<Line> {
    code.into_iter().map(Line::Code).collect()
}

fn interleave(
    code: Vec<CodeLine>,
    places: &[Option<SourceFrame>],
    sources: ObjectSources<'_>,
    name: &str,
) -> Vec<Line> {
    let mut lines = Vec::with_capacity(code.len() * 2);
    let mut shown: FxHashMap<String, u32> = FxHashMap::default();
    let mut function: Option<&Option<String>> = None;
    let mut last: Option<(&str, u32)> = None;
    for (line, place) in code.into_iter().zip(places) {
        if let Some(place) = place {
            if function != Some(&place.function) {
                let text = place.function.as_deref().map(dso::demangle_with_parameters);
                lines.push(Line::Function(text.map_or_else(|| name.to_owned(), |t| t.into_owned())));
                function = Some(&place.function);
            }
            let at = place.file.as_deref().zip(place.line);
            if let Some((file, number)) = at.filter(|_| at != last) {
                show_source(&mut lines, &mut shown, sources, file, number);
                last = at;
            }
        }
        lines.push(Line::Code(line));
    }
    lines
}

/// The line, with those between it and the last one shown of its file.
fn show_source(
    lines: &mut Vec<Line>,
    shown: &mut FxHashMap<String, u32>,
    sources: ObjectSources<'_>,
    file: &str,
    number: u32,
) {
    let Some(source) = sources.file(file).filter(|s| s.line(number).is_some()) else {
        lines.push(Line::Place { file: file.to_owned(), line: number });
        return;
    };
    let from = match shown.get(file) {
        None => number.saturating_sub(CONTEXT_LINES).max(1),
        Some(&last) if last < number && number - last <= 2 * CONTEXT_LINES => last + 1,
        Some(_) => number,
    };
    let text = |n: u32| source.line(n).map(|text| Line::Source { line: n, text: text.to_owned() });
    lines.extend((from..=number).filter_map(text));
    let last = shown.entry(file.to_owned()).or_default();
    *last = (*last).max(number);
}
