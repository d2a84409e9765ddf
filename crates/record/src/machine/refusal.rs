//! Why perf events and stops of threads are refused here, and the one command that helps: found from facts, for the
//! kernel's errors are the same for many reasons.

use std::io;
use std::path::Path;

use dso::system_file;

use super::capabilities::Rights;
use super::proc;
use crate::sys::{mem, stop};

/// Limits that the caller's security module has set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Confinement {
    /// Nothing, or a module that only takes notes.
    #[default]
    None,
    /// This profile of AppArmor, which is enforced.
    AppArmor(String),
    /// This domain of SELinux.
    SeLinux(String),
}

/// The remedy where the module is not known.
const SEE_LOG: &str = "see its log: dmesg, ausearch";

/// A refusal in words: who refuses, and the command that allows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessRefusal {
    /// As "perf_event_open is blocked by seccomp".
    pub why: String,
    /// As "sudo sysctl kernel.perf_event_paranoid=1".
    pub remedy: String,
}

fn refusal(why: &str, remedy: &str) -> AccessRefusal {
    AccessRefusal { why: why.to_owned(), remedy: remedy.to_owned() }
}

/// A stop of a thread that the system refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusedStop {
    /// The system's error.
    pub errno: Option<i32>,
    /// The process is another user's.
    pub is_others: bool,
}

impl RefusedStop {
    /// About a thread that lives.
    #[must_use]
    pub fn of(tid: u32, error: &io::Error) -> Self {
        let user = proc::status(tid).map(|status| status.uid);
        Self { errno: error.raw_os_error(), is_others: user.is_some_and(|user| user != mem::effective_uid()) }
    }
}

/// Everything that decides over perf events and ptrace, as this process finds it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccessFacts {
    confinement: Confinement,
    /// `kernel.perf_event_paranoid`; `None` if it can't be read.
    paranoid: Option<i64>,
    /// `kernel.yama.ptrace_scope`; `None` without Yama.
    ptrace_scope: Option<i64>,
    /// A seccomp filter denies `perf_event_open`, to root as well.
    filters_perf: bool,
    /// A seccomp filter denies `ptrace`.
    filters_trace: bool,
    /// Its capabilities would let it open any event.
    may_perf: bool,
    /// Its capabilities would let it trace other users' processes.
    may_trace: bool,
    /// A user namespace other than the machine's, where capabilities don't count for perf events.
    is_namespaced: bool,
    /// In a container, where options of `docker run` are the remedy.
    is_contained: bool,
}

impl AccessFacts {
    /// The facts about this process.
    #[must_use]
    pub fn own() -> Self {
        let rights = Rights::own();
        let read = |path: &str| system_file::read_text(path).unwrap_or_default();
        let labels = ["/proc/self/attr/apparmor/current", "/proc/self/attr/current"].map(read);
        let map = read("/proc/self/uid_map");
        Self {
            confinement: Confinement::of_labels(&labels, read("/sys/fs/selinux/enforce").trim() != "0"),
            paranoid: proc::sysctl("kernel/perf_event_paranoid"),
            ptrace_scope: proc::sysctl("kernel/yama/ptrace_scope"),
            filters_perf: rights.filters_perf,
            filters_trace: !stop::reaches_kernel(),
            may_perf: rights.may_perf(),
            may_trace: rights.may_trace(),
            is_namespaced: is_part(&map),
            is_contained: ["/.dockerenv", "/run/.containerenv"].iter().any(|path| Path::new(path).exists()),
        }
    }

