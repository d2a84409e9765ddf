//! Targets: a command, `-p`, `-t`, `-u`, `-a`, `-C`, `-G`.

use std::ffi::OsString;
use std::path::Path;

use record::cgroups::{self, NoOneCgroup};
use record::container_names;
use record::named_processes;
use record::target::{Target, Whom, online_cpu_list};

use super::ProcessArg;

/// Flags that select the recorded tasks.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Target")]
pub struct TargetArgs {
    /// Processes to attach to: numbers, names of programs, or pid files
    #[arg(short, long, value_name = "PID|NAME|FILE,…", value_delimiter = ',')]
    pub pid: Vec<ProcessArg>,
    /// With -p: their child processes as well (run and top take them by themselves)
    #[arg(long, overrides_with = "no_children")]
    pub children: bool,
    /// With -p: without their child processes
    #[arg(long, overrides_with = "children")]
    pub no_children: bool,
    /// Threads to attach to
    #[arg(short, long, value_name = "TID,…", value_delimiter = ',')]
    pub tid: Vec<u32>,
    /// Processes of this user (name or number)
    #[arg(short, long, value_name = "USER")]
    pub uid: Option<String>,
    /// The whole machine
    #[arg(short, long)]
    pub all_cpus: bool,
    /// Only these CPUs, such as 0,2-3
    #[arg(short = 'C', long, value_name = "LIST")]
    pub cpu: Option<String>,
    /// Only tasks of this cgroup (with -a)
    #[arg(short = 'G', long, value_name = "PATH")]
    pub cgroup: Option<String>,
    /// Only this container, by name or id (docker, podman, containerd, Kubernetes, LXC)
    #[arg(long, value_name = "NAME", conflicts_with_all = ["cgroup", "unit"])]
    pub container: Option<String>,
    /// Only this systemd unit
    #[arg(long, value_name = "NAME", conflicts_with = "cgroup")]
    pub unit: Option<String>,
    /// Command to start; with -p, -t, -u or -a its run time is the duration
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

impl TargetArgs {
    /// As `record` takes it: of processes without their children, as perf has it, unless they are asked for.
    ///
    /// # Errors
    /// Contradicting flags, an unknown user, a bad CPU list.
    pub fn target(&self) -> anyhow::Result<Target> {
        self.target_and(self.children)
    }

    /// The same, but processes with their children unless `--no-children`: a server's work is done there.
    ///
    /// # Errors
    /// As [`Self::target`].
    pub fn target_with_children(&self) -> anyhow::Result<Target> {
        self.target_and(!self.no_children)
    }

    fn target_and(&self, with_children: bool) -> anyhow::Result<Target> {
        let ways = [!self.pid.is_empty(), !self.tid.is_empty(), self.uid.is_some(), self.all_cpus];
        if ways.iter().filter(|w| **w).count() > 1 {
            anyhow::bail!("-p, -t, -u and -a exclude each other");
        }
        self.refuse_more_ids()?;
        let whom = if !self.pid.is_empty() {
            let pids = self.pids();
            if with_children { Whom::Trees(named_processes::roots(&pids)) } else { Whom::Processes(pids) }
        } else if !self.tid.is_empty() {
            Whom::Threads(self.tid.clone())
        } else if let Some(user) = &self.uid {
            Whom::User(user_id(user)?)
        } else if self.all_cpus || self.names_cgroup() || (self.command.is_empty() && self.cpu.is_some()) {
            Whom::System
        } else {
            Whom::Command
        };
        // perf reads -C with a command as "these CPUs, everything on them".
        let whom = if whom == Whom::Command && self.cpu.is_some() { Whom::System } else { whom };
        let cpus = self.cpu.as_deref().map(online_cpu_list).transpose()?;
        Ok(Target { whom, cpus, command: self.command.clone(), cgroup: self.cgroup_path()? })
    }

    /// The processes of `-p`, in its order, each once.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        ProcessArg::pids(&self.pid)
    }

    /// True if the target is a cgroup, by path or by name.
    #[must_use]
    pub fn names_cgroup(&self) -> bool {
        self.cgroup.is_some() || self.container.is_some() || self.unit.is_some()
    }

    /// The cgroup's path below its hierarchy's mount; `None` without a cgroup.
    fn cgroup_path(&self) -> Result<Option<String>, NoOneCgroup> {
        match (&self.container, &self.unit) {
            (Some(name), _) => {
                cgroups::find_container(name, &container_names::read(Path::new("/"))).map(Some)
            }
            (_, Some(name)) => cgroups::find_unit(name).map(Some),
            _ => Ok(self.cgroup.clone()),
        }
    }
}

impl TargetArgs {
    /// `-p 1 2` would record while a program `2` runs.
    fn refuse_more_ids(&self) -> anyhow::Result<()> {
        let is_number = |word: &OsString| word.to_str().is_some_and(|word| word.parse::<u32>().is_ok());
        let (flag, ids) = if self.pid.is_empty() { ("-t", self.tid.clone()) } else { ("-p", self.pids()) };
        if ids.is_empty() || self.command.is_empty() || !self.command.iter().all(is_number) {
            return Ok(());
        }
        let words = ids
            .iter()
            .map(u32::to_string)
            .chain(self.command.iter().filter_map(|w| w.to_str().map(str::to_owned)));
        anyhow::bail!("several numbers are one list: {flag} {}", words.collect::<Vec<_>>().join(","))
    }
}

/// The number of a user given by name or number.
fn user_id(user: &str) -> anyhow::Result<u32> {
    if let Ok(number) = user.parse() {
        return Ok(number);
    }
    let passwd = dso::system_file::read_text("/etc/passwd").unwrap_or_default();
    let id = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(user)).then(|| fields.nth(1)?.parse().ok())?
    });
    id.ok_or_else(|| anyhow::anyhow!("no user '{user}' in /etc/passwd: give the number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_of_a_process_are_taken_by_default_where_the_command_is_not_perfs() {
        let args = TargetArgs { pid: vec![1.into()], ..TargetArgs::default() };
        let whom = |args: &TargetArgs| {
            [args.target(), args.target_with_children()].map(|target| target.expect("well formed").whom)
        };
        let (one, tree) = (Whom::Processes(vec![1]), Whom::Trees(vec![1]));
        assert_eq!(whom(&args), [one.clone(), tree.clone()]);
        assert_eq!(whom(&TargetArgs { children: true, ..args.clone() }), [tree.clone(), tree]);
        assert_eq!(whom(&TargetArgs { no_children: true, ..args }), [one.clone(), one]);
    }

    #[test]
    fn a_command_with_a_cpu_list_watches_those_cpus() {
        let args = TargetArgs { cpu: Some("0".into()), command: vec!["ls".into()], ..TargetArgs::default() };
        let target = args.target().expect("CPU 0 is online");
        assert_eq!((target.whom, target.cpus), (Whom::System, Some(vec![0])));
        let both = TargetArgs { pid: vec![1.into()], all_cpus: true, ..TargetArgs::default() };
        assert!(both.target().is_err());
        let two = TargetArgs { pid: vec![1.into()], command: vec!["2".into()], ..TargetArgs::default() };
        assert!(two.target().expect_err("a list").to_string().ends_with("-p 1,2"));
        assert_eq!(user_id("root").expect("root is known"), 0);
    }
}
