//! Rights of this process, and the shortest way to get the missing ones.

use std::fs;
use std::path::Path;

use crate::sys::bpf_error::{Denied, Error};
use crate::sys::{bpf, mem, perf_event, seccomp};
use dso::system_file;

/// The rights of a process, from /proc/self/status and its environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rights {
    /// Effective capabilities, a bit each.
    capabilities: u64,
    /// Those that a file could give.
    bounding: u64,
    /// A seccomp filter denies `bpf`: tried, not guessed.
    pub filters_bpf: bool,
    /// A seccomp filter denies `perf_event_open`.
    pub filters_perf: bool,
    /// Capabilities of files do not count.
    no_new_privileges: bool,
    root: bool,
    /// "none", "integrity", "confidentiality"; empty if the kernel does not report it.
    lockdown: String,
    /// Where this program is.
    program: String,
}

const CAP_SYS_PTRACE: u32 = 19;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

impl Rights {
    /// Reads the rights of this process.
    #[must_use]
    pub fn own() -> Self {
        let read = |path: &str| system_file::read_text(path).unwrap_or_default();
        let status = read("/proc/self/status");
        let mut rights = Self::parse(&status);
        if status.is_empty() && mem::effective_uid() == 0 {
            // Without /proc nothing shows what root lacks here: the kernel is asked, and refuses what is not allowed.
            (rights.root, rights.capabilities) = (true, u64::MAX);
        }
        // Without a filter nothing else stops a call on its way.
        let has_filter = seccomp::has_filter();
        rights.filters_bpf = has_filter && !bpf::reaches_kernel();
        rights.filters_perf = has_filter && !perf_event::reaches_kernel();
        rights.lockdown = chosen(&read("/sys/kernel/security/lockdown"));
        let program = fs::read_link("/proc/self/exe").unwrap_or_default();
        rights.program = program.to_string_lossy().into_owned();
        rights
    }

    /// How to get these capabilities, as one command.
    #[must_use]
    pub fn shortest_remedy(&self, capabilities: &[&str]) -> String {
        if self.filters_bpf {
            return of_filter("bpf");
        }
        if !self.can_gain() {
            return self.remedy(capabilities, None);
        }
        format!("sudo setcap {}=ep {}", capabilities.join(","), self.program)
    }

    /// A file's capabilities could give what is missing.
    fn can_gain(&self) -> bool {
        self.bounding >> CAP_PERFMON & 1 == 1 && self.bounding >> CAP_BPF & 1 == 1
    }

    fn parse(status: &str) -> Self {
        let of = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).map_or("", str::trim);
        Self {
            capabilities: u64::from_str_radix(of("CapEff:"), 16).unwrap_or(0),
            bounding: u64::from_str_radix(of("CapBnd:"), 16).unwrap_or(u64::MAX),
            no_new_privileges: of("NoNewPrivs:") == "1",
            root: of("Uid:").split_whitespace().nth(1) == Some("0"),
            program: "tally".to_owned(),
            ..Self::default()
        }
    }

    fn has(&self, capability: u32) -> bool {
        self.capabilities >> capability & 1 == 1
    }

    /// May read what other users' processes have mapped.
    #[must_use]
    pub fn may_trace(&self) -> bool {
        self.has(CAP_SYS_PTRACE)
    }

    /// May load any program that the kernel takes.
    #[must_use]
    pub fn may_bpf(&self) -> bool {
        self.has(CAP_SYS_ADMIN) || self.has(CAP_BPF) && self.has(CAP_PERFMON)
    }

    /// May open any event, whatever the value of kernel.perf_event_paranoid.
    #[must_use]
    pub fn may_perf(&self) -> bool {
        self.has(CAP_SYS_ADMIN) || self.has(CAP_PERFMON)
    }

    /// The remedy for perf events denied by a filter: first the filter, then missing rights if `paranoid` is above
    /// `enough`. `None` without a filter.
    #[must_use]
    pub fn of_filtered_perf(&self, paranoid: Option<i64>, enough: i64) -> Option<String> {
        if !self.filters_perf {
            return None;
        }
        let first = of_filter("perf_event_open");
        if self.may_perf() || paranoid.is_some_and(|level| level <= enough) {
            return Some(first);
        }
        let sysctl = format!("as root: sysctl kernel.perf_event_paranoid={enough}");
        Some(format!("{first}; then {}", self.remedy(&["cap_perfmon"], Some(&sysctl))))
    }

    /// How to get these capabilities; `sysctl` is another way to the same.
    #[must_use]
    pub fn remedy(&self, capabilities: &[&str], sysctl: Option<&str>) -> String {
        let or = sysctl.map_or_else(String::new, |way| format!(", or {way}"));
        let flags = capabilities
            .iter()
            .map(|name| format!(" --cap-add {}", name.trim_start_matches("cap_").to_uppercase()));
        let docker = format!("docker run{}", flags.collect::<String>());
        if !self.can_gain() {
            // Neither root nor a file's capabilities help.
            return format!(
                "no process here can have these capabilities: start the container with {docker}{or}"
            );
        }
        let lost = if self.no_new_privileges { " (and run it without no_new_privs)" } else { "" };
        let root = if self.root { "" } else { "run as root, or: " };
        let names = capabilities.join(",");
        format!("{root}setcap {names}=ep {}{lost}{or}; in a container: {docker}", self.program)
    }
}

