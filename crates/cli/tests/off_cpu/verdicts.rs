//! Findings about threads that hold each other up, against programs that know how they spent their time.

use super::{TALLY, folder, has_bpf, holds_in_one_of_three, output_of, program};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Rules about threads that hold each other up.
const RULES: [&str; 5] = ["serial-chain", "convoy", "slow-peer", "head-of-line", "delayed-ack"];

/// A program's output, and the findings about it.
struct Judged {
    output: String,
    findings: Vec<Value>,
}

impl Judged {
    fn of(program: &Path, args: &[&str], name: &str) -> Self {
        let data = folder("verdicts").join(format!("{name}.data"));
        let mut run = Command::new(TALLY);
        run.args(["run", "-o"]).arg(&data).arg(program).args(args);
        let output = output_of(run);
        let mut why = Command::new(TALLY);
        why.args(["why", "--json", "-i"]).arg(&data);
        let note: Value = serde_json::from_str(&output_of(why)).expect("JSON");
        Self { output, findings: note["findings"].as_array().cloned().unwrap_or_default() }
    }

    fn named(&self, name: &str) -> Option<&Value> {
        self.findings.iter().find(|finding| finding["name"] == name)
    }

    /// Other programs had the CPUs, and what it does without them was not seen.
    fn is_disturbed(&self, wanted: &str) -> bool {
        let disturbed = self.named(wanted).is_none() && self.named("cpu-saturation").is_some();
        if disturbed {
            println!("skipped: other programs use the CPUs: {:?}", self.findings);
        }
        disturbed
    }

    #[track_caller]
    fn claim(&self, name: &str) -> &str {
        let finding = self.named(name).unwrap_or_else(|| panic!("no {name}: {:?}", self.findings));
        finding["claim"].as_str().expect("text")
    }

    /// A number of what the program measured: `slow 610233`.
    fn measured(&self, what: &str) -> f64 {
        let (_, after) = self.output.split_once(what).expect("the program prints it");
        after.split_whitespace().next().and_then(|number| number.parse().ok()).expect("a number")
    }
}

/// `63` of `for 63 % of its time`.
fn percent_before(text: &str, after: &str) -> f64 {
    let before = text.split(after).next().expect("text");
    before.split_whitespace().last().and_then(|number| number.parse().ok()).expect("a number")
}

#[test]
#[ignore = "live: records on this machine"]
fn a_handler_that_blocks_its_loop_is_named_with_its_share() {
    let Some(loops) = program("loops", &folder("verdicts")).filter(|_| has_bpf()) else { return };
    let judge = || {
        let judged = Judged::of(&loops, &["both"], "loop");
        let claim = judged.claim("head-of-line").to_owned();
        assert!(claim.contains("Event loop blocked: loops waits in slow()"), "{claim}");
        // The nap itself, not the wait for a CPU after it, which the program measures as well.
        let found = percent_before(&claim, " % of its time");
        let wall = judged.measured("wall ");
        let (most, least) = (judged.measured("slow ") / wall * 100.0, 30.0 * 20e6 / wall * 100.0);
        ((least - 3.0..=most + 3.0).contains(&found), format!("{claim}: {least} to {most}"))
    };
    // The thread's time begins before the program's, which on a busy machine is a part of it.
    holds_in_one_of_three(judge);
}

#[test]
#[ignore = "live: records on this machine"]
fn a_handler_that_computes_in_its_loop_is_named_with_its_share_and_its_longest_call() {
    let Some(loops) = program("loops", &folder("verdicts")).filter(|_| has_bpf()) else { return };
    if Command::new(&loops).args(["busy", "0"]).status().is_ok_and(|status| status.code() == Some(77)) {
        println!("skipped: no priorities here");
        return;
    }
    let judged = Judged::of(&loops, &["busy", "10", "60000"], "busy-loop");
    let claim = judged.claim("head-of-line");
    assert!(claim.contains("Event loop blocked: loops is busy in fetch() ← slow()"), "{claim}");
    let found = percent_before(claim, " % of its time");
    let measured = judged.measured("slow ") / judged.measured("wall ") * 100.0;
    // In whole percent; next to other programs, samples at the ends of a stretch are late.
    assert!((measured - 4.0..=measured + 3.0).contains(&found), "{claim}: {measured}");
    let detail = judged.named("head-of-line").expect("named")["detail"].as_str().expect("text").to_owned();
    let longest = percent_before(&detail, " ms; other events");
    assert!((judged.measured("longest ") / 1e6 - longest).abs() <= 5.0, "{detail}: {}", judged.output);
}

