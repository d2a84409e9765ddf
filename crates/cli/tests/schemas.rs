//! JSON for scripts fits the schemas in docs/schema, and its sums add up.

use serde_json::Value;
use std::path::Path;
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Output of the program about a recording.
fn printed(recording: &str, args: &[&str]) -> Value {
    let mut tally = Command::new(env!("CARGO_BIN_EXE_tally"));
    tally.args(args).current_dir(root());
    if args[0] != "diff" {
        tally.args(["-i", recording]);
    }
    let output = tally.output().expect("tally runs");
    assert!(output.status.success(), "{args:?} of {recording}: {}", String::from_utf8_lossy(&output.stderr));
    let value = serde_json::from_slice(&output.stdout).expect("JSON");
    let has_note = String::from_utf8_lossy(&output.stderr).contains(" left out; --max-lines 0 prints all");
    let is_cut =
        args.contains(&"--max-lines") && !args.contains(&"0") && exchange::rows::left_out(&value) > 0;
    assert_eq!(has_note, is_cut, "{args:?} of {recording}");
    value
}

fn schema(view: &str) -> Value {
    let text = std::fs::read(root().join(format!("docs/schema/{view}.json"))).expect("a schema");
    serde_json::from_slice(&text).expect("JSON")
}

/// Where `value` does not fit `schema`, one of those of `whole`. Only the keywords that our schemas use are known;
/// others are faults.
fn faults(value: &Value, schema: &Value, whole: &Value, at: &str, found: &mut Vec<String>) {
    for (keyword, of) in schema.as_object().expect("a schema is an object") {
        let fits = match keyword.as_str() {
            "$schema" | "title" | "description" | "$defs" => true,
            "$ref" => {
                let name =
                    of.as_str().and_then(|name| name.strip_prefix("#/$defs/")).expect("a name in $defs");
                faults(value, &whole["$defs"][name], whole, at, found);
                true
            }
            "const" => value == of,
            "type" => kinds(of).iter().any(|kind| is_of(value, kind)),
            "minimum" => value.as_i64().is_none_or(|number| number >= of.as_i64().expect("a number")),
            "required" => {
                let names = of.as_array().expect("names");
                value.is_null()
                    || names.iter().all(|name| value.get(name.as_str().expect("a name")).is_some())
            }
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    faults(item, of, whole, &format!("{at}/{index}"), found);
                }
                true
            }
            "properties" => true,
            "additionalProperties" => {
                let known = schema["properties"].as_object().expect("properties");
                for (name, member) in value.as_object().into_iter().flatten() {
                    let place = format!("{at}/{name}");
                    match (known.get(name), of) {
                        (Some(schema), _) => faults(member, schema, whole, &place, found),
                        (None, Value::Bool(true)) => {}
                        (None, Value::Bool(false)) => found.push(format!("{place}: not in the schema")),
                        (None, schema) => faults(member, schema, whole, &place, found),
                    }
                }
                true
            }
            _ => false,
        };
        if !fits {
            found.push(format!("{at}: {keyword} {of}: {value}"));
        }
    }
}

fn kinds(of: &Value) -> Vec<&str> {
    of.as_array().map_or_else(
        || of.as_str().into_iter().collect(),
        |all| all.iter().filter_map(Value::as_str).collect(),
    )
}

fn is_of(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        _ => false,
    }
}

fn check(recording: &str, view: &str, args: &[&str]) -> Value {
    let (value, schema) = (printed(recording, args), schema(view));
    let mut found = Vec::new();
    faults(&value, &schema, &schema, "", &mut found);
    assert!(found.is_empty(), "{args:?} of {recording}:\n{}", found.join("\n"));
    value
}

/// Recordings with waits.
const WALLS: [&str; 2] = ["tests/golden/timeline/wait.data", "tests/recordings/switches.data"];

