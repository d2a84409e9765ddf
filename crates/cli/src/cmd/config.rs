//! `tally config`: settings of perf, and which of them tally honours.

use crate::flags::perf_config::keys::{Effect, effect};
use crate::flags::perf_config::{ConfigFiles, Setting, read};
use crate::terminal::out;
use anyhow::bail;
use std::process::ExitCode;

/// List perf's settings, and which of them tally honours
///
/// Read from /etc/perfconfig and ~/.perfconfig, or from the file that PERF_CONFIG names. Options on the command line win
/// over settings.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tally config -l                   all settings, one a line
  tally config report.children      the value of one
  tally config --user -l            those of ~/.perfconfig
  PERF_CONFIG=/dev/null tally report  without any settings")]
pub struct Args {
    /// List all settings (the default)
    #[arg(short, long)]
    list: bool,
    /// Only ~/.perfconfig
    #[arg(long, conflicts_with = "system")]
    user: bool,
    /// Only /etc/perfconfig
    #[arg(long)]
    system: bool,
    /// Settings to print, such as report.children
    #[arg(value_name = "NAME", conflicts_with = "list")]
    names: Vec<String>,
}

/// Lists settings on standard output, and those without effect on standard error.
///
/// # Errors
/// A setting that isn't in the files, or one to be written.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if let Some(written) = args.names.iter().find(|name| name.contains('=')) {
        bail!("{written}: tally doesn't write settings; edit ~/.perfconfig, or run: perf config {written}");
    }
    let scope = match (args.user, args.system) {
        (true, _) => ConfigFiles::User,
        (_, true) => ConfigFiles::System,
        _ => ConfigFiles::All,
    };
    let settings = read(scope);
    let chosen: Vec<&Setting> = if args.names.is_empty() {
        settings.iter().collect()
    } else {
        let find = |name: &String| settings.iter().find(|setting| setting.name == *name);
        let missing = args.names.iter().find(|name| find(name).is_none());
        if let Some(name) = missing {
            bail!("{name} is not set; tally config -l lists the settings that are");
        }
        args.names.iter().filter_map(find).collect()
    };
    for setting in &chosen {
        out::line(&format!("{}={}", setting.name, setting.value))?;
    }
    for setting in chosen {
        if let Effect::None(reason) = effect(&setting.name) {
            out::note(&format!("tally config: {} has no effect in tally: {reason}", setting.name));
        }
    }
    Ok(ExitCode::SUCCESS)
}
