//! Profiles browsed in the terminal: a table of functions with call graphs, callers and callees of one function, a flame
//! graph, annotated code, the overview of a wall-clock recording, and traced calls. Keys in, screen out; what is shown is computed in
//! `profile` and `symbols`. Neither flags nor files are known here: the caller passes recordings, or a file to read.
//!
//! ```text
//!   keys ─→ App ─┬→ views (table, sandwich, flame, annotate, help) ─┬─→ a ratatui buffer
//!                └→ Explorer: tabs of a wall-clock recording ───────┘
//! ```
//!
//! ```
//! use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
//!
//! let bytes = std::fs::read("../../tests/golden/timeline/wait.data")?;
//! let file = perfdata::PerfData::open(&bytes)?;
//! let recording = symbols::load(&file, symbols::LoadOpts::default());
//! let data = tui::Data::new(std::sync::Arc::new(recording), Default::default());
//! let mut app = tui::App::new(data, tui::Theme::plain());
//! app.key(KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE));
//! assert!(app.wants_to_quit());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod annotate;
mod app;
mod calls;
mod data;
mod error;
mod explorer;
mod flame;
mod help;
mod prompt;
mod read;
mod sandwich;
mod style;
mod table;
mod terminal;
mod view_update;

pub use app::App;
pub use calls::{CallBrowser, CallRow, CallTable};
pub use data::Data;
pub use error::{Error, NoListing};
pub use explorer::{Explorer, ExplorerFinding, ExplorerText};
pub use read::{FileInput, read};
pub use style::Theme;
pub use style::settings::configure;
pub use terminal::{EndSignal, Screen, is_usable, restore_within, run};
pub use view_update::{ReadState, ViewUpdate};

#[cfg(test)]
mod tests;