#[test]
fn the_wall_clock_fits_its_schema_and_its_lists_add_up_to_the_whole() {
    for recording in WALLS {
        for most in ["0", "2"] {
            let value = check(recording, "wall", &["report", "--wall", "--json", "--max-lines", most]);
            let whole = value["times"]["total_ns"].as_u64();
            assert!(whole > Some(0), "{recording}");
            let sum = |list: &str, path: &str| {
                let rows = value[list]["rows"].as_array().expect("rows");
                let shown: Option<u64> =
                    rows.iter().map(|row| row.pointer(path).and_then(Value::as_u64)).sum::<Option<u64>>();
                Some(shown? + value[list]["left_out_ns"].as_u64()?)
            };
            assert_eq!(sum("threads", "/times/total_ns"), whole, "{recording}");
            assert_eq!(sum("functions", "/self/total_ns"), whole, "{recording}");
        }
    }
}

#[test]
fn locks_fit_their_schema() {
    let rows = WALLS.map(|recording| {
        let value = check(recording, "locks", &["locks", "--json", "--idle"]);
        let first = check(recording, "locks", &["locks", "--json", "--idle", "--max-lines", "1"]);
        assert!(first["rows"].as_array().is_some_and(|rows| rows.len() <= 1), "{first}");
        let left_out_ns = first["left_out_ns"].as_u64().expect("a sum");
        assert_eq!(sum(&first["rows"], "/total_ns") + left_out_ns, sum(&value["rows"], "/total_ns"));
        value["rows"].as_array().map_or(0, Vec::len)
    });
    assert!(rows.iter().sum::<usize>() > 0, "no recording has a lock");
}

#[test]
fn calls_of_spans_fit_their_schema_and_their_states_add_up() {
    for most in ["0", "2"] {
        let args =
            ["report", "--span", "--json", "--max-lines", most, "--symfs", "tests/golden/report-spans/root"];
        let value = check("tests/golden/report-spans/requests.data", "spans", &args);
        let function = &value["functions"][0];
        let sum = |rows: &Value| {
            let rows = rows.as_array().expect("rows").iter();
            rows.map(|row| row["ns"].as_u64().expect("ns")).sum::<u64>()
        };
        let states = &function["states"];
        let left_out_ns = states["left_out_ns"].as_u64().expect("ns");
        assert_eq!(Some(sum(&states["rows"]) + left_out_ns), function["total_ns"].as_u64());
        let slowest = function["slowest"].as_array().expect("calls");
        assert_eq!(slowest.len(), 10);
        for call in slowest {
            assert_eq!(Some(sum(&call["states"])), call["length_ns"].as_u64());
            assert_eq!(Some(sum(&call["causes"])), call["length_ns"].as_u64());
        }
    }
}

#[test]
fn rows_of_a_report_fit_their_schema() {
    for recording in WALLS {
        check(recording, "report", &["report", "--json", "--sort", "comm,tid,dso,symbol,srcline"]);
    }
}

fn sum(rows: &Value, path: &str) -> u64 {
    rows.as_array().expect("rows").iter().filter_map(|row| row.pointer(path)?.as_u64()).sum()
}

#[test]
fn stacks_of_a_flame_graph_fit_their_schema_and_add_up_to_the_whole() {
    for recording in WALLS {
        for kind in ["--all", "--wall", "--off-cpu"] {
            let value = check(recording, "flame", &["flame", "--json", kind, "--max-lines", "3"]);
            let shown = sum(&value["stacks"], "/value");
            let left_out = value["left_out"].as_u64().expect("a sum");
            assert!(value["total"] == shown + left_out && shown > 0, "{kind} of {recording}: {value}");
        }
    }
}

#[test]
fn a_diff_fits_its_schema_and_a_recording_equals_itself() {
    for file in WALLS {
        for paths in [&[][..], &["--paths"]] {
            let value = check(file, "diff", &[&["diff", "--json"][..], paths, &[file, file]].concat());
            let section = &value["sections"][0];
            assert_eq!(section["marked"], 0, "{file}");
            let rows = [&section["rows"], &section["paths"]].map(|rows| rows.as_array().expect("rows"));
            assert!(rows.iter().any(|rows| !rows.is_empty()), "{file}");
            rows.iter().copied().flatten().for_each(|row| {
                assert!(row["own"]["delta"] == 0.0 && row["baseline"] == row["current"], "{file}: {row}");
            });
        }
    }
}

