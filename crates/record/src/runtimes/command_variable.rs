//! Switches on what a runtime does for profilers, when tally starts the program itself: the names of compiled code.
//!
//! Only what leaves the program's output as it is: a JVM reports such variables on standard error.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The programs of Node, and those that start it.
const NODE: [&str; 7] = ["node", "nodejs", "npm", "npx", "yarn", "pnpm", "tsx"];
const NODE_VARIABLE: &str = "NODE_OPTIONS";
const NODE_FLAGS: &str = "--perf-basic-prof --interpreted-frames-native-stack";
const PYTHON_VARIABLE: &str = "PYTHONPERFSUPPORT";

/// A variable for a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeSupport {
    /// Its name.
    pub variable: &'static str,
    /// Its value, with the user's own.
    pub value: OsString,
    /// The runtime, as a notice names it.
    pub runtime: &'static str,
}

/// The variable that makes this command name its code; `None` if it is no such program, or the user set the same.
/// `own` looks a variable up in our environment. `reads_python`: tally reads Python's functions itself.
#[must_use]
pub fn of_command(
    command: &[OsString],
    own: &dyn Fn(&str) -> Option<OsString>,
    reads_python: bool,
) -> Option<RuntimeSupport> {
    let name = Path::new(command.first()?).file_name()?.to_string_lossy().into_owned();
    if NODE.contains(&name.as_str()) {
        let before = own(NODE_VARIABLE).unwrap_or_default();
        let has_own = before.to_string_lossy().contains("--perf-");
        let given = command.iter().any(|word| word.to_string_lossy().starts_with("--perf-"));
        let value = [before.as_os_str(), OsStr::new(NODE_FLAGS)].into_iter().filter(|part| !part.is_empty());
        let value = value.collect::<Vec<_>>().join(OsStr::new(" "));
        let support = RuntimeSupport { variable: NODE_VARIABLE, value, runtime: "Node" };
        return (!has_own && !given).then_some(support);
    }
    let minor = name.strip_prefix("python3.").and_then(|minor| minor.parse::<u32>().ok());
    let is_unset = !reads_python && own(PYTHON_VARIABLE).is_none() && minor.is_none_or(|minor| minor >= 12);
    let support = RuntimeSupport { variable: PYTHON_VARIABLE, value: "1".into(), runtime: "Python" };
    (name.starts_with("python") && is_unset).then_some(support)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(command: &[&str], own: Option<&str>, reads_python: bool) -> Option<String> {
        let command: Vec<OsString> = command.iter().map(OsString::from).collect();
        let support = of_command(&command, &|_| own.map(OsString::from), reads_python)?;
        Some(format!("{}={}", support.variable, support.value.to_string_lossy()))
    }

    #[test]
    fn the_users_own_variables_stay() {
        let flags = format!("NODE_OPTIONS={NODE_FLAGS}");
        assert_eq!(value(&["/usr/bin/node", "a.js"], None, true), Some(flags));
        let added = format!("NODE_OPTIONS=--max-old-space-size=99 {NODE_FLAGS}");
        assert_eq!(value(&["npm", "start"], Some("--max-old-space-size=99"), true), Some(added));
        assert_eq!(value(&["node", "a.js"], Some("--perf-prof"), true), None);
        assert_eq!(value(&["node", "--perf-basic-prof", "a.js"], None, true), None);
        assert_eq!(value(&["java", "-jar", "a.jar"], None, true), None);
    }

    #[test]
    fn python_is_asked_only_where_it_is_not_read() {
        assert_eq!(value(&["python3.12", "a.py"], None, false), Some("PYTHONPERFSUPPORT=1".to_owned()));
        assert_eq!(value(&["python3.12", "a.py"], None, true), None);
        assert_eq!(value(&["python3.11", "a.py"], None, false), None);
        assert_eq!(value(&["python3.12", "a.py"], Some("0"), false), None);
    }
}
