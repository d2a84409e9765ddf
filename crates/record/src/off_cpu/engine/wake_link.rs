//! The link of the program at wake-ups, made and closed by a thread of its own.
//!
//! A tracepoint that lost its last program takes a new one only after a grace period of RCU. On a busy machine that is
//! up to seconds: the thread that empties the rings must not wait for it.
//
// Source: linux v6.18 kernel/tracepoint.c: tracepoint_add_func(), tp_rcu_cond_sync(TP_TRANSITION_SYNC_1_0_1)

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::sys::bpf;

/// The link. Dropping it detaches the program, later if an attachment is under way.
#[derive(Debug)]
pub(super) struct WakeLink {
    /// `None` where the system refused a thread: then the program stays attached.
    orders: Option<Sender<bool>>,
    is_wanted: bool,
    is_attached: Arc<AtomicBool>,
    /// What no thread took.
    _kept: Option<OwnedFd>,
}

impl WakeLink {
    /// Takes care of `link`, an attachment of `program`.
    pub fn of(program: OwnedFd, link: OwnedFd) -> Self {
        let is_attached = Arc::new(AtomicBool::new(true));
        let (orders, received) = channel();
        let shown = Arc::clone(&is_attached);
        // A second descriptor, for the thread may be refused with all that it was to own.
        let kept = link.try_clone().ok();
        let thread = std::thread::Builder::new().name("tally-wakes".to_owned());
        let started = thread.spawn(move || obey(&received, &program, link, &shown)).is_ok();
        Self {
            orders: started.then_some(orders),
            is_wanted: true,
            is_attached,
            _kept: kept.filter(|_| !started),
        }
    }

    /// True if the program can be detached.
    pub fn can_turn(&self) -> bool {
        self.orders.is_some()
    }

    /// True if it runs at wake-ups now.
    pub fn is_attached(&self) -> bool {
        self.is_attached.load(Ordering::Acquire)
    }

    /// Orders the program to be attached, as soon as the kernel is ready for it.
    pub fn attach(&mut self) {
        self.order(true);
    }

    /// The reverse. From now on it does not count as attached.
    pub fn detach(&mut self) {
        self.is_attached.store(false, Ordering::Release);
        self.order(false);
    }

    fn order(&mut self, attached: bool) {
        if self.is_wanted != attached
            && let Some(orders) = &self.orders
        {
            self.is_wanted = attached;
            // The thread lives as long as the sender.
            let _ = orders.send(attached);
        }
    }
}

/// Attaches and detaches until nobody can order any more.
fn obey(orders: &Receiver<bool>, program: &OwnedFd, link: OwnedFd, is_attached: &AtomicBool) {
    let mut link = Some(link);
    while let Ok(wanted) = orders.recv() {
        if wanted {
            // A failure shows up as wakers that are missing, and is tried again at the next window.
            link = bpf::link_tracepoint(program.as_fd()).ok();
            is_attached.store(true, Ordering::Release);
        } else {
            link = None;
        }
    }
    drop(link);
}
