//! Ids of a profile's tasks and rarely used dimensions.

use crate::table::dense_id;

dense_id! {
    /// Further dimensions of a sample, interned: see [`super::ExtraDimensions`]. Id 0 has none of them.
    ExtraId
}
dense_id! {
    /// A thread under one name, in a [`super::Profile`].
    TaskId
}

impl ExtraId {
    /// No further dimensions.
    pub const NONE: Self = Self(0);
}
