//! Which functions of a recording are shown.

use calls::model::{Asked, Filter, Filters, FunctionId};

use super::chosen::Chosen;
use super::names::Functions;
use super::view_args::ViewArgs;

/// Which functions are filtered, decided once each; by default none.
#[derive(Default)]
pub struct FunctionFilter {
    of: Vec<Filters>,
    is_any: bool,
    /// What is asked for beside that, at any time.
    pub asked: Asked,
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
        Ok(Self { of, is_any: chosen.is_any(), asked: chosen.asked() })
    }

    /// Whether anything is filtered at all.
    pub const fn is_any(&self) -> bool {
        self.is_any
    }
}

impl Filter for FunctionFilter {
    fn of(&self, FunctionId(id): FunctionId) -> Filters {
        self.of[id as usize]
    }
}
