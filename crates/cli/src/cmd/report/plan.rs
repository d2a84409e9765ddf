//! From flags and a file's events to options: perf's defaults are decided here.

use super::flags::Args;
use super::values::{self as flags, CallGraph};
use crate::flags::shown_names;
use crate::text::callgraph::GraphStyle;
use crate::text::report::StdioOpts;
use anyhow::{Context, bail};
use perfdata::{AttrFlags, PerfData};
use profile::session::{Dimensions, SampleFilter, SampleWord, SessionOpts, TraceText};
use profile::source::Want;
use profile::view::report::{
    FunctionUnit, GraphKey, GraphOrder, ReportField, ReportOpts, RowFilter, SortKey,
};
use regex_lite::Regex;
use std::borrow::Cow;
use symbols::{FileFormats, LoadOpts, NameForm, NameOpts, Recording, UnnamedCode};

/// Contents and form of the report.
pub struct ReportPlan {
    /// The view.
    pub report: ReportOpts,
    /// The drawing of call graphs.
    pub call_graph: CallGraph,
    /// The file has callchains and they are shown.
    pub callchains: bool,
    /// The file's header, to be printed before the report.
    pub header: Option<String>,
    /// `--sort` as typed.
    sort_given: Option<String>,
    /// `--fields` was given.
    fields_given: bool,
    /// Name of code without a symbol.
    unnamed: UnnamedCode,
    /// The form of names.
    name_form: NameForm,
    /// One row entry per branch of the branch stacks.
    branches: bool,
    /// Some event was recorded with call chains.
    has_chains: bool,
    /// First and last sample as the header has them.
    time_span_ns: Option<(u64, u64)>,
}

impl ReportPlan {
    /// For `file`.
    ///
    /// # Errors
    /// If a flag's value makes no sense.
    pub fn new(args: &Args, file: &PerfData<'_>) -> anyhow::Result<Self> {
        let has_chains = file.events().iter().any(has_chain);
        if args.stacks.branch_stack && !file.events().iter().any(has_branch_stack) {
            bail!(
                "-b: the file has no branch stacks; record with -b (tally record -b) on a CPU that has them"
            );
        }
        let recorded = file.events().iter().any(has_branches);
        let branches = args.stacks.branch_stack || (!args.stacks.no_branch_stack && recorded);
        let mut call_graph = flags::parse_call_graph(args.stacks.call_graph.as_deref().unwrap_or(""))?;
        let has_latency = args.columns.has_latency();
        let by_callers = has_chains && !args.stacks.no_children && !branches && !has_latency;
        // As perf: a tree of keys has no room for callees.
        let children = by_callers && !args.columns.hierarchy;
        let callchains = has_chains && (call_graph.graph.is_some() || children);
        if let Some(graph) = &mut call_graph.graph {
            // As perf: the limit of rows is that of their graphs, too, unless -g gives another.
            if args.output.percent_limit > 0.0 && !call_graph.minimum_given {
                graph.min_percent = args.output.percent_limit;
            }
            let root_first = args.stacks.inverted || (by_callers && !call_graph.order_given);
            if root_first {
                graph.order = GraphOrder::Caller;
            }
        }
        let mut report = ReportOpts { children, ..ReportOpts::default() };
        report.graph = call_graph.graph.filter(|_| callchains && !branches);
        set_columns(&mut report, args, file, branches)?;
        set_filters(&mut report, args)?;
        report.inlines = callchains && !args.stacks.no_inline;
        let unnamed = UnnamedCode::for_filters(names_asked_for(args));
        let (sort_given, fields_given) = (args.columns.sort.clone(), args.columns.fields.is_some());
        let name_form = perfs_form(args);
        if name_form == NameForm::AnyCompiler {
            rename(&mut report.filter.symbols, dso::of_any_compiler);
        }
        let time_span_ns = file.features().sample_time_ns;
        Ok(Self {
            report,
            call_graph,
            callchains,
            header: None,
            sort_given,
            fields_given,
            unnamed,
            name_form,
            branches,
            has_chains,
            time_span_ns,
        })
    }

