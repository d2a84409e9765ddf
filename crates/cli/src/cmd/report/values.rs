//! Values of `tally report`'s flags that have a grammar of their own.

use crate::text::callgraph::GraphNumber;
use anyhow::{Context, bail};
use perfdata::PerfData;
use perfdata::abi::PERF_SAMPLE_CPU;
use profile::view::report::{GraphKey, GraphMode, GraphOpts, GraphOrder, ReportField, SortKey};
use record::event::nearest;

/// Value of `-g`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CallGraph {
    /// Form, minimum, direction, grouping; `None` for no graphs.
    pub graph: Option<GraphOpts>,
    /// The direction was given.
    pub order_given: bool,
    /// The minimum was given.
    pub minimum_given: bool,
    /// Entries per level; 0 is no limit.
    pub limit: usize,
    /// The numbers.
    pub value: GraphNumber,
}

/// Reads `-g`'s value: words in any order, as perf takes them; the first number is the minimum, the second the limit.
///
/// # Errors
/// If a word is none of perf's.
pub fn parse_call_graph(text: &str) -> anyhow::Result<CallGraph> {
    let mut graph = GraphOpts::default();
    let mut parsed = CallGraph {
        graph: None,
        order_given: false,
        minimum_given: false,
        limit: 0,
        value: GraphNumber::Percent,
    };
    let mut numbers = 0;
    for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        match word {
            "graph" => graph.mode = GraphMode::Graph,
            "fractal" => graph.mode = GraphMode::Fractal,
            "flat" => graph.mode = GraphMode::Flat,
            "folded" => graph.mode = GraphMode::Folded,
            "none" | "no" => return Ok(parsed),
            "caller" => (graph.order, parsed.order_given) = (GraphOrder::Caller, true),
            "callee" => (graph.order, parsed.order_given) = (GraphOrder::Callee, true),
            "function" => graph.key = GraphKey::Function,
            "address" => graph.key = GraphKey::Address,
            "srcline" => graph.key = GraphKey::SrcLine,
            "percent" => parsed.value = GraphNumber::Percent,
            "period" => parsed.value = GraphNumber::Period,
            "count" => parsed.value = GraphNumber::Count,
            "branch" => {}
            number => {
                let value: f64 = number.parse().with_context(|| unknown_word(number))?;
                match numbers {
                    0 => (graph.min_percent, parsed.minimum_given) = (value, true),
                    _ => parsed.limit = value.max(0.0) as usize,
                }
                numbers += 1;
            }
        }
    }
    parsed.graph = Some(graph);
    Ok(parsed)
}

fn unknown_word(word: &str) -> String {
    format!(
        "-g: unknown word '{word}' (graph, fractal, flat, folded, none, caller, callee, function, address, \
         srcline, percent, period, count, or a number)"
    )
}

/// Reads a list of fields or keys.
///
/// # Errors
/// If a name is unknown and no field of a tracepoint either; the nearest name is reported.
pub fn parse_fields(
    flag: &str,
    text: &str,
    is_trace_field: &dyn Fn(&str) -> bool,
) -> anyhow::Result<Vec<ReportField>> {
    let mut fields = Vec::new();
    for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let name = name.trim_start_matches('+');
        match ReportField::parse(name) {
            Some(field) => fields.push(field),
            None if is_trace_field(name) => {
                fields.push(ReportField::Key(SortKey::TraceField(name.to_owned())))
            }
            None => match nearest(name, ReportField::names()).first() {
                Some(near) => bail!("{flag}: unknown key '{name}', did you mean '{near}'?"),
                None => bail!(
                    "{flag}: unknown key '{name}' (known: {})",
                    ReportField::names().collect::<Vec<_>>().join(" ")
                ),
            },
        }
    }
    if fields.is_empty() {
        bail!("{flag}: no key given");
    }
    Ok(fields)
}

