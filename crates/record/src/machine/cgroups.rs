//! Cgroups by the names that people know: a systemd unit, or a container of docker, podman, containerd or Kubernetes.
//!
//! The managers write the container's id into the name of its cgroup:
//! - docker: `docker-ID.scope` (systemd) or `docker/ID` (cgroupfs),
//! - podman: `libpod-ID.scope` or `libpod_parent/libpod-ID`,
//! - containerd and CRI-O: `cri-containerd-ID.scope`, `crio-ID.scope`, `nerdctl-ID.scope`, or `ID` below `kubepods`,
//! - LXC and systemd-nspawn: `lxc.payload.NAME`, `machine-NAME.scope`.
//!
//! Their names are in files of the managers, which the caller reads.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::open::target;
use dso::{container_id, system_file};

/// Cgroups that one search looks at: more are on no machine.
const MOST_CGROUPS: usize = 100_000;

/// The ids of the containers of each name; a pod has several.
pub type ContainerIds = BTreeMap<String, BTreeSet<String>>;

/// No or several cgroups have the name.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum NoOneCgroup {
    /// No cgroup has it.
    #[error("no {kind} '{name}' runs here{hint}")]
    None {
        /// Container or unit.
        kind: &'static str,
        /// As given.
        name: String,
        /// Names that exist, or nothing.
        hint: String,
    },
    /// More than one has it.
    #[error("several {kind}s fit '{name}': give one with -G: {}", paths.join(", "))]
    Several {
        /// Container or unit.
        kind: &'static str,
        /// As given.
        name: String,
        /// Cgroups below the hierarchy's mount.
        paths: Vec<String>,
    },
}

/// The cgroup of a systemd unit, as a path below the hierarchy's mount. `.service` may be left out.
///
/// # Errors
/// If none or several cgroups are called so.
pub fn find_unit(name: &str) -> Result<String, NoOneCgroup> {
    let all = all_cgroups(&target::cgroup_mounts());
    let fits = |path: &str| {
        let unit = last_component(path);
        unit == name || [".service", ".scope", ".slice"].iter().any(|kind| unit == format!("{name}{kind}"))
    };
    let units = || all.iter().map(|path| last_component(path)).filter(|unit| unit.ends_with(".service"));
    one(all.iter().filter(|path| fits(path)).cloned().collect(), "unit", name, || list(units()))
}

/// The cgroup of a container, as a path below the hierarchy's mount, by its name, or the beginning of its id. `known`
/// are the names and ids that the managers' files list.
///
/// # Errors
/// If none or several containers are called so.
pub fn find_container(name: &str, known: &ContainerIds) -> Result<String, NoOneCgroup> {
    let all = all_cgroups(&target::cgroup_mounts());
    let nothing = BTreeSet::new();
    let found = containers_called(name, &all, known.get(name).unwrap_or(&nothing));
    one(found, "container", name, || list(known.keys().map(String::as_str)))
}

/// Each cgroup by its number, with its path below the hierarchy's mount; empty where none is mounted. A container may
/// see its own alone, as `/`.
#[must_use]
pub fn paths_by_id() -> Vec<(u64, String)> {
    let mounts = target::cgroup_mounts();
    let Some(mount) = mounts.iter().find(|mount| !below(mount).is_empty()).or(mounts.first()) else {
        return Vec::new();
    };
    let number =
        |path: String| Some((number_of(mount, &path)?, if path.is_empty() { "/".to_owned() } else { path }));
    std::iter::once(String::new()).chain(below(mount)).filter_map(number).collect()
}

/// Number of a process's cgroup, as samples of the kernel have it; `None` if it has ended, or the hierarchy isn't mounted.
#[must_use]
pub fn id_of(pid: u32) -> Option<u64> {
    let text = system_file::read_text(format!("/proc/{pid}/cgroup")).ok()?;
    let path = path_of_events(&text)?;
    target::cgroup_mounts().iter().find_map(|mount| number_of(mount, path))
}

/// The processes in a cgroup and in those below it.
#[must_use]
pub fn processes_in(folder: &Path) -> Vec<u32> {
    let lists = std::iter::once(String::new()).chain(below(folder));
    let read = |path: String| system_file::read_text(format!("{}{path}/cgroup.procs", folder.display()));
    let texts: Vec<String> = lists.filter_map(|path| read(path).ok()).collect();
    texts.iter().flat_map(|text| text.lines()).filter_map(|line| line.parse().ok()).collect()
}

/// The path in `/proc/PID/cgroup` that counts for events: perf_event's own hierarchy, or the unified one.
fn path_of_events(text: &str) -> Option<&str> {
    let of = |wanted: fn(&str) -> bool| {
        text.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            wanted(controllers).then_some(path)
        })
    };
    of(|controllers| controllers.split(',').any(|name| name == "perf_event"))
        .or_else(|| of(|controllers| controllers.is_empty()))
}

