//! The amounts of the page: the wall clock moment by moment, and each event's samples, by thread, place, state and time.

mod compared;
mod gather;
mod item;
mod name_sums;
mod requests;

pub use compared::{DiffScale, of_diff};
pub use gather::{STRIP_SHARES, gather};
pub use item::{ItemSet, PageData, PageItem, PageThread, Waker};
pub use name_sums::{NameSum, StateSums, name_sums, state_sums, without_idle};
pub use requests::of_requests;
