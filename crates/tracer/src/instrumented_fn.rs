//! Functions at which more is done than recording the call: what, and where they go on.

#[cfg(target_arch = "x86_64")]
use crate::layout::moved::Moved;
use crate::layout::sleds;
use crate::layout::values::{HEAD_BYTES, ITEM_BYTES, ValueItem, counts};

/// Data that a stub of such a function hands over. The first two fields are known to the assembly by their offsets.
#[repr(C)]
pub struct Site {
    /// Where the function continues: its body after the sled, or the library's function (which the loader may
    /// put here only at the first call).
    pub target: u64,
    /// The address that represents it in events.
    pub addr: u64,
    /// Spec of values; null without one.
    pub spec: *const u8,
    /// Bytes of all specs from there on.
    pub spec_bytes: usize,
    /// `sleds::NOT` and the others.
    pub rules: u32,
    /// Argument of `sleds::DEPTH`.
    pub depth: u32,
    /// Argument of `sleds::TIME` and `sleds::SLOW`, ticks.
    pub min_ticks: u64,
}

/// Which values of a function.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ValueSpecs {
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

    /// Spec, and what follows.
    fn spec(&self) -> &'static [u8] {
        if self.has(sleds::VALUES) && !self.spec.is_null() {
            // SAFETY: the list that holds the specs is never unmapped, and so long.
            unsafe { core::slice::from_raw_parts(self.spec, self.spec_bytes) }
        } else {
            &[]
        }
    }

    /// Where its arguments are when it reports itself; `None` without values.
    #[cfg(target_arch = "x86_64")]
    pub fn moved(&self) -> Option<Moved> {
        let bytes = self.spec();
        let (arguments, results) = counts(bytes);
        let items = bytes.get(HEAD_BYTES..)?.get((arguments + results) * ITEM_BYTES..)?;
        self.has(sleds::REPORTED).then_some(())?;
        items.first_chunk().map(Moved::from_bytes)
    }

    /// Values to record of `which`.
    pub fn items(&self, which: ValueSpecs) -> impl Iterator<Item = ValueItem> + use<> {
        let bytes = self.spec();
        let (arguments, results) = counts(bytes);
        let (skip, take) = match which {
            ValueSpecs::Arguments => (0, arguments),
            ValueSpecs::Results => (arguments, results),
        };
        let items = bytes.get(HEAD_BYTES..).unwrap_or_default().as_chunks::<ITEM_BYTES>().0;
        items.iter().skip(skip).take(take).map(ValueItem::from_bytes)
    }
}
