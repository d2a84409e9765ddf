//! Flags of `tally report` about causes of waiting: one thread's blame, the critical path.

use crate::text::view_form::ViewForm;

/// Causes of waiting.
#[derive(clap::Args)]
pub struct CauseArgs {
    /// One thread's time by its causes, waits for others resolved
    ///
    /// (the main thread's, or of --thread; record with --off-cpu)
    #[arg(long, conflicts_with_all = ["wall", "html", "tui"])]
    pub blame: bool,
    /// Show the causes of the run's waits at each moment, backwards from the main thread's end
    ///
    /// (or the end of --thread), and how much shorter it could be at most without each function
    #[arg(long, conflicts_with_all = ["wall", "blame", "html", "tui"])]
    pub critical_path: bool,
    /// With --critical-path: from when this function is first seen
    #[arg(long, value_name = "FUNC", requires = "critical_path")]
    pub from: Option<String>,
    /// With --critical-path: to when this function is last seen
    #[arg(long, value_name = "FUNC", requires = "critical_path")]
    pub to: Option<String>,
    /// Calls of the function that was recorded as --span: how long, and where their time went
    #[arg(long, value_name = "FUNC", num_args = 0..=1, default_missing_value = "",
        conflicts_with_all = ["wall", "blame", "critical_path", "html", "tui"])]
    pub span: Option<String>,
    /// As JSON (rows without call graphs; --wall, --blame, --critical-path, --span)
    #[arg(long, conflicts_with_all = ["html", "tui"])]
    pub json: bool,
    /// Print at most N rows of a list, and the sum of the others, with --json [default: all]
    #[arg(long, value_name = "N", requires = "json", default_value_t = 0, hide_default_value = true)]
    pub max_lines: usize,
}

impl CauseArgs {
    /// The form in which these views are printed.
    pub fn form(&self) -> ViewForm {
        ViewForm::with_json(self.json)
    }
}
