//! Functions whose calls are recorded as spans.

use std::collections::BTreeSet;
use std::path::PathBuf;

use calls::probing::definition::find_program;
use calls::probing::span_functions::{SpanPlaces, span_targets};
use record::Whom;
use record::open::spans::{SpanFunction, SpanTrigger};
use record::opts::RecordOpts;
use record::runtimes::otel::SPAN_NAME;
use record::sys::time::Clock;

/// Flags about spans.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct SpanArgs {
    /// Record each call of this function, such as a server's requests, and waits
    ///
    /// FUNC@FILE for a library, or for a program that the command starts; otel: OpenTelemetry's requests
    #[arg(long, value_name = "FUNC", help_heading = "Sampling")]
    pub span: Vec<String>,
}

impl SpanArgs {
    /// Puts these flags into `opts`, whose target is known already. The functions of triggers are spans, too.
    ///
    /// # Errors
    /// A function that is not there.
    pub fn apply(&self, opts: &mut RecordOpts, triggers: &[SpanTrigger]) -> anyhow::Result<()> {
        opts.thread_contexts = self.span.iter().any(|word| word == SPAN_NAME);
        let program = opts.target.command.first().filter(|_| opts.target.whom == Whom::Command);
        let program = program.and_then(|program| find_program(&PathBuf::from(program)));
        let places = SpanPlaces { program: program.as_deref(), pids: opts.target.named_pids() };
        let has = |of: &str| self.span.iter().any(|word| word.split('@').next() == Some(of));
        let more = triggers.iter().filter(|of| !has(of.name())).map(|trigger| &trigger.function);
        let words = self.span.iter().chain(more.collect::<BTreeSet<_>>());
        for word in words.filter(|word| *word != SPAN_NAME) {
            let found = span_targets(word, places)?.into_iter();
            opts.spans.extend(found.map(|of| SpanFunction::new(of.name, of.path, of.function)));
        }
        if (opts.thread_contexts || !opts.spans.is_empty()) && opts.clock == Clock::Monotonic {
            opts.off_cpu.get_or_insert_default();
        }
        Ok(())
    }
}