    /// Why `perf_event_open` gave `error` for an event of one's own in user mode, which is allowed up to
    /// `perf_event_paranoid` 2.
    #[must_use]
    pub fn of_perf(&self, error: &io::Error) -> AccessRefusal {
        if self.filters_perf {
            let run = "docker run --cap-add PERFMON --cap-add BPF --security-opt seccomp=unconfined";
            return refusal("perf_event_open is blocked by seccomp", run);
        }
        if error.raw_os_error() == Some(libc::ENOSYS) {
            return refusal("this system has no perf_event_open", "another kernel or sandbox");
        }
        if let Some(refusal) = self.of_module("perf_event_open", 2) {
            return refusal;
        }
        match self.paranoid {
            _ if self.is_open(2) => refusal("a security module forbids perf_event_open", SEE_LOG),
            Some(level) if self.is_namespaced && self.may_perf => refusal(
                &format!(
                    "kernel.perf_event_paranoid is {level}, and root of a user namespace counts as any user"
                ),
                "sudo sysctl kernel.perf_event_paranoid=1 on the host",
            ),
            Some(level) => refusal(
                &format!("kernel.perf_event_paranoid is {level}"),
                "sudo sysctl kernel.perf_event_paranoid=1",
            ),
            None => {
                refusal("perf_event_open is denied", "a container that allows it, see: tally help containers")
            }
        }
    }

    /// The security module as the reason for a refused `call`, where the value of `perf_event_paranoid` can't be: it is
    /// at most `enough`, or this process's capabilities override it.
    #[must_use]
    pub fn of_module(&self, call: &str, enough: i64) -> Option<AccessRefusal> {
        self.is_open(enough).then(|| self.confinement.refuses(call, self.is_contained)).flatten()
    }

    /// True if neither `perf_event_paranoid` nor missing capabilities forbid what is allowed up to `enough`.
    fn is_open(&self, enough: i64) -> bool {
        self.may_perf && !self.is_namespaced || self.paranoid.is_some_and(|level| level <= enough)
    }

    /// Why a stop of a thread was refused.
    #[must_use]
    pub fn of_stops(&self, refused: RefusedStop) -> AccessRefusal {
        let RefusedStop { errno: error, is_others } = refused;
        if self.filters_trace {
            return refusal("ptrace is blocked by seccomp", "docker run --cap-add SYS_PTRACE");
        }
        // Yama and the kernel's own rules answer EPERM.
        // Source: linux v6.18 security/apparmor/ipc.c, profile_tracer_perm(); security/selinux/hooks.c
        if error == Some(libc::EACCES) {
            let by_module = self.confinement.refuses("ptrace", self.is_contained);
            return by_module.unwrap_or_else(|| refusal("a security module forbids ptrace", SEE_LOG));
        }
        // Source: linux v6.18 Documentation/admin-guide/LSM/Yama.rst
        match self.ptrace_scope {
            Some(3) => refusal("kernel.yama.ptrace_scope is 3: nobody may trace", "a reboot without it"),
            _ if is_others && !self.may_trace => {
                refusal("the process is another user's", "run tally as that user, or with sudo")
            }
            Some(2) if !self.may_trace => {
                refusal("kernel.yama.ptrace_scope is 2: only root may trace", "run tally with sudo")
            }
            Some(1) if !self.may_trace => refusal(
                "kernel.yama.ptrace_scope is 1: only children may be traced",
                "sudo sysctl kernel.yama.ptrace_scope=0",
            ),
            _ => refusal("the process protects itself (set-user-ID, or not dumpable)", "run tally with sudo"),
        }
    }
}

impl Confinement {
    /// By the texts of `attr/apparmor/current` and `attr/current`; either may be empty.
    fn of_labels(labels: &[String], enforces_selinux: bool) -> Self {
        let profile = |label: &String| {
            let (name, mode) = label.trim_end_matches(['\n', '\0']).rsplit_once(" (")?;
            ["enforce)", "kill)"].contains(&mode).then(|| Self::AppArmor(name.to_owned()))
        };
        let domain = |label: &String| {
            let mut fields = label.trim_end_matches(['\n', '\0']).split(':');
            let (_, role, domain) = (fields.next()?, fields.next()?, fields.next()?);
            let is_confined = role.ends_with("_r") && domain != "unconfined_t" && domain != "kernel_t";
            (enforces_selinux && is_confined).then(|| Self::SeLinux(domain.to_owned()))
        };
        labels.iter().find_map(|label| profile(label).or_else(|| domain(label))).unwrap_or_default()
    }

