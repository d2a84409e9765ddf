//! Whether a view is printed for people or for programs.

/// The form of a printed view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewForm {
    /// Lines for people.
    Text,
    /// JSON, one object a line.
    Json,
}

impl ViewForm {
    /// JSON where `--json` is given.
    #[must_use]
    pub fn with_json(json: bool) -> Self {
        if json { Self::Json } else { Self::Text }
    }
}
