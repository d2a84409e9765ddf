//! Functions at which more is done than recording the call: what, and where they go on.

use crate::layout::sleds;
use crate::layout::values::{HEAD_BYTES, ITEM_BYTES, Item, counts};

/// What a stub of such a function hands over. The first two fields are known to the assembly by their offsets.
#[repr(C)]
pub struct Site {
    /// Where the function goes on: its body behind the sled, or the library's function (which the loader may put
    /// here only at the first call).
    pub target: u64,
    /// The address that stands for it in events.
    pub addr: u64,
    /// Its spec of values; null without one.
    pub spec: *const u8,
    /// Bytes of all specs from there on.
    pub spec_bytes: usize,
    /// `sleds::NOT` and the others.
    pub rules: u32,
    /// Of `sleds::DEPTH`.
    pub depth: u32,
    /// Of `sleds::TIME` and `sleds::SLOW`, ticks.
    pub min_ticks: u64,
}

/// Which values of a function.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// As it is entered.
    Arguments,
    /// As it returns.
    Results,
}

impl Site {
    /// Whether any of `rules` holds here.
    pub const fn has(&self, rules: u32) -> bool {
        self.rules & rules != 0
    }

    /// What to record of `which`.
    pub fn items(&self, which: Values) -> impl Iterator<Item = Item> + use<> {
        let bytes: &'static [u8] = if self.has(sleds::VALUES) && !self.spec.is_null() {
            // SAFETY: the list that holds the specs is never unmapped, and so long.
            unsafe { core::slice::from_raw_parts(self.spec, self.spec_bytes) }
        } else {
            &[]
        };
        let (arguments, results) = counts(bytes);
        let (skip, take) = match which {
            Values::Arguments => (0, arguments),
            Values::Results => (arguments, results),
        };
        let items = bytes.get(HEAD_BYTES..).unwrap_or_default().as_chunks::<ITEM_BYTES>().0;
        items.iter().skip(skip).take(take).map(Item::from_bytes)
    }
}
