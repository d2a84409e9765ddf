//! Which functions the flags of a view choose.

use crate::error::bail;
use crate::error::ensure;
use crate::model::{Asked, CallFilters};
use tracer::layout::sleds;

use super::pattern::{self, Pattern};
use super::rules::{self, Rules};
use super::view_spec::ViewSpec;
use crate::recording::function::Function;

/// Rules of which some function must have been selected, or nothing is shown of what was asked for.
const NAMES: [u32; 6] =
    [sleds::ONLY, sleds::CALLER, sleds::START, sleds::DEPTH, sleds::TIME, sleds::BACKTRACE];

/// The flags that concern functions.
#[derive(Debug)]
pub struct ViewFilter {
    rules: Rules,
    hide: Vec<Pattern>,
    files: Vec<Pattern>,
    no_libcall: bool,
    starts_off: bool,
    max_depth: usize,
    min_ns: u64,
}

impl ViewFilter {
    /// From the flags.
    ///
    /// # Errors
    /// If a list can't be read, a trigger is none, or functions are named by their source file, which a recording does
    /// not have.
    pub fn new(args: &ViewSpec) -> crate::Result<Self> {
        let hide = Pattern::of_words(&args.hide)?;
        rules::check_files(hide.iter())?;
        let rules = Rules::of_view(args)?;
        ensure!(
            !args.disable || rules.has(sleds::START),
            "--disable shows nothing before a trigger: add -T FUNC@trace_on"
        );
        Ok(Self {
            rules,
            hide,
            files: Pattern::of_words(&args.dso)?,
            no_libcall: args.no_libcall,
            starts_off: args.disable,
            max_depth: args.depth.unwrap_or(usize::MAX),
            min_ns: args.min_ns.unwrap_or(0),
        })
    }

    /// Whether anything is done about some functions.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.no_libcall || self.rules.any() || !self.hide.is_empty() || !self.files.is_empty()
    }

    /// Conditions besides actions at functions, at any time.
    #[must_use]
    pub fn asked(&self) -> Asked {
        Asked {
            any_only: self.rules.has(sleds::ONLY),
            callers_only: self.rules.has(sleds::CALLER),
            starts_off: self.starts_off,
            max_depth: self.max_depth,
            min_ns: self.min_ns,
            ..Asked::default()
        }
    }

    /// Actions at calls of a function.
    #[must_use]
    pub fn of(&self, function: &Function) -> CallFilters {
        let trigger = self.rules.of(&function.name, None);
        CallFilters {
            rules: trigger.rules,
            depth: trigger.depth,
            min_ns: trigger.min_ns,
            hide: pattern::any(&self.hide, &function.name)
                || self.no_libcall && function.imported
                || !self.files.is_empty() && !pattern::any(&self.files, &function.dso),
        }
    }

    /// All functions are known, and this is to be done about them: some must have been selected.
    ///
    /// # Errors
    /// If none was.
    pub fn check(&self, all: &[CallFilters]) -> crate::Result<()> {
        if !self.files.is_empty() && all.iter().all(|filters| filters.hide) {
            let files: Vec<&str> = self.files.iter().map(Pattern::text).collect();
            bail!("no function called here is in a file {}", files.join(" or "));
        }
        for rule in NAMES {
            if self.rules.has(rule) && !all.iter().any(|filters| filters.rules & rule != 0) {
                bail!("no function called here is named {}", self.rules.named(rule).join(" or "));
            }
        }
        Ok(())
    }
}
