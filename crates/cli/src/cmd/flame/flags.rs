//! Flags of `tally flame`.

use crate::calls::flame::FlameOpts;
use crate::reading::wall;
use exchange::import::perf_script::CollapseOpts;
use exchange::svg::Palette;
use profile::view::flame::WallTree;
use std::path::{Path, PathBuf};

/// Draw a flame graph (SVG), or print folded stacks, from perf.data, `perf script` text or folded text
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tally flame -o out.svg                      the perf.data here
  tally flame --folded                        its stacks, one line each
  perf script | tally flame - > out.svg       the text of perf script
  tally flame --folded --kernel script.txt    what stackcollapse-perf.pl --kernel gives
  tally flame --off-cpu -o wait.svg           where threads wait, and why
  tally flame --blame -o blame.svg            what the main thread's waits were for
  tally flame --calls -o calls.svg            traced calls: exact wall-clock time, count, avg, p99
  tally flame --diff old.data new.data -o change.svg   what became slower, and what faster
  tally flame --reverse --icicle -o who.svg   who calls the functions that run")]
pub struct Args {
    /// The input; `-` is standard input
    #[arg(value_name = "FILE", default_value = "perf.data")]
    pub input: PathBuf,
    /// The same as FILE, in perf's spelling
    #[arg(short = 'i', long = "input", value_name = "FILE", conflicts_with = "input")]
    pub perf_input: Option<PathBuf>,
    /// Draw AFTER coloured by its change since BEFORE: orange is more, blue is less
    ///
    /// Frames keep grey where chance explains their change. --folded prints stacks with the values of both.
    #[arg(long, num_args = 2, value_names = ["BEFORE", "AFTER"], conflicts_with_all = ["input", "perf_input", "html", "calls", "palette"])]
    pub diff: Vec<PathBuf>,
    /// With --diff: compare shares of each side's total, or values per run
    #[arg(long, value_name = "WHAT", default_value = "share", value_parser = ["share", "run"], requires = "diff")]
    pub norm: String,
    /// Write here instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print folded stacks instead of SVG
    #[arg(long)]
    pub folded: bool,
    /// Print the stacks as JSON, largest first
    #[arg(long, conflicts_with_all = ["folded", "diff", "calls", "html"])]
    pub json: bool,
    /// Print at most N stacks, with --json; 0 is all
    #[arg(long, value_name = "N", default_value_t = 0, requires = "json")]
    pub max_lines: usize,
    /// Write these stacks as a page for a browser
    ///
    /// of a recording, report --html has more: threads, time, waits
    #[arg(long, value_name = "FILE", conflicts_with_all = ["output", "folded"])]
    pub html: Option<PathBuf>,
    /// Read this event; without it, the first
    #[arg(short, long, value_name = "NAME")]
    pub event: Option<String>,
    /// Running and waiting time on one scale (record with --off-cpu)
    #[arg(long, conflicts_with_all = ["event", "samples"])]
    pub wall: bool,
    /// Time off the CPU: blocked by reason, runnable, preempted
    #[arg(long, conflicts_with_all = ["wall", "event", "samples"])]
    pub off_cpu: bool,
    /// Time on the CPU, to the exact length of each thread's
    #[arg(long, conflicts_with_all = ["wall", "off_cpu", "event", "samples"])]
    pub on_cpu: bool,
    /// Blocked time: the wakers' stacks on top of the sleepers'
    #[arg(long, conflicts_with_all = ["wall", "off_cpu", "on_cpu", "event", "samples"])]
    pub wakers: bool,
    /// One thread's time by its causes, waits for others resolved (the main thread's; --thread)
    #[arg(long, conflicts_with_all = ["wall", "off_cpu", "on_cpu", "wakers", "event", "samples", "min_block", "idle"])]
    pub blame: bool,
    /// Traced calls (`tally calls record`, Intel PT): width is wall-clock time, on and off the CPU coloured
    #[arg(long, conflicts_with_all = ["wall", "off_cpu", "on_cpu", "wakers", "blame", "event", "samples"])]
    pub calls: bool,
    /// With --calls: names as func:(count),avg:TIME
    #[arg(long, requires = "calls")]
    pub counts: bool,
    /// Which waits.
    #[command(flatten)]
    pub waits: wall::WaitArgs,
    /// Count samples, not what they represent
    #[arg(long)]
    pub samples: bool,
    /// Draw all frames
    ///
    /// Without it, the way into the kernel is one frame (`kernel: read()`), a wait has no other frame of the kernel,
    /// start-up frames are left out, and recursion is one frame (`f ×8`). Folded stacks always have all frames.
    #[arg(long)]
    pub all_frames: bool,
    /// Show no inlined functions (faster)
    #[arg(long)]
    pub no_inline: bool,
    /// Merge from the leaf: the functions that ran at the root, their callers above
    #[arg(long)]
    pub reverse: bool,
    /// Hang the graph from the top
    #[arg(long, alias = "inverted")]
    pub icicle: bool,
    /// The heading
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// Colours by kind of code, or arbitrary
    #[arg(long, value_enum, value_name = "PALETTE", alias = "colors")]
    pub palette: Option<PaletteArg>,
    /// Width of the graph in px
    #[arg(long, default_value_t = 1200, value_name = "PX", value_parser = clap::value_parser!(u32).range(200..100_000))]
    pub width: u32,
    /// Leave out frames narrower than this; without it, than 0.1 px, or as many as keep the file below 3 MB
    #[arg(long, value_name = "PX", alias = "minwidth")]
    pub min_width: Option<f64>,
    /// Add the process id to the process name
    #[arg(long)]
    pub pid: bool,
    /// Add process and thread id to the process name
    #[arg(long)]
    pub tid: bool,
    /// Mark kernel frames with _[k]
    #[arg(long)]
    pub kernel: bool,
    /// Mark frames of run-time code with _[j]
    #[arg(long)]
    pub jit: bool,
    /// All marks: --kernel --jit
    #[arg(long)]
    pub all: bool,
    /// Show addresses where symbols are unknown
    #[arg(long)]
    pub addrs: bool,
}

