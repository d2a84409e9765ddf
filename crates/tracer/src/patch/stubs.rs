//! The stubs of one object, which patched sleds and hooked table slots jump to.
//!
//! A stub passes its function to the tracer: a plain sled's stub the function's body, any other its [`Site`].
//! Stubs and sites are near the object's code, sites first.

use crate::entry::addresses::{STUB_TARGETS, stub_targets};
use crate::instrumented_fn::Site;
use crate::layout::sleds::{CALL, DEPTH, IMPORT, REPORTED, SLOW, Sled, TIME};
use crate::patch::code::{self, REACH_BYTES, STUB_BYTES};
use crate::patch::object::LoadedObject;
use crate::process::options;
use crate::sys;

/// Bytes before the first stub: the tracer's addresses.
const HEAD_BYTES: usize = 48;
const PAGE_BYTES: usize = 4096;

/// Where a stub leads.
pub struct StubTarget {
    /// The address passed to the tracer: the function's body or its site.
    pub what: u64,
    /// The function's body, where it can be branched to; `None` for one of another object.
    #[cfg_attr(
        not(any(target_arch = "aarch64", test)),
        expect(dead_code, reason = "x86-64 calls the body from the tracer")
    )]
    pub body: Option<u64>,
    /// The tracer's function; on x86-64 a word near the stub that holds its address.
    pub tracer: u64,
}

/// An object's stubs and sites.
pub struct Stubs {
    sites: *mut Site,
    sites_used: usize,
    sites_end: usize,
    memory: *mut u8,
    bytes: usize,
    used: usize,
    specs: &'static [u8],
}

impl Stubs {
    /// Room for `count` stubs, `sites` of them with a site, near `near`; `specs` are the object's specs of values.
    pub fn new(near: u64, count: usize, sites: usize, specs: &'static [u8]) -> Option<Self> {
        const STEP_BYTES: u64 = 1 << 20;
        let targets = stub_targets();
        let bytes = (HEAD_BYTES + STUB_BYTES * count).next_multiple_of(PAGE_BYTES);
        let site_bytes = (size_of::<Site>() * sites).next_multiple_of(PAGE_BYTES);
        let first = (near as usize + PAGE_BYTES) & !(PAGE_BYTES - 1);
        for step in 0..REACH_BYTES / STEP_BYTES {
            let hint = first + (step * STEP_BYTES) as usize;
            let all = sys::map_memory(hint, site_bytes + bytes)?;
            if (all as usize).abs_diff(first) < REACH_BYTES as usize {
                // SAFETY: fresh memory of ours, so long.
                let memory = unsafe { all.add(site_bytes) };
                // SAFETY: at least a page.
                unsafe { memory.cast::<[u64; STUB_TARGETS]>().write(targets) };
                let sites = all.cast();
                let sites_end = site_bytes / size_of::<Site>();
                return Some(Self {
                    sites,
                    sites_used: 0,
                    sites_end,
                    memory,
                    bytes,
                    used: HEAD_BYTES,
                    specs,
                });
            }
            sys::unmap(all, site_bytes + bytes);
        }
        None
    }

    /// A stub that hands `body` to the tracer; its address.
    pub fn add(&mut self, body: u64) -> Option<usize> {
        self.add_stub(body, Some(body), 0)
    }

    /// Makes a stub according to `sled`, which continues at `target`; `addr` represents it in events. Returns
    /// its address, and the address where the target is stored.
    pub fn add_site(&mut self, target: u64, addr: u64, sled: &Sled) -> Option<(usize, *mut u64)> {
        if self.sites_used >= self.sites_end {
            return None;
        }
        // SAFETY: within the mapping, as just checked.
        let at = unsafe { self.sites.add(self.sites_used) };
        let specs = self.specs.get(sled.spec as usize..).unwrap_or_default();
        let depth = if sled.rules & DEPTH == 0 { u32::MAX } else { sled.depth };
        let min_ticks =
            if sled.rules & (TIME | SLOW) == 0 { 0 } else { options::ticks_of(u64::from(sled.min_ns)) };
        let rules = sled.rules;
        let (spec, spec_bytes) = (specs.as_ptr(), specs.len());
        // SAFETY: as above.
        unsafe { at.write(Site { target, addr, spec, spec_bytes, rules, depth, min_ticks }) };
        let which = match rules & !(IMPORT | CALL) {
            _ if rules & REPORTED != 0 => 4,
            0 if rules & IMPORT != 0 => 1,
            _ if rules & CALL != 0 => 3,
            _ => 2,
        };
        let body = (rules & IMPORT == 0).then_some(target);
        let stub = self.add_stub(at as u64, body, which)?;
        self.sites_used += 1;
        Some((stub, at.cast()))
    }

    fn add_stub(&mut self, what: u64, body: Option<u64>, which: usize) -> Option<usize> {
        if self.used + STUB_BYTES > self.bytes {
            return None;
        }
        // SAFETY: within the mapping, as just checked.
        let at = unsafe { self.memory.add(self.used) };
        let tracer = match stub_targets().get(which) {
            Some(target) if cfg!(target_arch = "aarch64") => *target,
            _ => self.memory as u64 + (which * size_of::<u64>()) as u64,
        };
        let stub = code::stub(at as u64, &StubTarget { what, body, tracer })?;
        // SAFETY: as above.
        unsafe { core::ptr::copy_nonoverlapping(stub.as_ptr(), at, STUB_BYTES) };
        self.used += STUB_BYTES;
        Some(at as usize)
    }

    /// Whether a table slot's `content` leads to a stub already.
    pub fn is_one(object: &LoadedObject, content: u64) -> bool {
        let mut code = [0; STUB_BYTES];
        !object.has_code_at(content)
            && sys::read_memory(content, &mut code) == STUB_BYTES
            && code::is_stub(&code)
    }

    /// All are written: from now on they are code.
    pub fn finish(self) {
        if self.sites_used == 0 && self.used == HEAD_BYTES {
            let site_bytes = self.memory as usize - self.sites as usize;
            return sys::unmap(self.sites.cast(), site_bytes + self.bytes);
        }
        code::written(self.memory as usize, self.memory as usize + self.bytes);
        sys::protect(self.memory as usize, self.bytes, sys::PROT.0 | sys::PROT.2);
    }
}