    fn refuses(&self, call: &str, is_contained: bool) -> Option<AccessRefusal> {
        let (why, option, command) = match self {
            Self::None => return None,
            Self::AppArmor(profile) => (
                format!("the AppArmor profile {profile} forbids {call}"),
                "apparmor=unconfined",
                format!("sudo aa-complain '{profile}'"),
            ),
            Self::SeLinux(domain) => (
                format!("SELinux forbids {call} to {domain}"),
                "label=disable",
                format!("sudo semanage permissive -a {domain}"),
            ),
        };
        // Profiles of container engines: docker-default, containers-default-0.50, cri-containerd.apparmor.d, container_t.
        let is_engines = matches!(self, Self::AppArmor(name) | Self::SeLinux(name)
            if ["docker", "container", "cri", "crio", "lxc"].iter().any(|engine| name.starts_with(engine)));
        let remedy =
            if is_contained || is_engines { format!("docker run --security-opt {option}") } else { command };
        Some(AccessRefusal { why, remedy })
    }
}

/// True for the map of a user namespace that has not all users.
fn is_part(uid_map: &str) -> bool {
    let words: Vec<&str> = uid_map.split_whitespace().collect();
    !words.is_empty() && words != ["0", "0", "4294967295"]
}

impl std::fmt::Display for AccessRefusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (remedy: {})", self.why, self.remedy)
    }
}

