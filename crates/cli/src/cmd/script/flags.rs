//! The flags of `tally script`.

use crate::flags::event_switch_args::EventSwitchArgs;
use crate::flags::header_args::HeaderArgs;
use crate::flags::name_args::NameArgs;
use crate::flags::perf_compat::{NO_SCRIPTS, PerfCompatFlags, ScriptFlags};
use crate::script::Shown;
use std::ffi::OsString;
use std::path::PathBuf;

/// Print every sample, in time order, in perf script's form
#[derive(clap::Args)]
#[command(args_override_self = true)]
#[command(after_help = "\
Examples:
  tally script                               the perf.data here
  tally script -F comm,pid,tid,time,event,ip,sym,dso
  tally script -F +srcline,-period --ns
  tally script | stackcollapse-perf.pl       any collapser of perf's text
  tally script --json | jq .stack[0].sym
  tally script --itrace=cr --ns -F +flags    calls and returns of an Intel PT trace
  tally script --itrace=i1000ig              every 1000th instruction of it, with its callers
  tally script -S main --time 10%-20%        samples in main, of the second tenth of the time
  tally script --switch-on sched:sched_process_exec   from the first exec on
Fields of -F: comm tid pid time cpu event trace ip sym symoff dso addr srcline period iregs uregs brstack
brstacksym brstackoff data_src weight phys_addr data_page_size code_page_size flags misc ins_lat cgroup label")]
pub struct Args {
    /// The file; `-` is standard input
    #[arg(short, long, value_name = "FILE", default_value = "perf.data")]
    pub input: PathBuf,
    /// Fields to print: [hw:|sw:|trace:|raw:]FIELD,… or +FIELD,-FIELD
    #[arg(short = 'F', long, short_alias = 'f', value_name = "FIELDS", allow_hyphen_values = true)]
    pub fields: Vec<String>,
    /// Times with nine digits
    #[arg(long)]
    pub ns: bool,
    /// Without call chains: the sampled address only
    #[arg(short = 'G', long)]
    pub hide_call_graph: bool,
    /// One JSON object a line
    #[arg(long)]
    pub json: bool,
    /// Show functions inlined into others in recorded call chains, too, not only in unwound ones
    #[arg(long, overrides_with = "no_inline")]
    pub inline: bool,
    /// Do not show functions inlined into others
    #[arg(long)]
    pub no_inline: bool,
    /// Longest call chain printed, from the leaf
    #[arg(long, value_name = "N")]
    pub max_stack: Option<usize>,
    /// Only threads of these names
    #[arg(short, long, value_name = "COMM,…", value_delimiter = ',')]
    pub comms: Vec<String>,
    /// Only these processes
    #[arg(long, value_name = "PID,…", value_delimiter = ',')]
    pub pid: Vec<u32>,
    /// Only these threads
    #[arg(long, value_name = "TID,…", value_delimiter = ',')]
    pub tid: Vec<u32>,
    /// Only these CPUs: `0-3,6`
    #[arg(short = 'C', long, value_name = "CPUS")]
    pub cpu: Option<String>,
    /// Only this time: FROM,TO in seconds, either may be empty; or parts: 10%-20%, 10%/2
    #[arg(long, value_name = "FROM,TO", allow_hyphen_values = true)]
    pub time: Option<String>,
    /// An Intel PT trace, decoded: letters of b (branches), c (calls), r (returns), e (errors), i10us or i1000i
    /// (instructions), g16 (their callers), s100 (pass over this many)
    #[arg(long, value_name = "LETTERS", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub itrace: Option<String>,
    /// Times from the first sample shown on
    #[arg(long, conflicts_with = "deltatime")]
    pub reltime: bool,
    /// Times from the sample before on
    #[arg(long)]
    pub deltatime: bool,
    /// Only samples in these functions, or at these addresses: 0x…
    #[arg(short = 'S', long, value_name = "NAME,…", value_delimiter = ',')]
    pub symbols: Vec<String>,
    /// Only this many bytes from each address of -S on  [default: 1]
    #[arg(long, value_name = "BYTES")]
    pub addr_range: Option<String>,
    /// Only samples in these files
    #[arg(long, value_name = "FILE,…", value_delimiter = ',')]
    pub dsos: Vec<String>,
    /// Callers of these functions are not shown
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub stop_bt: Vec<String>,
    /// Between which events samples are shown
    #[command(flatten)]
    pub switch: EventSwitchArgs,
    /// A file for each event: perf.data.EVENT.dump
    #[arg(long, conflicts_with = "json")]
    pub per_event_dump: bool,
    /// Source files with their folders
    #[arg(long)]
    pub full_source_path: bool,
    /// Flags about the file's header.
    #[command(flatten)]
    pub header: HeaderArgs,
    /// Names, beginnings and ends of tasks, too
    #[arg(long)]
    pub show_task_events: bool,
    /// Mappings, too
    #[arg(long)]
    pub show_mmap_events: bool,
    /// Context switches, too
    #[arg(long)]
    pub show_switch_events: bool,
    /// Namespaces of tasks, too
    #[arg(long)]
    pub show_namespace_events: bool,
    /// Cgroups, too
    #[arg(long)]
    pub show_cgroup_events: bool,
    /// Losses, too
    #[arg(long)]
    pub show_lost_events: bool,
    /// Kernel symbols and BPF programs that come and go, too
    #[arg(long)]
    pub show_bpf_events: bool,
    /// Where names come from
    #[command(flatten)]
    pub names: NameArgs,
    /// Read names of JIT code (/tmp/perf-PID.map) whoever wrote them
    #[arg(long)]
    pub force: bool,
    /// Flags that only perf has.
    #[command(flatten)]
    pub perf: PerfCompatFlags<ScriptFlags>,
    /// perf's scripts
    #[arg(hide = true, value_name = "SCRIPT")]
    pub words: Vec<String>,
}

