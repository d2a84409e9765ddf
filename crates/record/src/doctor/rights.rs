//! What this process may do, and the shortest way to what it may not.

use std::fs;

use crate::off_cpu::Error;

/// The rights of a process, by /proc/self/status and what stands around it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Rights {
    /// Effective capabilities, a bit each.
    capabilities: u64,
    /// Those that a file could give.
    bounding: u64,
    /// A seccomp filter says which system calls there are.
    has_filter: bool,
    /// Capabilities of files do not count.
    no_new_privileges: bool,
    root: bool,
    /// "none", "integrity", "confidentiality"; empty if the kernel does not tell.
    lockdown: String,
    /// Where this program is.
    program: String,
}

const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

impl Rights {
    /// Of this process.
    pub fn own() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let mut rights = Self::parse(&read("/proc/self/status"));
        rights.lockdown = chosen(&read("/sys/kernel/security/lockdown"));
        let program = fs::read_link("/proc/self/exe").unwrap_or_default();
        rights.program = program.to_string_lossy().into_owned();
        rights
    }

    fn parse(status: &str) -> Self {
        let of = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).map_or("", str::trim);
        Self {
            capabilities: u64::from_str_radix(of("CapEff:"), 16).unwrap_or(0),
            bounding: u64::from_str_radix(of("CapBnd:"), 16).unwrap_or(u64::MAX),
            has_filter: of("Seccomp:") == "2",
            no_new_privileges: of("NoNewPrivs:") == "1",
            root: of("Uid:").split_whitespace().nth(1) == Some("0"),
            program: "tally".to_owned(),
            ..Self::default()
        }
    }

    fn has(&self, capability: u32) -> bool {
        self.capabilities >> capability & 1 == 1
    }

    /// How to get these capabilities; `sysctl` is another way to the same.
    pub fn remedy(&self, capabilities: &[&str], sysctl: Option<&str>) -> String {
        let or = sysctl.map_or_else(String::new, |way| format!(", or {way}"));
        let flags = capabilities
            .iter()
            .map(|name| format!(" --cap-add {}", name.trim_start_matches("cap_").to_uppercase()));
        let docker = format!("docker run{}", flags.collect::<String>());
        if self.bounding >> CAP_PERFMON & 1 == 0 || self.bounding >> CAP_BPF & 1 == 0 {
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

/// What opens the door for the BPF engine, which has failed with `error`.
pub(super) fn of_bpf(error: &Error, rights: &Rights) -> String {
    let may = rights.has(CAP_SYS_ADMIN) || rights.has(CAP_BPF) && rights.has(CAP_PERFMON);
    match error {
        Error::NoBtf { .. } => "a kernel with CONFIG_DEBUG_INFO_BTF=y".to_owned(),
        _ if rights.lockdown == "confidentiality" => {
            "boot without lockdown=confidentiality (integrity is enough for kernels that are locked down)"
                .to_owned()
        }
        _ if may && rights.has_filter => {
            "the capabilities are there, but a seccomp filter forbids bpf(2): in docker: \
            --security-opt seccomp=unconfined, or a profile that allows bpf"
                .to_owned()
        }
        Error::Load { denied: false, .. } | Error::Attach { .. } | Error::Map { .. } if may => {
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

    const STATUS: &str = "Name:\ttally\nUid:\t1000\t1000\t1000\t1000\nCapEff:\t000000c000000000\nNoNewPrivs:\t0\nSeccomp:\t2\n";

    fn refused() -> Error {
        Error::Load { what: "x", reason: "y".to_owned(), denied: true }
    }

    #[test]
    fn the_remedy_is_of_what_stands_in_the_way() {
        let filtered = Rights::parse(STATUS);
        assert!(of_bpf(&refused(), &filtered).contains("seccomp"));
        let nobody = Rights { capabilities: 0, ..filtered.clone() };
        assert!(of_bpf(&refused(), &nobody).contains("setcap cap_perfmon,cap_bpf=ep tally"));
        let inside = Rights { bounding: 0xa804_25fb, ..nobody };
        let docker = "start the container with docker run --cap-add PERFMON --cap-add BPF";
        assert!(of_bpf(&refused(), &inside).ends_with(docker));
        let locked = Rights { lockdown: chosen("none integrity [confidentiality]\n"), ..filtered.clone() };
        assert!(of_bpf(&refused(), &locked).contains("lockdown"));
        let no_btf = Error::NoBtf { reason: String::new() };
        assert!(of_bpf(&no_btf, &filtered).contains("CONFIG_DEBUG_INFO_BTF"));
    }
}
