//! Names of containers and their ids, as the container managers keep them in files. Reading most of them needs root.
//!
//! Sources, by the code that writes them:
//! - docker: `var/lib/docker/containers/ID/config.v2.json`, `Name` with a leading `/` (moby, `container.toDisk`),
//! - podman: `…/overlay-containers/containers.json`, a list with `id` and `names` (containers/storage,
//!   `containerStore.save`), for root and for each user that looks,
//! - Kubernetes: links `var/log/containers/POD_NAMESPACE_CONTAINER-ID.log` (kubelet, `logSymlink`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::cgroups::ContainerIds;
use dso::untrusted_file::FileRule;
use serde_json::Value;

/// Longest file of a manager's state that is read, in bytes.
const MOST_STATE_BYTES: u64 = 16 << 20;

/// The names that the managers' files below `root` list now; files that can't be read have none.
pub fn read(root: &Path) -> ContainerIds {
    let mut names = ContainerIds::new();
    let mut add = |name: &str, id: &str| {
        names.entry(name.to_owned()).or_default().insert(id.to_owned());
    };
    for folder in folder_entries(&root.join("var/lib/docker/containers")) {
        let state = read_json(&folder.join("config.v2.json"));
        if let Some((name, id)) = state.as_ref().and_then(docker_name) {
            add(name, id);
        }
    }
    let home =
        std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/share/containers/storage"));
    for storage in [Some(root.join("var/lib/containers/storage")), home].into_iter().flatten() {
        if let Some(state) = read_json(&storage.join("overlay-containers/containers.json")) {
            podman_names(&state).for_each(|(name, id)| add(name, id));
        }
    }
    for link in folder_entries(&root.join("var/log/containers")) {
        let file = link.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some((pod, container, id)) = kubernetes_names(&file) {
            add(pod, id);
            add(container, id);
            add(&format!("{pod}/{container}"), id);
        }
    }
    names
}

/// The longest name of each id: a pod with its container, where there is one.
#[must_use]
pub fn by_id(names: &ContainerIds) -> BTreeMap<String, String> {
    let mut found = BTreeMap::<String, String>::new();
    for (name, id) in names.iter().flat_map(|(name, ids)| ids.iter().map(move |id| (name, id))) {
        let longest = found.entry(id.clone()).or_default();
        if name.len() > longest.len() {
            longest.clone_from(name);
        }
    }
    found
}

fn docker_name(state: &Value) -> Option<(&str, &str)> {
    Some((state["Name"].as_str()?.trim_start_matches('/'), state["ID"].as_str()?))
}

fn podman_names(state: &Value) -> impl Iterator<Item = (&str, &str)> {
    state.as_array().into_iter().flatten().flat_map(|container| {
        let names = container["names"].as_array().into_iter().flatten().filter_map(Value::as_str);
        names.filter_map(|name| Some((name, container["id"].as_str()?)))
    })
}

/// Pod, container and id of `POD_NAMESPACE_CONTAINER-ID.log`.
fn kubernetes_names(file: &str) -> Option<(&str, &str, &str)> {
    let (names, id) = file.strip_suffix(".log")?.rsplit_once('-')?;
    let mut parts = names.splitn(3, '_');
    let (pod, _namespace, container) = (parts.next()?, parts.next()?, parts.next()?);
    Some((pod, container, id))
}

fn folder_entries(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn read_json(path: &Path) -> Option<Value> {
    let bytes = FileRule::up_to(MOST_STATE_BYTES).read(path).ok()?;
    serde_json::from_slice(&bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_each_manager_writes_them() {
        let root = crate::scratch::ScratchFolder::private("container-names").expect("a folder of our own");
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().expect("has a folder")).expect("ours");
            std::fs::write(path, text).expect("ours");
        };
        write(
            "var/lib/docker/containers/d1/config.v2.json",
            r#"{"ID":"d1","Name":"/web","MountPoints":{"Name":"x"}}"#,
        );
        write("var/lib/docker/containers/d2/config.v2.json", "{ not json");
        write(
            "var/lib/containers/storage/overlay-containers/containers.json",
            r#"[{"id":"p1","names":["db","db-alias"]},{"id":"p2"}]"#,
        );
        write("var/log/containers/shop-7d9_default_api-k1.log", "");
        write("var/log/containers/shop-7d9_default_side-car-k2.log", "");
        let names = read(root.path());
        let ids = |name: &str| names.get(name).into_iter().flatten().cloned().collect::<Vec<_>>();
        assert_eq!(
            (ids("web"), ids("db"), ids("db-alias")),
            (vec!["d1".into()], vec!["p1".into()], vec!["p1".into()])
        );
        assert_eq!(ids("shop-7d9"), ["k1", "k2"]);
        assert_eq!((ids("api"), ids("shop-7d9/side-car")), (vec!["k1".into()], vec!["k2".into()]));
        assert_eq!(ids("x"), Vec::<String>::new());
        let by_id = by_id(&names);
        assert_eq!([&by_id["d1"], &by_id["k1"]], ["web", "shop-7d9/api"]);
    }
}
