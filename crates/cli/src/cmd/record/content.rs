//! Flags of `tally record` about the content of samples.

use super::registers;
use perfdata::abi::*;
use record::opts::RecordOpts;

/// Content of samples.
#[derive(clap::Args)]
#[allow(clippy::struct_excessive_bools)]
pub struct SampleArgs {
    /// Mappings of data as well, and the data address of each sample
    #[arg(short, long, help_heading = "Samples")]
    pub data: bool,
    /// The CPU of each sample
    #[arg(long, help_heading = "Samples")]
    pub sample_cpu: bool,
    /// The time of each sample (always on; perf's flag)
    #[arg(short = 'T', long, hide = true)]
    pub timestamp: bool,
    /// The period of each sample (always on; perf's flag)
    #[arg(short = 'P', long, hide = true)]
    pub period: bool,
    /// Hardware-given weight of each sample
    #[arg(short = 'W', long, help_heading = "Samples")]
    pub weight: bool,
    /// Raw data of tracepoints (always on for them; perf's flag)
    #[arg(short = 'R', long, hide = true)]
    pub raw_samples: bool,
    /// Physical address of the data of each sample
    #[arg(long, help_heading = "Samples")]
    pub phys_data: bool,
    /// Page size of the data address of each sample
    #[arg(long, help_heading = "Samples")]
    pub data_page_size: bool,
    /// Page size of the code address of each sample
    #[arg(long, help_heading = "Samples")]
    pub code_page_size: bool,
    /// Counts of each task at its end
    #[arg(short, long, help_heading = "Samples")]
    pub stat: bool,
    /// Branch records of any kind
    #[arg(short = 'b', long, help_heading = "Samples")]
    pub branch_any: bool,
    /// Branch records of these kinds: any_call, any_ret, ind_call, cond …, and u, k where
    #[arg(short = 'j', long, value_name = "KINDS", help_heading = "Samples", conflicts_with = "branch_any")]
    pub branch_filter: Option<String>,
    /// The state of hardware transactions
    #[arg(long, help_heading = "Samples")]
    pub transaction: bool,
    /// Registers of user mode at each sample: ip,sp,… (without a list: all; =? names them)
    #[arg(long, value_name = "REGS", num_args = 0..=1, require_equals = true, default_missing_value = "", help_heading = "Samples")]
    pub user_regs: Option<String>,
    /// Registers at the very moment of each sample, in the kernel as well
    #[arg(short = 'I', long, value_name = "REGS", num_args = 0..=1, require_equals = true, default_missing_value = "", help_heading = "Samples")]
    pub intr_regs: Option<String>,
    /// Leave out samples of tally itself
    #[arg(long, help_heading = "Samples")]
    pub exclude_perf: bool,
    /// Don't sample: only what processes do
    #[arg(short = 'n', long, help_heading = "Samples")]
    pub no_samples: bool,
}

impl SampleArgs {
    /// Puts the flags into `opts`.
    ///
    /// # Errors
    /// Unknown registers or kinds of branches.
    pub fn apply(&self, opts: &mut RecordOpts) -> anyhow::Result<()> {
        opts.sampling.no_samples = self.no_samples;
        opts.sampling.exclude_self = self.exclude_perf;
        if let Some(list) = &self.user_regs {
            opts.extra.regs_user = registers::parse("--user-regs", list)?;
        }
        if let Some(list) = &self.intr_regs {
            opts.extra.regs_intr = registers::parse("--intr-regs", list)?;
        }
        opts.extra.data_maps = self.data;
        opts.extra.stat = self.stat;
        let bits = [
            (self.data, PERF_SAMPLE_ADDR | PERF_SAMPLE_DATA_SRC),
            (self.sample_cpu, PERF_SAMPLE_CPU),
            (self.weight, PERF_SAMPLE_WEIGHT),
            (self.phys_data, PERF_SAMPLE_ADDR | PERF_SAMPLE_PHYS_ADDR),
            (self.data_page_size, PERF_SAMPLE_ADDR | PERF_SAMPLE_DATA_PAGE_SIZE),
            (self.code_page_size, PERF_SAMPLE_CODE_PAGE_SIZE),
            (self.transaction, PERF_SAMPLE_TRANSACTION),
        ];
        for (wanted, bit) in bits {
            opts.extra.sample_type |= if wanted { bit } else { 0 };
        }
        if self.branch_any {
            opts.extra.branches = PERF_SAMPLE_BRANCH_ANY;
        }
        if let Some(filter) = &self.branch_filter {
            opts.extra.branches = record::event::parse_branch_filter(filter)?;
        }
        Ok(())
    }
}
