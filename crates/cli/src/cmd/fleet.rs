//! `tally fleet`: questions to the profiles of many machines.

use crate::cmd::diff::style_of_shares;
use crate::fleet::agent::now_s;
use crate::fleet::folder;
use crate::fleet::merged::{MergedFleet, event_of};
use crate::fleet::source::FleetSource;
use crate::reading::{load, wall};
use crate::terminal::out;
use crate::text::diff as text;
use anyhow::{Context, bail};
use clap::Subcommand;
use dso::system_file;
use exchange::export::samples::SampleSet;
use exchange::export::{folded, otlp, parquet};
use exchange::fleet::screen::{functions_text, host_rows, hosts_text, waits_text};
use exchange::fleet::{
    FleetFilter, IntervalKey, Ledger, functions, is_kernel_thread, moment_of, moment_text, service_of_cgroup,
    waits, without_idle,
};
use exchange::svg::{self, SvgOpts};
use profile::Profile;
use profile::source::Want;
use profile::view::diff::{DiffOpts, diff};
use profile::view::flame::{Tree, TreeOpts};
use record::output_file::write_export;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Ask the profiles of many machines: top functions, flame graphs, differences
///
/// A fleet is a folder that `tally agent` or `tally fleet add` writes: a file of Parquet for each machine and interval.
/// Copies and shared folders (rsync, NFS, object stores that are mounted) are merged by every question. A ClickHouse server
/// with these tables answers the same questions.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tally fleet top --from /var/lib/tally         functions by CPU time, all machines
  tally fleet flame --from DIR --service web -o web.svg
  tally fleet hosts --from DIR --since 2h       which machine differs
  tally fleet diff --from DIR --split 2026-11-27T03:00    before and after a moment
  tally fleet locks --from DIR                  waits for locks
  tally fleet top --from clickhouse://db1       the same from a server
  tally fleet add -i perf.data --to DIR         store a recording")]
pub struct Args {
    #[command(subcommand)]
    what: Question,
}

#[derive(Subcommand)]
enum Question {
    /// List the functions with most CPU time on all machines
    #[command(after_help = "\
Examples:
  tally fleet top --from /var/lib/tally
  tally fleet top --from DIR --service web,db --since 2h
  tally fleet top --from DIR --event off_cpu    functions that wait")]
    Top(TopArgs),
    /// Draw one flame graph of all machines
    #[command(after_help = "\
Examples:
  tally fleet flame --from DIR -o fleet.svg
  tally fleet flame --from DIR --host web1 --folded")]
    Flame(FlameArgs),
    /// Compare two times, machines or services, with the noise between machines
    #[command(after_help = "\
Examples:
  tally fleet diff --from DIR --split 2026-11-27T03:00    before and after
  tally fleet diff --from DIR --host web1 --against-host web2,web3
  tally fleet diff --from DIR --service web-1.4 --against-service web-1.5")]
    Diff(DiffArgs),
    /// List the machines, and whether their profiles are whole
    #[command(after_help = "\
Examples:
  tally fleet hosts --from DIR --since 2h")]
    Hosts(TopArgs),
    /// List the places that wait for locks
    #[command(after_help = "\
Examples:
  tally fleet locks --from DIR --service db")]
    Locks(TopArgs),
    /// Store a recording in the folder of a fleet
    #[command(after_help = "\
Examples:
  tally fleet add -i perf.data --to DIR
  tally fleet add -i perf.data --to DIR --host web1 --service web")]
    Add(AddArgs),
}

/// Which profiles.
#[derive(clap::Args)]
struct Selection {
    /// The folder of the fleet, or clickhouse://HOST
    #[arg(long, value_name = "DIR", value_parser = FleetSource::parse)]
    from: FleetSource,
    /// Only these services
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    service: Vec<String>,
    /// Only these machines
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    host: Vec<String>,
    /// Only from this moment on (UTC), as 2026-11-27T03:05, or 2h for the last two hours
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<String>,
    /// Only before this moment
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<String>,
    /// The kind of value: cpu, wall, off_cpu or an event's name
    #[arg(long, value_name = "NAME", default_value = "cpu")]
    event: String,
}

impl Selection {
    fn filter(&self) -> FleetFilter {
        FleetFilter {
            services: self.service.clone(),
            hosts: self.host.clone(),
            since: self.since.clone(),
            until: self.until.clone(),
            ..FleetFilter::default()
        }
    }

    /// The same of one kind of value.
    fn of_kind(&self, kind: &str) -> FleetFilter {
        FleetFilter { kind: Some(kind.to_owned()), ..self.filter() }
    }
}

fn moment(text: &str) -> Result<String, String> {
    moment_of(text, now_s())
        .ok_or_else(|| "it is like 2026-11-27, 2026-11-27T03:05 (UTC), 30m, 2h or 7d".to_owned())
}

