//! Headlines for programs that end in different ways, and when threads are worth a line.

use super::*;
use profile::off_cpu::OffCpuSource;
use profile::view::hot_functions::HotFunctionRow;
use record::summary::ThreadUse;

fn claims(summary: &RunSummary, judgement: &Judgement, samples: u64) -> Vec<String> {
    let row = HotFunctionRow { name: "parse".into(), own: 0.41, total: 0.5, ..HotFunctionRow::default() };
    let hot = HotFunctions { samples, functions: vec![row], ..HotFunctions::default() };
    let file = RecordedFile { input: " -i a.data".into(), ..RecordedFile::default() };
    let sources = ScreenSources { summary, judgement, cpus: 2, better: None, name_hints: &[], file };
    headlines(&sources, &hot).into_iter().map(|line| format!("{} [{}]", line.claim, line.why)).collect()
}

fn judgement(names: &[&'static str]) -> Judgement {
    let finding =
        |&name: &&'static str| Finding { name, claim: format!("{name} it is"), ..Finding::default() };
    let mut judgement = Judgement { findings: names.iter().map(finding).collect(), ..Judgement::default() };
    judgement.wall.source = Some(OffCpuSource::Tally);
    judgement
}

#[test]
fn a_program_that_only_computes_has_nothing_that_stands_out() {
    let calm = RunSummary::default();
    let expected = ["Nothing stands out: cpu-bound it is [tally why 1 -i a.data]"];
    assert_eq!(claims(&calm, &judgement(&["cpu-bound"]), 100), expected);
    let two = ["disk it is [tally why 1 -i a.data]", "cpu-bound it is [tally why 2 -i a.data]"];
    assert_eq!(claims(&calm, &judgement(&["disk", "cpu-bound"]), 100), two);
    assert_eq!(
        claims(&calm, &judgement(&[]), 100),
        ["Nothing stands out: parse has 41 % of the CPU time []"]
    );
    let few = claims(&calm, &judgement(&[]), 19).remove(0);
    assert!(
        few.contains("of CPU time is too little to find where it goes") && !few.contains("41 %"),
        "{few}"
    );
}

#[test]
fn a_crash_comes_first_and_a_short_run_is_not_judged() {
    let mut summary = RunSummary { wall_ns: 12_000_000, ..RunSummary::default() };
    let mut short = judgement(&[]);
    short.withheld = Some("it ran for only 1 ms".to_owned());
    assert_eq!(claims(&summary, &short, 0), ["No verdict: it ran for only 1 ms []"]);
    summary.exit = Some(ExitKind::Signal(11));
    let killed = "Killed by signal 11 (segmentation fault) after 12.00 ms []";
    assert_eq!(claims(&summary, &short, 0), [killed]);
    assert_eq!(claims(&summary, &judgement(&["disk"]), 100)[0], killed);
}

#[test]
fn threads_have_a_line_only_where_one_is_busy_and_another_is_not() {
    let thread = |comm: &str, tid, on_ns| ThreadUse {
        comm: comm.to_owned(),
        tid,
        on_ns,
        life_ns: 100,
        ..ThreadUse::default()
    };
    let summary = |threads| RunSummary { wall_ns: 100, threads, ..RunSummary::default() };
    let busy = summary(vec![thread("gzip", 1, 95), thread("tar", 2, 10)]);
    assert_eq!(
        thread_shares(&busy, &Wall::default(), 100),
        [("gzip".to_owned(), 95.0), ("tar".to_owned(), 10.0)]
    );
    assert!(thread_shares(&busy, &Wall::default(), 19).is_empty());
    assert!(
        thread_shares(&summary(vec![thread("a", 1, 95), thread("b", 2, 80)]), &Wall::default(), 100)
            .is_empty()
    );
    assert!(
        thread_shares(&summary(vec![thread("a", 1, 40), thread("b", 2, 5)]), &Wall::default(), 100)
            .is_empty()
    );
}

#[test]
fn busy_threads_that_share_a_name_are_listed_with_where_they_began() {
    let thread =
        |tid, on_ns| ThreadUse { comm: "python".into(), tid, life_ns: 100, on_ns, ..ThreadUse::default() };
    let busy =
        RunSummary { wall_ns: 100, threads: vec![thread(1, 2), thread(2, 95)], ..RunSummary::default() };
    let started = WallRow {
        pid: 1,
        tid: 2,
        comm: "python".into(),
        title: None,
        start: Some("crunch".into()),
        life_ns: 100,
        times: profile::view::wall::Times::default(),
        switches: 0,
        kernel_idle_ns: 0,
        start_ns: 0,
        tasks: Vec::new(),
    };
    let wall = Wall { threads: vec![started], ..Wall::default() };
    let shares = [("python crunch()".to_owned(), 95.0), ("python".to_owned(), 2.0)];
    assert_eq!(thread_shares(&busy, &wall, 100), shares);
}
