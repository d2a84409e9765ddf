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

    /// Leaves an interpreter's frames out of a path with frames of its language, leaf first. Without its sampled address,
    /// a path is that of a chain.
    ///
    /// Where the leaf is outside the interpreter, the function of the interpreter that called there stays: it tells a
    /// wait for the interpreter's lock (`take_gil`) from a wait for a lock of the program.
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
        if !path.iter().any(|frame| part(frame) == Part::Language) {
            return;
        }
        // The index of the first frame that is not outside.
        let entered = path.iter().position(|frame| part(frame) != Part::Other).unwrap_or(0);
        let mut at = 0;
        path.retain(|frame| {
            let is_caller = at == entered && at > 0;
            at += 1;
            is_caller || part(frame) != Part::Runtime
        });
        if path.first().copied() != leaf {
            *leaf_origin = LeafOrigin::Chain;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Dso, Frame};

    const FILES: [(&str, DsoKind); 3] =
        [("/lib/libc.so.6", DsoKind::File), ("/bin/python3", DsoKind::File), ("app.py", DsoKind::Python)];

    /// Folds a path, leaf first: an index of `FILES` for each frame.
    fn folded(path: &[usize]) -> Vec<usize> {
        let (mut frames, mut dsos) = (FrameTable::default(), DsoTable::default());
        let ids = FILES.map(|(path, kind)| {
            let short_name = path.rsplit('/').next().unwrap_or(path).into();
            dsos.intern(Dso {
                kind,
                path: path.into(),
                short_name,
                build_id: None,
                level: '.',
                start_avma: 0,
            })
        });
        let frame = |(at, &file): (usize, &usize)| {
            let addr = at as u64 * 16;
            frames.intern(Frame { dso: ids[file], addr, lookup: addr, first_avma: addr })
        };
        let mut path: Vec<FrameId> = path.iter().enumerate().map(frame).collect();
        let mut runtimes = Runtimes::of(&["/bin/python3".to_owned()]);
        runtimes.fold(&mut path, &mut LeafOrigin::Chain, (&frames, &dsos));
        let file_of =
            |id: &FrameId| ids.iter().position(|dso| *dso == frames.of(*id).dso).expect("one of ours");
        path.iter().map(file_of).collect()
    }

    #[test]
    fn an_interpreters_frames_are_left_out_between_those_of_its_language() {
        assert_eq!(folded(&[1, 1, 2, 1, 2, 1, 0]), [2, 2, 0]);
        assert_eq!(folded(&[1, 1, 0]), [1, 1, 0], "no function of the language: the interpreter's own work");
    }

    #[test]
    fn the_interpreters_function_that_calls_out_stays() {
        assert_eq!(folded(&[0, 0, 1, 1, 2, 1, 2, 0]), [0, 0, 1, 2, 2, 0], "take_gil of a wait");
        assert_eq!(folded(&[0, 2, 1, 2]), [0, 2, 2], "a library called by the language");
    }
}
