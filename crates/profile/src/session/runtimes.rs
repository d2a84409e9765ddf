//! Frames of interpreters between those of their language.

use rustc_hash::FxHashSet;

use crate::callchain::LeafOrigin;
use crate::table::{DsoId, DsoKind, DsoTable, FrameId, FrameTable};

/// The interpreters of a recording.
#[derive(Clone, Debug, Default)]
pub(super) struct Runtimes {
    files: FxHashSet<String>,
    /// By DSO: `None` where it was not asked yet.
    parts: Vec<Option<Part>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Language,
    Runtime,
    Other,
}

impl Runtimes {
    pub(super) fn of(files: &[String]) -> Self {
        Self { files: files.iter().cloned().collect(), parts: Vec::new() }
    }

    /// Whether a recording has any.
    pub(super) fn has_any(&self) -> bool {
        !self.files.is_empty()
    }

    fn part_of(&mut self, id: DsoId, dsos: &DsoTable) -> Part {
        if self.parts.len() <= id.index() {
            self.parts.resize(id.index() + 1, None);
        }
        let files = &self.files;
        *self.parts[id.index()].get_or_insert_with(|| {
            let dso = dsos.of(id);
            match dso.kind {
                DsoKind::Python => Part::Language,
                DsoKind::File if files.contains(&dso.path) => Part::Runtime,
                _ => Part::Other,
            }
        })
    }

    /// Leaves an interpreter's frames out of a path with frames of its language. Without its sampled address, a path
    /// is that of a chain.
    pub(super) fn fold(
        &mut self,
        path: &mut Vec<FrameId>,
        leaf_origin: &mut LeafOrigin,
        tables: (&FrameTable, &DsoTable),
    ) {
        if !self.has_any() {
            return;
        }
        let (frames, dsos) = tables;
        let leaf = path.first().copied();
        let mut part = |frame: &FrameId| self.part_of(frames.of(*frame).dso, dsos);
        if path.iter().any(|frame| part(frame) == Part::Language) {
            path.retain(|frame| part(frame) != Part::Runtime);
            if path.first().copied() != leaf {
                *leaf_origin = LeafOrigin::Chain;
            }
        }
    }
}
