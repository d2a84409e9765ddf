//! Settings as options: they go in front of the options that the user typed, unless one of those decides the same.

use super::Setting;
use crate::flags::Flags;
use clap::CommandFactory;
use std::ffi::OsString;
use std::path::PathBuf;

/// A setting, the command that it changes, and the options that decide the same.
struct Rule {
    command: &'static str,
    setting: &'static str,
    /// Options after which the setting counts no more: `--children -s …`
    unless: &'static str,
    option: fn(&Setting) -> Option<String>,
}

const RULES: &[Rule] = &[
    Rule::new("report", "report.percent-limit", "--percent-limit", |s| option("--percent-limit", s)),
    Rule::new("report", "report.children", "--children --no-children", |s| when(s, false, "--no-children")),
    Rule::new("report", "report.group", "--group --no-group", |s| when(s, false, "--no-group")),
    Rule::new("report", "report.skip-empty", "--no-skip-empty", |s| when(s, false, "--no-skip-empty")),
    Rule::new("report", "report.sort_order", "--sort -s --fields -F --mem-mode --branch-stack -b", |s| {
        option("--sort", s)
    }),
    Rule::new("report", "hist.percentage", "--percentage", |s| option("--percentage", s)),
    Rule::new("report", "tui.report", "--tui --stdio --html", |s| when(s, false, "--stdio")),
    Rule::new("annotate", "tui.annotate", "--stdio --stdio2", |s| when(s, false, "--stdio")),
    Rule::new("top", "tui.top", "--stdio", |s| when(s, false, "--stdio")),
    Rule::new("annotate", "annotate.hide_src_code", "--source --no-source", |s| when(s, true, "--no-source")),
    Rule::new("annotate", "annotate.disassembler_style", "--disassembler-style -M", |s| {
        option("--disassembler-style", s)
    }),
    Rule::new("annotate", "annotate.objdump", "--objdump", |s| option("--objdump", s)),
    Rule::new("annotate", "annotate.show_nr_samples", "--show-nr-samples -n --show-total-period", |s| {
        when(s, true, "--show-nr-samples")
    }),
    Rule::new("annotate", "annotate.show_total_period", "--show-nr-samples -n --show-total-period", |s| {
        when(s, true, "--show-total-period")
    }),
    Rule::new("diff", "diff.compute", "--compute -c", |s| option("--compute", s)),
    Rule::new("record", "record.build-id", "--no-buildid -B --no-buildid-cache -N", |s| {
        let skipped = match s.value.as_str() {
            "no-cache" => "--no-buildid-cache",
            "skip" => "--no-buildid",
            _ => return None,
        };
        Some(skipped.to_owned())
    }),
    Rule::new("stat", "stat.big-num", "--big-num --no-big-num", |s| when(s, false, "--no-big-num")),
    Rule::new("stat", "stat.no-csv-summary", "--no-csv-summary", |s| when(s, true, "--no-csv-summary")),
];

impl Rule {
    const fn new(
        command: &'static str,
        setting: &'static str,
        unless: &'static str,
        option: fn(&Setting) -> Option<String>,
    ) -> Self {
        Self { command, setting, unless, option }
    }
}

fn option(name: &str, setting: &Setting) -> Option<String> {
    Some(format!("{name}={}", setting.value))
}

fn when(setting: &Setting, is_on: bool, option: &str) -> Option<String> {
    (setting.is_on() == Some(is_on)).then(|| option.to_owned())
}

/// `args` with the settings as options after the command's name.
#[must_use]
pub fn added(args: &[OsString], settings: &[Setting]) -> Vec<OsString> {
    let program = Flags::command();
    let is_command = |arg: &OsString| program.get_subcommands().any(|command| arg == command.get_name());
    let Some(at) = args.iter().skip(1).position(is_command).map(|at| at + 1) else { return args.to_vec() };
    let (front, typed) = args.split_at(at + 1);
    let command = front[at].to_string_lossy();
    let mut added: Vec<String> = RULES
        .iter()
        .filter(|rule| rule.command == command && !is_given(rule.unless, typed))
        .filter_map(|rule| (rule.option)(settings.iter().find(|setting| is_named(setting, rule.setting))?))
        .collect();
    added.extend(stacks(&command, typed, settings));
    if let Some(pager) = find(settings, &format!("pager.{command}")) {
        added.extend(when(pager, false, "--no-pager"));
    }
    if let Some(colour) = find(settings, "color.ui").filter(|_| !is_given("--color", args)) {
        added.extend(when(colour, false, "--color=never"));
        added.extend(Some("--color=always".to_owned()).filter(|_| colour.value == "always"));
        added.extend(Some("--color=never".to_owned()).filter(|_| colour.value == "never"));
    }
    front.iter().cloned().chain(added.into_iter().map(OsString::from)).chain(typed.iter().cloned()).collect()
}

