//! Which functions the flags of a view choose.

use profile::calls::Filters;

use super::names::Function;
use super::pattern::{self, Pattern};
use super::view_args::ViewArgs;

/// The patterns of the flags.
#[derive(Clone, Debug)]
pub struct Chosen {
    only: Vec<Pattern>,
    not: Vec<Pattern>,
    hide: Vec<Pattern>,
    files: Vec<Pattern>,
    no_libcall: bool,
}

impl Chosen {
    /// From the flags.
    ///
    /// # Errors
    /// If a list can't be read, or functions are named by their source file, which a recording does not have.
    pub fn new(args: &ViewArgs) -> anyhow::Result<Self> {
        let patterns = |texts: &[String]| {
            let patterns = Pattern::of_words(texts)?;
            if let Some(file) = patterns.iter().find_map(Pattern::file) {
                anyhow::bail!(
                    "file:{file}: the functions of a source file can be chosen while recording (`tally calls record -F \
                     file:{file}`), not afterwards"
                );
            }
            Ok(patterns)
        };
        Ok(Self {
            only: patterns(&args.only)?,
            not: patterns(&args.not)?,
            hide: patterns(&args.hide)?,
            files: Pattern::of_words(&args.dso)?,
            no_libcall: args.no_libcall,
        })
    }

    /// Whether anything is filtered at all.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.no_libcall
            || [&self.only, &self.not, &self.hide, &self.files].iter().any(|patterns| !patterns.is_empty())
    }

    /// Some function is an "only".
    #[must_use]
    pub fn any_only(&self) -> bool {
        !self.only.is_empty()
    }

    /// What is to be done about calls of a function.
    #[must_use]
    pub fn of(&self, function: &Function) -> Filters {
        Filters {
            only: pattern::any(&self.only, &function.name),
            not: pattern::any(&self.not, &function.name),
            hide: pattern::any(&self.hide, &function.name)
                || self.no_libcall && function.imported
                || !self.files.is_empty() && !pattern::any(&self.files, &function.dso),
        }
    }

    /// All functions are known, and this is to be done about them: some must have been meant.
    ///
    /// # Errors
    /// If none was.
    pub fn check(&self, all: &[Filters]) -> anyhow::Result<()> {
        let named =
            |patterns: &[Pattern]| patterns.iter().map(Pattern::text).collect::<Vec<_>>().join(" or ");
        if !self.files.is_empty() && all.iter().all(|filters| filters.hide) {
            anyhow::bail!("no function called here is in a file {}", named(&self.files));
        }
        if !self.only.is_empty() && !all.iter().any(|filters| filters.only) {
            anyhow::bail!("no function called here is named {}", named(&self.only));
        }
        Ok(())
    }
}
