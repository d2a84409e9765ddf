//! Why a view, or the code of a function, could not be shown.

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
    /// The system refuses a thread beside the view.
    #[error("can't start a thread that reads the recording")]
    NoThread(#[source] io::Error),
    /// The source of the view's data failed.
    #[error("{0}")]
    Source(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Why there is no code of a function to show.
#[derive(Debug, thiserror::Error)]
pub enum NoListing {
    /// The row has no function.
    #[error("this row has no function with a name")]
    NoFunction,
    /// Its name is that of something else.
    #[error("it is not a function, but a state, a thread, or work of the kernel")]
    NotAFunction,
    /// It was only on stacks.
    #[error("no sample ends in this function; look at what it calls")]
    NoSample,
    /// It was on no stack.
    #[error("it is in no stack")]
    NoStack,
    /// It has no instruction.
    #[error("nothing to list")]
    Empty,
    /// Its file has no code to read.
    #[error("{file}: {why}")]
    NoCode {
        /// The object file.
        file: String,
        /// Missing thing.
        why: String,
    },
}
