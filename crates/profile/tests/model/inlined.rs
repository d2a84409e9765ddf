//! Functions inlined into several others: one function in views of our own, the holders' in perf's.

use super::{Dimensions, by, fed, rows};
use perfdata::{Endian, Event};
use profile::Profile;
use profile::session::{Session, SessionOpts};
use profile::source::{DsoSource, NamedFrame, Want};
use profile::table::Dso;
use profile::view::report::{FunctionUnit, ReportOpts, SortKey, report};

/// `left` and `right` hold `leaf`, which is a function of its own as well.
struct Inlining;

impl DsoSource for Inlining {
    fn symbolize(&self, _: &Dso, addrs: &[u64], _: Want) -> Vec<Result<Vec<NamedFrame>, dso::Missing>> {
        let frame = |name: &str, start: u64, inlined: bool| NamedFrame {
            name: name.to_owned(),
            start,
            size: 0x100,
            inlined,
            ..NamedFrame::default()
        };
        let frames = |&addr: &u64| match addr & !0xff {
            start @ 0x100 => Ok(vec![frame("leaf", start, true), frame("left", start, false)]),
            start @ 0x200 => Ok(vec![frame("leaf", start, true), frame("right", start, false)]),
            start => Ok(vec![frame("leaf", start, false)]),
        };
        addrs.iter().map(frames).collect()
    }
}

fn inlined() -> Profile {
    let event = Event { name: "cpu-clock".to_owned(), ..Event::default() };
    let opts = SessionOpts { dimensions: Dimensions::default(), ..SessionOpts::default() };
    let mut session = Session::new(&[event], Endian::Little, opts);
    fed(
        &mut session,
        "comm 7/7 app
         mmap 7/7 0x0 0x1000 /bin/app
         sample 7/7 period=50 chain=0x110
         sample 7/7 period=30 chain=0x210
         sample 7/7 period=20 chain=0x310",
    );
    let mut profile = session.finish();
    profile.symbolize(&Inlining, Want::Lines);
    profile
}

#[test]
fn copies_of_an_inlined_function_are_one_function() {
    let opts = ReportOpts { unit: FunctionUnit::Inlined, inlines: true, ..by(&[SortKey::Symbol]) };
    assert_eq!(rows(&inlined(), &opts), ["100.00% [.] leaf"]);
    let with_callers = ReportOpts { children: true, ..opts };
    let report = report(&inlined(), &with_callers);
    let children: Vec<u64> = report.sections[0].rows.iter().map(|row| row.children[0].period).collect();
    assert_eq!(children, [100, 50, 30], "leaf, left and right");
}

#[test]
fn a_function_that_was_compiled_twice_is_one_row() {
    let event = Event { name: "cpu-clock".to_owned(), ..Event::default() };
    let mut session = Session::new(&[event], Endian::Little, SessionOpts::default());
    fed(
        &mut session,
        "comm 7/7 node
         mmap 7/7 0x300000 0x1000 //anon
         mmap 7/7 0x400000 0x1000 /bin/node
         sample 7/7 period=50 chain=0x300110,0x300910
         sample 7/7 period=30 chain=0x300310,0x300910
         sample 7/7 period=15 chain=0x400110
         sample 7/7 period=5 chain=0x400310",
    );
    let mut profile = session.finish();
    profile.symbolize(&Compiled, Want::Names);
    let opts = by(&[SortKey::Symbol]);
    assert_eq!(rows(&profile, &opts), ["80.00% [.] twice", "15.00% [.] twice", "5.00% [.] twice"]);
    let report = report(&profile, &ReportOpts { children: true, ..opts });
    let children: Vec<u64> = report.sections[0].rows.iter().map(|row| row.children[0].period).collect();
    assert_eq!(children, [80, 80, 15, 5], "the one compiled twice, its caller, two of a file");
}

/// A caller at 0x900, and below it functions with one name.
struct Compiled;

impl DsoSource for Compiled {
    fn symbolize(&self, _: &Dso, addrs: &[u64], _: Want) -> Vec<Result<Vec<NamedFrame>, dso::Missing>> {
        let named = |&addr: &u64| {
            let start = addr & !0xff;
            let name = if start & 0xfff < 0x900 { "twice" } else { "caller" }.to_owned();
            Ok(vec![NamedFrame { name, start, size: 0x100, ..NamedFrame::default() }])
        };
        addrs.iter().map(named).collect()
    }
}

#[test]
fn in_the_form_of_perf_samples_are_the_holders() {
    let got = rows(&inlined(), &by(&[SortKey::Symbol]));
    assert_eq!(got, ["50.00% [.] left", "30.00% [.] right", "20.00% [.] leaf"]);
}
