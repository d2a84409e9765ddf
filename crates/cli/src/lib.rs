//! The program: flags, commands, and the drawing of text, terminal and SVG views.
//!
//! It only wires the libraries together; what is computed is computed in them.
//! Nothing here prints except through [`terminal::out`], so that a closed pipe ends a command quietly.
#![forbid(unsafe_code)]
// The comments of flags are the text of `--help`, where brackets are the usual ones of command lines.
#![allow(rustdoc::broken_intra_doc_links)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod calls;
pub mod check;
pub mod cmd;
pub mod events;
pub mod flags;
pub mod fleet;
pub mod help;
pub mod html;
pub mod reading;
pub mod script;
pub mod stat;
pub mod terminal;
pub mod text;
pub mod trace;
pub mod verdict;

use clap::Parser;
use clap::error::ErrorKind;
use std::ffi::OsString;
use std::process::ExitCode;

/// Parsers of this crate for fuzzing: a name and a function that must return on any bytes.
#[expect(clippy::type_complexity, reason = "every crate with parsers offers this same type")]
pub const TARGETS: &[(&str, fn(&[u8]))] = &[
    ("report_flags", cmd::report::fuzz_flags),
    ("sizes", flags::recording::fuzz_values),
    ("device_numbers", events::io::device::fuzz),
];

/// Runs the program with `args`, of which the first is its own name.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    let is_flag = matches!(args.as_slice(), [_, only] if only == "--version" || only == "-V");
    // `perf version --build-options`: the line has them.
    if is_flag || args.get(1).is_some_and(|word| word == "version") {
        return finish(terminal::out::line(&flags::version_line()).map(|()| ExitCode::SUCCESS));
    }
    let args = cmd::stat::spelled_out(cmd::record::spelled_out(cmd::script::spelled_out(args)));
    let typed = flags::id_lists::with_commas(args);
    let args = with_settings(&typed);
    if let Some(page) = help::topic(&args) {
        return finish_paged(help::print(&page));
    }
    match flags::Flags::of_command_line(&args) {
        Ok(flags) => {
            record::sys::signal::survive_file_size_limit();
            leave_out_expected_panics();
            display::term::set_colour(flags.output.color.into());
            terminal::pager::set_off(flags.output.no_pager);
            flags::shown_names::set_whole(flags.output.full_names);
            let code = finish(under_memory_limit().and_then(|()| flags.command.run()));
            warn_of_refusals();
            terminal::pager::finish();
            code
        }
        Err(error) if error.kind() == ErrorKind::DisplayHelp => {
            finish_paged(help::print(&help::requested(&args)))
        }
        Err(error) if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            terminal::out::note_lines(&if args.len() < 2 {
                help::welcome().to_owned()
            } else {
                help::requested(&args)
            });
            ExitCode::from(2)
        }
        Err(error) => usage_error(&help::with_nearest(error, &args)),
    }
}

/// The arguments with perf's settings as defaults; without them where one has a value that no option takes.
fn with_settings(typed: &[OsString]) -> Vec<OsString> {
    let settings = flags::perf_config::read(flags::perf_config::ConfigFiles::All);
    if settings.is_empty() {
        return typed.to_vec();
    }
    if let Some(folder) = flags::perf_config::defaults::build_id_cache(&settings) {
        dso::set_build_id_cache(folder);
    }
    for problem in tui::configure(settings.iter().map(|setting| (&*setting.name, &*setting.value))) {
        terminal::out::note(&format!("tally: setting not used: {problem}"));
    }
    let all = flags::perf_config::defaults::added(typed, &settings);
    if flags::Flags::try_parse_from(&all).is_err() && flags::Flags::try_parse_from(typed).is_ok() {
        let files: std::collections::BTreeSet<_> = settings.iter().map(|setting| &setting.file).collect();
        let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        terminal::out::note(&format!(
            "tally: settings not used: a value in {} is not valid here",
            files.join(", ")
        ));
        return typed.to_vec();
    }
    all
}

/// The status of a command that may have started the pager, after the user has left it.
fn finish_paged(result: anyhow::Result<ExitCode>) -> ExitCode {
    let code = finish(result);
    terminal::pager::finish();
    code
}

