//! Packages that people install: a static program, a tarball and a Debian package, with manual pages and completions.
//!
//! Two builds of one commit have the same bytes: paths of this machine are left out, and times are the commit's.

mod install;
mod smoke;
mod stage;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::cargo;
use crate::process;
use crate::repo::Repo;
use crate::score::{self, Score, skip};

/// One whole-program optimized build on two cores.
const BUILD_LIMIT: Duration = Duration::from_secs(3600);
const TOOL_LIMIT: Duration = Duration::from_secs(300);
/// Largest size of the program without its symbols.
const LARGEST_BYTES: u64 = 12_000_000;
/// A position-independent program has a relocation for each pointer in its tables: 24 bytes, packed about 1.
const PACKED_POINTERS: &str = "link-arg=-Wl,-z,pack-relative-relocs";
/// Functions with the same code are one. The compiler's own linker can do that, which it uses on this processor.
const EQUAL_CODE_ONCE: &str = "link-arg=-Wl,--icf=all";
/// The script in the source folder leaves out the tables for unwinding, their index goes with them.
const NO_UNWIND_INDEX: &str = "link-arg=-Wl,--no-eh-frame-hdr";
const NO_UNWIND_TABLES: &str = "xtask/src/package/no_unwind_tables.ld";
/// zstd's slowest ways to compress, for levels above 12; these then compress as level 12 does.
const NO_SLOW_ZSTD: &str = "-DZSTD_EXCLUDE_BTLAZY2_BLOCK_COMPRESSOR -DZSTD_EXCLUDE_BTOPT_BLOCK_COMPRESSOR \
    -DZSTD_EXCLUDE_BTULTRA_BLOCK_COMPRESSOR";

/// Parts to package.
struct Release {
    /// As in the workspace's manifest.
    version: String,
    /// The compiler's name of the machine and C library.
    target: String,
    /// Abbreviated; empty outside of a git checkout.
    commit: String,
    /// Time of the commit, s since 1970.
    epoch: String,
}

impl Release {
    fn of(repo: &Repo) -> Result<Self> {
        let machine = std::env::consts::ARCH;
        let musl = format!("{machine}-unknown-linux-musl");
        let has_musl = cargo::has_library(&musl)? && process::find("musl-gcc").is_some();
        let target = if has_musl { musl } else { format!("{machine}-unknown-linux-gnu") };
        let commit = git(repo, &["rev-parse", "--short=12", "HEAD"]);
        let epoch = Some(git(repo, &["log", "-1", "--format=%ct"])).filter(|time| !time.is_empty());
        let version = version(repo)?;
        Ok(Self { version, target, commit, epoch: epoch.unwrap_or_else(|| "0".to_owned()) })
    }

    /// `tally-0.2.0-x86_64-linux`: the start of each file's name.
    fn name(&self) -> String {
        format!("tally-{}-{}-linux", self.version, std::env::consts::ARCH)
    }

    /// Output of `tally --version` after the name.
    fn build(&self) -> String {
        let library = if self.target.ends_with("musl") { "musl" } else { "glibc" };
        let parts = [&self.commit, std::env::consts::ARCH, &format!("static {library}")];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        format!("{} ({})", self.version, parts.join(", "))
    }
}

/// Builds the packages into `target/package`; with `--twice` builds a second time elsewhere, and compares. With
/// `--program FILE` packs that one, built before.
pub fn run(repo: &Repo, args: &[String]) -> Result<Score> {
    let release = Release::of(repo)?;
    let given = args.iter().position(|arg| arg == "--program").and_then(|at| args.get(at + 1));
    let built = match given {
        Some(file) => PathBuf::from(file),
        None => build(repo, &release, &repo.target())?,
    };
    let to = repo.target().join("package");
    let _ = std::fs::remove_dir_all(&to);
    std::fs::create_dir_all(&to)?;
    let program = shrink(&built, &to, &release)?;
    let mut score = has_right_size(&program)?;
    let version = if given.is_some() { release.version.clone() } else { release.build() };
    score += smoke::runs_in_an_empty_folder(&program, &version)?;
    score += stage::packages(repo, &program, &to, &release)?;
    score += install::work(&to, &release, &version)?;
    if args.iter().any(|arg| arg == "--twice") {
        score += is_the_same_again(repo, &release, &program)?;
    }
    Ok(score)
}