/// A folder's inode is the number of its cgroup.
fn number_of(mount: &Path, path: &str) -> Option<u64> {
    std::fs::metadata(format!("{}{path}", mount.display())).ok().map(|folder| folder.ino())
}

/// Paths of the containers' own cgroups (not of those inside them) that are called `name`, or have one of `ids`.
fn containers_called(name: &str, all: &[String], ids: &BTreeSet<String>) -> Vec<String> {
    /// Shorter ones would be words.
    const SHORTEST_ID: usize = 4;
    let fits = |path: &String| {
        let id = container_id(last_component(path))?;
        let begins = name.len() >= SHORTEST_ID && id.starts_with(name);
        (id == name || ids.contains(id) || begins).then(|| path.clone())
    };
    all.iter().filter_map(fits).collect()
}

/// All cgroups below the first of `mounts` that has any, as paths that begin with `/`, parents first.
fn all_cgroups(mounts: &[PathBuf]) -> Vec<String> {
    mounts.iter().map(|mount| below(mount)).find(|found| !found.is_empty()).unwrap_or_default()
}

fn below(mount: &Path) -> Vec<String> {
    let (mut found, mut next) = (Vec::new(), 0);
    let mut open = vec![String::new()];
    while let Some(parent) = open.get(next).cloned() {
        next += 1;
        let Ok(entries) = std::fs::read_dir(format!("{}{parent}", mount.display())) else { continue };
        let folders = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        for folder in folders {
            let path = format!("{parent}/{}", folder.file_name().to_string_lossy());
            found.push(path.clone());
            open.push(path);
        }
        if found.len() >= MOST_CGROUPS {
            break;
        }
    }
    found
}

fn last_component(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn one(
    mut found: Vec<String>,
    kind: &'static str,
    name: &str,
    hint: impl FnOnce() -> String,
) -> Result<String, NoOneCgroup> {
    match found.len() {
        0 => Err(NoOneCgroup::None { kind, name: name.to_owned(), hint: hint() }),
        1 => Ok(found.remove(0)),
        _ => Err(NoOneCgroup::Several { kind, name: name.to_owned(), paths: found }),
    }
}

/// `: these run: a, b, c`, or nothing.
fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    /// More fill the screen.
    const MOST_NAMES: usize = 12;
    let names: BTreeSet<&str> = names.collect();
    let first: Vec<&str> = names.iter().copied().take(MOST_NAMES).collect();
    match names.len() {
        0 => String::new(),
        all if all > MOST_NAMES => format!("; known: {} and {} more", first.join(", "), all - MOST_NAMES),
        _ => format!("; known: {}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn paths() -> Vec<String> {
        let names = [
            format!("/system.slice/docker-{ID}.scope"),
            format!("/system.slice/docker-{ID}.scope/init"),
            format!("/machine.slice/libpod-f{}.scope", &ID[1..]),
            format!("/machine.slice/libpod-conmon-f{}.scope", &ID[1..]),
            format!("/kubepods/burstable/pod1/a{}", &ID[1..]),
            "/lxc.payload.web".to_owned(),
        ];
        names.into_iter().collect()
    }

    #[test]
    fn containers_are_found_by_id_beginning_of_id_and_name() {
        let found = |name: &str, ids: &[&str]| {
            containers_called(name, &paths(), &ids.iter().map(|id| (*id).to_owned()).collect())
        };
        assert_eq!(found("0123", &[]), [format!("/system.slice/docker-{ID}.scope")]);
        assert_eq!(found("012", &[]), Vec::<String>::new(), "too short for an id");
        assert_eq!(
            found("db", &[&format!("f{}", &ID[1..])]),
            [format!("/machine.slice/libpod-f{}.scope", &ID[1..])]
        );
        assert_eq!(found("web", &[]), ["/lxc.payload.web"]);
    }

    #[test]
    fn events_have_a_hierarchy_of_their_own_or_the_unified_one() {
        let unified = "4:memory:/a\n3:cpu,cpuacct:/b\n0::/system.slice/web:1.service\n";
        assert_eq!(path_of_events(unified), Some("/system.slice/web:1.service"));
        assert_eq!(path_of_events("9:cpu,perf_event:/docker/7\n0::/x\n"), Some("/docker/7"));
        assert_eq!(path_of_events("4:memory:/a\n"), None);
    }

    #[test]
    fn several_cgroups_of_a_name_are_listed_and_none_is_an_error_with_what_there_is() {
        let several = one(vec!["/a/x".into(), "/b/x".into()], "unit", "x", String::new).expect_err("two");
        assert_eq!(several.to_string(), "several units fit 'x': give one with -G: /a/x, /b/x");
        let none = one(Vec::new(), "unit", "y", || list(["a.service", "b.service"].into_iter()));
        assert_eq!(none.expect_err("none").to_string(), "no unit 'y' runs here; known: a.service, b.service");
    }
}
