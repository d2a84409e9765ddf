//! Which functions are recorded, and what is done at some of them: the flags of `tally calls record`, put together.

use crate::error::Context;
use crate::error::bail;
use crate::error::ensure;
use std::path::Path;
use tracer::layout::sleds;

use super::pattern::Pattern;
use super::trace_spec::TraceSpec;
use super::trace_switch::TraceSwitch;
use super::trigger::{Arguments, ResultSelection, Trigger};
use super::view_spec::ViewSpec;

/// Objects whose imported functions are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Imports {
    /// No object.
    None,
    /// The program.
    #[default]
    Program,
    /// Instrumented libraries, too.
    All,
}

/// The flags.
#[derive(Debug, Default)]
pub struct Rules {
    /// Only these are recorded; none: all.
    pub wanted: Vec<Pattern>,
    /// Actions at functions; all that match a function apply together.
    at: Vec<(Pattern, Trigger)>,
    /// Arguments and results of every function are recorded.
    every_value: bool,
    /// Objects whose imported functions are recorded.
    pub imports: Imports,
    /// Even if the object is not instrumented.
    pub imports_anyway: bool,
    /// Signals that begin or stop recording.
    pub signals: Vec<TraceSwitch>,
}

impl Rules {
    /// From the flags; `patch` being those of `-P`.
    ///
    /// # Errors
    /// If a trigger, an argument or a format is none.
    pub fn new(patch: &[String], args: &TraceSpec) -> crate::Result<Self> {
        let mut at = filters(&args.only, &args.not, &args.callers)?;
        for text in &args.trigger {
            at.push(trigger(text)?);
        }
        for text in &args.arguments {
            let all = Trigger { arguments: Arguments::All, ..Trigger::default() };
            at.push(values(text, all).with_context(|| format!("-A {text}"))?);
        }
        for text in &args.results {
            let result = Trigger { result: ResultSelection::AsDeclared, ..Trigger::default() };
            at.push(values(text, result).with_context(|| format!("-R {text}"))?);
        }
        let imports = match (args.no_libcall, args.nest_libcall) {
            (true, _) => Imports::None,
            (_, true) => Imports::All,
            _ => Imports::Program,
        };
        let signals =
            args.signal.iter().map(|text| TraceSwitch::parse(text)).collect::<crate::Result<_>>()?;
        let wanted = Pattern::of_words(patch)?;
        Ok(Self { wanted, at, every_value: args.auto_args, imports, imports_anyway: args.libcall, signals })
    }

    /// Takes the times of `slow=` out: functions, which are recorded all the same, and ns.
    pub fn take_slow(&mut self) -> Vec<(Pattern, u64)> {
        let mut slow = Vec::new();
        for (pattern, trigger) in self.at.iter_mut().filter(|(_, trigger)| trigger.rules & sleds::SLOW != 0) {
            trigger.rules &= !sleds::SLOW;
            slow.push((pattern.clone(), trigger.min_ns.into()));
        }
        self.at.retain(|(_, trigger)| trigger.rules != 0 || trigger.has_values());
        if !self.wanted.is_empty() {
            self.wanted.extend(slow.iter().map(|(pattern, _)| pattern.clone()));
        }
        slow
    }

    /// From the flags of a view. What can only be recorded is refused.
    ///
    /// # Errors
    /// If a trigger is none that holds afterwards, or functions are named by their source file, which a recording does
    /// not have.
    pub fn of_view(args: &ViewSpec) -> crate::Result<Self> {
        let mut at = filters(&args.only, &args.not, &args.callers)?;
        for text in &args.trigger {
            let (pattern, trigger) = trigger(text)?;
            ensure!(
                !trigger.has_values() && trigger.rules & sleds::SLOW == 0,
                "-T {text}: arguments, results and slow= are for recording (`tally calls record -T {text}`); afterwards \
                 trace_on, trace_off, depth=N, time=10us, filter, notrace, caller and backtrace hold"
            );
            at.push((pattern, trigger));
        }
        check_files(at.iter().map(|(pattern, _)| pattern))?;
        Ok(Self { at, ..Self::default() })
    }