/// `-f` before another option, or at the end, is perf's `--force`; with a value it is an old spelling of `-F`.
pub fn spelled_out(mut args: Vec<OsString>) -> Vec<OsString> {
    if args.get(1).is_none_or(|command| command != "script") {
        return args;
    }
    for at in 2..args.len() {
        let is_last_or_before_option =
            args.get(at + 1).is_none_or(|next| next.as_encoded_bytes().starts_with(b"-"));
        if args[at] == "-f" && is_last_or_before_option {
            args[at] = "--force".into();
        }
    }
    args
}

impl Args {
    /// Which other records are shown.
    pub fn shown(&self) -> Shown {
        Shown {
            tasks: self.show_task_events,
            mmaps: self.show_mmap_events,
            switches: self.show_switch_events,
            namespaces: self.show_namespace_events,
            cgroups: self.show_cgroup_events,
            lost: self.show_lost_events,
            bpf: self.show_bpf_events,
        }
    }
}

/// Refuses perf's first words after `script`, and names the replacement.
pub(super) fn refuse_words(words: &[String]) -> anyhow::Result<()> {
    match words.first() {
        Some(word) => anyhow::bail!("script {word}: {NO_SCRIPTS} (a file is named by -i)"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::Flags;
    use clap::Parser;

    fn args(line: &str) -> Args {
        let words = line.split(' ').map(OsString::from).collect();
        match Flags::try_parse_from(spelled_out(words)).expect("a valid line").command {
            crate::cmd::Command::Script(args) => *args,
            _ => panic!("another command"),
        }
    }

    #[test]
    fn f_is_perfs_force_before_another_option_and_fields_with_a_value() {
        let old = args("tally script -f -F time,event");
        assert_eq!((old.force, old.fields), (true, vec!["time,event".to_owned()]));
        assert!(args("tally script -i x -f").force);
        let fields = args("tally script -f comm,ip");
        assert_eq!((fields.force, fields.fields), (false, vec!["comm,ip".to_owned()]));
    }
}
