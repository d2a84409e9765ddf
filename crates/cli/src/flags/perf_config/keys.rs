//! Settings of perf by name: what they do here, or why they do nothing.

/// Effect of a setting in tally.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It changes what tally does.
    Honoured,
    /// It does nothing here, for this reason.
    None(&'static str),
}

/// Names of settings that tally honours. `*` at the end matches any key.
const HONOURED: &[&str] = &[
    "annotate.disassembler_style",
    "annotate.hide_src_code",
    "annotate.jump_arrows",
    "annotate.objdump",
    "annotate.show_nr_samples",
    "annotate.show_total_period",
    "annotate.use_offset",
    "buildid.dir",
    "call-graph.dump-size",
    "call-graph.order",
    "call-graph.print-limit",
    "call-graph.print-type",
    "call-graph.record-mode",
    "call-graph.sort-key",
    "call-graph.threshold",
    "color.ui",
    "colors.addr",
    "colors.jump_arrows",
    "colors.medium",
    "colors.normal",
    "colors.root",
    "colors.selected",
    "colors.top",
    "diff.compute",
    "hist.percentage",
    "pager.*",
    "record.build-id",
    "record.call-graph",
    "report.children",
    "report.group",
    "report.percent-limit",
    "report.skip-empty",
    "report.sort_order",
    "stat.big-num",
    "stat.no-csv-summary",
    "tui.annotate",
    "tui.report",
    "tui.top",
];

/// Settings without effect, with the reason; the first match counts.
const WITHOUT_EFFECT: &[(&str, &str)] = &[
    ("annotate.demangle*", "annotate always prints demangled names"),
    ("annotate.*", "tally annotate has a layout of its own"),
    ("auxtrace.*", "for s390 only"),
    ("buildid-cache.*", "set DEBUGINFOD_URLS; report --debuginfod fetches what is missing"),
    ("convert.*", "tally export has no settings"),
    ("core.proc-map-timeout", "/proc/PID/maps is read without a time limit"),
    ("daemon.*", "tally has no daemon"),
    ("diff.order", "tally diff sorts by the size of the change"),
    ("gtk.*", "tally has no GTK views; report --html FILE writes a page"),
    ("help.*", "help is text"),
    ("intel-pt.*", "the decoder has no settings"),
    ("itrace.*", "the decoder writes no debug log"),
    ("kmem.*", "tally has no command kmem"),
    ("llvm.*", "BPF programs are built in"),
    ("man.*", "help is text"),
    ("record.aio", "writing never stops sampling"),
    ("record.debuginfod", "set DEBUGINFOD_URLS; report --debuginfod fetches what is missing"),
    ("report.queue-size", "memory for ordering is bounded by rounds"),
    ("samples.*", "the browser has no sample context"),
    ("scripts.*", "the browser has no menu of scripts"),
    ("session-*", "tally has no daemon"),
    ("top.*", "tally top collects stacks always, and shows each function's own time"),
    ("trace.*", "tally trace has a layout of its own"),
    ("ui.*", "column headers are always shown"),
];

/// Effect of `name` here.
#[must_use]
pub fn effect(name: &str) -> Effect {
    if HONOURED.iter().any(|pattern| is_match(pattern, name)) {
        return Effect::Honoured;
    }
    let reason = WITHOUT_EFFECT.iter().find(|(pattern, _)| is_match(pattern, name));
    Effect::None(reason.map_or("tally doesn't know this setting", |(_, reason)| reason))
}

/// Both `_` and `-` are in use between words.
fn is_match(pattern: &str, name: &str) -> bool {
    let same = |c: char| if c == '_' { '-' } else { c.to_ascii_lowercase() };
    let (pattern, name): (String, String) =
        (pattern.chars().map(same).collect(), name.chars().map(same).collect());
    pattern.strip_suffix('*').map_or(name == pattern, |begin| name.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_honoured_or_have_a_reason() {
        assert_eq!(effect("report.percent-limit"), Effect::Honoured);
        assert_eq!(effect("report.sort-order"), Effect::Honoured);
        assert_eq!(effect("pager.report"), Effect::Honoured);
        assert_eq!(effect("colors.top"), Effect::Honoured);
        assert!(matches!(effect("annotate.show_nr_jumps"), Effect::None(why) if why.contains("layout")));
        assert!(matches!(effect("unknown.key"), Effect::None(why) if why.contains("know")));
    }
}