/// A question that is answered by rows.
#[derive(clap::Args)]
struct TopArgs {
    #[command(flatten)]
    of: Selection,
    /// Print at most N rows, and how much is left out
    #[arg(long, value_name = "N", default_value_t = 30)]
    max_lines: usize,
}

#[derive(clap::Args)]
struct FlameArgs {
    #[command(flatten)]
    of: Selection,
    /// Write here instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print folded stacks instead
    #[arg(long)]
    folded: bool,
}

#[derive(clap::Args)]
struct DiffArgs {
    #[command(flatten)]
    of: Selection,
    /// Compare from this moment on with before
    #[arg(long, value_name = "TIME", value_parser = moment, group = "other")]
    split: Option<String>,
    /// Compare with these machines
    #[arg(long, value_name = "NAMES", value_delimiter = ',', group = "other")]
    against_host: Vec<String>,
    /// Compare with this service, such as another version
    #[arg(long, value_name = "NAME", group = "other")]
    against_service: Option<String>,
}

#[derive(clap::Args)]
struct AddArgs {
    /// The recording
    #[arg(short, long, value_name = "FILE", default_value = "perf.data")]
    input: PathBuf,
    /// The folder of the fleet
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// The machine [default: as recorded]
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// The service of all of it [default: of each process, its unit, container or program]
    #[arg(long, value_name = "NAME")]
    service: Option<String>,
    /// When it was recorded (UTC) [default: when the file was written]
    #[arg(long, value_name = "TIME", value_parser = moment)]
    at: Option<String>,
    /// For the agent: what it has used so far, as CPU_NS,AGE_NS,LEFT_OUT
    #[arg(long, hide = true, value_delimiter = ',', num_args = 1)]
    agent: Vec<u64>,
    /// For the agent: write a message of OpenTelemetry to this file
    #[arg(long, hide = true)]
    otlp: bool,
}

/// Runs the command.
///
/// # Errors
/// The folder can't be read, or has nothing for the question.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.what {
        Question::Top(args) => top(&args),
        Question::Flame(args) => flame(&args),
        Question::Diff(args) => compare(&args),
        Question::Hosts(args) => hosts(&args),
        Question::Locks(args) => locks(&args),
        Question::Add(args) => add(&args),
    }?;
    Ok(ExitCode::SUCCESS)
}

fn top(args: &TopArgs) -> anyhow::Result<()> {
    let (fleet, event) = MergedFleet::of_kind(&args.of.from, &args.of.of_kind(&args.of.event))?;
    let sum = &fleet.profiles;
    out::text(&functions_text(&fleet.scope(sum, event), &functions(sum, event), args.max_lines))
}

fn locks(args: &TopArgs) -> anyhow::Result<()> {
    let asked = MergedFleet::of_kind(&args.of.from, &args.of.of_kind("wall"));
    let (fleet, event) = asked.context("time off the CPU was not recorded")?;
    let sum = &fleet.profiles;
    let locks: Vec<_> =
        waits(sum, event).into_iter().filter(|wait| ["futex", "GIL"].contains(&&*wait.state)).collect();
    let mut scope = fleet.scope(sum, event);
    scope.event = "waiting for locks";
    scope.total = locks.iter().map(|wait| wait.ns).fold(0, u64::saturating_add);
    out::text(&waits_text(&scope, &locks, args.max_lines))
}

fn hosts(args: &TopArgs) -> anyhow::Result<()> {
    let filter = args.of.filter();
    let fleet = MergedFleet::by_host(&args.of.from, &args.of.of_kind(&args.of.event))?;
    let sum = fleet.sum();
    let event = match event_of(&sum, &args.of.event) {
        Ok(event) => event,
        // For its error, with the kinds that there are.
        Err(_) => MergedFleet::of_kind(&args.of.from, &args.of.of_kind(&args.of.event))?.1,
    };
    // The notes are about all services.
    let notes = if filter.services.is_empty() { args.of.from.notes(&filter)? } else { Vec::new() };
    let rows = host_rows(&fleet.profiles, &notes, &args.of.event);
    out::text(&hosts_text(&fleet.scope(&sum, event), &rows))
}

