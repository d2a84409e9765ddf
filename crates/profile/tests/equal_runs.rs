//! Equal runs compared: how often chance gets a word.

use perfdata::record::{FileId, Mmap};
use perfdata::{Avma, Callchain, CpuMode, Endian, Event, Item, Record, Sample};
use profile::Profile;
use profile::session::{Dimensions, Session, SessionOpts};
use profile::source::{DsoSource, NamedFrame, Want};
use profile::table::Dso;
use profile::view::diff::{Change, Diff, DiffOpts, diff};
use profile::view::report::SortKey;

/// Functions of 0x100 bytes.
struct Functions;

impl DsoSource for Functions {
    fn symbolize(&self, _: &Dso, addrs: &[u64], _: Want) -> Vec<Result<Vec<NamedFrame>, dso::Missing>> {
        let named = |&addr: &u64| {
            let name = format!("f{:x}", addr >> 8);
            Ok(vec![NamedFrame { name, start: addr & !0xff, size: 0x100, ..NamedFrame::default() }])
        };
        addrs.iter().map(named).collect()
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// How a program's samples come.
#[derive(Clone, Copy)]
struct Program {
    samples: u64,
    /// A function stays on for this many samples on average.
    burst: f64,
    /// A run takes up to this share longer or shorter than the average.
    spread: f64,
    functions: u64,
    /// The first function takes this many times as long.
    first: f64,
    file: &'static str,
}

const PLAIN: Program =
    Program { samples: 40, burst: 1.0, spread: 0.0, functions: 60, first: 1.0, file: "/bin/app" };

/// A run of it: the n-th function takes 1/n of the time of the first.
fn run(program: Program, random: &mut Random) -> Profile {
    let dimensions = Dimensions { time_slice_ns: Some(1_000_000), ..Dimensions::default() };
    let opts = SessionOpts { dimensions, ..SessionOpts::default() };
    let event = Event { name: "cpu-clock".to_owned(), ..Event::default() };
    let mut session = Session::new(&[event], Endian::Little, opts);
    let mut push = |record: Record<'_>| {
        let item = Item { offset: 0, record, sample_id: None, event: Some(0), raw: &[] };
        assert!(session.push(&item).is_none());
    };
    push(Record::Mmap(Mmap {
        pid: 7,
        tid: 7,
        addr: Avma(0x1000),
        len: 0x10000,
        pgoff: 0,
        filename: program.file.as_bytes(),
        file_id: FileId::None,
        prot_flags: Some((5, 2)),
        cpu_mode: CpuMode::User,
        is_data: false,
        parse_timeout: false,
    }));
    let weight = |n: u64| if n == 1 { program.first } else { 1.0 / n as f64 };
    let whole: f64 = (1..=program.functions).map(weight).sum();
    let draw = |random: &mut Random| {
        let mut left = random.next() * whole;
        let found = (1..=program.functions).find(|&n| {
            left -= weight(n);
            left < 0.0
        });
        found.unwrap_or(program.functions)
    };
    let count = program.samples as f64 * (1.0 + program.spread * (2.0 * random.next() - 1.0));
    let mut function = draw(random);
    for at in 0..count as u64 {
        if random.next() * program.burst < 1.0 {
            function = draw(random);
        }
        let address = 0x1000 + function * 0x100 + 8;
        push(Record::Sample(Sample {
            misc: 2,
            ip: Some(Avma(address)),
            pid_tid: Some((7, 7)),
            period: Some(1_000_000),
            time_ns: Some(at * 1_000_000),
            callchain: Some(Callchain([address].as_slice().into())),
            ..Sample::default()
        }));
    }
    let mut profile = session.finish();
    profile.symbolize(&Functions, Want::Names);
    profile
}

fn comparisons(program: Program, runs: usize, pairs: usize) -> Vec<Diff> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let side = |random: &mut Random| (0..runs).map(|_| run(program, random)).collect::<Vec<_>>();
    (0..pairs).map(|_| diff(&side(&mut random), &side(&mut random), &DiffOpts::default())).collect()
}

#[test]
fn of_equal_runs_at_most_one_row_in_twenty_has_a_word() {
    let programs = [
        ("few samples", PLAIN, 1, 30),
        ("many samples", Program { samples: 1500, ..PLAIN }, 1, 10),
        ("bursts", Program { samples: 1500, burst: 8.0, spread: 0.1, ..PLAIN }, 1, 10),
        ("three runs a side", Program { samples: 300, burst: 4.0, spread: 0.1, ..PLAIN }, 3, 8),
    ];
    for (name, program, runs, pairs) in programs {
        let all = comparisons(program, runs, pairs);
        let sections = || all.iter().map(|diff| &diff.sections[0]);
        let marked: usize = sections().map(|section| section.marked()).sum();
        let rows: usize = sections().map(|section| section.rows.len()).sum();
        let headlines = sections().filter(|section| section.most_changed().is_some()).count();
        println!("{name}: {marked} of {rows}, {headlines} headlines");
        assert!(rows > 400, "{name}: {rows}");
        assert!(marked * 20 <= rows, "{name}: {marked} of {rows}");
        assert!(headlines <= 1, "{name}: {headlines} of {pairs}");
    }
}

#[test]
fn a_function_that_takes_half_as_long_again_changed_most() {
    let program = Program { samples: 1500, ..PLAIN };
    let mut random = Random(7);
    let baseline = run(program, &mut random);
    let current = run(Program { first: 1.5, ..program }, &mut random);
    let diff = diff(&[baseline], &[current], &DiffOpts::default());
    let most = diff.sections[0].most_changed().expect("a change beyond chance");
    assert_eq!(diff.profile.value_text(&SortKey::Symbol, &most.values[1]), "[.] f1");
    assert_eq!(most.own.change, Change::More);
}

#[test]
fn rows_by_function_alone_compare_programs_of_different_names() {
    let mut random = Random(7);
    let baseline = [run(PLAIN, &mut random)];
    let current = [run(Program { file: "/bin/app-new", ..PLAIN }, &mut random)];
    let rows_with_both = |sort: &[SortKey]| {
        let mut opts = DiffOpts::default();
        opts.report.sort = sort.to_vec();
        let diff = diff(&baseline, &current, &opts);
        diff.sections[0].rows.iter().filter(|row| row.sums.0.count > 0 && row.sums.1.count > 0).count()
    };
    assert_eq!(rows_with_both(&[SortKey::Dso, SortKey::Symbol]), 0);
    assert!(rows_with_both(&[SortKey::Symbol]) > 5);
}

#[test]
fn of_equal_runs_at_most_one_total_in_twenty_grew() {
    for runs in [2, 3, 5] {
        let all = comparisons(Program { samples: 60, spread: 0.2, functions: 1, ..PLAIN }, runs, 100);
        let grew = |diff: &&Diff| {
            let total = &diff.sections[0].total;
            total.delta > 0.0 && total.interval.is_some_and(|interval| interval.low > 0.0)
        };
        let alarms = all.iter().filter(grew).count();
        println!("{runs} runs a side: {alarms} of {}", all.len());
        assert!(alarms * 20 <= all.len(), "{runs} runs a side: {alarms} of {}", all.len());
    }
}
