//! Remedies for functions without names: settings of a runtime, packages with debug information.

use anyhow::{Context, Result};
use serde_json::Value;

use super::Shell;
use crate::process;
use crate::score::{Score, skip};

/// File of the screen's numbers.
const SCREEN: &str = "screen.json";

/// Follows each hint for missing names that is a setting or a list of packages.
pub fn compare(shell: &Shell) -> Result<Score> {
    let mut score = Score::default();
    for hint in hints(shell, "")? {
        let Some((what, way)) = hint.rsplit_once(": ") else { continue };
        let name = way.split('=').next().unwrap_or_default();
        if name.len() < way.len() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_') {
            score += of_setting(shell, what, way)?;
        } else if let Some(packages) = way.strip_prefix("apt install ") {
            score += of_packages(shell, packages)?;
        }
    }
    Ok(score)
}

/// The hints of a run whose environment has `setting`.
fn hints(shell: &Shell, setting: &str) -> Result<Vec<String>> {
    let line = format!("{setting} tally run --json={SCREEN} -- {} >/dev/null", shell.subject.line);
    let ran = shell.run(line.trim_start())?;
    let text = std::fs::read_to_string(shell.folder.join(SCREEN))
        .with_context(|| format!("{SCREEN}: {}: {}", ran.how(), ran.tail(3)))?;
    let screen: Value = serde_json::from_str(&text)?;
    let hints = screen["name_hints"].as_array().context("name_hints is a list")?;
    Ok(hints.iter().filter_map(|hint| hint.as_str().map(str::to_owned)).collect())
}

/// With the setting, the same hint must not be printed again.
fn of_setting(shell: &Shell, what: &str, setting: &str) -> Result<Score> {
    // A condition in brackets may not hold for the program installed here.
    if setting.ends_with(')') {
        return Ok(skip(&format!("advice for {}", shell.subject.name), setting));
    }
    let kind = what.rsplit(" is in ").next().unwrap_or(what);
    let again = hints(shell, setting)?;
    let is_gone = !again.iter().any(|hint| hint.contains(kind));
    if !is_gone {
        shell.fault(&format!("{setting}: still {again:?}"));
    }
    Ok(Score::of(is_gone))
}

/// Packages without a condition have to be known to apt.
fn of_packages(shell: &Shell, packages: &str) -> Result<Score> {
    if packages.ends_with(')') || process::find("apt-cache").is_none() {
        return Ok(Score::PASS);
    }
    let ran = shell.run(&format!("apt-cache show {packages}"))?;
    if !ran.ok() {
        shell.fault(&format!("apt install {packages}: {}", ran.tail(1)));
    }
    Ok(Score::of(ran.ok()))
}