/// The remedy for an event that `perf_event_open` refused; starts with "; " or is empty.
pub fn remedy_of_open(error: &io::Error, paranoid: Option<i64>, system_wide: bool) -> String {
    let enough = if system_wide { 0 } else { 2 };
    let refused = matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM | libc::ENOSYS));
    if let Some(remedy) = refused.then(|| Rights::own().of_filtered_perf(paranoid, enough)).flatten() {
        return format!("; {remedy}");
    }
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            let by_module = || AccessFacts::own().of_module("perf_event_open", enough);
            if let Some(AccessRefusal { why, remedy }) = by_module() {
                return format!("; {why}: {remedy}");
            }
            let level = paranoid.map_or_else(|| "?".to_owned(), |p| p.to_string());
            if paranoid.is_some_and(|level| level <= enough) {
                return "; the process or event is not yours to watch: run as root, or give the program CAP_PERFMON and \
                        CAP_SYS_PTRACE"
                    .to_owned();
            }
            format!(
                "; kernel.perf_event_paranoid is {level}: run as root, or give the program CAP_PERFMON, \
                 or as root: sysctl kernel.perf_event_paranoid={enough}"
            )
        }
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP) => {
            "; this machine has no such counter: try -e cpu-clock, or see tally list".to_owned()
        }
        Some(libc::EMFILE) => {
            "; too many open files: raise ulimit -n, or record fewer threads (-a)".to_owned()
        }
        Some(libc::ENOMEM) => "; the kernel has no memory left for it".to_owned(),
        Some(libc::ENOSYS) => "; this kernel or container has no perf_event_open".to_owned(),
        Some(libc::EBUSY) => "; another tool holds the counter".to_owned(),
        Some(libc::ESRCH) => "; the process has ended".to_owned(),
        Some(libc::EINVAL) => "; the kernel does not know this combination of options".to_owned(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(apparmor: &str, current: &str) -> Confinement {
        Confinement::of_labels(&[apparmor.to_owned(), current.to_owned()], true)
    }

    fn refused(errno: i32, is_others: bool) -> RefusedStop {
        RefusedStop { errno: Some(errno), is_others }
    }

    fn denied() -> io::Error {
        io::Error::from_raw_os_error(libc::EACCES)
    }

    #[test]
    fn only_enforced_profiles_confine() {
        let docker = Confinement::AppArmor("docker-default".to_owned());
        assert_eq!(labels("", "docker-default (enforce)\n"), docker);
        assert_eq!(labels("docker-default (enforce)\n", ""), docker);
        assert_eq!(labels("a b//&c (kill)\n", ""), Confinement::AppArmor("a b//&c".to_owned()));
        for free in ["", "unconfined\n", "tally (complain)\n", "tally (unconfined)\n"] {
            assert_eq!(labels(free, free), Confinement::None, "{free}");
        }
    }

    #[test]
    fn a_domain_of_selinux_confines_where_it_is_enforced() {
        let of = |label: &str, enforces| Confinement::of_labels(&[String::new(), label.to_owned()], enforces);
        let container = "system_u:system_r:container_t:s0:c1,c2\0";
        assert_eq!(of(container, true), Confinement::SeLinux("container_t".to_owned()));
        assert_eq!(of(container, false), Confinement::None);
        assert_eq!(of("unconfined_u:unconfined_r:unconfined_t:s0-s0:c0.c1023", true), Confinement::None);
        // Smack's labels are single words.
        assert_eq!(of("_", true), Confinement::None);
    }

    #[test]
    fn apparmor_is_named_only_where_the_sysctl_is_not_the_reason() {
        let confinement = labels("snap.tool (enforce)\n", "");
        let facts = AccessFacts { confinement, paranoid: Some(2), ..AccessFacts::default() };
        let by_profile = facts.of_perf(&denied());
        assert_eq!(by_profile.why, "the AppArmor profile snap.tool forbids perf_event_open");
        assert_eq!(by_profile.remedy, "sudo aa-complain 'snap.tool'");
        let paranoid = AccessFacts { paranoid: Some(4), ..facts.clone() };
        assert_eq!(paranoid.of_perf(&denied()).why, "kernel.perf_event_paranoid is 4");
        let capable = AccessFacts { may_perf: true, ..paranoid.clone() };
        assert_eq!(capable.of_perf(&denied()), by_profile);
        let inside = AccessFacts { is_namespaced: true, ..capable };
        assert!(inside.of_perf(&denied()).why.contains("root of a user namespace"));
        let filtered = AccessFacts { filters_perf: true, ..facts.clone() };
        assert!(filtered.of_perf(&denied()).why.contains("seccomp"));
        let free = AccessFacts { confinement: Confinement::None, ..facts };
        assert_eq!(free.of_module("perf_event_open", 2), None);
        assert_eq!(free.of_perf(&denied()).why, "a security module forbids perf_event_open");
    }

    #[test]
    fn the_profile_of_a_container_is_left_by_an_option_of_its_engine() {
        let facts =
            AccessFacts { confinement: labels("docker-default (enforce)\n", ""), ..AccessFacts::default() };
        let stops = facts.of_stops(refused(libc::EACCES, false));
        assert_eq!(stops.remedy, "docker run --security-opt apparmor=unconfined");
        let yama = AccessFacts { ptrace_scope: Some(1), ..facts };
        assert_eq!(
            yama.of_stops(refused(libc::EPERM, false)).remedy,
            "sudo sysctl kernel.yama.ptrace_scope=0"
        );
    }

    #[test]
    fn each_reason_that_no_thread_may_be_stopped_has_its_remedy() {
        let of = |facts: AccessFacts, is_others| facts.of_stops(refused(libc::EPERM, is_others)).why;
        let scope = |level| AccessFacts { ptrace_scope: Some(level), ..AccessFacts::default() };
        assert!(of(scope(1), false).contains("ptrace_scope is 1"));
        assert!(of(scope(2), false).contains("ptrace_scope is 2"));
        assert!(of(scope(3), true).contains("ptrace_scope is 3"));
        assert_eq!(of(scope(1), true), "the process is another user's");
        let root = AccessFacts { may_trace: true, ..scope(2) };
        assert!(of(root, true).contains("protects itself"));
        let filtered = AccessFacts { filters_trace: true, ..scope(1) };
        assert!(of(filtered, true).contains("seccomp"));
    }

    #[test]
    fn the_machines_own_user_namespace_has_all_users() {
        assert!(!is_part("         0          0 4294967295\n") && !is_part(""));
        assert!(is_part("         0       1000          1\n         1     100000      65536\n"));
    }
}
