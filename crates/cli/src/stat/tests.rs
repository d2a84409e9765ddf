//! The printed forms, column for column as perf 6.1 prints them, and their sums.

use record::event::{EventSource, parse};

use super::compare::split_command;
use super::print::{Form, Style, with_commas};
use super::run::{grouping_here, info_of};
use counts::{
    Aggregation, Average, Block, Cell, Count, CountFrame, CountKey, CountPlace, EventInfo, EventReadings,
    Pairing, Reading, Series, Support,
};

/// No PMUs, no tracepoints.
struct Nothing;

impl EventSource for Nothing {
    fn read_pmu(&self, _: &str) -> std::io::Result<String> {
        Err(std::io::ErrorKind::NotFound.into())
    }
    fn list_pmu(&self, _: &str) -> std::io::Result<Vec<String>> {
        Ok(Vec::new())
    }
    fn read_tracefs(&self, _: &str) -> std::io::Result<String> {
        Err(std::io::ErrorKind::NotFound.into())
    }
    fn list_tracefs(&self, _: &str) -> std::io::Result<Vec<String>> {
        Ok(Vec::new())
    }
}

fn infos(events: &str) -> Vec<EventInfo> {
    parse(events, &Nothing).expect("known events").iter().map(info_of).collect()
}

fn count(value: f64) -> Cell {
    Cell::Counted(Count { value, enabled_ns: 1e6, running_ns: 1e6, series: None })
}

fn print(events: &str, blocks: Vec<Block>, by: Aggregation, style: &Style, at_ns: Option<u64>) -> String {
    let events = infos(events);
    let frame = CountFrame { events: &events, blocks, by, wall_ns: 134_945_558.0, at_ns };
    let mut out = Vec::new();
    style.print(&frame, &mut out).expect("writes to memory");
    String::from_utf8(out).expect("text")
}

fn global(cells: Vec<Cell>) -> Vec<Block> {
    vec![Block { key: CountKey::Global, places: 1, cells }]
}

fn text() -> Style {
    Style { form: Form::Text, big_num: false, repeated: false, metric_only: false, summary: false }
}

#[test]
fn text_lines_are_perfs() {
    let cells = vec![
        count(42_911.0),
        count(138_030_000.0),
        count(644_867.0),
        count(564_187.0),
        count(140_004.0),
        count(18_866.0),
        Cell::NotSupported,
        Cell::NotCounted { enabled_ns: 5.0 },
    ];
    let events =
        "cycles,task-clock,instructions,stalled-cycles-frontend,branches,branch-misses,ref-cycles,cs";
    let expected =
        "             42911      cycles                           #    0.000 GHz                    
            138.03 msec task-clock                       #    1.023 CPUs utilized          
            644867      instructions                     #   15.03  insn per cycle         
                                                  #    0.87  stalled cycles per insn
            564187      stalled-cycles-frontend          # 1314.78% frontend cycles idle   
            140004      branches                         #    1.014 M/sec                  
             18866      branch-misses                    #   13.48% of all branches        
   <not supported>      ref-cycles                                                  
     <not counted>      cs                                                            (0.00%)
";
    assert_eq!(print(events, global(cells), Aggregation::Global, &text(), None), expected);
}

#[test]
fn shared_counters_show_how_long_they_counted() {
    let shared = Cell::Counted(Count { value: 7.0, enabled_ns: 100.0, running_ns: 25.0, series: None });
    let expected = format!("{:>18}      {:<32}{:35}  (25.00%)\n", 7, "faults", "");
    assert_eq!(print("faults", global(vec![shared]), Aggregation::Global, &text(), None), expected);
}

#[test]
fn repeated_runs_have_perfs_spread_and_a_students_interval() {
    let mut series = Series::default();
    [900.0, 1000.0, 1100.0].iter().for_each(|v| series.push(*v));
    let cell = Cell::Counted(Count { value: 1000.0, enabled_ns: 1.0, running_ns: 1.0, series: Some(series) });
    let line =
        print("faults", global(vec![cell]), Aggregation::Global, &Style { repeated: true, ..text() }, None);
    assert!(line.ends_with("  ( +-  5.77% )  [95%: 752 .. 1248]\n"), "{line}");
}