/// Where memory is limited (`ulimit -v`), what fails for lack of it names the limit.
fn under_memory_limit() -> anyhow::Result<()> {
    if !record::sys::mem::is_memory_limited() {
        return Ok(());
    }
    record::sys::out_of_memory::name_limit_at_abort();
    record::sys::mem::share_one_heap();
    // Without room for their stacks the threads of a view would panic where it first needs them. A signal that ends a
    // command is not theirs: who waits for it would not be woken.
    let _blocked = record::sys::SignalReader::leave_to_recording();
    /// Room for the stacks of a few threads.
    const ROOM_BYTES: u64 = 64 << 20;
    // The pool for all can be tried only once. 0 is one thread for each CPU.
    let has_room = record::sys::mem::address_space_left().is_none_or(|left| left > ROOM_BYTES);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(if has_room { 0 } else { 1 });
    match pool.build_global() {
        Err(error) if std::error::Error::source(&error).is_some() => {
            Err(anyhow::anyhow!("ulimit -v leaves no room for threads: {error}; raise it"))
        }
        _ => Ok(()),
    }
}

/// Nothing is reported of panics that are caught and become errors. Where panics end the program, they end it with that
/// error.
fn leave_out_expected_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !dso::is_panic_expected() {
                usual(panic);
            } else if cfg!(panic = "abort") {
                finish(Err(anyhow::anyhow!("run it again once the file is whole")));
                std::process::exit(1);
            }
        }));
    });
}

/// Prints usage errors to stderr with status 2 (perf's is 129; 2 is everyone else's).
pub(crate) fn usage_error(error: &clap::Error) -> ExitCode {
    if let Some(text) = flags::perf_commands::instead(error) {
        terminal::out::complain(&text);
        return ExitCode::from(2);
    }
    match error.print() {
        Err(io) if io.kind() != std::io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        _ => ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2)),
    }
}

/// Turns a command's result into the exit status: an error is one line on stderr and status 1 (126 and 127 as a shell's
/// when a command cannot be run), a closed pipe silence and 0.
fn finish(result: anyhow::Result<ExitCode>) -> ExitCode {
    for path in dso::shrunken_files() {
        terminal::out::complain(&format!(
            "{} was truncated while it was read: what comes from it is incomplete",
            path.display()
        ));
    }
    match result {
        Ok(code) => code,
        Err(error) if terminal::out::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            if let Some(event) = error.downcast_ref::<record::event::Error>() {
                return flags::event_args::explain(event);
            }
            let remedy = if is_for_lack_of_memory(&error) { "; raise ulimit -v" } else { "" };
            terminal::out::complain(&format!("{}{remedy}", in_one_line(&error)));
            let recording = error.chain().find_map(|cause| cause.downcast_ref::<record::Error>());
            ExitCode::from(recording.map_or(1, record::Error::exit_code))
        }
    }
}

/// Whether the system refused memory, or a thread, while `ulimit -v` limits it.
fn is_for_lack_of_memory(error: &anyhow::Error) -> bool {
    use std::io::ErrorKind::{OutOfMemory, WouldBlock};
    let refused = |kind| [OutOfMemory, WouldBlock].contains(&kind);
    record::sys::mem::is_memory_limited()
        && error
            .chain()
            .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
            .any(|io| refused(io.kind()))
}

/// Parts of object files that were not read because they ask for too much: names or lines may lack for that.
fn warn_of_refusals() {
    for refusal in dso::bounds::refusals() {
        let file =
            refusal.file.as_deref().map_or("a file in memory".into(), std::path::Path::to_string_lossy);
        let what = refusal.section;
        let text = format!(
            "tally: {file}: {what} not read in full: it asks for more memory or work than the file's size justifies"
        );
        terminal::out::note(&text);
    }
}

/// The causes from the outermost on, without those that the one before has in its text already.
pub(crate) fn in_one_line(error: &anyhow::Error) -> String {
    let mut told: Vec<String> = Vec::new();
    for cause in error.chain().map(ToString::to_string) {
        if !told.last().is_some_and(|before| before.contains(&cause)) {
            told.push(cause);
        }
    }
    told.join(": ")
}