/// Options for call graphs: how `record -g` unwinds, how `report` draws.
fn stacks(command: &str, typed: &[OsString], settings: &[Setting]) -> Option<String> {
    let value = |name: &str| find(settings, name).map(|setting| setting.value.as_str());
    if command == "record" && is_given("-g", typed) && !is_given("--call-graph", typed) {
        let mode = value("record.call-graph").or_else(|| value("call-graph.record-mode"))?;
        let size = value("call-graph.dump-size").filter(|_| mode == "dwarf");
        return Some(format!("--call-graph={mode}{}", size.map_or(String::new(), |size| format!(",{size}"))));
    }
    if command != "report" || is_given("-g --call-graph -G --inverted --wall", typed) {
        return None;
    }
    /// perf's threshold: a lone number is a threshold, so a limit needs one before it.
    const THRESHOLD: &str = "0.5";
    let of_name = |name: &&str| value(&format!("call-graph.{name}"));
    let threshold = of_name(&"threshold").or_else(|| of_name(&"print-limit").map(|_| THRESHOLD));
    let before = of_name(&"print-type").into_iter().chain(threshold);
    let after = ["print-limit", "order", "sort-key"];
    let parts: Vec<&str> = before.chain(after.iter().filter_map(of_name)).collect();
    (!parts.is_empty()).then(|| format!("--call-graph={}", parts.join(",")))
}

/// The folder of `buildid.dir`, with `~` for the home.
#[must_use]
pub fn build_id_cache(settings: &[Setting]) -> Option<PathBuf> {
    let value = &find(settings, "buildid.dir")?.value;
    match (value.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => Some(PathBuf::from(home).join(rest)),
        _ => Some(PathBuf::from(value)),
    }
}

fn find<'s>(settings: &'s [Setting], name: &str) -> Option<&'s Setting> {
    settings.iter().find(|setting| is_named(setting, name))
}

fn is_named(setting: &Setting, name: &str) -> bool {
    setting.name.replace('_', "-").eq_ignore_ascii_case(&name.replace('_', "-"))
}

/// Whether one of the `options` is among those that were typed, also cut short or in a cluster.
fn is_given(options: &str, typed: &[OsString]) -> bool {
    let own = typed.iter().take_while(|arg| *arg != "--").filter_map(|arg| arg.to_str());
    let mut own = own.filter(|arg| arg.starts_with('-'));
    own.any(|arg| {
        let word = arg.split('=').next().unwrap_or(arg);
        options.split_whitespace().any(|option| match option.strip_prefix("--") {
            Some(_) => word.len() > 4 && option.starts_with(word),
            None => !word.starts_with("--") && word.contains(&option[1..]),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::perf_config::keys::{Effect, effect};
    use clap::Parser;

    fn line(typed: &str, settings: &[(&str, &str)]) -> String {
        let args: Vec<OsString> = typed.split_whitespace().map(OsString::from).collect();
        let settings: Vec<Setting> = settings
            .iter()
            .map(|(name, value)| Setting {
                name: (*name).to_owned(),
                value: (*value).to_owned(),
                file: PathBuf::from("/f"),
            })
            .collect();
        let all = added(&args, &settings);
        assert!(Flags::try_parse_from(&all).is_ok(), "{all:?}");
        all.iter().map(|arg| arg.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_setting_is_the_default_of_its_option() {
        let limit = [("report.percent-limit", "2"), ("report.children", "no"), ("ui.show-headers", "no")];
        assert_eq!(line("tally report", &limit), "tally report --percent-limit=2 --no-children");
        assert_eq!(line("tally script", &limit), "tally script");
        assert_eq!(line("tally report", &[("report.skip-empty", "no")]), "tally report --no-skip-empty");
        let rest = "tally --color never report --percent-limit 5 --child";
        assert_eq!(line(rest, &limit), rest);
    }

    #[test]
    fn the_unwinding_mode_counts_with_g_only() {
        let mode = [("call-graph.record-mode", "dwarf"), ("call-graph.dump-size", "4096")];
        assert_eq!(line("tally record -- ls", &mode), "tally record -- ls");
        assert_eq!(line("tally record -g -- ls", &mode), "tally record --call-graph=dwarf,4096 -g -- ls");
        let own = [("record.call-graph", "fp"), ("call-graph.record-mode", "dwarf")];
        assert_eq!(line("tally record -ag", &own), "tally record --call-graph=fp -ag");
    }

    #[test]
    fn call_graphs_are_drawn_as_set() {
        let drawn = [("call-graph.order", "callee"), ("call-graph.threshold", "3")];
        assert_eq!(line("tally report", &drawn), "tally report --call-graph=3,callee");
        assert_eq!(line("tally report -g caller", &drawn), "tally report -g caller");
        let limit = [("Call-Graph.print-limit", "7")];
        assert_eq!(line("tally report", &limit), "tally report --call-graph=0.5,7");
    }

    #[test]
    fn every_setting_with_a_rule_is_listed_as_honoured() {
        for rule in RULES {
            assert_eq!(effect(rule.setting), Effect::Honoured, "{}", rule.setting);
        }
    }

    #[test]
    fn options_of_the_command_that_is_run_do_not_count() {
        let settings = [("record.build-id", "no-cache")];
        assert_eq!(line("tally record -- ls -N", &settings), "tally record --no-buildid-cache -- ls -N");
    }
}
