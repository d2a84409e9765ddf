//! Flags for the sources of function names.

use dso::{DebugSearch, KernelNames};
use std::path::PathBuf;
use symbols::{NameForm, NameOpts};

/// For commands that name what was sampled.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct NameArgs {
    /// Look for object files below this folder
    #[arg(long, visible_alias = "sysroot", value_name = "DIR")]
    pub symfs: Option<PathBuf>,
    /// Fetch files and debug information that are missing here (debuginfod-find, from DEBUGINFOD_URLS)
    #[arg(long)]
    pub debuginfod: bool,
    /// The kernel's names from this image with symbols (vmlinux)
    #[arg(short = 'k', long, value_name = "FILE")]
    pub vmlinux: Option<PathBuf>,
    /// The kernel's names from this copy of /proc/kallsyms
    #[arg(long, value_name = "FILE", conflicts_with = "vmlinux")]
    pub kallsyms: Option<PathBuf>,
    /// Names as they are in the symbol table
    #[arg(long)]
    pub no_demangle: bool,
    /// Show the interpreter's frames between Python's, V8's between JavaScript's
    #[arg(long)]
    pub runtime_frames: bool,
    /// Names of JIT code (/tmp/perf-PID.map) are read whoever wrote them. A flag of each command: perf's short one for it
    /// is not free in all of them.
    #[arg(skip)]
    pub force: bool,
}

impl NameArgs {
    /// The same as options.
    #[must_use]
    pub fn opts(&self) -> NameOpts {
        NameOpts {
            search: self.search(),
            fetch: self.debuginfod,
            form: if self.no_demangle { NameForm::Mangled } else { NameForm::Whole },
            any_owner: self.force,
            runtime_frames: self.runtime_frames,
        }
    }

    /// Where to look.
    fn search(&self) -> DebugSearch {
        let mut search = DebugSearch::from_env();
        search.root = self.symfs.clone().or(search.root);
        search.kernel = match (&self.vmlinux, &self.kallsyms) {
            (Some(image), _) => Some(KernelNames::Image(image.clone())),
            (None, Some(text)) => Some(KernelNames::Kallsyms(text.clone())),
            (None, None) => None,
        };
        search
    }

    /// Reports that a file named for the kernel's names can't be had, or debuginfod's client.
    ///
    /// # Errors
    /// It can't be read, or there is no client or server.
    pub fn check(&self) -> anyhow::Result<()> {
        if let Some(why) = symbols::why_nothing_is_fetched().filter(|_| self.debuginfod) {
            anyhow::bail!("--debuginfod: {why}");
        }
        for (flag, path) in [("--vmlinux", &self.vmlinux), ("--kallsyms", &self.kallsyms)] {
            let Some(path) = path else { continue };
            if let Err(error) = dso::named_file::open(path) {
                anyhow::bail!("{flag}: can't open {}: {error}", path.display());
            }
        }
        Ok(())
    }
}
