//! The sample of a row: hundreds of bytes, which most rows only look at.

use perfdata::Sample;
use std::ops::Deref;

/// A sample as recorded, or one of the row's own.
pub enum RowSample<'a> {
    /// As it was read.
    Recorded(&'a Sample<'a>),
    /// Changed, or made for a record that is none.
    Own(Box<Sample<'a>>),
}

impl<'a> RowSample<'a> {
    /// A sample of the row's own, to be changed.
    pub fn to_mut(&mut self) -> &mut Sample<'a> {
        let own = match *self {
            Self::Own(ref mut own) => return own,
            Self::Recorded(recorded) => Box::new(*recorded),
        };
        *self = Self::Own(own);
        self.to_mut()
    }
}

impl<'a> Deref for RowSample<'a> {
    type Target = Sample<'a>;

    fn deref(&self) -> &Sample<'a> {
        match self {
            Self::Recorded(sample) => sample,
            Self::Own(sample) => sample,
        }
    }
}
