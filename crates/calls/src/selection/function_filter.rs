//! Which functions of a recording are shown.

use crate::model::{Asked, CallFilters, Filter, FunctionId};

use super::view_filter::ViewFilter;
use super::view_spec::ViewSpec;
use crate::recording::functions::Functions;

/// Which functions are filtered, decided once each; by default none.
#[derive(Default)]
pub struct FunctionFilter {
    of: Vec<CallFilters>,
    is_any: bool,
    /// Further conditions, at any time.
    pub asked: Asked,
}

impl FunctionFilter {
    /// As the flags request.
    ///
    /// # Errors
    /// If a filter means no function.
    pub fn new(args: &ViewSpec, functions: &Functions) -> crate::Result<Self> {
        let chosen = ViewFilter::new(args)?;
        let of: Vec<CallFilters> = functions.all().iter().map(|function| chosen.of(function)).collect();
        chosen.check(&of)?;
        Ok(Self { of, is_any: chosen.is_any(), asked: chosen.asked() })
    }

    /// Whether anything is filtered at all.
    pub const fn is_any(&self) -> bool {
        self.is_any
    }
}

impl Filter for FunctionFilter {
    fn of(&self, FunctionId(id): FunctionId) -> CallFilters {
        self.of[id as usize]
    }
}