#[test]
fn csv_and_json_are_perfs() {
    let cells = || vec![count(958_591.0), count(587_112.0), count(434_851.0), Cell::NotSupported];
    let events = "cycles,instructions,stalled-cycles-frontend,ref-cycles";
    let csv = Style { form: Form::Csv(",".to_owned()), ..text() };
    let expected = "\
958591,,cycles,1000000,100.00,,
587112,,instructions,1000000,100.00,0.61,insn per cycle
,,,,,0.74,stalled cycles per insn
434851,,stalled-cycles-frontend,1000000,100.00,45.36,frontend cycles idle
<not supported>,,ref-cycles,0,100.00,,
";
    assert_eq!(print(events, global(cells()), Aggregation::Global, &csv, None), expected);
    let json = Style { form: Form::Json, ..text() };
    let lines = print("cycles,cs", global(cells()), Aggregation::Global, &json, Some(50_108_294));
    let first = "{\"interval\" : 0.050108294, \"counter-value\" : \"958591.000000\", \"unit\" : \"\", \"event\" : \"cycles\", \
                 \"event-runtime\" : 1000000, \"pcnt-running\" : 100.00, \"metric-value\" : 0.000000, \"metric-unit\" : \"\", \
                 \"schema_version\" : 1}";
    assert_eq!(lines.lines().next(), Some(first));
    assert!(lines.lines().all(|l| serde_json::from_str::<serde_json::Value>(l).is_ok()));
}

#[test]
fn units_of_aggregation_stand_before_the_values() {
    let block = |key: CountKey, places| Block { key, places, cells: vec![count(26.0)] };
    let line = |by, key, at| print("cs", vec![block(key, 2)], by, &text(), at).trim_end().to_owned();
    let value = "                26      cs";
    for (by, key, prefix) in [
        (Aggregation::Core, CountKey::Core(0, 0, 1), "S0-D0-C1           2 "),
        (Aggregation::Die, CountKey::Die(0, 0), "S0-D0           2 "),
        (Aggregation::Socket, CountKey::Socket(0), "S0        2 "),
        (Aggregation::Node, CountKey::Node(0), "N0        2 "),
        (Aggregation::Cpu, CountKey::Cpu(1), "CPU1       "),
        (Aggregation::Thread, CountKey::Thread(28340, "sleep".to_owned()), "           sleep-28340    "),
    ] {
        assert_eq!(line(by, key.clone(), None), format!("{prefix}{value}"));
        assert_eq!(line(by, key, Some(1_000_000_005)), format!("     1.000000005 {prefix}{value}"));
    }
    let csv = Style { form: Form::Csv(";".to_owned()), ..text() };
    let core = print("cs", vec![block(CountKey::Core(0, 0, 1), 1)], Aggregation::Core, &csv, None);
    assert_eq!(core, "S0-D0-C1;1;26;;cs;1000000;100.00;;\n");
}

#[test]
fn readings_are_scaled_place_by_place_and_summed_up() {
    let place = |cpu| CountPlace { cpu: Some(cpu), tid: None };
    let reading = |value, enabled_ns, running_ns| Some(Reading { value, enabled_ns, running_ns });
    let events = [
        EventReadings {
            support: Support::Full,
            places: vec![reading(10, 4, 2), reading(7, 4, 4)],
            tool_ns: None,
        },
        EventReadings { support: Support::Full, places: vec![reading(0, 4, 0), None], tool_ns: None },
        EventReadings { support: Support::None(2), places: Vec::new(), tool_ns: None },
        EventReadings { support: Support::Full, places: Vec::new(), tool_ns: Some(9) },
    ];
    let sum = grouping_here(Aggregation::Global, &[place(0), place(1)]).blocks(&events);
    assert_eq!((sum.len(), sum[0].places), (1, 2));
    let cells = &sum[0].cells;
    assert_eq!(
        cells[0],
        Cell::Counted(Count { value: 27.0, enabled_ns: 8.0, running_ns: 6.0, series: None })
    );
    assert_eq!(cells[1], Cell::NotCounted { enabled_ns: 4.0 });
    assert_eq!((cells[2], cells[3].value()), (Cell::NotSupported, Some(9.0)));
    let each = grouping_here(Aggregation::Cpu, &[place(0), place(1)]).blocks(&events);
    assert_eq!(each.iter().map(|b| b.cells[0].value()).collect::<Vec<_>>(), [Some(20.0), Some(7.0)]);
}

#[test]
fn a_task_that_moves_between_cpus_is_not_scaled_for_being_elsewhere() {
    let place = |cpu| CountPlace { cpu: Some(cpu), tid: Some(7) };
    let reading = |value, running_ns| Some(Reading { value, enabled_ns: 100, running_ns });
    let event = |places| [EventReadings { support: Support::Full, places, tool_ns: None }];
    let grouping = grouping_here(Aggregation::Cpu, &[place(0), place(1)]);
    let values = |places| {
        let blocks = grouping.blocks(&event(places));
        blocks.iter().map(|b| b.cells[0].value()).collect::<Vec<_>>()
    };
    // On CPU 0 for 60 ns, on CPU 1 for 40: nothing was missed.
    assert_eq!(values(vec![reading(6, 60), reading(4, 40)]), [Some(6.0), Some(4.0)]);
    // Half of each was missed.
    assert_eq!(values(vec![reading(3, 30), reading(2, 20)]), [Some(6.0), Some(4.0)]);
    assert_eq!(values(vec![reading(3, 100), reading(0, 0)]), [Some(3.0), None]);
}