    /// The functions that one of these rules names, as the flags have it.
    #[must_use]
    pub fn named(&self, rules: u32) -> Vec<&str> {
        let with = self.at.iter().filter(|(_, trigger)| trigger.rules & rules != 0);
        with.map(|(pattern, _)| pattern.text()).collect()
    }

    /// Actions at a function of this name and source file, which is needed only where [`Rules::any_file`].
    #[must_use]
    pub fn of(&self, name: &str, file: Option<&Path>) -> Trigger {
        let mut trigger = Trigger::default();
        if self.every_value {
            trigger.arguments = Arguments::All;
            trigger.result = ResultSelection::AsDeclared;
        }
        self.at
            .iter()
            .filter(|(pattern, _)| pattern.is_of(name, file))
            .for_each(|(_, more)| trigger.join(more));
        trigger
    }

    /// Whether a function is recorded at all.
    #[must_use]
    pub fn wants(&self, name: &str, file: Option<&Path>) -> bool {
        self.wanted.is_empty() || self.wanted.iter().any(|pattern| pattern.is_of(name, file))
    }

    /// Actions at such a function, and whether it is recorded: one named by a rule is, and without `-P` one whose
    /// values are wanted.
    #[must_use]
    pub fn chosen(&self, name: &str, file: Option<&Path>) -> (Trigger, bool) {
        let trigger = self.of(name, file);
        let is_named = trigger.rules != 0 || self.wanted.is_empty() && trigger.has_values();
        let is_wanted = is_named || self.wants(name, file);
        (trigger, is_wanted)
    }

    /// Whether functions are named by their source file.
    #[must_use]
    pub fn any_file(&self) -> bool {
        let mut all = self.wanted.iter().chain(self.at.iter().map(|(pattern, _)| pattern));
        all.any(|pattern| pattern.file().is_some())
    }

    /// Whether any function is named at which something is done.
    #[must_use]
    pub fn any(&self) -> bool {
        !self.at.is_empty()
    }

    /// Whether anything is done anywhere that needs arguments or results.
    #[must_use]
    pub fn any_values(&self) -> bool {
        self.every_value || self.at.iter().any(|(_, trigger)| trigger.has_values())
    }

    /// Whether one of them is done anywhere.
    #[must_use]
    pub fn has(&self, rule: u32) -> bool {
        self.at.iter().any(|(_, trigger)| trigger.rules & rule != 0)
    }
}

/// Content of `-F`, `-N` and `-C`.
fn filters(only: &[String], not: &[String], callers: &[String]) -> crate::Result<Vec<(Pattern, Trigger)>> {
    let mut at = Vec::new();
    for (texts, rule) in [(not, sleds::NOT), (only, sleds::ONLY), (callers, sleds::CALLER)] {
        at.extend(Pattern::of_words(texts)?.into_iter().map(|pattern| (pattern, Trigger::of(rule))));
    }
    Ok(at)
}

/// `FUNC@WHAT` of `-T`.
fn trigger(text: &str) -> crate::Result<(Pattern, Trigger)> {
    let (function, what) = text.rsplit_once('@').with_context(|| {
        format!("-T {text}: it is FUNC@WHAT, such as main@trace_on or parse@depth=2,backtrace")
    })?;
    let trigger = Trigger::parse(what).with_context(|| format!("-T {text}"))?;
    Ok((Pattern::new(function), trigger))
}

/// A recording does not have the names of source files.
pub(super) fn check_files<'a>(mut patterns: impl Iterator<Item = &'a Pattern>) -> crate::Result<()> {
    let Some(file) = patterns.find_map(Pattern::file) else { return Ok(()) };
    bail!(
        "file:{file}: the functions of a source file can be chosen while recording (`tally calls record -F file:{file}`), \
         not afterwards"
    )
}

/// `FUNC` with what holds without more, or `FUNC@WHAT`.
fn values(text: &str, otherwise: Trigger) -> crate::Result<(Pattern, Trigger)> {
    Ok(match text.rsplit_once('@') {
        Some((function, what)) => (Pattern::new(function), Trigger::parse(what)?),
        None => (Pattern::new(text), otherwise),
    })
}