fn flame(args: &FlameArgs) -> anyhow::Result<()> {
    let (fleet, event) = MergedFleet::of_kind(&args.of.from, &args.of.of_kind(&args.of.event))?;
    let sum = &fleet.profiles;
    let tree = Tree::of_profile(sum, TreeOpts { event, ..TreeOpts::default() });
    if args.folded {
        return out::text(&folded::to_text(&tree));
    }
    let title = if args.of.service.is_empty() { "Fleet".to_owned() } else { args.of.service.join(", ") };
    let opts = SvgOpts::plain(title, fleet.scope(sum, event).heading());
    let mut picture = Vec::new();
    svg::write(&mut picture, &tree.condensed(), &opts)?;
    match &args.output {
        Some(path) => write_export(path, picture).with_context(|| format!("can't write {}", path.display())),
        None => {
            out::refuse_terminal("a picture", "-o fleet.svg")?;
            Ok(std::io::Write::write_all(&mut out::raw_stdout(), &picture)?)
        }
    }
}

fn compare(args: &DiffArgs) -> anyhow::Result<()> {
    let (mut before, mut after) = (args.of.filter(), args.of.filter());
    if let Some(moment) = &args.split {
        before.until = Some(moment.clone());
        after.since = Some(moment.clone());
    } else if !args.against_host.is_empty() {
        before.hosts.clone_from(&args.against_host);
    } else if let Some(service) = &args.against_service {
        before.services = vec![service.clone()];
    } else {
        bail!("compare with what? --split TIME, --against-host or --against-service");
    }
    let profiles = |filter: &FleetFilter| -> anyhow::Result<Vec<Profile>> {
        let fleet = MergedFleet::by_host(&args.of.from, filter)?;
        Ok(fleet.profiles.into_iter().map(|(_, profile)| profile).collect())
    };
    let compared = diff(&profiles(&before)?, &profiles(&after)?, &DiffOpts::default());
    if compared.sections.is_empty() {
        bail!("both sides have no kind of value in common");
    }
    out::line(text::write(&compared, &style_of_shares()).trim_end_matches('\n'))
}

fn add(args: &AddArgs) -> anyhow::Result<()> {
    /// For files looked at so far: tables of one more take as much again, and an agent has 200 MB.
    const MAPPED_BYTES: u64 = 64 << 20;
    dso::bound_file_memory(MAPPED_BYTES);
    let mut opts = wall::load_opts();
    if !args.agent.is_empty() {
        // Debug information of large programs takes more time and memory than an agent may use.
        opts.want = Want::Names;
    }
    let recording = load::load(&args.input, opts)?;
    let samples = without_idle(SampleSet::of(&recording.profile, false));
    // An agent's round may meet an idle machine.
    if samples.stacks.is_empty() && args.agent.is_empty() {
        bail!("{}: no samples in it", args.input.display());
    }
    let host = args.host.clone().or_else(|| recording.features.hostname.clone());
    let moment = args.at.clone().unwrap_or_else(|| moment_text(written_s(&args.input)));
    let host = host.context("the recording does not name its machine: give --host")?;
    let service_of_task = |task| match &args.service {
        Some(service) => service.clone(),
        None => service_of(&recording.profile, recording.profile.task(task).pid),
    };
    let key = IntervalKey { host, moment };
    let start_us = key.start_us().context("the date doesn't exist")?;
    let agent = |at: usize| args.agent.get(at).copied().unwrap_or(0);
    let kinds = Ledger::kinds_of(&samples);
    let ledger = Ledger { kinds, agent_cpu_ns: agent(0), agent_age_ns: agent(1), left_out: agent(2) };
    if args.otlp {
        let start_unix_ns = start_us.cast_unsigned() * 1000;
        let source = otlp::OtlpSource { host: &key.host, start_unix_ns, agent: Some(&ledger) };
        let mut file = Vec::new();
        otlp::write_services(&mut file, &samples, &source, service_of_task)?;
        return write_export(&args.to, file).with_context(|| format!("can't write {}", args.to.display()));
    }
    let mut file = Vec::new();
    let source = parquet::RowSource { host: key.host.clone(), start_us };
    parquet::write(&mut file, &samples, &source, service_of_task)?;
    folder::store(&args.to, &key, &file, &ledger.to_file(&key.host, start_us)?)
}

fn written_s(path: &Path) -> u64 {
    let time = path.metadata().and_then(|meta| meta.modified()).ok();
    time.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok()).map_or(0, |since| since.as_secs())
}

/// Unit or container of a process that still runs, `kernel` for the kernel's own threads; else the name that its first
/// thread had.
fn service_of(profile: &Profile, pid: i32) -> String {
    let stat = system_file::read_text(format!("/proc/{pid}/stat")).ok();
    if stat.is_some_and(|stat| is_kernel_thread(&stat)) {
        return "kernel".to_owned();
    }
    let cgroup = system_file::read_text(format!("/proc/{pid}/cgroup")).ok();
    cgroup.and_then(|text| service_of_cgroup(&text)).unwrap_or_else(|| {
        let comm = profile.last_comms.get(&pid).copied();
        comm.map_or_else(|| "unknown".to_owned(), |comm| profile.strings.of(comm).to_owned())
    })
}
