//! `tally buildid-cache`: the files kept by build-id in `~/.debug`, where perf looks as well.

use crate::terminal::out;
use anyhow::{Context, bail};
use record::files::build_id_cache::{self as cache, CachedFile};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// List, add and remove the files kept by build-id, in the folder that perf uses too
#[derive(clap::Args)]
#[command(after_help = "\
The folder is ~/.debug, or buildid.dir of perf's settings.

Examples:
  tally buildid-cache -l                        build-id and path of each file
  tally buildid-cache -a ./app,/lib/libfoo.so   keep these files
  tally buildid-cache -u ./app                  keep the new build, forget older ones
  tally buildid-cache -r ./app                  remove this build of it
  tally buildid-cache -p ./app                  remove all builds of it
  tally buildid-cache --purge-all               remove all")]
#[command(override_usage = "tally buildid-cache -l | -P | -a|-r|-p|-u FILE,…")]
#[group(required = true, multiple = true)]
pub struct Args {
    /// List what is kept
    #[arg(short, long)]
    list: bool,
    /// Keep these files
    #[arg(short, long, value_name = "FILE,…", value_delimiter = ',')]
    add: Vec<PathBuf>,
    /// Remove these files, in their present build
    #[arg(short, long, value_name = "FILE,…", value_delimiter = ',')]
    remove: Vec<PathBuf>,
    /// Remove all builds of these files
    #[arg(short, long, value_name = "FILE,…", value_delimiter = ',')]
    purge: Vec<PathBuf>,
    /// Remove everything
    #[arg(short = 'P', long)]
    purge_all: bool,
    /// Keep these files, and no older builds of them
    #[arg(short, long, value_name = "FILE,…", value_delimiter = ',')]
    update: Vec<PathBuf>,
}

/// # Errors
/// If there is no folder, or a file can't be kept or isn't there.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Some(root) = cache::default_root() else {
        bail!("no folder for files by build-id: set HOME, or buildid.dir in ~/.perfconfig");
    };
    if args.purge_all {
        note_removed(&cache::remove(&root, &|_| true));
    }
    args.purge.iter().try_for_each(|path| {
        let path = absolute(path);
        removed(&path, &cache::remove(&root, &|file| file.path == path))
    })?;
    args.remove.iter().try_for_each(|path| {
        let path = absolute(path);
        let id = dso::elf::read_build_id(&path).map(|id| id.to_string());
        let Some(id) = id else { bail!("{}: no build-id can be read", path.display()) };
        removed(&path, &cache::remove(&root, &|file| file.build_id == id))
    })?;
    args.update.iter().try_for_each(|path| {
        let path = absolute(path);
        let id = dso::elf::read_build_id(&path).map(|id| id.to_string());
        let is_older = |file: &CachedFile| file.path == path && Some(&file.build_id) != id.as_ref();
        note_removed(&cache::remove(&root, &is_older));
        add(&root, &path)
    })?;
    args.add.iter().try_for_each(|path| add(&root, path))?;
    if args.list {
        for file in cache::list(&root) {
            out::line(&format!("{} {}", file.build_id, out::harmless(&file.path.to_string_lossy())))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The path as the cache has it; of a file that is gone, as it is typed.
fn absolute(path: &Path) -> PathBuf {
    path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned())
}

fn add(root: &Path, path: &Path) -> anyhow::Result<()> {
    let is_new = cache::add(root, path).with_context(|| format!("can't keep {}", path.display()))?;
    out::note(&format!("{}: {}", path.display(), if is_new { "kept" } else { "was kept already" }));
    Ok(())
}

fn removed(path: &Path, files: &[CachedFile]) -> anyhow::Result<()> {
    if files.is_empty() {
        bail!("{} isn't kept; tally buildid-cache -l lists what is", path.display());
    }
    note_removed(files);
    Ok(())
}

fn note_removed(files: &[CachedFile]) {
    for file in files {
        out::note(&format!("removed {} {}", file.build_id, file.path.display()));
    }
}
