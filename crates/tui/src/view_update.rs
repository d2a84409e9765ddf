//! Updates of a running view: how far its file is read, and what it shows from now on.

use std::error::Error;
use std::sync::Arc;
use symbols::Recording;

/// News for a running view from outside.
pub enum ViewUpdate {
    /// So much of the file is read, in percent.
    Progress(f64),
    /// Data to show from now on: more of the same file, or the next moment.
    Recording(Arc<Recording>),
    /// All is read: the last recording is whole.
    Whole,
    /// Its source has failed.
    Failed(Box<dyn Error + Send + Sync>),
}

/// Where the view's data comes from, and how far that is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ReadState {
    /// All is here.
    Whole,
    /// A file is being read: this many percent by now.
    Reading(f64),
    /// Reading was stopped by the user at this many percent.
    Stopped(f64),
    /// One moment after the other is shown; not the next one while held.
    Live {
        /// The shown moment stays.
        held: bool,
    },
}

impl ReadState {
    /// For the headline.
    pub fn text(self) -> String {
        match self {
            Self::Whole => String::new(),
            Self::Reading(percent) => format!("[reading {percent:.0}%] "),
            Self::Stopped(percent) => format!("[only the first {percent:.0}%] "),
            Self::Live { held: true } => "[held] ".to_owned(),
            Self::Live { held: false } => "[live] ".to_owned(),
        }
    }
}
