//! Names of the cgroups that samples ran in.

use std::collections::BTreeMap;

use super::Profile;
use crate::table::StringId;

/// Characters of a container's id that are shown, as container managers do.
const SHOWN_ID: usize = 12;

/// A cgroup by its names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupNames {
    /// Path below the hierarchy's mount.
    pub path: StringId,
    /// The container that it belongs to: its name where that is known, else the beginning of its id; or
    /// `[no container]`.
    pub container: StringId,
}

impl Profile {
    /// Takes in the path of a cgroup.
    pub fn name_cgroup(&mut self, id: u64, path: &str) {
        let container = dso::container_of_cgroup(path).unwrap_or("[no container]");
        let is_id = container.len() > 4 * SHOWN_ID;
        let shown = container.get(..SHOWN_ID).filter(|_| is_id).unwrap_or(container);
        let names = CgroupNames { path: self.strings.intern(path), container: self.strings.intern(shown) };
        self.cgroups.insert(id, names);
    }

    /// Replaces the ids of containers by their names, which are given by whole id.
    pub fn name_containers(&mut self, names: &BTreeMap<String, String>) {
        for known in self.cgroups.values_mut() {
            let name = dso::container_of_cgroup(self.strings.of(known.path)).and_then(|id| names.get(id));
            if let Some(name) = name.cloned() {
                known.container = self.strings.intern(&name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_inside_a_container_has_its_short_id_or_its_name() {
        let id = "0123456789abcdef".repeat(4);
        let mut profile = Profile::default();
        profile.name_cgroup(7, &format!("/system.slice/docker-{id}.scope/init"));
        profile.name_cgroup(8, "/init.scope");
        let container =
            |profile: &Profile, group: u64| profile.strings.of(profile.cgroups[&group].container).to_owned();
        assert_eq!(container(&profile, 7), "0123456789ab");
        assert_eq!(container(&profile, 8), "[no container]");
        profile.name_containers(&BTreeMap::from([(id, "web".to_owned())]));
        assert_eq!(container(&profile, 7), "web");
    }
}
