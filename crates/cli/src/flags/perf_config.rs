//! perf's settings: `/etc/perfconfig` and `~/.perfconfig`, or the file that `PERF_CONFIG` names.
//!
//! [`keys`] has the settings that tally honours; they become defaults of options ([`defaults`]).
//
// Source: linux v6.1 tools/perf/util/config.c, Documentation/perf-config.txt

pub mod defaults;
pub mod keys;

use crate::terminal::out;
use exchange::import::perf_config::parse_settings;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The settings of the system.
const SYSTEM_FILE: &str = "/etc/perfconfig";
/// Larger files aren't settings.
const MAX_BYTES: u64 = 1 << 20;

/// Files to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigFiles {
    /// Both, or the one of `PERF_CONFIG`.
    All,
    /// `~/.perfconfig`.
    User,
    /// `/etc/perfconfig`.
    System,
}

/// A setting: `section.key`, and its value as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Section, subsection if any, and key, with dots between.
    pub name: String,
    /// Without quotes; `true` where the file has only the key.
    pub value: String,
    /// The file that has it.
    pub file: PathBuf,
}

impl Setting {
    /// The value as yes or no; `None` for other values.
    #[must_use]
    pub fn is_on(&self) -> Option<bool> {
        match self.value.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "1" | "" => Some(true),
            "false" | "no" | "off" | "0" => Some(false),
            _ => None,
        }
    }
}

/// The settings of these files, each name once: a later file wins. Damaged and foreign files are noted and left out.
#[must_use]
pub fn read(scope: ConfigFiles) -> Vec<Setting> {
    let mut settings: Vec<Setting> = Vec::new();
    for file in files(scope, |name| std::env::var_os(name)) {
        for setting in read_file(&file) {
            match settings.iter_mut().find(|earlier| earlier.name == setting.name) {
                Some(earlier) => *earlier = setting,
                None => settings.push(setting),
            }
        }
    }
    settings
}

/// Paths to try, the ones that win last.
fn files(scope: ConfigFiles, variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let is_off = |name| variable(name).is_some_and(|value| value != "0" && !value.is_empty());
    let home = variable("HOME").filter(|home| !home.is_empty());
    let user = home.map(|home| Path::new(&home).join(".perfconfig"));
    match (scope, variable("PERF_CONFIG")) {
        (ConfigFiles::System, _) => vec![SYSTEM_FILE.into()],
        (ConfigFiles::User, _) => user.into_iter().collect(),
        (ConfigFiles::All, Some(only)) => vec![only.into()],
        (ConfigFiles::All, None) => {
            let system = (!is_off("PERF_CONFIG_NOSYSTEM")).then(|| SYSTEM_FILE.into());
            system.into_iter().chain(user.filter(|_| !is_off("PERF_CONFIG_NOGLOBAL"))).collect()
        }
    }
}

fn read_file(path: &Path) -> Vec<Setting> {
    if !path.is_file() {
        return Vec::new();
    }
    let owners = vec![0, record::sys::mem::effective_uid()];
    let bytes = match dso::FileRule::up_to(MAX_BYTES).owned_by(owners).read(path) {
        Ok(bytes) => bytes,
        Err(refused) => {
            out::note(&format!("tally: settings not used: {}: {refused}", path.display()));
            return Vec::new();
        }
    };
    match parse_settings(&String::from_utf8_lossy(&bytes)) {
        Ok(pairs) => {
            let setting = |(name, value)| Setting { name, value, file: path.to_owned() };
            pairs.into_iter().map(setting).collect()
        }
        Err(line) => {
            let place = format!("{}:{line}", path.display());
            out::note(&format!("tally: settings not used: {place}: expected [section] or key = value"));
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(scope: ConfigFiles, set: &[(&str, &str)]) -> Vec<String> {
        let variable =
            |name: &str| set.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value));
        files(scope, variable).iter().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn the_users_file_wins_over_the_systems_and_perf_config_over_both() {
        let home = ("HOME", "/home/me");
        assert_eq!(paths(ConfigFiles::All, &[home]), [SYSTEM_FILE, "/home/me/.perfconfig"]);
        assert_eq!(paths(ConfigFiles::All, &[home, ("PERF_CONFIG", "/x")]), ["/x"]);
        assert_eq!(paths(ConfigFiles::All, &[home, ("PERF_CONFIG_NOSYSTEM", "1")]), ["/home/me/.perfconfig"]);
        assert_eq!(paths(ConfigFiles::System, &[home]), [SYSTEM_FILE]);
        assert_eq!(paths(ConfigFiles::User, &[home]), ["/home/me/.perfconfig"]);
    }
}