/// The remedy for a filter that denies this call: no right helps against it.
#[must_use]
pub fn of_filter(call: &str) -> String {
    format!(
        "a seccomp filter forbids {call}(2) here, to root as well: in docker or podman: --security-opt \
         seccomp=unconfined, or a profile that allows {call} (Kubernetes: seccompProfile, systemd: SystemCallFilter=)"
    )
}

/// The remedy for the BPF engine, which has failed with `error`.
#[must_use]
pub fn of_bpf(error: &Error, rights: &Rights) -> String {
    let may = rights.may_bpf();
    match error {
        Error::NoBtf { .. } if !Path::new("/sys/kernel").exists() => "mount -t sysfs sysfs /sys".to_owned(),
        Error::NoBtf { .. } => "a kernel with CONFIG_DEBUG_INFO_BTF=y".to_owned(),
        Error::OldKernel { .. } => "Linux 5.11 or later".to_owned(),
        _ if rights.filters_bpf && may => of_filter("bpf"),
        _ if rights.filters_bpf => {
            format!("{}; then {}", of_filter("bpf"), rights.remedy(&["cap_perfmon", "cap_bpf"], None))
        }
        _ if rights.lockdown == "confidentiality" => {
            "boot without lockdown=confidentiality (integrity is enough for kernels that are locked down)"
                .to_owned()
        }
        Error::Load { denied: Denied::No, .. } | Error::Attach { .. } | Error::Map { .. } if may => {
            "a newer kernel may help (5.15 or later); please report this text with uname -r".to_owned()
        }
        _ if may => "a security module forbids bpf(2): see its log (dmesg, ausearch)".to_owned(),
        _ => rights.remedy(&["cap_perfmon", "cap_bpf"], None),
    }
}

/// The word in brackets.
fn chosen(text: &str) -> String {
    let word = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    word.map_or_else(String::new, |(word, _)| word.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str =
        "Name:\ttally\nUid:\t1000\t1000\t1000\t1000\nCapEff:\t000000c000000000\nNoNewPrivs:\t0\n";

    fn refused() -> Error {
        Error::Load { what: "x", reason: "y".to_owned(), denied: Denied::ForRights }
    }

    #[test]
    fn the_remedy_is_of_what_stands_in_the_way() {
        let allowed = Rights::parse(STATUS);
        assert!(of_bpf(&refused(), &allowed).contains("security module"));
        let nobody = Rights { capabilities: 0, ..allowed.clone() };
        assert!(of_bpf(&refused(), &nobody).contains("setcap cap_perfmon,cap_bpf=ep tally"));
        let inside = Rights { bounding: 0xa804_25fb, ..nobody };
        let docker = "start the container with docker run --cap-add PERFMON --cap-add BPF";
        assert!(of_bpf(&refused(), &inside).ends_with(docker));
        let locked = Rights { lockdown: chosen("none integrity [confidentiality]\n"), ..allowed.clone() };
        assert!(of_bpf(&refused(), &locked).contains("lockdown"));
        let old = Error::OldKernel { release: "5.10.0-46-amd64".to_owned() };
        assert_eq!(of_bpf(&old, &allowed), "Linux 5.11 or later");
        let no_btf = Error::NoBtf { reason: String::new() };
        assert!(of_bpf(&no_btf, &allowed).contains("CONFIG_DEBUG_INFO_BTF"));
    }

    #[test]
    fn a_filter_is_named_before_all_rights_that_it_makes_useless() {
        let filtered = Rights { filters_bpf: true, filters_perf: true, ..Rights::parse(STATUS) };
        let nobody = Rights { capabilities: 0, ..filtered.clone() };
        assert_eq!(of_bpf(&refused(), &filtered), of_filter("bpf"));
        let two = of_bpf(&refused(), &nobody);
        assert!(
            two.starts_with(&of_filter("bpf")) && two.contains("; then run as root, or: setcap"),
            "{two}"
        );
        assert_eq!(filtered.of_filtered_perf(Some(4), 2), Some(of_filter("perf_event_open")));
        assert_eq!(nobody.of_filtered_perf(Some(2), 2), Some(of_filter("perf_event_open")));
        let two = nobody.of_filtered_perf(Some(4), 2).expect("filtered");
        assert!(
            two.starts_with(&of_filter("perf_event_open")) && two.contains("perf_event_paranoid=2"),
            "{two}"
        );
        assert_eq!(Rights::parse(STATUS).of_filtered_perf(Some(4), 2), None);
    }
}
