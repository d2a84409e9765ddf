//! Why a view could not be shown.

use std::io;

/// Failure of a view in the terminal.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The terminal could not be taken over.
    #[error("can't use the terminal (--stdio prints text)")]
    Unusable(#[source] io::Error),
    /// The terminal failed while the view was shown.
    #[error(transparent)]
    Terminal(#[from] io::Error),
    /// The source of the view's data failed.
    #[error("{0}")]
    Source(#[source] Box<dyn std::error::Error + Send + Sync>),
}