/// Reads a list of keys, all of them keys.
///
/// # Errors
/// As [`parse_fields`].
pub fn parse_keys(flag: &str, text: &str) -> anyhow::Result<Vec<SortKey>> {
    let keys = parse_fields(flag, text, &|_| false)?.into_iter().filter_map(|field| match field {
        ReportField::Key(key) => Some(key),
        _ => None,
    });
    Ok(keys.collect())
}

/// The CPUs that `-C` names; none for all.
///
/// # Errors
/// If the samples of `file` have no CPU numbers, or the list is malformed.
pub fn cpus_of(text: Option<&str>, file: &PerfData<'_>) -> anyhow::Result<Vec<i32>> {
    let Some(text) = text else { return Ok(Vec::new()) };
    if !file.events().iter().any(|event| event.attr.samples(PERF_SAMPLE_CPU)) {
        bail!("-C: the samples have no CPU numbers; record with --sample-cpu or -a");
    }
    parse_cpus(text)
}

/// `0-3,5` as numbers.
///
/// # Errors
/// If a part is no number or range, or the list is longer than any machine has CPUs.
pub fn parse_cpus(text: &str) -> anyhow::Result<Vec<i32>> {
    let mut cpus = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let number =
            |text: &str| text.trim().parse::<i32>().with_context(|| format!("-C: '{part}' is no CPU"));
        let (from, to) = (number(from)?, number(to)?);
        if to.checked_sub(from).is_none_or(|count| count > 65_536) {
            bail!("-C: '{part}' is too long a range");
        }
        cpus.extend(from..=to);
    }
    Ok(cpus)
}

/// `1,3-5` as ranges, both ends included.
///
/// # Errors
/// If a part is no number or range.
pub fn parse_ranges(text: &str) -> anyhow::Result<Vec<(u64, u64)>> {
    let range = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to) = (from.trim().parse().ok()?, to.trim().parse().ok()?);
        (from <= to).then_some((from, to))
    };
    let found = text.split(',').map(range).collect::<Option<Vec<_>>>();
    found.with_context(|| format!("--parallelism: '{text}' is not a list of numbers such as 1,3-5"))
}

/// `--time`: `a,b` in seconds of the recording's clock (either may be missing), or parts of `span` (the first and last
/// sample, ns): `10%-20%`, `10%/3`, several with commas.
///
/// # Errors
/// If it is neither.
pub fn parse_times(text: &str, span: Option<(u64, u64)>) -> anyhow::Result<Vec<(u64, u64)>> {
    if !text.contains('%') {
        return Ok(vec![parse_time(text)?]);
    }
    let Some((first, last)) = span else {
        bail!("--time {text}: the file lacks its first and last time; give seconds");
    };
    let at = |percent: f64| first + ((last - first) as f64 * percent.clamp(0.0, 100.0) / 100.0) as u64;
    let range = |part: &str| {
        let (from, to) = parse_percents(part).with_context(|| {
            format!("--time: '{part}' is not a part of the time (10%-20%, or 10%/3 for the third tenth)")
        })?;
        // As perf: a part begins after the one before it.
        Ok((if from > 0.0 { at(from) + 1 } else { first }, at(to)))
    };
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(range).collect()
}

/// `10%-20%`, or `10%/3` for 20% to 30%.
fn parse_percents(part: &str) -> Option<(f64, f64)> {
    let percent = |text: &str| -> Option<f64> {
        let value: f64 = text.trim().strip_suffix('%')?.parse().ok()?;
        (0.0..=100.0).contains(&value).then_some(value)
    };
    if let Some((width, number)) = part.split_once('/') {
        let (width, number) = (percent(width)?, number.trim().parse::<u32>().ok()?);
        let number = f64::from(number.checked_sub(1)?);
        return (width > 0.0 && width * number < 100.0).then_some((width * number, width * (number + 1.0)));
    }
    let (from, to) = part.split_once('-')?;
    let (from, to) = (percent(from)?, percent(to)?);
    (from < to).then_some((from, to))
}

