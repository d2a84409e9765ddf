//! `tally flame`: stacks in, flame graph (SVG) or folded stacks out.

use crate::flame::{Tree, Unit};
use crate::input::perf_script::CollapseOpts;
use crate::input::{self, Stacks, TextFormat};
use crate::svg::{self, Palette, SvgOpts};
use crate::text::number;
use crate::{export, out};
use anyhow::Context;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Draw a flame graph (SVG), or print folded stacks, from perf.data, `perf script` text or folded text
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tally flame -o out.svg                      perf.data of this folder
  tally flame --folded                        its stacks, one line each
  perf script | tally flame - > out.svg       the text of perf script
  tally flame --folded --kernel script.txt    what stackcollapse-perf.pl --kernel gives
  tally flame --reverse --icicle -o who.svg   who calls the functions that run")]
pub struct Args {
    /// The input; `-` is standard input
    #[arg(value_name = "FILE", default_value = "perf.data")]
    pub input: PathBuf,
    /// The same as FILE, in perf's spelling
    #[arg(short = 'i', long = "input", value_name = "FILE", conflicts_with = "input")]
    pub perf_input: Option<PathBuf>,
    /// Write here instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print folded stacks instead of SVG
    #[arg(long)]
    pub folded: bool,
    /// Read this event; without it, the first
    #[arg(short, long, value_name = "NAME")]
    pub event: Option<String>,
    /// Merge from the leaf: the functions that ran at the root, their callers above
    #[arg(long)]
    pub reverse: bool,
    /// Hang the graph from the top
    #[arg(long, alias = "inverted")]
    pub icicle: bool,
    /// The heading
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// What colours tell
    #[arg(long, value_enum, default_value_t = Palette::Kind, value_name = "PALETTE", alias = "colors")]
    pub palette: Palette,
    /// Width of the graph in px
    #[arg(long, default_value_t = 1200, value_name = "PX", value_parser = clap::value_parser!(u32).range(200..100_000))]
    pub width: u32,
    /// Leave out frames narrower than this
    #[arg(long, default_value_t = 0.1, value_name = "PX", alias = "minwidth")]
    pub min_width: f64,
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
    fn source(&self) -> &Path {
        self.perf_input.as_deref().unwrap_or(&self.input)
    }

    fn collapse_opts(&self) -> CollapseOpts {
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

/// Runs the command.
///
/// # Errors
/// If the input can't be read or the output can't be written.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let text = read_input(args.source())?;
    let stacks = stacks(&text, &args)?;
    for note in stacks.notes.lines() {
        out::note(&format!("tally flame: {note}"));
    }
    if stacks.tree.is_empty() {
        anyhow::bail!("{}: no stacks in it{}", args.source().display(), remedy(&args));
    }
    match &args.output {
        Some(path) => {
            let file = File::create(path).with_context(|| format!("can't write {}", path.display()))?;
            write(BufWriter::new(file), stacks.tree, &args)
                .with_context(|| format!("can't write {}", path.display()))?;
        }
        None => write(out::stdout(), stacks.tree, &args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn remedy(args: &Args) -> &'static str {
    if args.event.is_some() { " for this event" } else { " (was it recorded with -g?)" }
}

fn read_input(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut text = Vec::new();
    if path.as_os_str() == "-" {
        if io::stdin().is_terminal() {
            out::note("tally flame: reading stacks from the terminal; end with Ctrl-D");
        }
        io::stdin().lock().read_to_end(&mut text).context("can't read standard input")?;
    } else {
        let mut file = File::open(path).with_context(|| format!("can't open {}", path.display()))?;
        file.read_to_end(&mut text).with_context(|| format!("can't read {}", path.display()))?;
    }
    Ok(text)
}

fn stacks(text: &[u8], args: &Args) -> anyhow::Result<Stacks> {
    if text.starts_with(b"PERFILE2") || text.starts_with(b"2ELIFREP") {
        anyhow::bail!("{}: perf.data is not read yet; use perf script | tally flame -", args.source().display());
    }
    Ok(match input::text_format(text) {
        TextFormat::PerfScript => input::perf_script::read(text, &args.collapse_opts()),
        TextFormat::Folded => input::folded::read(text),
    })
}

fn write(mut out: impl Write, tree: Tree, args: &Args) -> io::Result<()> {
    let tree = if args.reverse { tree.reversed() } else { tree };
    if args.folded {
        out.write_all(export::folded::to_text(&tree).as_bytes())?;
    } else {
        svg::write(&mut out, &tree, &svg_opts(&tree, args))?;
    }
    out.flush()
}

fn svg_opts(tree: &Tree, args: &Args) -> SvgOpts {
    let (total, samples) = tree.totals()[0];
    let amount = match &tree.unit {
        Unit::Nanoseconds => format!("{}, {} samples", number::duration_ns(total), number::grouped(samples)),
        Unit::Samples => format!("{} samples", number::grouped(total)),
        Unit::Event(name) => format!("{} {name}, {} samples", number::grouped(total), number::grouped(samples)),
    };
    SvgOpts {
        title: args.title.clone().unwrap_or_else(|| "Flame graph".to_owned()),
        subtitle: amount,
        width: args.width,
        min_width: args.min_width.max(0.0),
        icicle: args.icicle,
        palette: args.palette,
    }
}