#[test]
fn runs_are_averaged() {
    let mut average = Average::default();
    for value in [10.0, 20.0, 30.0] {
        average.push(global(vec![count(value), Cell::NotSupported]));
    }
    let blocks = average.blocks();
    let Cell::Counted(mean) = blocks[0].cells[0] else { panic!("counted") };
    assert_eq!((mean.value, mean.enabled_ns), (20.0, 1e6));
    assert!(mean.series.is_some());
    assert_eq!(blocks[0].cells[1], Cell::NotSupported);
}

#[test]
fn ratios_of_pairs_have_an_interval() {
    let mut pairing = Pairing::default();
    for (a, b) in [(1.0, 2.0), (2.0, 4.0), (3.0, 6.0)] {
        pairing.push(a, b);
    }
    let (ratio, low, high) = pairing.ratio().expect("three pairs");
    assert!((ratio - 2.0).abs() < 1e-12 && (low - 2.0).abs() < 1e-9 && (high - 2.0).abs() < 1e-9);
    pairing.push(0.0, 1.0);
    assert_eq!(pairing.ratio(), None);
}

#[test]
fn a_command_line_is_split_as_by_a_shell() {
    let words = |line: &str| {
        split_command(line).into_iter().map(|w| w.into_string().expect("text")).collect::<Vec<_>>()
    };
    assert_eq!(words("app  -x 'a b' \"c d\"e f\\ g"), ["app", "-x", "a b", "c de", "f g"]);
    assert_eq!(words("app | wc"), ["sh", "-c", "app | wc"]);
    assert_eq!(words("  "), Vec::<String>::new());
}

#[test]
fn thousands_are_set_off() {
    assert_eq!(with_commas("1234567.89"), "1,234,567.89");
    assert_eq!(with_commas("-123"), "-123");
    assert_eq!(with_commas("1000"), "1,000");
}

#[test]
fn metrics_alone_stand_in_columns_and_rates_are_left_out() {
    let cells = || vec![count(958_591.0), count(587_112.0), count(7.0)];
    let only = |form| Style { form, metric_only: true, ..text() };
    let printed =
        |form| print("cycles,instructions,cs", global(cells()), Aggregation::Global, &only(form), None);
    assert_eq!(printed(Form::Text), "      insn per cycle \n                0.61 \n");
    assert_eq!(printed(Form::Csv(",".to_owned())), "insn per cycle,\n0.61,\n");
    let line: serde_json::Value = serde_json::from_str(&printed(Form::Json)).expect("JSON");
    assert!((line["insn per cycle"].as_f64().expect("a number") - 0.612_474).abs() < 1e-6);
    let nothing = print("cs", global(vec![count(1.0)]), Aggregation::Global, &only(Form::Text), None);
    assert!(nothing.starts_with("# no metric"), "{nothing}");
}

#[test]
fn a_cgroup_is_named_behind_its_event_and_events_of_others_are_not_related_to_it() {
    let events: Vec<EventInfo> = parse("cs,cpu-clock", &Nothing)
        .expect("known events")
        .into_iter()
        .zip(["a", "b"])
        .map(|(event, cgroup)| info_of(&event.in_cgroup(cgroup, 0)))
        .collect();
    let blocks = || global(vec![Cell::NotCounted { enabled_ns: 0.0 }, count(5e6)]);
    let frame =
        |blocks| CountFrame { events: &events, blocks, by: Aggregation::Global, wall_ns: 1e9, at_ns: None };
    let mut out = Vec::new();
    text().print(&frame(blocks()), &mut out).expect("writes to memory");
    let first = format!("     <not counted>      {:<25} a{:35}", "cs", "");
    assert_eq!(String::from_utf8_lossy(&out).lines().next(), Some(first.as_str()));
    let csv = Style { form: Form::Csv(",".to_owned()), ..text() };
    let mut out = Vec::new();
    csv.print(&frame(global(vec![count(3.0), count(5e6)])), &mut out).expect("writes to memory");
    assert_eq!(String::from_utf8_lossy(&out).lines().next(), Some("3,,cs,a,1000000,100.00,,"));
}
