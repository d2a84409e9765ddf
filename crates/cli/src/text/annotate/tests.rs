use super::*;
use dso::{Missing, Svma};

fn sums(count: u64) -> Sums {
    Sums { count, period: count * 1000, ..Sums::default() }
}

fn code(svma: u64, text: &str, counts: [u64; 2]) -> Line {
    let place = Some(("/src/a.c".to_owned(), 7));
    let sums = counts.map(sums).to_vec();
    Line::Code(CodeLine { svma: Svma(svma), len: 1, text: text.to_owned(), branch: None, sums, place })
}

fn listing() -> Listing {
    Listing {
        name: "f(int)".into(),
        dso: "app".into(),
        path: None,
        section: ".text".into(),
        start: Svma(0x1000),
        totals: [sums(4), sums(0)].to_vec(),
        lines: vec![
            Line::Function("f(int)".into()),
            Line::Source { line: 7, text: "  return n;".into() },
            code(0x1000, "push   %rbp", [3, 0]),
            Line::Place { file: "/gone/b.h".into(), line: 3 },
            code(0x1001, "ret", [1, 0]),
        ],
        no_code: None,
    }
}

fn text(listing: &Listing, opts: AnnotateText) -> String {
    let mut out = String::new();
    write(&mut out, listing, &opts, &|_| vec![0x55]);
    out
}

#[test]
fn source_and_code_stand_in_perfs_columns() {
    let opts = AnnotateText { events: vec![0], title: "cycles".into(), ..AnnotateText::default() };
    let expected =
        " Percent |\tSource code & Disassembly of app for cycles (4 samples, percent: local period)
----------------------------------------------------------------------------------------------
         :
         :      Disassembly of section .text:
         :
         :      0000000000001000 <f(int)>:
         :      f(int):
         : 7      return n;
   75.00 :   1000:   push   %rbp
         :      b.h:3
   25.00 :   1001:   ret
";
    assert_eq!(text(&listing(), opts), expected);
}

#[test]
fn only_lines_near_samples_are_shown_if_asked_for() {
    let mut listing = listing();
    listing.lines = (0..40).map(|i| code(0x1000 + i, "nop", [u64::from(i == 20) * 4, 0])).collect();
    let opts = AnnotateText { events: vec![0], context: Some(2), ..AnnotateText::default() };
    let text = text(&listing, opts);
    let lines: Vec<&str> = text.lines().skip(6).collect();
    assert_eq!(lines.len(), 7, "{text}");
    assert!(lines[0].ends_with("… 18 lines without samples (--all)"), "{text}");
    assert!(lines[3].starts_with("  100.00 :   1014:") && lines[6].contains("… 17 lines"), "{text}");
}

#[test]
fn source_keeps_its_tabs_and_nothing_that_steers_a_terminal() {
    let mut listing = listing();
    listing.lines[1] = Line::Source { line: 7, text: "\tif (x)\x1b[2J\t{".into() };
    let text = text(&listing, AnnotateText { events: vec![0], ..AnnotateText::default() });
    assert!(text.contains("7    \tif (x)\\x1b[2J\t{\n"), "{text}");
}

#[test]
fn a_summary_without_line_information_says_so() {
    let mut listing = listing();
    listing.lines.iter_mut().for_each(|line| {
        if let Line::Code(code) = line {
            code.place = None;
        }
    });
    let opts = AnnotateText { events: vec![0], print_lines: true, ..AnnotateText::default() };
    assert!(text(&listing, opts).contains("no line information: compile with -g"));
}

#[test]
fn percentages_are_of_the_function_or_of_everything_by_period_or_by_samples() {
    let sums = |count, period| Sums { count, period, ..Sums::default() };
    let share = |words: &str| {
        let percent = PercentType::parse(words).expect("known words");
        let opts = AnnotateText { percent, whole: vec![sums(8, 10_000)], ..AnnotateText::default() };
        let listing = Listing { totals: vec![sums(4, 2000)], ..listing() };
        opts.share(sums(1, 1000), opts.base(&listing, 0))
    };
    let all = ["local-period", "local-hits", "global-period", "hits-global"].map(share);
    assert_eq!(all, [50.0, 25.0, 10.0, 12.5]);
    assert!(PercentType::parse("whole-period").is_err());
}

#[test]
fn a_group_has_a_column_per_event_and_zero_of_zero_is_zero() {
    let opts = AnnotateText { events: vec![0, 1], print_lines: true, raw: true, ..AnnotateText::default() };
    let text = text(&listing(), opts);
    assert!(
        text.contains("   75.00    0.00 :   1000:   55                     push   %rbp // a.c:7\n"),
        "{text}"
    );
    assert!(text.contains("  100.00    0.00 a.c:7\n"), "{text}");
}

#[test]
fn code_that_cannot_be_had_is_addresses_with_the_reason() {
    let mut listing = Listing { no_code: Some(Missing::NoKallsyms), ..listing() };
    listing.lines = vec![code(0xffff_ffff_8100_0000, "", [4, 0])];
    let opts = AnnotateText { events: vec![0], shows: Shows::Samples, ..AnnotateText::default() };
    let text = text(&listing, opts);
    assert!(
        text.ends_with("f(int): no code to show: no kernel symbols\n       4 :   ffffffff81000000:\n"),
        "{text}"
    );
}