    /// For a view of our own: rows of functions as the flame graph has them, with inlined ones if not refused, and with
    /// names for functions without a symbol.
    pub fn show_functions(&mut self, args: &Args) {
        self.unnamed = UnnamedCode::Functions;
        self.name_form = shown_names::form();
        if self.name_form == NameForm::Brief {
            rename(&mut self.report.filter.symbols, dso::brief);
        }
        self.report.inlines = !args.stacks.no_inline;
        if self.report.inlines {
            self.report.unit = FunctionUnit::Inlined;
        }
    }

    /// A view of our own has brief names, unless others are wanted.
    fn names(&self, args: &Args) -> NameOpts {
        let names = args.name_sources().opts();
        let form = if names.form == NameForm::Whole { self.name_form } else { names.form };
        NameOpts { form, ..names }
    }

    /// True if rows are grouped by cgroups or their containers.
    #[must_use]
    pub fn needs_cgroups(&self) -> bool {
        dimensions(&self.report.keys()).cgroup
    }

    /// Parts of the recording to read for it.
    ///
    /// # Errors
    /// If a filter's value makes no sense.
    pub fn load_opts(&self, args: &Args, file: &PerfData<'_>) -> anyhow::Result<LoadOpts> {
        let filter = SampleFilter {
            times_ns: match &args.only.time {
                Some(text) => flags::parse_times(text, self.time_span_ns)?,
                None => Vec::new(),
            },
            cpus: flags::cpus_of(args.only.cpu.as_deref(), file)?,
            parallelism: args.only.parallelism.as_deref().map_or(Ok(Vec::new()), flags::parse_ranges)?,
            switch: args.only.switch.of(file.events())?,
            ..SampleFilter::default()
        };
        let keys = self.report.keys();
        if keys.contains(&SortKey::Parent) && !self.has_chains {
            bail!("--sort parent: the file has no call chains; record with -g");
        }
        let by_line =
            reads_lines(&keys) || self.report.graph.is_some_and(|graph| graph.key == GraphKey::SrcLine);
        let max_frames = args.stacks.max_stack.unwrap_or(usize::MAX);
        let callchains = self.callchains || keys.contains(&SortKey::Parent);
        let mut dimensions = Dimensions { branches: self.branches, ..dimensions(&keys) };
        dimensions.parallelism |= args.columns.has_latency();
        let needs_switches = dimensions.parallelism || !filter.parallelism.is_empty();
        let has_switches = |event: &perfdata::Event| event.attr.flags.has(AttrFlags::CONTEXT_SWITCH);
        if needs_switches && !file.events().iter().any(has_switches) {
            bail!("latency, parallelism: the file has no switch records; record with --switch-events");
        }
        dimensions.cpu |= args.only.socket_filter.is_some();
        if let Some(quantum) = &args.columns.time_quantum {
            let slice = flags::parse_quantum(quantum)?;
            dimensions.time_slice_ns = dimensions.time_slice_ns.map(|_| slice);
        }
        let raw = args.columns.raw_trace.then(|| FileFormats::of(file)).flatten();
        let trace_text = raw.map(|formats| Box::new(formats.by_field()) as Box<dyn TraceText>);
        let cost_as_period = args.columns.mem_mode && !self.branches;
        Ok(LoadOpts {
            session: SessionOpts {
                dimensions,
                filter,
                callchains,
                max_frames,
                cost_as_period,
                trace_text,
                ..SessionOpts::default()
            },
            want: if by_line || self.report.inlines { Want::Lines } else { Want::Names },
            names: self.names(args),
            unnamed: self.unnamed,
        })
    }

    /// How it is printed.
    pub fn stdio(&self, args: &Args, recording: &Recording, colour: bool) -> StdioOpts {
        let by_symbol = self.sort_given.as_deref().is_some_and(|sort| sort.starts_with("sym"));
        let style = |graph: profile::view::report::GraphOpts| GraphStyle {
            mode: graph.mode,
            value: self.call_graph.value,
            limit: self.call_graph.limit,
            skip_first: by_symbol && !self.fields_given,
        };
        StdioOpts {
            separator: args.output.field_separator,
            tree: args.columns.hierarchy.then(|| self.report.clone()),
            graph: self.report.graph.map(style),
            min_percent: args.output.percent_limit,
            quiet: args.output.quiet,
            memory_keys: args
                .columns
                .mem_mode
                .then(|| self.sort_given.clone().unwrap_or_else(|| MEMORY_KEYS.to_owned())),
            widths: args.output.column_widths.iter().map(|width| usize::from(*width)).collect(),
            colour,
            elided: self.elided(),
            relative: self.report.relative,
            show_empty: args.output.no_skip_empty,
            forced_group: args.columns.group && recording.features.groups.is_empty(),
            children: self.report.children,
            lost_samples: recording.profile.diagnostics.lost_samples,
            header: self.header.clone(),
        }
    }

