//! Probes in place, and how they are taken away.

use std::os::fd::OwnedFd;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// How long the probes of entries get to go before those of exits: of a call that is seen to begin, the end is.
const FIRST: Duration = Duration::from_millis(50);

/// Links of both kinds; a session is among the entries, and sees their returns itself.
#[derive(Default)]
pub(super) struct Links {
    pub enters: Vec<OwnedFd>,
    pub exits: Vec<OwnedFd>,
}

impl Links {
    /// Whether none is in place.
    pub const fn is_empty(&self) -> bool {
        self.enters.is_empty() && self.exits.is_empty()
    }

    /// Adds those of another.
    pub fn extend(&mut self, other: Self) {
        self.enters.extend(other.enters);
        self.exits.extend(other.exits);
    }

    /// Takes the probes away.
    ///
    /// A close takes the probes away at once and then waits until no return probe is pending in any thread that was, when
    /// it began. A thread's pending ones are let go 100 ms after it got its last one: so while a function is often called
    /// that still has a return probe, that wait does not end. Therefore nothing here waits for the first close.
    //
    // Source: linux v6.18 kernel/events/uprobes.c: uprobe_unregister_sync(), prepare_uretprobe() (mod_timer), ri_timer()
    pub fn take_away(self) {
        let Self { enters, exits } = self;
        let (gone, is_gone) = mpsc::channel();
        // Where no thread can be started, they go here and now.
        let _ = thread::Builder::new().spawn(move || {
            drop(enters);
            // Nobody may wait for it any more.
            let _ = gone.send(());
        });
        // Too late or not, the others go now.
        let _ = is_gone.recv_timeout(FIRST);
        drop(exits);
    }

    /// The same, without waiting for anything.
    pub fn take_away_later(self) {
        // Where no thread can be started, this drops them, which waits.
        let _ = thread::Builder::new().spawn(move || self.take_away());
    }
}
