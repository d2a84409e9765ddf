//! The whole program as a fuzz target: unpacks a parcel and renders every view of its files.
//!
//! Parsers can be correct alone and fail together: an unwind table that never moves the stack pointer is harmless until
//! it is applied to a recorded stack.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use cli::reading::load;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use profile::session::SessionOpts;
use profile::source::Want;
use profile::view::report::{GraphOpts, ReportOpts};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use symbols::{LoadOpts, NameOpts, UnnamedCode};
use tui::{App, Data, Theme};

use crate::Target;
use crate::parcel::Parcel;
use crate::scratch::Scratch;

/// Targets that run the program.
pub const TARGETS: &[Target] =
    &[("recording", fuzz_recording), ("intel_pt", fuzz_intel_pt), ("calls_folder", fuzz_calls_folder)];

/// The part of a parcel whose bytes choose views by number; without it all are rendered.
pub const VIEWS: &str = "views";

/// Views of a recording. `@` is the recording, `%` the scratch folder.
const OF_RECORDING: &[&str] = &[
    "report --stdio -i @",
    "report --stdio --children -g caller,0.5 --inline -i @",
    "report --stdio --no-children -g callee --hierarchy -i @",
    "report --stdio -s comm,pid,tid,dso,symbol,srcline,cpu,time,symbol_size -n --show-total-period -i @",
    "report --stdio -b -s symbol_from,symbol_to,mispredict -i @",
    "report --stats -i @",
    "report --tasks -i @",
    "report --mmaps -i @",
    "report -T --stdio -i @",
    "report --header-only -I -i @",
    "report --wall -i @",
    "report --html %/out.html -i @",
    "script -i @",
    "script --json -i @",
    "script --header --show-mmap-events --show-task-events --show-switch-events --show-lost-events --ns --inline -i @",
    "script -F comm,pid,tid,time,event,ip,sym,symoff,dso,srcline,period,addr,uregs,iregs,brstack,raw,trace -i @",
    "script --per-event-dump -i @",
    "flame -i @",
    "flame --folded --all --addrs --pid --tid -i @",
    "flame --wall -i @",
    "flame --off-cpu --folded -i @",
    "flame --wakers --reverse -i @",
    "annotate --stdio -i @",
    "annotate --stdio -l -M intel --asm-raw -P -n -i @",
    "timeline -i @",
    "timeline --json -i @",
    "locks -i @",
    "io -i @",
    "io --json --heat %/heat.svg -i @",
    "diff @ @",
    "diff --paths --norm time --fail-above 5% @ @",
    "dump @",
    "dump --time --stacks --offsets @",
    "evlist -v -i @",
    "buildid-list -i @",
    "stat report -i @",
    "calls -i @",
    "TUI",
];

/// Views of a processor's trace.
const OF_INTEL_PT: &[&str] = &[
    "calls report -i @",
    "calls report --slowest 10 -i @",
    "calls graph -i @",
    "calls replay -i @",
    "calls flame -i @",
    "calls branches -i @",
    "calls export --chrome -o %/out.json -i @",
    "calls export --perfetto -o %/out.pftrace -i @",
    "dump --pt @",
    "script --itrace=i10usg -i @",
    "script --itrace=cr -i @",
    "script --itrace=b -F comm,tid,time,ip,sym,addr,flags,insn -i @",
    "diff --calls @ @",
    "flame --calls -i @",
];

/// Views of a folder of traced calls, ours (`#/calls`) or uftrace's.
const OF_CALLS_FOLDER: &[&str] = &[
    "calls report -i @",
    "calls report --slowest 10 -i @",
    "calls report --histogram work -i @",
    "calls graph -i @",
    "calls replay -i @",
    "calls replay -t 10us -D 3 -H work -i @",
    "calls flame -i @",
    "calls flame --folded --counts -i @",
    "calls info -i @",
    "calls export --chrome -o %/out.json -i @",
    "calls export --perfetto -o %/out.pftrace -i @",
    "calls diff @ @",
    "calls diff --paths @ @",
];

fn fuzz_recording(bytes: &[u8]) {
    render(bytes, "perf.data", OF_RECORDING);
}

fn fuzz_intel_pt(bytes: &[u8]) {
    render(bytes, "perf.data", OF_INTEL_PT);
}

fn fuzz_calls_folder(bytes: &[u8]) {
    render(bytes, "calls", OF_CALLS_FOLDER);
}

/// Unpacks `bytes` and renders its views of `input`.
fn render(bytes: &[u8], input: &str, views: &[&str]) {
    let parcel = Parcel::parse(bytes);
    let scratch = Scratch::new().expect("a folder in /dev/shm");
    if scratch.unpack(&parcel).is_err() {
        return;
    }
    let input = scratch.path().join(input);
    for view in chosen(&parcel, views) {
        if view == "TUI" {
            browse(&input);
        } else {
            let words = view.split(' ').map(|word| filled(word, &input, scratch.path()));
            // Any exit code is fine, as long as the program ends with one.
            let _ = cli::run(std::iter::once("tally".into()).chain(words));
        }
    }
}

fn filled(word: &str, input: &Path, scratch: &Path) -> OsString {
    match word.strip_prefix('%') {
        _ if word == "@" => input.into(),
        Some(rest) => format!("{}{rest}", scratch.display()).into(),
        None => word.into(),
    }
}

/// All views, or those that the parcel's part [`VIEWS`] names by number.
fn chosen<'v>(parcel: &Parcel, views: &[&'v str]) -> Vec<&'v str> {
    match parcel.part(VIEWS) {
        Some(numbers) if !numbers.is_empty() => {
            numbers.iter().take(views.len()).map(|&number| views[usize::from(number) % views.len()]).collect()
        }
        _ => views.to_vec(),
    }
}

/// Renders the terminal after keys of every view.
fn browse(input: &Path) {
    let session = SessionOpts::default();
    let opts =
        LoadOpts { session, want: Want::Names, names: NameOpts::from_env(), unnamed: UnnamedCode::Functions };
    let Ok(recording) = load::load(input, opts) else { return };
    let view = ReportOpts { children: true, graph: Some(GraphOpts::default()), ..ReportOpts::default() };
    let mut app = App::new(Data::new(Arc::new(recording), view), Theme::new(true));
    let Ok(mut terminal) = Terminal::new(TestBackend::new(100, 30));
    for key in "ljlsjf\njla\to/m\nvz?q".chars() {
        let code = match key {
            '\n' => KeyCode::Enter,
            '\t' => KeyCode::Esc,
            key => KeyCode::Char(key),
        };
        app.key(KeyEvent::new(code, KeyModifiers::NONE));
        // The test backend cannot fail.
        let _ = terminal.draw(|frame| app.draw(frame));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn every_view_is_one_of_the_program() {
        for view in [OF_RECORDING, OF_INTEL_PT, OF_CALLS_FOLDER].concat() {
            if view == "TUI" {
                continue;
            }
            let words = view.split(' ').map(|word| filled(word, Path::new("in"), Path::new("dir")));
            let args = std::iter::once("tally".into()).chain(words).collect();
            let args = cli::cmd::stat::spelled_out(cli::cmd::record::spelled_out(args));
            if let Err(error) = cli::flags::Flags::try_parse_from(args) {
                panic!("{view}: {error}");
            }
        }
    }
}