    /// A filter with one value has it once for all rows: perf leaves the column out.
    fn elided(&self) -> Vec<(SortKey, &'static str, String)> {
        let filter = &self.report.filter;
        let lists = [
            (SortKey::Dso, "dso", &filter.dsos),
            (SortKey::Comm, "comm", &filter.comms),
            (SortKey::Symbol, "symbol", &filter.symbols),
        ];
        let single = lists.into_iter().filter(|(.., list)| list.len() == 1);
        single.map(|(key, word, list)| (key, word, list[0].clone())).collect()
    }
}

/// The filters by functions' names.
fn names_asked_for(args: &Args) -> impl Iterator<Item = &String> {
    let filter = [&args.only.symbol_filter, &args.what, &args.stacks.parent, &args.stacks.ignore_callees];
    args.only.symbols.iter().chain(filter.into_iter().flatten())
}

/// perf's keys for memory accesses; what the latency of the pipeline's last stage is, only PowerPC reports.
const MEMORY_KEYS: &str = "local_weight,mem,sym,dso,symbol_daddr,snoop,tlb,locked,blocked,local_ins_lat";

fn has_chain(event: &perfdata::Event) -> bool {
    event.has_callchain()
}

fn has_branch_stack(event: &perfdata::Event) -> bool {
    event.attr.sample_type & perfdata::abi::PERF_SAMPLE_BRANCH_STACK != 0
}

/// Branches recorded for themselves, and not as a call chain.
fn has_branches(event: &perfdata::Event) -> bool {
    let call_stack = event.attr.branch_sample_type & perfdata::abi::PERF_SAMPLE_BRANCH_CALL_STACK != 0;
    has_branch_stack(event) && !call_stack
}

fn set_columns(
    report: &mut ReportOpts,
    args: &Args,
    file: &PerfData<'_>,
    branches: bool,
) -> anyhow::Result<()> {
    let is_trace_field = |name: &str| is_trace_field(file, name);
    if let Some(sort) = &args.columns.sort {
        let fields = flags::parse_fields("--sort", sort, &is_trace_field)?;
        let keys = fields.iter().filter_map(|field| match field {
            ReportField::Key(key) => Some(key.clone()),
            _ => None,
        });
        let before = if sort.starts_with('+') { std::mem::take(&mut report.sort) } else { Vec::new() };
        report.sort = before.iter().cloned().chain(keys).collect();
        // As perf: numbers are where they were typed.
        report.more_fields = before.into_iter().map(ReportField::Key).chain(fields).collect();
    } else if args.columns.mem_mode {
        report.sort = flags::parse_keys("--mem-mode", MEMORY_KEYS)?;
    } else if branches {
        report.sort =
            vec![SortKey::Comm, SortKey::DsoFrom, SortKey::SymbolFrom, SortKey::SymbolTo, SortKey::Cycles];
    } else if !file.events().is_empty() && file.events().iter().all(is_tracepoint) {
        report.sort = vec![SortKey::Trace];
    }
    if let Some(fields) = &args.columns.fields {
        let columns = flags::parse_fields("-F", fields, &is_trace_field)?;
        if fields.starts_with('+') {
            report.more_fields = columns;
        } else {
            report.fields = Some(columns);
            report.more_fields = Vec::new();
            if args.columns.sort.is_none() {
                report.sort = Vec::new();
            }
        }
    }
    if args.columns.latency && !report.more_fields.contains(&ReportField::Latency) {
        report.more_fields.insert(0, ReportField::Latency);
    }
    if args.stacks.parent.is_some() && !report.sort.contains(&SortKey::Parent) {
        report.sort.push(SortKey::Parent);
    }
    report.show_samples |= args.columns.show_nr_samples;
    report.show_period |= args.columns.show_total_period;
    report.show_modes = args.columns.showcpuutilization;
    report.group_sort = args.columns.group_sort_idx;
    report.one_group = args.columns.group && file.features().groups.is_empty();
    report.group = args.columns.group || (!args.columns.no_group && !file.features().groups.is_empty());
    Ok(())
}

