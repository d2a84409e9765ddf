//! `views`: checks that all views of a recording have the same names, totals and shares.
//!
//! Two units exist. perf's own forms (`report --stdio`, `script`, `diff`) count functions with a symbol. Our forms
//! (flame graphs, the page, the browsing table, `run`, `report --wall`) count inlined functions separately. The page's
//! data marks its inlined names, so both units come from it, and every other view is compared with it.

mod columns;
mod filtered;
mod locks;
mod read;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};

use super::{Case, Pair};
use crate::repo::Repo;
use crate::score::{self, Score, skip};
use crate::{parallel, process};
use read::{Page, Shares};

/// Files recorded on other machines, with names and stacks, each of another kind.
const FOREIGN: &[&str] =
    &["with-callchain.perf.data", "perf.data.callgraph-3.8", "perf.data.singleprocess-3.4"];
/// Recordings of the other comparisons: plain C, C++, recursion, a program without symbols, our own recorder.
const MADE: &[&str] =
    &["fp-rand", "fp-words", "fp-deep", "fp-sort", "dwarf-throw", "live-rand", "live-throw"];
/// Programs to `run` for the views of the wall clock.
const RUN: &[(&str, &[&str])] =
    &[("split", &["1"]), ("convoy", &["4", "200"]), ("server", &["3000", "300"]), ("words", &["10000"])];

/// Rows compared, from the top.
const ROWS: usize = 10;
/// Tolerance of views that round to a hundredth of a per cent.
const ROUNDED: f64 = 0.011;
/// Tolerance for the sum of several rows rounded in this way.
const MANY_ROUNDED: f64 = 1.0;
/// Tolerance of the wall clock's views, which round to a tenth of a per cent, or to four digits of a duration.
const ROUNDED_WALL: f64 = 0.15;

/// Compares the views of the listed cases, and of fresh runs.
pub fn compare(repo: &Repo, pair: &Pair, cases: &[Case]) -> Result<Score> {
    let is_compared = |case: &&Case| [FOREIGN, MADE].iter().any(|names| names.contains(&case.name.as_str()));
    let compared: Vec<&Case> = cases.iter().filter(is_compared).collect();
    let of_samples =
        parallel::map(&compared, |case| samples(repo, pair, &case.name, &case.file.to_string_lossy()));
    let of_runs = parallel::map(RUN, |(program, args)| {
        let built = pair.programs.join(program);
        if !built.is_file() {
            return Ok(skip(&format!("views of {program}"), "it is not built"));
        }
        wall(repo, pair, program, &built.to_string_lossy(), args)
    });
    let mut score = Score::default();
    for part in of_samples.into_iter().chain(of_runs) {
        score += part?;
    }
    println!("views: {score}");
    Ok(score)
}

/// perf's forms have whole names.
const WHOLE_NAMES: &str = "--full-names";

/// Output of `tally` with these arguments; an error if it fails.
fn text_of(pair: &Pair, args: &[&str]) -> Result<String> {
    let run = pair.tally(&[&[WHOLE_NAMES], args].concat())?;
    anyhow::ensure!(run.ok(), "tally {}: {}: {}", args.join(" "), run.how(), run.tail(3));
    Ok(run.text())
}

/// The page of a recording.
fn html(pair: &Pair, file: &str) -> Result<String> {
    let name = Path::new(file).file_name().unwrap_or_default().to_string_lossy();
    let html = pair.dir.join(format!("views-{name}.html"));
    text_of(pair, &["report", "--html", &html.to_string_lossy(), "-i", file])?;
    std::fs::read_to_string(&html).context("the page")
}

/// The page's data, event by event.
fn page(pair: &Pair, file: &str) -> Result<Vec<Page>> {
    read::pages(&html(pair, file)?)
}

