//! A frame as text: its line in a call chain, its names after an address.

use super::fields::{FieldSet, ScriptField};
use crate::terminal::out::harmless;
use display::digits;
use profile::profile::Profile;
use profile::table::{DsoKind, FrameId, InlineFrame};
use std::borrow::Cow;
use std::fmt::Write;
use std::sync::OnceLock;

/// The lines of frames in call chains. They are the same in every chain, and so made once.
#[derive(Default)]
pub struct FrameTexts {
    by_look: Vec<(FrameFields, Vec<OnceLock<Box<str>>>)>,
}

/// Settings for the lines of a frame.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FrameFields {
    fields: FieldSet,
    /// Without the functions inlined into the frame's.
    plain: bool,
}

impl FrameTexts {
    /// Room for the lines of events with these fields.
    pub fn new(fields: &[FieldSet]) -> Self {
        let mut by_look: Vec<(FrameFields, _)> = Vec::new();
        for look in fields.iter().flat_map(|&fields| [false, true].map(|plain| FrameFields { fields, plain }))
        {
            if by_look.iter().all(|(known, _)| *known != look) {
                by_look.push((look, Vec::new()));
            }
        }
        Self { by_look }
    }

    /// Makes room for the frames of `profile`.
    pub fn grow(&mut self, profile: &Profile) {
        for (_, texts) in &mut self.by_look {
            texts.resize_with(profile.frames.len(), OnceLock::new);
        }
    }

    /// Appends a call chain: a line for each frame and, but for plain frames, for each function inlined into it.
    pub fn write_chain(&self, out: &mut String, profile: &Profile, fields: FieldSet, chain: ShownChain<'_>) {
        let ShownChain { frames: chain, plain } = chain;
        let (first, rest) = chain.split_at(plain.min(chain.len()));
        for (frames, plain) in [(first, true), (rest, false)] {
            let look = FrameFields { fields, plain };
            let known = self.by_look.iter().find(|(known, _)| *known == look);
            let texts = known.map_or(&[][..], |(_, texts)| texts.as_slice());
            for &frame in frames {
                match texts.get(frame.index()) {
                    Some(text) => out.push_str(text.get_or_init(|| lines(profile, look, frame).into())),
                    None => out.push_str(&lines(profile, look, frame)),
                }
            }
        }
    }
}

/// A call chain to be shown.
#[derive(Clone, Copy, Debug)]
pub struct ShownChain<'c> {
    /// Leaf first.
    pub frames: &'c [FrameId],
    /// Number of frames at the leaf that are shown without inlined functions.
    pub plain: usize,
}

/// The lines of one frame, innermost function first.
fn lines(profile: &Profile, look: FrameFields, frame: FrameId) -> String {
    let mut out = String::new();
    let all = profile.frame_names(frame);
    let names = if look.plain { all.get(all.len().saturating_sub(1)..).unwrap_or(&[]) } else { all };
    if names.is_empty() {
        write_chain_line(&mut out, look.fields, profile, frame, None);
    }
    for name in names {
        // The address is in the innermost function's line, also where only the outermost is named.
        let line = if look.plain { all.first().unwrap_or(name) } else { name };
        write_chain_line(&mut out, look.fields, profile, frame, Some((name, line)));
    }
    out
}

/// The function of the symbol table: what perf calls the symbol of an address outside call chains.
pub fn own_name(profile: &Profile, frame: FrameId) -> Option<&InlineFrame> {
    profile.frame_names(frame).last()
}

/// `name`: the function to be named, and the one whose line is reported.
fn write_chain_line(
    out: &mut String,
    fields: FieldSet,
    profile: &Profile,
    frame: FrameId,
    name: Option<(&InlineFrame, &InlineFrame)>,
) {
    let (name, line) = name.unzip();
    // For files the address in the file, else that in memory: the space of the frame's DSO.
    out.push('\t');
    digits::hexadecimal(out, profile.frames.of(frame).addr, 16);
    write_names(out, fields, profile, frame, name);
    // As perf: in chains, only what has a name has a place in the source.
    if name.is_some() {
        write_srcline(out, fields, profile, frame, line);
    }
    if name.is_some_and(|n| profile.symbols.of(n.symbol).inlined) {
        out.push_str(" (inlined)");
    }
    out.push('\n');
}

/// ` symbol+0x12 (dso)`, as far as asked for.
pub fn write_names(
    out: &mut String,
    fields: FieldSet,
    profile: &Profile,
    frame: FrameId,
    name: Option<&InlineFrame>,
) {
    let symbol = name.map(|n| profile.symbols.of(n.symbol));
    if fields.has(ScriptField::Sym) {
        match symbol {
            Some(symbol) => {
                out.push(' ');
                out.push_str(&harmless(profile.strings.of(symbol.name)));
                if fields.has(ScriptField::Symoff) {
                    let at = profile.frames.of(frame).addr;
                    out.push_str("+0x");
                    digits::hexadecimal(out, at.wrapping_sub(symbol.start), 0);
                }
            }
            None => out.push_str(" [unknown]"),
        }
    }
    if fields.has(ScriptField::Dso) && !symbol.is_some_and(|s| s.inlined) {
        out.push_str(" (");
        out.push_str(&dso_name(profile, frame));
        out.push(')');
    }
}

pub fn dso_name(profile: &Profile, frame: FrameId) -> Cow<'_, str> {
    let dso = profile.dsos.of(profile.frames.of(frame).dso);
    harmless(match dso.kind {
        // perf knows a module by its path if the header has its build-id, else by its name.
        DsoKind::KernelModule if dso.build_id.is_none() => &dso.short_name,
        DsoKind::Kernel | DsoKind::Vdso | DsoKind::Unknown => &dso.short_name,
        _ => &dso.path,
    })
}

/// On a line of its own, as perf does: `file:line`, else DSO and address.
pub fn write_srcline(
    out: &mut String,
    fields: FieldSet,
    profile: &Profile,
    frame: FrameId,
    name: Option<&InlineFrame>,
) {
    if !fields.has(ScriptField::Srcline) {
        return;
    }
    let found = name.and_then(|n| Some((profile.strings.of(n.file?), n.line)));
    let shown =
        |file| if fields.has(ScriptField::SourceFolders) { file } else { profile::machine::file_name(file) };
    let _ = match found.filter(|(_, line)| *line > 0) {
        Some((file, line)) => write!(out, "\n  {}:{line}", harmless(shown(file))),
        None => write!(out, "\n  {}[{:x}]", profile_short(profile, frame), profile.frames.of(frame).addr),
    };
}

fn profile_short(profile: &Profile, frame: FrameId) -> Cow<'_, str> {
    harmless(&profile.dsos.of(profile.frames.of(frame).dso).short_name)
}
