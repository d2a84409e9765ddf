//! Records about the kernel itself: its symbols, BPF programs, cgroups, patched code, deferred chains.
//
// Layout: KSYMBOL { u64 addr; u32 len; u16 ksym_type, flags; char name[]; }
//         BPF_EVENT { u16 type, flags; u32 id; u8 tag[8]; }      CGROUP { u64 id; char path[]; }
//         TEXT_POKE { u64 addr; u16 old_len, new_len; u8 old[], new[]; }
//         CALLCHAIN_DEFERRED { u64 cookie, nr, ips[nr]; }
// Source: linux v7.2 kernel/events/core.c.

use crate::addr::Avma;
use crate::sample::Callchain;
use crate::wire::{Put, Wire};

/// A kernel symbol came or went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ksymbol<'a> {
    /// Address.
    pub addr: Avma,
    /// Bytes of code.
    pub len: u32,
    /// `PERF_RECORD_KSYMBOL_TYPE_*`.
    pub ksym_type: u16,
    /// `PERF_RECORD_KSYMBOL_FLAGS_*`.
    pub flags: u16,
    /// Name.
    pub name: &'a [u8],
}

impl<'a> Ksymbol<'a> {
    pub(super) fn parse(w: &mut Wire<'a>) -> Option<Self> {
        let (addr, len) = (Avma(w.u64()?), w.u32()?);
        Some(Ksymbol { addr, len, ksym_type: w.u16()?, flags: w.u16()?, name: w.cstr(w.len() as u64)? })
    }

    pub(super) fn write(&self, p: &mut Put) {
        p.u64(self.addr.0);
        p.u32(self.len);
        p.u16(self.ksym_type);
        p.u16(self.flags);
        p.cstr_padded(self.name);
    }
}

/// A BPF program was loaded or unloaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BpfEvent {
    /// `PERF_BPF_EVENT_*`.
    pub event_type: u16,
    /// No bit is defined yet.
    pub flags: u16,
    /// Program id.
    pub id: u32,
    /// Program tag.
    pub tag: [u8; 8],
}

impl BpfEvent {
    pub(super) fn parse(w: &mut Wire<'_>) -> Option<Self> {
        Some(BpfEvent { event_type: w.u16()?, flags: w.u16()?, id: w.u32()?, tag: w.array()? })
    }

    pub(super) fn write(&self, p: &mut Put) {
        p.u16(self.event_type);
        p.u16(self.flags);
        p.u32(self.id);
        p.raw(&self.tag);
    }
}

/// A cgroup's path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cgroup<'a> {
    /// Id, as samples give it.
    pub id: u64,
    /// Path from the cgroup root.
    pub path: &'a [u8],
}

impl<'a> Cgroup<'a> {
    pub(super) fn parse(w: &mut Wire<'a>) -> Option<Self> {
        Some(Cgroup { id: w.u64()?, path: w.cstr(w.len() as u64)? })
    }

    pub(super) fn write(&self, p: &mut Put) {
        p.u64(self.id);
        p.cstr_padded(self.path);
    }
}

/// The kernel patched its own code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextPoke<'a> {
    /// Where.
    pub addr: Avma,
    /// Bytes before.
    pub old: &'a [u8],
    /// Bytes after.
    pub new: &'a [u8],
}

impl<'a> TextPoke<'a> {
    pub(super) fn parse(w: &mut Wire<'a>) -> Option<Self> {
        let (addr, old_len, new_len) = (Avma(w.u64()?), w.u16()?, w.u16()?);
        Some(TextPoke { addr, old: w.take(u64::from(old_len))?, new: w.take(u64::from(new_len))? })
    }

    pub(super) fn write(&self, p: &mut Put) {
        p.u64(self.addr.0);
        p.u16(u16::try_from(self.old.len()).unwrap_or(u16::MAX));
        p.u16(u16::try_from(self.new.len()).unwrap_or(u16::MAX));
        p.raw(self.old);
        p.raw(self.new);
        p.pad(8);
    }
}

/// The user part of earlier samples' call chains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallchainDeferred<'a> {
    /// The cookie of those samples, after their `USER_DEFERRED` marker.
    pub cookie: u64,
    /// The chain, leaf first.
    pub chain: Callchain<'a>,
}

impl<'a> CallchainDeferred<'a> {
    pub(super) fn parse(w: &mut Wire<'a>) -> Option<Self> {
        let (cookie, nr) = (w.u64()?, w.u64()?);
        Some(CallchainDeferred { cookie, chain: Callchain(w.u64s(nr)?) })
    }

    pub(super) fn write(&self, p: &mut Put) {
        p.u64(self.cookie);
        p.count(self.chain.len());
        p.u64s(&self.chain.0);
    }
}