fn is_tracepoint(event: &perfdata::Event) -> bool {
    event.attr.type_ == perfdata::abi::PERF_TYPE_TRACEPOINT
}

/// True if a tracepoint of the file has such a field; without formats, any name may be one.
fn is_trace_field(file: &PerfData<'_>, _name: &str) -> bool {
    file.events().iter().any(is_tracepoint)
}

/// Names as perf has them, but one for a function whichever compiler made its code, unless whole ones are wanted.
fn perfs_form(args: &Args) -> NameForm {
    let is_whole = shown_names::form() == NameForm::Whole;
    let is_mangled = args.name_sources().opts().form == NameForm::Mangled;
    if is_whole || is_mangled { NameForm::Whole } else { NameForm::AnyCompiler }
}

fn rename(names: &mut [String], to: fn(&str) -> Cow<'_, str>) {
    names.iter_mut().for_each(|name| *name = to(name).into_owned());
}

fn set_filters(report: &mut ReportOpts, args: &Args) -> anyhow::Result<()> {
    report.filter = RowFilter {
        comms: args.only.comms.clone(),
        dsos: args.only.dsos.clone(),
        symbols: args.only.symbols.clone(),
        symbol_contains: args.input_and_filter().1,
        pids: args.only.pid.clone(),
        tids: args.only.tid.clone(),
        thread: args.wall_args.waits.thread.clone(),
        cpus: Vec::new(),
        socket: args.only.socket_filter,
    };
    report.relative = match args.only.percentage.as_deref() {
        None | Some("absolute") => false,
        Some("relative") => true,
        Some(other) => bail!("--percentage: '{other}' is neither absolute nor relative"),
    };
    let regex = |flag: &str, text: &Option<String>| match text {
        Some(text) => Regex::new(text).map(Some).with_context(|| format!("{flag}: no regular expression")),
        None => Ok(None),
    };
    report.parent = regex("--parent", &args.stacks.parent)?;
    report.ignore_callees = regex("--ignore-callees", &args.stacks.ignore_callees)?;
    report.exclude_other = args.stacks.exclude_other;
    report.hide_unresolved = args.only.hide_unresolved;
    report.max_stack = args.stacks.max_stack.unwrap_or(usize::MAX);
    Ok(())
}

/// Do these keys need line tables?
pub fn reads_lines(keys: &[SortKey]) -> bool {
    let of_lines = |key: &SortKey| {
        matches!(key, SortKey::SrcLine | SortKey::SrcFile | SortKey::SrcLineFrom | SortKey::SrcLineTo)
    };
    keys.iter().any(of_lines)
}

/// Dimensions that the session has to keep for these keys.
pub fn dimensions(keys: &[SortKey]) -> Dimensions {
    let has = |wanted: &[SortKey]| keys.iter().any(|key| wanted.contains(key));
    let trace_fields = keys.iter().filter_map(|key| match key {
        SortKey::TraceField(name) => Some(name.clone()),
        _ => None,
    });
    Dimensions {
        cpu: has(&[SortKey::Cpu, SortKey::Socket]),
        time_slice_ns: has(&[SortKey::Time]).then_some(100_000_000),
        weight: has(&[SortKey::Weight, SortKey::LocalWeight]),
        data_addr: has(&[SortKey::DataAddr]),
        cgroup: has(&[SortKey::Cgroup, SortKey::Container]),
        labels: keys.iter().any(|key| matches!(key, SortKey::Label(_))),
        transaction: has(&[SortKey::Transaction]),
        trace: has(&[SortKey::Trace]),
        trace_fields: trace_fields.collect(),
        branches: false,
        sample: has(&[SortKey::SampleNumber]),
        block_io: false,
        seen_running: false,
        parallelism: has(&[SortKey::Word(SampleWord::Parallelism)]),
        words: keys.iter().filter_map(SortKey::word).collect(),
    }
}