/// The views of the first event's samples.
fn samples(repo: &Repo, pair: &Pair, name: &str, file: &str) -> Result<Score> {
    let pages = page(pair, file)?;
    let Some(page) = pages.first() else { return Ok(skip(&format!("views of {name}"), "no samples")) };
    let mut score = Score::default();
    let mut hold = |view: &str, got: &Shares, truth: &Shares, apart: f64| {
        score += agree(&format!("views {name}: {view}"), got, truth, apart);
    };
    let of_symbols = read::joined(&page.own_of_symbols());
    let own = ["report", "--stdio", "--no-children", "-g", "none", "-s", "sym", "-t", "|", "-i", file];
    let own = read::sums(&read::rows(&text_of(pair, &own)?, &page.event));
    hold("report's own shares", &read::joined(&own), &of_symbols, MANY_ROUNDED);
    let script = read::script(&text_of(pair, &["script", "--json", "-i", file])?, &page.event);
    hold("script's samples", &read::joined(&script), &read::joined(&page.own()), 1e-6);
    let all = ["report", "--stdio", "--children", "-g", "caller", "-s", "sym", "-t", "|", "-i", file];
    if page.has_stacks() {
        let truth = read::named(&page.with_callees());
        let all = read::named(&read::with_callees(&read::rows(&text_of(pair, &all)?, &page.event), &truth));
        if !truth.is_empty() {
            hold("report's shares with callees", &all, &truth, ROUNDED);
        }
    }
    let folded = read::folded(&text_of(pair, &["flame", "--folded", "-e", &page.event, file])?);
    hold("folded stacks", &folded.own, &page.own(), 1e-6);
    hold("folded stacks with callees", &folded.all, &page.with_callees(), 1e-6);
    score += equal(&format!("views {name}: total of folded stacks"), folded.total, page.total());
    let diff = read::diff(&text_of(pair, &["diff", "-s", "sym", file, file])?, &page.event);
    score +=
        agree(&format!("views {name}: diff with itself"), &read::joined(&diff), &of_symbols, MANY_ROUNDED);
    score += filtered::by_file(pair, name, file, &page.event)?;
    score += browsed(repo, pair, name, file, page)?;
    Ok(score)
}

/// The key of the browsing table in the overview of a wall-clock recording; without effect in the table itself.
const EVENTS_TAB: &str = "6";

/// Compares the rows of the browsing table, in a separate terminal.
fn browsed(repo: &Repo, pair: &Pair, name: &str, file: &str, page: &Page) -> Result<Score> {
    if process::find("tmux").is_none() {
        return Ok(skip(&format!("views of {name} in a terminal"), "no tmux on this machine"));
    }
    let walk = repo.root.join("tests/golden/tmux-walk.sh");
    let line = format!("{} {WHOLE_NAMES} report -i {file}", pair.tally.display());
    let screen = pair.run(Path::new("sh"), &[&walk.to_string_lossy(), "400x300", &line, EVENTS_TAB, "q"])?;
    let screen = read::screen(&screen.text());
    let what = format!("views {name}: the browsing table");
    // Where neither symbols nor unwind tables name a function, the table has addresses and the page the file.
    let (got, truth) = if page.has_stacks() {
        let truth = page.with_callees();
        (read::with_callees(&screen, &truth), truth)
    } else {
        (read::sums(&screen), page.own())
    };
    let (got, truth) = (read::functions(&got), read::functions(&truth));
    if truth.is_empty() {
        return Ok(Score::of(got.is_empty()));
    }
    Ok(agree(&what, &got, &truth, ROUNDED))
}

