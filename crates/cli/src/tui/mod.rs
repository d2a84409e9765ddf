//! `report` in the terminal: a table of functions with call graphs, callers and callees of one function, and a flame
//! graph. Keys in, screen out; what is shown is computed in `profile`.
//!
//! ```text
//!   keys ─→ App ─→ views (table, sandwich, flame, annotate, help) ─→ a ratatui buffer
//! ```

mod annotate;
mod app;
mod data;
mod flame;
mod help;
mod prompt;
mod sandwich;
mod style;
mod table;
mod terminal;
mod tree;

pub use app::App;
pub use data::Data;
pub use style::Theme;

use std::process::ExitCode;

/// Shows `app` until the user leaves.
///
/// # Errors
/// If the terminal can't be used.
pub fn run(app: App<'_>) -> anyhow::Result<ExitCode> {
    terminal::run(app)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests;
