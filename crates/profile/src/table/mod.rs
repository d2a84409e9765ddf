//! Interners: dense `u32` ids for strings, DSOs, frames, callsites and symbols.
//!
//! An id is only meaningful in the table that gave it. Ids are given in order of first sight, so
//! equal input gives equal ids.

mod callsite;
mod dso;
mod frame;
mod hashed;
mod string;
mod symbol;

pub use callsite::{Callsite, CallsiteId, CallsiteTable};
pub use dso::{Dso, DsoId, DsoKind, DsoTable};
pub use frame::{Frame, FrameId, FrameTable};
pub(crate) use hashed::HashedIds;
pub use string::{StringId, StringTable};
pub use symbol::{InlineFrame, SymbolId, SymbolRange, SymbolTable};

/// Defines a dense id: a `u32` index into one table.
macro_rules! dense_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);

        impl $name {
            /// The position in the table's vector.
            #[must_use]
            pub fn index(self) -> usize {
                self.0 as usize
            }

            /// The id of the table's `index`-th entry.
            ///
            /// # Panics
            /// When the table holds more than 2^32 entries.
            #[must_use]
            pub fn from_index(index: usize) -> Self {
                Self(u32::try_from(index).expect("invariant: fewer than 2^32 entries in a table"))
            }
        }
    };
}
pub(crate) use dense_id;
