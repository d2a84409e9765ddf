//! Links of probes to functions: made, exchanged, halved where the kernel refuses some.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use crate::calls::Error;
use crate::calls::layout;
use crate::calls::links::Links;
use crate::calls::perf::{self, UprobeSite};
use crate::calls::plan::{Exits, ProbedObject, leave_cookie};
use crate::sys::CounterPlace;
use crate::sys::bpf::{self, ProbeSide, Probes};

use super::CallEngine;

/// Probed instructions of a file.
#[derive(Default)]
struct ProbeSites {
    /// File offsets.
    offsets: Vec<u64>,
    /// The cookie of each.
    cookies: Vec<u64>,
}

impl FromIterator<(u64, u64)> for ProbeSites {
    fn from_iter<T: IntoIterator<Item = (u64, u64)>>(sites: T) -> Self {
        let (offsets, cookies) = sites.into_iter().unzip();
        Self { offsets, cookies }
    }
}

impl CallEngine {
    /// Links these functions; where the kernel refuses, halves them until the culprits are alone.
    fn link_all(&mut self, object: usize, numbers: &[u32], links: &mut Links) -> Result<(), Error> {
        let refusal = match self.link(object, numbers) {
            Ok(new) => {
                links.extend(new);
                return Ok(());
            }
            Err(error) => error,
        };
        let about_code = matches!(&refusal, Error::Attach { error, .. } if is_about_code(error));
        if !about_code {
            return Err(refusal);
        }
        if let [number] = numbers {
            self.attached[*number as usize] = false;
            self.refused.push(*number);
            return Ok(());
        }
        let (first, second) = numbers.split_at(numbers.len() / 2);
        self.link_all(object, first, links)?;
        self.link_all(object, second, links)
    }

    /// The attach cookie that a probe of the function passes to its program.
    fn cookie(&self, number: u32) -> u64 {
        let function = &self.functions[number as usize];
        let tail = if function.jumps_out { layout::COOKIE_TAIL } else { 0 };
        let loops = if function.loops { layout::COOKIE_LOOPS } else { 0 };
        let goroutine = if function.by_goroutine { layout::COOKIE_GOROUTINE } else { 0 };
        let rules = self.options.counted.cookie_of(number);
        u64::from(number) << layout::COOKIE_SHIFT | self.generation << 1 | tail | loops | goroutine | rules
    }

    /// Exits first: of an entry that is seen, the exit is.
    fn link(&self, object: usize, numbers: &[u32]) -> Result<Links, Error> {
        let function = |number: &u32| &self.functions[*number as usize];
        let cookie = |number: &u32| self.cookie(*number);
        let enters: ProbeSites =
            numbers.iter().map(|number| (function(number).offset, cookie(number))).collect();
        if let Some(session) = self.session() {
            let enters = self.link_sessions(object, session, &enters)?;
            return Ok(Links { enters, exits: Vec::new() });
        }
        let exits = match (&self.programs.exit, self.options.exits) {
            (Some(exit), Exits::Return) => self.link_one(object, exit, &enters, ProbeSide::Return)?,
            (Some(exit), _) => {
                let sites = |number| {
                    let leaves = function(number).leaves.iter();
                    leaves.map(move |leave| (leave.offset, cookie(number) | leave_cookie(*leave)))
                };
                let leaves: ProbeSites = numbers.iter().flat_map(sites).collect();
                self.link_one(object, exit, &leaves, ProbeSide::Entry)?
            }
            (None, _) => Vec::new(),
        };
        let enters = self.link_one(object, &self.programs.enter, &enters, ProbeSide::Entry)?;
        Ok(Links { enters, exits })
    }

    /// The program for entries and returns at once. Not while links are exchanged: of a call that a session saw to begin,
    /// another session does not see the return, but a link of returns does.
    fn session(&self) -> Option<&OwnedFd> {
        self.programs.session.as_ref().filter(|_| self.links.enters.is_empty())
    }