impl Args {
    /// The output is text, of whole stacks.
    pub(super) fn is_text(&self) -> bool {
        self.folded || self.json
    }

    pub(super) fn source(&self) -> &Path {
        self.perf_input.as_deref().unwrap_or(&self.input)
    }

    pub(super) fn wall_tree(&self) -> Option<WallTree> {
        let asked = [
            (self.wall, WallTree::Wall),
            (self.off_cpu, WallTree::OffCpu),
            (self.on_cpu, WallTree::OnCpu),
            (self.wakers, WallTree::Wakers),
        ];
        asked.into_iter().find(|(on, _)| *on).map(|(_, which)| which)
    }

    pub(super) fn calls_opts(&self) -> FlameOpts {
        FlameOpts {
            output: self.output.clone(),
            html: self.html.clone(),
            folded: self.folded,
            counts: self.counts,
            title: self.title.clone(),
            width: self.width,
            min_width: self.min_width,
            icicle: self.icicle,
            reverse: self.reverse,
        }
    }

    pub(super) fn heading(&self) -> &'static str {
        match self.wall_tree() {
            None if self.blame => "Wall clock of one thread, through its waits for others",
            Some(WallTree::Wall) => "Wall clock",
            Some(WallTree::OffCpu) => "Time off the CPU",
            Some(WallTree::OnCpu) => "Time on the CPU",
            Some(WallTree::Wakers) => "Waits, and above them who ended them",
            None => "Flame graph",
        }
    }

    pub(super) fn collapse_opts(&self) -> CollapseOpts {
        CollapseOpts {
            pid: self.pid,
            tid: self.tid,
            kernel: self.kernel || self.all,
            jit: self.jit || self.all,
            addrs: self.addrs,
            event: self.event.clone(),
        }
    }
}

/// Meaning of colours.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum PaletteArg {
    /// Where the code comes from: program, library, kernel, run-time code …
    Kind,
    /// Nothing: shades of fire.
    Hot,
    /// Nothing: shades of blue, the custom for time off the CPU.
    Io,
}

impl From<PaletteArg> for Palette {
    fn from(arg: PaletteArg) -> Self {
        match arg {
            PaletteArg::Kind => Self::Kind,
            PaletteArg::Hot => Self::Hot,
            PaletteArg::Io => Self::Io,
        }
    }
}
