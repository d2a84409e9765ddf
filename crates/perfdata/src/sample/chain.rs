//! The call chain of a sample as the kernel wrote it: addresses with context markers between them.

use crate::abi::*;
use crate::addr::Avma;
use crate::wire::U64s;

/// Chain of a sample, **leaf first**; markers give the context of the addresses that follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Callchain<'a>(pub U64s<'a>);

/// Context of the addresses after a marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Context {
    /// Hypervisor.
    Hypervisor,
    /// Kernel.
    Kernel,
    /// User space.
    User,
    /// User part will come in a `CALLCHAIN_DEFERRED` record; the next entry is its cookie.
    UserDeferred,
    /// Guest, mode unknown.
    Guest,
    /// Guest kernel.
    GuestKernel,
    /// Guest user space.
    GuestUser,
    /// A marker not known here (its value).
    Other(u64),
}

/// One entry of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChainEntry {
    /// The following addresses are of this context.
    Context(Context),
    /// The first is an instruction pointer, further ones are return addresses.
    Address(Avma),
}

impl<'a> Callchain<'a> {
    /// Number of entries, markers included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Entries in order, leaf first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = ChainEntry> + ExactSizeIterator + use<'a> {
        self.0.iter().map(ChainEntry::from_raw)
    }
}

impl ChainEntry {
    /// Distinguishes a marker from an address.
    #[inline]
    #[must_use]
    pub fn from_raw(value: u64) -> ChainEntry {
        if value < PERF_CONTEXT_MAX {
            return ChainEntry::Address(Avma(value));
        }
        ChainEntry::Context(match value {
            PERF_CONTEXT_HV => Context::Hypervisor,
            PERF_CONTEXT_KERNEL => Context::Kernel,
            PERF_CONTEXT_USER => Context::User,
            PERF_CONTEXT_USER_DEFERRED => Context::UserDeferred,
            PERF_CONTEXT_GUEST => Context::Guest,
            PERF_CONTEXT_GUEST_KERNEL => Context::GuestKernel,
            PERF_CONTEXT_GUEST_USER => Context::GuestUser,
            other => Context::Other(other),
        })
    }
}
