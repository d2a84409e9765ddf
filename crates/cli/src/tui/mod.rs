//! `report` in the terminal: a table of functions with call graphs, callers and callees of one function, and a flame
//! graph. Keys in, screen out; what is shown is computed in `profile`.
//!
//! ```text
//!   keys ─→ App ─┬→ views (table, sandwich, flame, annotate, help) ─┬─→ a ratatui buffer
//!                └→ Explorer: tabs of a wall-clock recording ───────┘
//! ```

mod annotate;
mod app;
mod arrows;
mod data;
mod explorer;
mod flame;
mod help;
mod news;
mod prompt;
mod read;
mod sandwich;
mod signals;
mod style;
mod table;
mod terminal;
mod tree;

pub use app::App;
pub use data::Data;
pub use explorer::{Explorer, ExplorerText};
pub use news::{News, ReadState};
pub use read::read;
pub use signals::Signals;
pub use style::Theme;
pub use terminal::{is_usable, run};

#[cfg(test)]
mod tests;