#[test]
#[ignore = "live: records on this machine"]
fn a_server_outside_of_the_recording_is_the_slow_peer() {
    let Some(loops) = program("loops", &folder("verdicts")).filter(|_| has_bpf()) else { return };
    let socket = folder("verdicts").join("loop.sock");
    let _ = std::fs::remove_file(&socket);
    let mut server = Command::new(&loops);
    let mut server = server.arg("serve").arg(&socket).stdout(Stdio::null()).spawn().expect("it starts");
    while !socket.exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let path = socket.to_str().expect("UTF-8");
    let judged = Judged::of(&loops, &["ask", path], "peer");
    let claim = judged.claim("slow-peer");
    assert!(claim.ends_with(&format!("waits for loops {} at {path}", server.id())), "{claim}");
    let found = percent_before(claim, " % of thread time");
    let waited = judged.measured("waited ") / judged.measured("wall ") * 100.0;
    // Woken and waiting for a CPU: the program measures that as well.
    assert!(found <= waited + 3.0 && found >= 40.0, "{claim}: {waited}");
    server.wait().expect("it ends with its client");
}

#[test]
#[ignore = "live: records on this machine"]
fn small_messages_that_tcp_holds_back_are_a_finding_until_it_is_told_not_to() {
    let Some(nagle) = program("nagle", &folder("verdicts")).filter(|_| has_bpf()) else { return };
    let judged = Judged::of(&nagle, &["40"], "nagle");
    let claim = judged.claim("delayed-ack");
    // The receiver's waits are half of the time of the two processes. Any process may deliver what comes late; only waits
    // that got much longer under load aren't recognized.
    let found = percent_before(claim, " % of thread time");
    let measured = judged.measured("waited ") / judged.measured("wall ") * 50.0;
    assert!((measured * 0.5..=measured + 3.0).contains(&found), "{claim}: {measured}");
    let judged = Judged::of(&nagle, &["40", "nodelay"], "nodelay");
    assert!(judged.named("delayed-ack").is_none(), "{:?}", judged.findings);
}

#[test]
#[ignore = "live: records on this machine"]
fn threads_in_line_are_a_convoy_and_threads_that_take_turns_a_serial_chain() {
    let built = |name| program(name, &folder("verdicts")).filter(|_| has_bpf());
    let (Some(convoy), Some(chain)) = (built("convoy"), built("chain")) else { return };
    let judged = Judged::of(&convoy, &["8", "300"], "convoy");
    if judged.is_disturbed("convoy") {
        return;
    }
    assert!(judged.claim("convoy").contains("the lock taken in work()"), "{:?}", judged.findings);
    let judged = Judged::of(&chain, &["threads", "40", "15000", "5000"], "serial");
    if judged.is_disturbed("serial-chain") {
        return;
    }
    let detail = judged.named("serial-chain").map(|finding| finding["detail"].clone());
    let detail = detail.unwrap_or_else(|| panic!("{:?}", judged.findings));
    let bound =
        percent_before(detail.as_str().expect("text").rsplit("at most ").next().expect("a bound"), " %");
    let crunch = judged.measured("crunch ") / judged.measured("wall ") * 100.0;
    assert!((bound - crunch).abs() <= 3.0, "{detail}: {crunch}");
}

#[test]
#[ignore = "live: records on this machine"]
fn programs_that_do_nothing_of_it_have_no_such_finding() {
    if !has_bpf() {
        return;
    }
    for (name, args) in [("split", &[][..]), ("rand", &["4"]), ("disk", &[]), ("mmaps", &[]), ("list", &[])] {
        let Some(built) = program(name, &folder("verdicts")) else { continue };
        let judged = Judged::of(&built, args, name);
        let wrong: Vec<&Value> = RULES.iter().filter_map(|rule| judged.named(rule)).collect();
        assert!(wrong.is_empty(), "{name}: {wrong:?}");
    }
}
