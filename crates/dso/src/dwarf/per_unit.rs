//! What was read of a file's units, each once, and not too much of it.

use gimli::{Reader, UnitRef};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// A unit: where it begins, and of which split file it is.
pub(super) type UnitKey = (usize, Option<u64>);

pub(super) fn key_of<R: Reader<Offset = usize>>(unit: UnitRef<'_, R>) -> UnitKey {
    (unit.header.offset().0, unit.dwo_id.map(|id| id.0))
}

/// Items by unit, `MOST` in all; beyond this number all are read again on demand.
pub(super) struct PerUnit<T, const MOST: usize> {
    units: FxHashMap<UnitKey, Arc<[T]>>,
    kept: usize,
}

impl<T, const MOST: usize> Default for PerUnit<T, MOST> {
    fn default() -> Self {
        Self { units: FxHashMap::default(), kept: 0 }
    }
}

impl<T, const MOST: usize> PerUnit<T, MOST> {
    /// The items of a unit, which `read` finds; none if it fails.
    pub(super) fn of<'u, R: Reader<Offset = usize>>(
        &mut self,
        unit: UnitRef<'u, R>,
        read: impl FnOnce(UnitRef<'u, R>) -> gimli::Result<Vec<T>>,
    ) -> Arc<[T]> {
        let key = key_of(unit);
        if let Some(known) = self.units.get(&key) {
            return Arc::clone(known);
        }
        let items: Arc<[T]> = read(unit).unwrap_or_default().into();
        if self.kept.saturating_add(items.len()) > MOST {
            self.units.clear();
            self.kept = 0;
        }
        self.kept += items.len();
        self.units.insert(key, Arc::clone(&items));
        items
    }
}
