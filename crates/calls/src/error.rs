//! Errors about calls: what failed, and the cause below it.

use std::error::Error as StdError;
use std::fmt;

/// A failed operation, with its cause if there is one. `{:#}` prints both.
#[derive(Debug)]
pub struct Error {
    what: String,
    cause: Option<Box<dyn StdError + Send + Sync>>,
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Without a cause.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), cause: None }
    }

    fn caused_by(what: String, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { what, cause: Some(cause.into()) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut last = match &self.cause {
            Some(cause) if self.what.is_empty() => cause.to_string(),
            _ => self.what.clone(),
        };
        f.write_str(&last)?;
        let mut cause = self.source().filter(|_| f.alternate());
        while let Some(error) = cause {
            let text = error.to_string();
            if text != last {
                write!(f, ": {text}")?;
            }
            (last, cause) = (text, error.source());
        }
        Ok(())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.cause.as_deref().map(|cause| cause as &(dyn StdError + 'static))
    }
}

/// Causes whose own text names the failed operation.
macro_rules! from {
    ($($cause:ty),*) => {
        $(impl From<$cause> for Error {
            fn from(cause: $cause) -> Self {
                Self::caused_by(String::new(), cause)
            }
        })*
    };
}

from!(std::io::Error, dso::Refused, perfdata::Error, crate::model::TracedError);

/// Names the failed operation above the cause.
pub(crate) trait Context<T> {
    fn context(self, what: impl Into<String>) -> Result<T>;
    fn with_context(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<Box<dyn StdError + Send + Sync>>> Context<T> for std::result::Result<T, E> {
    fn context(self, what: impl Into<String>) -> Result<T> {
        self.map_err(|cause| Error::caused_by(what.into(), cause))
    }

    fn with_context(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|cause| Error::caused_by(what(), cause))
    }
}

impl<T> Context<T> for Option<T> {
    fn context(self, what: impl Into<String>) -> Result<T> {
        self.ok_or_else(|| Error::new(what))
    }

    fn with_context(self, what: impl FnOnce() -> String) -> Result<T> {
        self.ok_or_else(|| Error::new(what()))
    }
}

/// Returns an error with this text.
macro_rules! bail {
    ($($text:tt)*) => { return Err($crate::Error::new(format!($($text)*))) };
}

/// Returns an error with this text unless the condition holds.
macro_rules! ensure {
    ($holds:expr, $($text:tt)*) => { if !$holds { return Err($crate::Error::new(format!($($text)*))); } };
}

pub(crate) use {bail, ensure};