    /// Links all that is to be attached, and takes away what was; `leaving` goes last.
    pub(super) fn replace_links(&mut self, leaving: Vec<OwnedFd>) -> Result<(), Error> {
        let mut links = Links::default();
        for object in 0..self.objects.len() {
            let numbers: Vec<u32> = (0u32..)
                .zip(&self.functions)
                .filter(|(number, function)| function.object == object && self.attached[*number as usize])
                .map(|(number, _)| number)
                .collect();
            self.link_all(object, &numbers, &mut links)?;
        }
        // The old links go last: no call is missed meanwhile, and doubles bear another generation.
        let mut old = std::mem::replace(&mut self.links, links);
        // Allows only what the links now in place support.
        self.set_control()?;
        self.generation ^= 1;
        old.exits.extend(leaving);
        old.take_away_later();
        Ok(())
    }

    /// Links the returns of these functions, for calls that are still open when their sessions are detached.
    pub(super) fn link_leaving(&self, functions: &[u32]) -> Result<Vec<OwnedFd>, Error> {
        let Some(exit) = self.programs.exit.as_ref().filter(|_| self.programs.session.is_some()) else {
            return Ok(Vec::new());
        };
        let mut links = Vec::new();
        for object in 0..self.objects.len() {
            let here = functions.iter().filter(|number| self.functions[**number as usize].object == object);
            let places = here.map(|number| {
                // Calls that begin without the session aren't losses.
                (self.functions[*number as usize].offset, self.cookie(*number) | layout::COOKIE_MAYBE)
            });
            links.extend(self.link_one(object, exit, &places.collect(), ProbeSide::Return)?);
        }
        Ok(links)
    }

    fn link_sessions(
        &self,
        object: usize,
        program: &OwnedFd,
        sites: &ProbeSites,
    ) -> Result<Vec<OwnedFd>, Error> {
        if sites.offsets.is_empty() {
            return Ok(Vec::new());
        }
        let ProbeSites { offsets, cookies } = sites;
        let ProbedObject { path, pid } = &self.objects[object];
        let probes = Probes { path, offsets, cookies, side: ProbeSide::Entry, pid: *pid };
        let link = bpf::link_uprobe_sessions(program.as_fd(), &probes);
        link.map(|link| vec![link]).map_err(|error| refused(path, offsets.len(), error))
    }

    fn link_one(
        &self,
        object: usize,
        program: &OwnedFd,
        sites: &ProbeSites,
        side: ProbeSide,
    ) -> Result<Vec<OwnedFd>, Error> {
        if sites.offsets.is_empty() {
            return Ok(Vec::new());
        }
        let ProbeSites { offsets, cookies } = sites;
        let ProbedObject { path, pid } = &self.objects[object];
        if !self.programs.multi {
            let one = |(offset, cookie): (&u64, &u64)| {
                let place = if *pid == 0 { CounterPlace::cpu(0) } else { CounterPlace::task(*pid as i32) };
                let site = UprobeSite { path, offset: *offset, side };
                let event = perf::open_uprobe(perf::uprobe_type()?, site, place);
                let linked = event.and_then(|event| bpf::link_event(program.as_fd(), &event, *cookie));
                linked.map_err(|error| refused(path, 1, error))
            };
            return offsets.iter().zip(cookies).map(one).collect();
        }
        let probes = Probes { path, offsets, cookies, side, pid: *pid };
        let link = bpf::link_uprobes(program.as_fd(), &probes);
        link.map(|link| vec![link]).map_err(|error| refused(path, offsets.len(), error))
    }
}

fn refused(path: &Path, probes: usize, error: std::io::Error) -> Error {
    Error::Attach { path: path.display().to_string(), probes, error }
}

/// Whether a probe was refused because of the code at its address, and not because of missing rights.
pub(in crate::calls) fn is_about_code(error: &std::io::Error) -> bool {
    /// The kernel's internal "not supported", which uprobes let through to user space.
    const ENOTSUPP: i32 = 524;
    matches!(
        error.raw_os_error(),
        Some(ENOTSUPP | libc::EOPNOTSUPP | libc::EINVAL | libc::EIO | libc::ENOEXEC)
    )
}