#[test]
fn annotated_functions_fit_their_schema_and_their_lines_add_up() {
    let recordings = [&WALLS[..], &["tests/golden/annotate/counter.data"]].concat();
    for recording in recordings {
        for most in ["0", "3"] {
            let value = check(recording, "annotate", &["annotate", "--json", "--max-lines", most]);
            let functions = value["functions"].as_array().expect("functions");
            assert!(!functions.is_empty(), "{recording}");
            for function in functions {
                let whole = function.pointer("/totals/0/period").and_then(Value::as_u64);
                let shown = sum(&function["lines"], "/self/0/period");
                let left_out =
                    function.pointer("/left_out_self/0/period").and_then(Value::as_u64).expect("a sum");
                assert_eq!(Some(shown + left_out), whole, "{recording}: {function}");
                let lines = function["lines"].as_array().map_or(0, Vec::len);
                assert!(most == "0" || lines <= 3, "{recording}: {function}");
            }
        }
    }
}

#[test]
fn causes_and_the_critical_path_fit_their_schemas_and_add_up() {
    for recording in WALLS {
        let value = check(recording, "blame", &["report", "--blame", "--json"]);
        assert_eq!(value["total_ns"], sum(&value["causes"], "/ns"), "{recording}");
        let value = check(recording, "critical-path", &["report", "--critical-path", "--json"]);
        assert_eq!(value["total_ns"], sum(&value["parts"], "/ns"), "{recording}");
        let lengths = sum(&value["pieces"], "/to_ns") - sum(&value["pieces"], "/from_ns");
        assert_eq!(value["total_ns"], lengths, "{recording}");
    }
}

#[test]
fn findings_fit_their_schema() {
    for recording in WALLS {
        check(recording, "why", &["why", "--json"]);
    }
}

#[test]
fn lines_of_stat_fit_their_schema() {
    let schema = schema("stat");
    for args in
        [&["-e", "task-clock,cs"][..], &["-r", "3", "-e", "task-clock,cs,faults"], &["-a", "-A", "-e", "cs"]]
    {
        let mut tally = Command::new(env!("CARGO_BIN_EXE_tally"));
        let output =
            tally.args(["stat", "--json"]).args(args).args(["--", "true"]).output().expect("tally runs");
        if !output.status.success() {
            println!("skipped: nothing can be counted with {args:?}");
            continue;
        }
        // The counts are on standard error, where the command doesn't write.
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let lines: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        assert!(!lines.is_empty(), "{args:?}: {text}");
        for line in lines {
            let mut found = Vec::new();
            faults(&line, &schema, &schema, "", &mut found);
            assert!(found.is_empty(), "{args:?}: {}", found.join("\n"));
        }
    }
}

#[test]
#[ignore = "live: records on this machine"]
fn the_screen_of_a_run_fits_its_schema() {
    let schema = schema("run");
    let busy = "i=0; while [ $i -lt 40000 ]; do i=$((i+1)); done; sleep 0.01; exit 3";
    for command in [&["true"][..], &["sh", "-c", busy], &["sh", "-c", "kill -9 $$"]] {
        let mut tally = Command::new(env!("CARGO_BIN_EXE_tally"));
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        tally.args(["run", "--json=schema-run.json", "-o", "schema-run.data", "--"]).args(command);
        tally.current_dir(folder).output().expect("tally runs");
        let text = std::fs::read(folder.join("schema-run.json")).expect("the numbers");
        let value: Value = serde_json::from_slice(&text).expect("JSON");
        let mut found = Vec::new();
        faults(&value, &schema, &schema, "", &mut found);
        assert!(found.is_empty(), "{command:?}: {}", found.join("\n"));
    }
}

#[test]
fn a_value_that_does_not_fit_is_found() {
    let schema = schema("locks");
    let mut value = printed(WALLS[0], &["locks", "--json", "--idle"]);
    value["rows_left_out"] = (-1).into();
    value["colour"] = "red".into();
    value.as_object_mut().expect("an object").remove("view");
    let mut found = Vec::new();
    faults(&value, &schema, &schema, "", &mut found);
    assert_eq!(found.len(), 3, "{found:?}");
}
