//! Flags of recordings that hold a processor's trace.

use anyhow::ensure;
use record::opts::RecordOpts;
use record::pt::AuxSnapshot;
use std::ffi::OsString;

use crate::flags::recording::parse_bytes;

/// How a trace is taken.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Processor traces (-e intel_pt/cyc/u)")]
pub struct TracingArgs {
    /// Keep only the newest part of the trace, SIZE of it; SIGUSR2 has it written, e also the end
    #[arg(short = 'S', long, value_name = "[SIZE][e]", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    snapshot: Option<String>,
    /// A buffer for each thread instead of each CPU, also of samples; threads that begin later are left out
    #[arg(long)]
    per_thread: bool,
}

impl TracingArgs {
    /// Puts these flags into `opts`, whose events are known.
    ///
    /// # Errors
    /// Flags that need a trace, without one; a size that is none.
    pub fn apply(&self, opts: &mut RecordOpts) -> anyhow::Result<()> {
        let without = "is for processor traces: -e intel_pt/cyc/u";
        ensure!(opts.traces() || self.snapshot.is_none(), "-S {without}");
        ensure!(
            !self.per_thread || !opts.target.is_system_wide(),
            "--per-thread watches threads: give a command, -p PID or -t TID"
        );
        opts.trace.per_thread = self.per_thread;
        let Some(text) = &self.snapshot else { return Ok(()) };
        let (size, at_exit) = text.strip_suffix('e').map_or((text.as_str(), false), |size| (size, true));
        opts.trace.snapshot = Some(AuxSnapshot { at_exit });
        if !size.is_empty() {
            let bytes = parse_bytes(size).map_err(|why| anyhow::anyhow!("-S{text}: {why}"))?;
            let bytes = usize::try_from(bytes)?;
            ensure!(
                opts.trace.area_bytes.is_none_or(|area| bytes <= area),
                "-S{text}: more than the area of -m holds"
            );
            opts.trace.area_bytes = opts.trace.area_bytes.or(Some(bytes));
        }
        Ok(())
    }
}

/// perf's `-Se`, `-S64K` and `-Iax,bx` spelled as this parser takes them; only before a `--`.
pub fn spelled_out(args: Vec<OsString>) -> Vec<OsString> {
    if args.get(1).is_none_or(|command| command != "record") {
        return args;
    }
    let options = args.iter().position(|arg| arg == "--").unwrap_or(args.len());
    let long = |(at, arg): (usize, OsString)| {
        let value = |short: &str| {
            let value = arg.to_str().filter(|_| at < options)?.strip_prefix(short)?;
            (!value.is_empty() && !value.starts_with('=')).then_some(value)
        };
        match (value("-S"), value("-I")) {
            (Some(value), _) => OsString::from(format!("--snapshot={value}")),
            (_, Some(value)) => OsString::from(format!("--intr-regs={value}")),
            _ => arg,
        }
    };
    args.into_iter().enumerate().map(long).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfdata::Attr;
    use record::opts::EventRequest;

    fn applied(snapshot: &str) -> anyhow::Result<RecordOpts> {
        let event = EventRequest { aux: true, ..EventRequest::plain("intel_pt//u", Attr::default()) };
        let mut opts = RecordOpts { events: vec![event], ..RecordOpts::default() };
        TracingArgs { snapshot: Some(snapshot.to_owned()), per_thread: false }.apply(&mut opts)?;
        Ok(opts)
    }

    #[test]
    fn snapshots_have_a_size_and_an_end() {
        let trace = |text| applied(text).unwrap().trace;
        assert_eq!((trace("").snapshot, trace("").area_bytes), (Some(AuxSnapshot { at_exit: false }), None));
        assert_eq!(trace("e").snapshot, Some(AuxSnapshot { at_exit: true }));
        assert_eq!(
            (trace("64Ke").snapshot, trace("64K").area_bytes),
            (Some(AuxSnapshot { at_exit: true }), Some(65_536))
        );
        assert!(applied("x").is_err());
        let mut all = RecordOpts::default();
        all.target.whom = record::Whom::System;
        assert!(TracingArgs { per_thread: true, snapshot: None }.apply(&mut all).is_err());
    }

    #[test]
    fn perfs_short_form_is_taken_before_the_command_only() {
        let spelled = |text: &str| {
            let args = text.split(' ').map(OsString::from).collect();
            spelled_out(args).join(std::ffi::OsStr::new(" ")).into_string().unwrap()
        };
        assert_eq!(spelled("tally record -Se -e x -- ls -S1"), "tally record --snapshot=e -e x -- ls -S1");
        assert_eq!(spelled("tally record -S ls"), "tally record -S ls");
        assert_eq!(spelled("tally report -Se"), "tally report -Se");
    }
}
