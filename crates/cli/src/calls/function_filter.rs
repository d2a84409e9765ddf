//! Which functions of a recording are shown.

use profile::calls::{Filter, Filters, FunctionId};

use super::chosen::Chosen;
use super::names::Functions;
use super::view_args::ViewArgs;

/// Which functions are filtered, decided once each; by default none.
#[derive(Default)]
pub struct FunctionFilter {
    of: Vec<Filters>,
    /// Some function is an "only".
    pub any_only: bool,
}

impl FunctionFilter {
    /// As the flags say.
    ///
    /// # Errors
    /// If a filter means no function.
    pub fn new(args: &ViewArgs, functions: &Functions) -> anyhow::Result<Self> {
        let chosen = Chosen::new(args)?;
        let of: Vec<Filters> = functions.all().iter().map(|function| chosen.of(function)).collect();
        chosen.check(&of)?;
        Ok(Self { of, any_only: chosen.any_only() })
    }

    /// Whether anything is filtered at all.
    pub fn is_any(&self) -> bool {
        self.of.iter().any(|filters| filters.only || filters.not || filters.hide)
    }
}

impl Filter for FunctionFilter {
    fn of(&self, FunctionId(id): FunctionId) -> Filters {
        self.of[id as usize]
    }
}
