//! The page of `tally report --html`: its script and style are built from the folder `web` and committed.
//!
//! `cargo build` needs no node. `bundle/sources.sha256` holds the digest of the sources that the committed files were
//! built from; it must match, and where the tools are there the bytes too. The page is tried in a real browser.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::process;
use crate::repo::Repo;
use crate::score::{self, Score, skip};

const LIMIT: Duration = Duration::from_secs(240);
/// Limit of the tests in a browser. They take 100 s on an idle machine with two CPUs, and four times as long while others compile.
const BROWSER_LIMIT: Duration = Duration::from_secs(900);
const BUNDLE: &str = "crates/cli/src/html/bundle";
const FILES: [&str; 13] = [
    "page.js",
    "page.js.deflate",
    "page.js.sha256",
    "sums.js",
    "sums.js.deflate",
    "sums.js.sha256",
    "stacks.js",
    "stacks.js.deflate",
    "stacks.js.sha256",
    "loader.js",
    "loader.js.sha256",
    "plain.css",
    "plain.css.sha256",
];
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Builds the committed files.
pub fn build(repo: &Repo) -> Result<Score> {
    if let Some(why) = missing_tools(&repo.root) {
        bail!("{why}");
    }
    let bundle = repo.root.join(BUNDLE);
    build_into(repo, &bundle)?;
    std::fs::write(bundle.join("sources.sha256"), digest(repo)?)?;
    Ok(Score::PASS)
}

/// Compares the committed files with their sources, and tries a page in a browser.
pub fn check(repo: &Repo) -> Result<Score> {
    let bundle = repo.root.join(BUNDLE);
    let mut score = check_sources(repo)?;
    if let Some(why) = missing_tools(&repo.root) {
        score += skip("the page's build", &why);
        score += skip("the page in a browser", &why);
        return Ok(score);
    }
    let built = repo.target().join("web");
    build_into(repo, &built)?;
    for file in FILES {
        let is_same = std::fs::read(built.join(file))? == std::fs::read(bundle.join(file))?;
        if !is_same {
            score::fault(&format!("{BUNDLE}/{file} differs from what cargo xtask web builds"));
        }
        score += Score::of(is_same);
    }
    score += browse(repo)?;
    Ok(score)
}

/// Compares the sources with those that the committed files were built from.
pub fn check_sources(repo: &Repo) -> Result<Score> {
    let committed =
        std::fs::read_to_string(repo.root.join(BUNDLE).join("sources.sha256")).unwrap_or_default();
    let is_built = committed == digest(repo)?;
    if !is_built {
        score::fault("the page's script is not built from the sources in web: cargo xtask web");
    }
    Ok(Score::of(is_built))
}

/// A browser that the pages are tried in.
pub fn browser() -> Option<PathBuf> {
    BROWSERS.iter().find_map(|name| process::find(name))
}

/// Runs the tests in a browser; each of their lines `ok …` or `FAILED …` is a check.
fn browse(repo: &Repo) -> Result<Score> {
    let Some(browser) = browser() else {
        return Ok(skip("the page in a browser", "no chromium on this machine"));
    };
    let tally = repo.target().join("debug/tally");
    let mut build = Command::new("cargo");
    build.args(["build", "-q", "-p", "tally"]).current_dir(&repo.root);
    anyhow::ensure!(process::capture(&mut build, Duration::from_secs(600))?.ok(), "tally can't be built");
    let mut test = Command::new("node");
    test.args(["test/page.mjs".as_ref(), browser.as_os_str(), tally.as_os_str()]);
    test.arg(repo.target().join("web-test")).current_dir(repo.root.join("web"));
    let run = process::capture(&mut test, BROWSER_LIMIT)?;
    let text = run.text();
    let mut score = Score::default();
    for line in text.lines() {
        println!("{line}");
        if line.starts_with("ok ") {
            score += Score::PASS;
        } else if let Some(what) = line.strip_prefix("FAILED ") {
            score::fault(&format!("page: {what}"));
            score += Score::FAIL;
        } else if let Some(what) = line.strip_prefix("skipped: ") {
            score += skip("page", what);
        }
    }
    if !run.ok() && score.failed == 0 {
        bail!("the page's tests: {}: {}", run.how(), run.tail(5));
    }
    Ok(score)
}

/// Why the script can't be built here; installs the tools if npm can.
pub fn missing_tools(root: &Path) -> Option<String> {
    if process::find("node").is_none() || process::find("npm").is_none() {
        return Some("no node and npm on this machine".to_owned());
    }
    let web = root.join("web");
    if web.join("node_modules/@gfx/zopfli").is_dir() {
        return None;
    }
    let mut install = Command::new("npm");
    install.args(["ci", "--no-audit", "--no-fund"]).current_dir(&web);
    match process::capture(&mut install, LIMIT) {
        Ok(run) if run.ok() => None,
        Ok(run) => Some(format!("npm ci: {}", run.tail(2))),
        Err(error) => Some(format!("npm ci: {error:#}")),
    }
}

fn build_into(repo: &Repo, out: &Path) -> Result<()> {
    let web = repo.root.join("web");
    for args in [vec!["node_modules/.bin/tsc", "--noEmit"], vec!["build.mjs", &out.to_string_lossy()]] {
        let mut node = Command::new("node");
        let run = process::capture(node.args(&args).current_dir(&web), LIMIT)?;
        if !run.ok() {
            bail!("{}: {}", args[0], run.tail(20));
        }
        print!("{}", run.text());
    }
    Ok(())
}

/// Digest of all that the bundle is built from.
fn digest(repo: &Repo) -> Result<String> {
    let web = repo.root.join("web");
    let mut files: Vec<PathBuf> =
        ["build.mjs", "package-lock.json", "tsconfig.json"].map(PathBuf::from).to_vec();
    for entry in std::fs::read_dir(web.join("src")).context("web/src")?.flatten() {
        files.push(Path::new("src").join(entry.file_name()));
    }
    files.sort();
    let sums = process::capture(Command::new("sha256sum").args(&files).current_dir(&web), LIMIT)?;
    anyhow::ensure!(sums.ok(), "sha256sum: {}", sums.tail(3));
    Ok(sums.text())
}
