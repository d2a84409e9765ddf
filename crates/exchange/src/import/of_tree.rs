//! Stacks of text formats as a recording: the first frame is the process.

use super::error::ImportError;
use super::gathered::{Gathered, GatheredSums, StackOwner, named};
use crate::export::samples::ValueUnit;
use perfdata::appendix::summed_stacks::{CodeFile, CodeKind, StackFrame, StackThread};
use profile::view::flame::{FrameKind, NameId, Tree};

/// The stacks of `tree`, whose values are of `event` (`samples` without one).
///
/// # Errors
/// If the stacks are too long.
pub fn gather(tree: &Tree, event: &str) -> Result<Gathered, ImportError> {
    let mut gathered = Gathered::default();
    let event = gathered.event(if event.is_empty() { "samples" } else { event }, ValueUnit::Count);
    for leaf in tree.leaves().filter(|&leaf| leaf != Tree::ROOT) {
        let path = tree.path(leaf);
        let is_task = path.first().is_some_and(|&first| tree.kind(first) == FrameKind::Task);
        let (task, frames) = if is_task { path.split_at(1) } else { path.split_at(0) };
        let name = task.first().map_or("[unknown]", |&task| tree.name(task)).to_owned();
        let thread = gathered.thread(StackThread { name, ..StackThread::default() });
        let path: Vec<usize> = frames.iter().rev().map(|&name| frame(tree, name, &mut gathered)).collect();
        let node = tree.node(leaf);
        let sums = GatheredSums { samples: node.samples, value: node.own, time_ns: None };
        gathered.add(StackOwner { event, thread }, &path, sums)?;
    }
    Ok(gathered)
}

fn frame(tree: &Tree, name: NameId, gathered: &mut Gathered) -> usize {
    let kind = tree.kind(name);
    let (text, mark) = match tree.name(name) {
        text if text.len() > 4 && text.is_char_boundary(text.len() - 4) => text.split_at(text.len() - 4),
        text => (text, ""),
    };
    let is_marked = matches!(mark, "_[k]" | "_[j]" | "_[i]" | "_[w]");
    let text = if is_marked { text } else { tree.name(name) };
    let (kind, path) = match kind {
        FrameKind::Kernel => (CodeKind::Kernel, "[kernel]"),
        FrameKind::Jit => (CodeKind::Jit, "[JIT]"),
        _ => (CodeKind::Unknown, ""),
    };
    let file = gathered.file(CodeFile { kind, path: path.to_owned(), build_id: Vec::new() });
    gathered.frame(StackFrame { file, address: None, lines: vec![named(text)] })
}
