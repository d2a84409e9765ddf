//! How `tally top` shows what it recorded, in perf top's flags.

use perfdata::AttrFlags;
use profile::view::report::{ReportField, ReportOpts, RowFilter, SortKey};
use record::opts::RecordOpts;

use crate::cmd::report;

/// Flags of the view.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "View")]
pub struct ViewArgs {
    /// Group samples by these keys: comm, dso, sym, pid, tid, cpu, srcline … (p. of `tally report --sort`)
    #[arg(short, long, value_name = "KEYS", default_value = "dso,sym")]
    sort: String,
    /// A column with the number of samples
    #[arg(short = 'n', long)]
    show_nr_samples: bool,
    /// A column with the sum of the periods
    #[arg(long)]
    show_total_period: bool,
    /// Only threads of these names
    #[arg(long, value_name = "NAMES", value_delimiter = ',', alias = "comm")]
    comms: Vec<String>,
    /// Only samples in these files
    #[arg(long, value_name = "FILES", value_delimiter = ',', alias = "dso")]
    dsos: Vec<String>,
    /// Only samples in these functions
    #[arg(long, value_name = "NAMES", value_delimiter = ',', alias = "symbol")]
    symbols: Vec<String>,
    /// Leave the kernel out
    #[arg(short = 'K', long = "hide-kernel-symbols", alias = "hide_kernel_symbols")]
    hide_kernel: bool,
    /// Leave user mode out
    #[arg(
        short = 'U',
        long = "hide-user-symbols",
        alias = "hide_user_symbols",
        conflicts_with = "hide_kernel"
    )]
    hide_user: bool,
    /// With --stdio: this many rows of each event
    #[arg(short = 'E', long, value_name = "N", default_value_t = 40)]
    pub(super) entries: u32,
    /// With --stdio: leave out rows under this many percent
    #[arg(long, value_name = "PERCENT", default_value_t = 0.1)]
    pub(super) percent_limit: f64,
    /// perf's flags for its own screens
    #[arg(short = 'z', long, hide = true)]
    zero: bool,
    /// As above
    #[arg(long, hide = true)]
    tui: bool,
    /// As above
    #[arg(short, long, hide = true)]
    verbose: bool,
    /// As above
    #[arg(long, hide = true)]
    force: bool,
}

impl ViewArgs {
    /// The rows asked for, without call graphs.
    ///
    /// # Errors
    /// An unknown key.
    pub(super) fn report(&self) -> anyhow::Result<ReportOpts> {
        let fields = report::parse_fields("--sort", &self.sort, &|_| false)?;
        let keys = fields.iter().filter_map(|field| match field {
            ReportField::Key(key) => Some(key.clone()),
            _ => None,
        });
        let sort: Vec<SortKey> = keys.collect();
        anyhow::ensure!(!sort.is_empty(), "--sort: want at least one of comm, dso, sym …");
        let filter = RowFilter {
            comms: self.comms.clone(),
            dsos: self.dsos.clone(),
            symbols: self.symbols.clone(),
            ..RowFilter::default()
        };
        Ok(ReportOpts {
            sort,
            filter,
            show_samples: self.show_nr_samples || fields.contains(&ReportField::Samples),
            show_period: self.show_total_period || fields.contains(&ReportField::Period),
            ..ReportOpts::default()
        })
    }

    /// Modes that are not to be shown are not sampled.
    pub(super) fn leave_out(&self, opts: &mut RecordOpts) {
        let flags = match (self.hide_kernel, self.hide_user) {
            (true, _) => AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV,
            (_, true) => AttrFlags::EXCLUDE_USER,
            _ => return,
        };
        opts.sampling.all_user |= self.hide_kernel;
        opts.sampling.all_kernel |= self.hide_user;
        for event in &mut opts.events {
            event.attr.flags = event.attr.flags.with(flags);
        }
    }
}
