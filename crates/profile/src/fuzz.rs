//! Fuzz entry points: ordinary functions that must return, whatever the bytes.

use crate::reason::StackEnd;
use crate::session::{Session, SessionOpts, UnwoundStack};
use crate::view::report::{GraphOpts, ReportOpts, report};
use perfdata::{Order, PerfData};
use std::ops::ControlFlow;

/// One target.
pub type FuzzTarget = fn(&[u8]);

/// All targets by name.
pub const TARGETS: &[(&str, FuzzTarget)] = &[("profile_of_perf_data", fuzz_profile)];

/// A file of these bytes through session and report; conservation must hold.
pub fn fuzz_profile(bytes: &[u8]) {
    let Ok(file) = PerfData::open(bytes) else { return };
    let mut session = Session::new(file.events(), file.endian(), SessionOpts::default());
    file.visit(Order::Time, |item| {
        if let Some(job) = session.push(item) {
            session.complete(
                job,
                &UnwoundStack { addrs: &[], exact: &[], known: &[], end: StackEnd::NoRegisters },
            );
        }
        ControlFlow::Continue(())
    });
    let profile = session.finish();
    assert!(profile.diagnostics.is_conserved());
    let opts = ReportOpts { children: true, graph: Some(GraphOpts::default()), ..ReportOpts::default() };
    let _rows = report(&profile, &opts);
}