/// Compares the views of the wall clock: of a recording that `run` made, and in the output of `run` itself.
fn wall(repo: &Repo, pair: &Pair, name: &str, program: &str, args: &[&str]) -> Result<Score> {
    let file = pair.dir.join(format!("views-{name}.data"));
    let file = file.to_string_lossy();
    let json = pair.dir.join(format!("views-{name}.json"));
    let option = format!("--json={}", json.display());
    let mut line = vec!["run", "-F", "199", &option, "-o", &file, "--", program];
    line.extend(args);
    text_of(pair, &line)?;
    let run = read::run(&std::fs::read_to_string(&json)?)?;
    let pages = page(pair, &file)?;
    let mut score = Score::default();
    if let Some(page) = pages.first() {
        let truth = page.own();
        score += agree(&format!("views {name}: run's own shares"), &run.own, &truth, 1e-6);
        // `run` leaves out the functions that start every program.
        let all =
            page.with_callees().into_iter().filter(|(function, _)| run.all.contains_key(function)).collect();
        score += agree(&format!("views {name}: run with callees"), &run.all, &all, 1e-6);
        score += samples(repo, pair, &format!("{name} by run"), &file)?;
    }
    if !run.has_wall_clock {
        score += skip(&format!("wall clock of {name}"), "run could not record it here");
        return Ok(score);
    }
    let folded = read::folded(&text_of(pair, &["flame", "--wall", "--idle", "--folded", &file])?);
    let report = read::wall(&wide(pair, &["report", "--wall", "--stdio", "--idle", "-i", &file])?);
    let timeline = read::timeline(&text_of(pair, &["timeline", "--json", "--idle", "-i", &file])?)?;
    let mut hold = |view: &str, got: &Shares, apart: f64| {
        score += agree(&format!("views {name}: {view}"), got, &run.states, apart);
    };
    hold("states of report --wall", &report.states, ROUNDED_WALL);
    hold("states of the timeline", &timeline, 1e-3);
    // Functions of the kernel are left out there, even if a program's function has the same name. The loader has
    // a `_start`.
    let kernel: Vec<&str> = pages.iter().flat_map(Page::kernel_functions).collect();
    let is_compared = |function: &String| {
        !function.starts_with('[') && function != "_start" && !kernel.contains(&function.as_str())
    };
    let user: Shares = report.all.into_iter().filter(|(function, _)| is_compared(function)).collect();
    let all = folded.all.into_iter().filter(|(function, _)| user.contains_key(function)).collect();
    score += agree(&format!("views {name}: functions of report --wall"), &user, &all, ROUNDED_WALL);
    score += equal(&format!("views {name}: thread time of flame --wall, ns"), folded.total, run.thread_ns);
    score += locks::compare(pair, name, &file, &run)?;
    Ok(score)
}

/// Output of `tally` with these arguments, without cut names; an error if it fails.
fn wide(pair: &Pair, args: &[&str]) -> Result<String> {
    let tally = pair.tally.to_string_lossy();
    let line = [&["COLUMNS=2000", &tally, WHOLE_NAMES], args].concat();
    let run = pair.run(Path::new("env"), &line)?;
    anyhow::ensure!(run.ok(), "tally {}: {}: {}", args.join(" "), run.how(), run.tail(3));
    Ok(run.text())
}

/// Checks that the top rows of `got` have the same names and shares in `truth`, and vice versa.
fn agree(what: &str, got: &Shares, truth: &Shares, apart: f64) -> Score {
    let mut misses = Vec::new();
    for (name, share) in top(got) {
        match truth.get(name) {
            None => misses.push(format!("{name} {share:.3} % is nowhere on the page")),
            Some(other) if (other - share).abs() > apart => {
                misses.push(format!("{name} {share:.3} %, on the page {other:.3} %"));
            }
            Some(_) => {}
        }
    }
    if got.is_empty() {
        misses.push("no row".to_owned());
    }
    let least = got.values().copied().fold(f64::MAX, f64::min);
    let rows = got.len();
    for (name, share) in top(truth).into_iter().take(rows).filter(|(_, share)| *share > least + apart) {
        if !got.contains_key(name) {
            misses.push(format!("{name}, {share:.3} % on the page, is missing"));
        }
    }
    if !misses.is_empty() {
        score::fault(&format!("{what}: {}", misses.join("; ")));
    }
    Score::of(misses.is_empty())
}

fn top(shares: &Shares) -> Vec<(&String, f64)> {
    let mut rows: Vec<_> = shares.iter().map(|(name, share)| (name, *share)).collect();
    rows.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
    rows.truncate(ROWS);
    rows
}

fn equal(what: &str, a: u64, b: u64) -> Score {
    let same = a == b;
    if !same {
        score::fault(&format!("{what}: {a}, elsewhere {b}"));
    }
    Score::of(same)
}

/// Shares from amounts.
fn in_percent(amounts: BTreeMap<String, u64>) -> Shares {
    let total: u64 = amounts.values().sum();
    let share = |amount: u64| 100.0 * amount as f64 / total.max(1) as f64;
    amounts.into_iter().map(|(name, amount)| (name, share(amount))).collect()
}
