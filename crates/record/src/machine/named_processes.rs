//! Running processes by the name a person gives them: command name, program file, or script of an interpreter.

use std::collections::BTreeSet;
use std::path::Path;

use crate::machine::{proc, process_tree};
use dso::system_file;

/// Programs that run a script, by the beginning of their names: the script's name is a name of the process, too.
const INTERPRETERS: &[&str] =
    &["python", "node", "ruby", "perl", "php", "bash", "sh", "dash", "lua", "tclsh", "Rscript"];

/// The kernel keeps this many bytes of a command name.
const COMM_BYTES: usize = 15;

/// The processes called `name`, ascending. tally itself is left out.
#[must_use]
pub fn find_by_name(name: &str) -> Vec<u32> {
    let ours = std::process::id();
    proc::pids().into_iter().filter(|&pid| pid != ours && names_of(pid).contains(name)).collect()
}

/// Those of `pids` that do not descend from another of them, ascending: with their descendants they are all of them.
#[must_use]
pub fn roots(pids: &[u32]) -> Vec<u32> {
    let all: BTreeSet<u32> = pids.iter().copied().collect();
    let is_below = |pid: &u32| {
        let others: Vec<u32> = all.iter().copied().filter(|other| other != pid).collect();
        process_tree::is_below(*pid, &others)
    };
    all.iter().copied().filter(|pid| !is_below(pid)).collect()
}

/// All names of a process; none if it has ended.
fn names_of(pid: u32) -> ProcessNames {
    let comm = proc::status(pid).map(|status| String::from_utf8_lossy(&status.comm).into_owned());
    let exe = std::fs::read_link(format!("/proc/{pid}/exe")).ok();
    let cmdline = system_file::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    ProcessNames::new(comm.unwrap_or_default(), exe.as_deref(), &cmdline)
}

#[derive(Debug, PartialEq, Eq)]
struct ProcessNames {
    comm: String,
    others: BTreeSet<String>,
}

impl ProcessNames {
    fn new(comm: String, exe: Option<&Path>, cmdline: &[u8]) -> Self {
        let mut words = cmdline.split(|&byte| byte == 0).map(String::from_utf8_lossy);
        let first = words.next().unwrap_or_default();
        let mut others: BTreeSet<String> = exe.and_then(file_name).into_iter().collect();
        let program = file_name(Path::new(first.trim_start_matches('-')));
        let runs_scripts = |name: &String| INTERPRETERS.iter().any(|known| name.starts_with(known));
        if program.as_ref().is_some_and(runs_scripts) {
            let script = words.find(|word| !word.starts_with('-'));
            others.extend(script.and_then(|script| file_name(Path::new(&*script))));
        }
        others.extend(program);
        Self { comm, others }
    }

    fn contains(&self, name: &str) -> bool {
        let is_cut = self.comm.len() == COMM_BYTES && name.len() > COMM_BYTES;
        let is_comm = self.comm == name || (is_cut && name.starts_with(&self.comm) && self.others.is_empty());
        is_comm || self.others.contains(name)
    }
}

fn file_name(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_string_lossy();
    // A program replaced by a newer version while it runs.
    Some(name.trim_end_matches(" (deleted)").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(comm: &str, exe: &str, cmdline: &[u8]) -> ProcessNames {
        ProcessNames::new(comm.to_owned(), Some(Path::new(exe)), cmdline)
    }

    #[test]
    fn a_process_goes_by_its_command_name_its_file_and_its_script() {
        let worker = names("nginx", "/usr/sbin/nginx (deleted)", b"nginx: worker process");
        assert!(worker.contains("nginx") && !worker.contains("worker"));
        let app = names("python3", "/usr/bin/python3.11", b"/usr/bin/python3\0-u\0/srv/app.py\0--port\080\0");
        assert!(["python3", "python3.11", "app.py"].iter().all(|name| app.contains(name)));
        assert!(!app.contains("80") && !app.contains("--port"));
        let editor = names("vim", "/usr/bin/vim", b"vim\0nginx\0");
        assert!(!editor.contains("nginx"), "an argument is no name of a program");
        let login = names("bash", "/usr/bin/bash", b"-bash\0");
        assert!(login.contains("bash"));
    }

    #[test]
    fn a_long_name_that_the_kernel_cut_is_found_by_its_file() {
        let exporter =
            names("prometheus-node", "/usr/bin/prometheus-node-exporter", b"prometheus-node-exporter\0");
        assert!(exporter.contains("prometheus-node-exporter") && exporter.contains("prometheus-node"));
        assert!(!exporter.contains("prometheus-node-other"));
        // Without rights to see the file, the beginning has to do.
        let hidden = ProcessNames::new("prometheus-node".to_owned(), None, b"");
        assert!(hidden.contains("prometheus-node-exporter"));
    }

    #[test]
    fn a_child_is_found_by_name_and_is_no_root_beside_its_parent() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep runs");
        // Its name is there after its exec only.
        let found = (0..200).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            find_by_name("sleep").contains(&child.id())
        });
        assert!(found);
        assert_eq!(roots(&[child.id(), std::process::id()]), [std::process::id()]);
        assert_eq!(roots(&[child.id()]), [child.id()]);
        child.kill().expect("ours to kill");
        child.wait().expect("ours to wait for");
    }
}