/// A length of time with its unit: `10ms`, `500us`, `1s`; in ns.
///
/// # Errors
/// If it is none, or no time at all.
pub fn parse_quantum(text: &str) -> anyhow::Result<u64> {
    let units = [("ms", 1_000_000), ("us", 1000), ("ns", 1), ("s", 1_000_000_000u64)];
    let found =
        units.iter().find_map(|(unit, ns)| text.strip_suffix(unit)?.parse::<u64>().ok()?.checked_mul(*ns));
    found.filter(|&ns| ns > 0).with_context(|| {
        format!("--time-quantum: '{text}' is not a length of time such as 10ms, 500us or 1s")
    })
}

/// `a,b` in seconds of the recording's clock; either may be missing.
///
/// # Errors
/// If one is no time.
pub fn parse_time(text: &str) -> anyhow::Result<(u64, u64)> {
    let (from, to) = text.split_once(',').unwrap_or((text, ""));
    let end = |text: &str, open: u64| match text.trim() {
        "" => Ok(open),
        text => parse_seconds(text).with_context(|| format!("--time: '{text}' is not a time in seconds")),
    };
    Ok((end(from, 0)?, end(to, u64::MAX)?))
}

fn parse_seconds(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let nanos: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanos.parse().ok()?)
}

/// Fuzz entry: any text as the value of each flag that has a grammar of its own.
pub fn fuzz_flags(data: &[u8]) {
    // Longer than any command line; the search for the nearest name is quadratic.
    let text = String::from_utf8_lossy(&data[..data.len().min(2048)]);
    let _ = parse_call_graph(&text);
    let _ = parse_fields("--sort", &text, &|name| name.len() % 2 == 0);
    let _ = parse_cpus(&text);
    let _ = parse_times(&text, Some((1, u64::MAX)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_have_both_ends() {
        assert_eq!(parse_ranges("1,3-5").expect("valid"), [(1, 1), (3, 5)]);
        assert!(parse_ranges("5-3").is_err() && parse_ranges("").is_err() && parse_ranges("1,").is_err());
    }

    #[test]
    fn call_graph_words_come_in_any_order() {
        let parsed = parse_call_graph("caller,0.1,fractal,7,count").expect("valid");
        let graph = parsed.graph.expect("a graph");
        assert_eq!(
            (graph.mode, graph.min_percent, graph.order),
            (GraphMode::Fractal, 0.1, GraphOrder::Caller)
        );
        assert_eq!((parsed.limit, parsed.value, parsed.order_given), (7, GraphNumber::Count, true));
        assert_eq!(parse_call_graph("none").expect("valid").graph, None);
        assert!(parse_call_graph("grpah").is_err());
    }

    #[test]
    fn a_misspelt_key_gets_the_nearest_name() {
        let error = parse_fields("--sort", "comm,symbl", &|_| false).expect_err("unknown").to_string();
        assert_eq!(error, "--sort: unknown key 'symbl', did you mean 'symbol'?");
        assert!(parse_fields("--sort", "prev_state", &|name| name == "prev_state").is_ok());
    }

    #[test]
    fn times_and_cpus_are_ranges() {
        assert_eq!(parse_time("1.5,2").expect("valid"), (1_500_000_000, 2_000_000_000));
        assert_eq!(parse_times("10%/2,90%-100%", Some((100, 200))).expect("valid"), [(111, 120), (191, 200)]);
        assert!(parse_times("20%-10%", Some((1, 2))).is_err() && parse_times("1%-2%", None).is_err());
        assert_eq!(parse_time(",0.000000001").expect("valid"), (0, 1));
        assert_eq!(parse_cpus("0-2,5").expect("valid"), [0, 1, 2, 5]);
        assert!(parse_cpus("0-2000000000").is_err());
    }
}
