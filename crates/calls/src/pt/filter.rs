//! Filters by function while functions are still being found.

use crate::model::{Asked, CallFilters, Filter, FunctionId};
use std::sync::{PoisonError, RwLock};

use super::image::TraceCode;
use crate::selection::view_filter::ViewFilter;

/// Decides once per function, as it is found.
pub struct TraceFilter<'a> {
    chosen: &'a ViewFilter,
    code: &'a TraceCode,
    known: RwLock<Vec<CallFilters>>,
}

impl<'a> TraceFilter<'a> {
    /// Nothing is found yet.
    pub fn new(chosen: &'a ViewFilter, code: &'a TraceCode) -> Self {
        Self { chosen, code, known: RwLock::default() }
    }

    /// Whether anything is filtered at all.
    pub fn is_any(&self) -> bool {
        self.chosen.is_any()
    }

    /// Further conditions.
    pub fn asked(&self) -> Asked {
        self.chosen.asked()
    }

    /// Decides about the functions found since; before steps that name them are taken.
    pub fn learn(&self) {
        if !self.is_any() {
            return;
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let first = known.len();
        known.extend(self.code.functions_from(first).iter().map(|function| self.chosen.of(function)));
    }

    /// All is decoded: some function must have been selected.
    ///
    /// # Errors
    /// If none was.
    pub fn check(&self) -> crate::Result<()> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        self.chosen.check(&known)
    }
}

impl Filter for TraceFilter<'_> {
    fn of(&self, FunctionId(id): FunctionId) -> CallFilters {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.get(id as usize).copied().unwrap_or_default()
    }
}