fn has_right_size(program: &Path) -> Result<Score> {
    let bytes = std::fs::metadata(program)?.len();
    println!("{}: {:.1} MB", program.display(), bytes as f64 / 1e6);
    if bytes > LARGEST_BYTES {
        score::fault(&format!("the program has {bytes} bytes, {LARGEST_BYTES} are wanted at most"));
    }
    Ok(Score::of(bytes <= LARGEST_BYTES))
}

fn build(repo: &Repo, release: &Release, target_dir: &Path) -> Result<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let mut flags = vec!["-C".to_owned(), "target-feature=+crt-static".to_owned()];
    let is_own_linker = release.target.starts_with("x86_64") && release.target.ends_with("gnu");
    let mut smaller = vec![PACKED_POINTERS.to_owned()];
    if is_own_linker {
        let script = format!("link-arg=-Wl,-T,{}", repo.root.join(NO_UNWIND_TABLES).display());
        smaller.extend([EQUAL_CODE_ONCE.to_owned(), NO_UNWIND_INDEX.to_owned(), script]);
    }
    flags.extend(smaller.into_iter().flat_map(|option| ["-C".to_owned(), option]));
    flags.push(format!("--remap-path-prefix={}=.", repo.root.display()));
    flags.extend(
        home.map(|home| format!("--remap-path-prefix={}=crates", home.join("registry/src").display())),
    );
    flags.push(format!("--remap-path-prefix={}=target", target_dir.display()));
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--package", "tally", "--bin", "tally", "--profile", "dist"]);
    cargo.args(["--target", &release.target, "--target-dir"]).arg(target_dir).current_dir(&repo.root);
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
    cargo.env("CFLAGS", NO_SLOW_ZSTD);
    cargo.env("TALLY_BUILD", release.build()).env("SOURCE_DATE_EPOCH", &release.epoch);
    if !process::passed_on(&mut cargo, BUILD_LIMIT)? {
        bail!("the program does not build for {}", release.target);
    }
    Ok(target_dir.join(&release.target).join("dist/tally"))
}

/// The program without symbols in `to`, and the symbols in a file of their own.
fn shrink(built: &Path, to: &Path, release: &Release) -> Result<PathBuf> {
    let program = to.join("tally");
    let symbols = to.join(release.name() + ".debug");
    let mut keep = Command::new("objcopy");
    keep.args(["--only-keep-debug", "--compress-debug-sections"]).arg(built).arg(&symbols);
    tool(&mut keep)?;
    let mut strip = Command::new("objcopy");
    strip.arg("--strip-all").arg(format!("--add-gnu-debuglink={}", symbols.display()));
    tool(strip.arg(built).arg(&program))?;
    Ok(program)
}

/// Builds once more in another folder: the bytes must be the same.
fn is_the_same_again(repo: &Repo, release: &Release, program: &Path) -> Result<Score> {
    let again = repo.target().join("package-again");
    let built = build(repo, release, &again)?;
    let folder = again.join("package");
    std::fs::create_dir_all(&folder)?;
    let second = shrink(&built, &folder, release)?;
    let same = std::fs::read(program)? == std::fs::read(second)?;
    if !same {
        score::fault(
            "two builds of one commit differ: compare target/package/tally with target/package-again",
        );
    }
    Ok(Score::of(same))
}

fn version(repo: &Repo) -> Result<String> {
    let text = std::fs::read_to_string(repo.root.join("Cargo.toml"))?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("version = \""));
    let version = lines.next().and_then(|rest| rest.strip_suffix('"'));
    version.map(str::to_owned).context("Cargo.toml has no version of the workspace")
}

/// The processor's name in Debian's packages.
fn debian_machine() -> &'static str {
    if std::env::consts::ARCH == "aarch64" { "arm64" } else { "amd64" }
}

/// Output of git; empty if it can't.
fn git(repo: &Repo, args: &[&str]) -> String {
    let found = process::capture(Command::new("git").args(args).current_dir(&repo.root), TOOL_LIMIT);
    found.ok().filter(process::Finished::ok).map(|found| found.text().trim().to_owned()).unwrap_or_default()
}

fn tool(command: &mut Command) -> Result<()> {
    let run = process::capture(command, TOOL_LIMIT)?;
    if !run.ok() {
        bail!("{command:?}: {}", run.tail(5));
    }
    Ok(())
}
