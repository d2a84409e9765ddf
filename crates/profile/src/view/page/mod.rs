//! The amounts of the page: the wall clock moment by moment, and each event's samples, by thread, place, state and time.

mod gather;
mod item;

pub use gather::{files, gather};
pub use item::{ItemSet, PageData, PageItem, PageThread, Waker};
