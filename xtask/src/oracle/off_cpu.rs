//! `off-cpu`: compares each thread's time by perf's scheduler events with `tally timeline`.
//!
//! perf decodes the events (`perf script`), and this module sums them up, thread by thread. `perf sched timehist` sums
//! them up itself, CPU by CPU. The kernel sometimes drops events silently. Where a CPU's switches are not consecutive,
//! timehist adds one thread's time to another. So a thread is compared only if the file has all of its switches, and
//! only if it starts and ends within the file, so that nothing before the file has to be guessed.
//!
//! timehist leaves out a thread's last run and the wait before it, except for the last thread of a process: those are
//! samples without a thread (id −1). They are left out of tally's times, too.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use serde_json::Value;

use super::Pair;
use crate::score::{Score, skip};

/// Allowed difference: the time before a thread's first event and after its last.
const MOST_APART: f64 = 0.01;
const EDGES_MS: f64 = 0.3;

/// One thread's time in ms.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    on: f64,
    /// Woken, waiting for a CPU.
    delayed: f64,
    /// Off-CPU: blocked, preempted, or delayed, without time that is unknown because of a missing event.
    off: f64,
}

/// Records and compares. A difference gets one more try, because events are lost on a busy machine.
pub fn compare(pair: &Pair) -> Result<Score> {
    let programs = ["split", "convoy"].map(|name| pair.programs.join(name));
    if !programs.iter().all(|program| program.is_file()) {
        return Ok(skip("oracle off-cpu", "the test programs are not built"));
    }
    let [split, convoy] = programs.map(|program| program.display().to_string());
    let line = format!("{split} 0.9 >&2 & echo pid $!; {convoy} 4 300 >&2 & echo pid $!; wait");
    let Some(pids) = record(pair, &line)? else {
        return Ok(skip("oracle off-cpu", "perf sched record cannot record here"));
    };
    let mut misses = once(pair, &pids)?;
    if !misses.is_empty()
        && let Some(pids) = record(pair, &line)?
    {
        println!("off-cpu: second try, after {}", misses.join("; "));
        misses = once(pair, &pids)?;
    }
    if misses == [NOTHING_WHOLE] {
        return Ok(skip("oracle off-cpu", NOTHING_WHOLE));
    }
    misses.iter().for_each(|miss| println!("off-cpu: {miss}"));
    let score = Score::of(misses.is_empty());
    println!("off-cpu: {score}");
    Ok(score)
}

const FILE: &str = "off-cpu.data";
const NOTHING_WHOLE: &str = "every thread misses switches in the file";

/// The programs' process ids; `None` if perf may not record.
fn record(pair: &Pair, line: &str) -> Result<Option<Vec<u64>>> {
    let run = pair.perf(&["sched", "record", "-m", "4096", "-o", FILE, "--", "sh", "-c", line])?;
    let text = run.text();
    let pids = text.lines().filter_map(|line| line.strip_prefix("pid ")?.trim().parse().ok());
    Ok(run.ok().then(|| pids.collect()))
}

fn once(pair: &Pair, pids: &[u64]) -> Result<Vec<String>> {
    let perf = pair.perf(&["sched", "timehist", "-i", FILE])?;
    let tally = pair.tally(&["timeline", "--json", "--idle", "-i", FILE])?;
    if !perf.ok() || !tally.ok() {
        bail!("off-cpu: perf {}, tally {}", perf.how(), tally.how());
    }
    let events = pair.perf(&["script", "--ns", "-F", "cpu,time,event,trace", "-i", FILE])?;
    let told = of_events(&events.text());
    let mut tally = of_tally(&tally.text(), pids)?;
    if tally.is_empty() {
        return Ok(vec!["tally shows none of the programs' threads".to_owned()]);
    }
    let all = tally.len();
    tally.retain(|tid, _| told.contains_key(tid));
    if tally.len() < all {
        println!("off-cpu: {} of {all} threads miss switches in the file: not compared", all - tally.len());
    }
    if tally.is_empty() {
        return Ok(vec![NOTHING_WHOLE.to_owned()]);
    }
    let sums = told.iter().map(|(&tid, (sums, _))| (tid, *sums)).collect();
    let mut misses = differences("by the events", &sums, &tally);
    for (tid, (_, _, times)) in &mut tally {
        let last = told.get(tid).map_or_else(Times::default, |(_, last)| *last);
        times.on -= last.on;
        times.delayed -= last.delayed;
        times.off -= last.off;
    }
    misses.extend(differences("timehist", &of_timehist(&perf.text()), &tally));
    println!("off-cpu: {} threads compared with their events, and with timehist", tally.len());
    Ok(misses)
}

fn differences(
    source: &str,
    told: &BTreeMap<u64, Times>,
    tally: &BTreeMap<u64, (String, f64, Times)>,
) -> Vec<String> {
    let mut misses = Vec::new();
    for (tid, (name, life_ms, times)) in tally {
        let told = told.get(tid).copied().unwrap_or_default();
        let parts = [
            ("on-CPU", told.on, times.on),
            ("waiting for a CPU", told.delayed, times.delayed),
            ("off-CPU", told.off, times.off),
        ];
        for (what, a, b) in parts {
            if (a - b).abs() > MOST_APART * life_ms + EDGES_MS {
                misses.push(format!(
                    "{name} {tid} of {life_ms:.1} ms: {what}: {source} {a:.3} ms, tally {b:.3} ms"
                ));
            }
        }
    }
    misses
}

/// A thread while its events are summed up; times in ms.
#[derive(Default)]
struct Thread {
    times: Times,
    came: Option<f64>,
    left: Option<f64>,
    woken: Option<f64>,
    /// Last wait and run, and whether it ended with them.
    last: Times,
    ends: bool,
    /// A switch of it is missing.
    misses: bool,
}

/// Sums by thread id for threads with all their switches, each with its last wait and run.
fn of_events(text: &str) -> BTreeMap<u64, (Times, Times)> {
    let mut threads: BTreeMap<u64, Thread> = BTreeMap::new();
    let mut on_cpu: BTreeMap<&str, u64> = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (Some(cpu), Some(time), Some(event)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let Ok(seconds) = time.trim_end_matches(':').parse::<f64>() else { continue };
        let (ms, number) = (seconds * 1e3, |name| number_of(line, name));
        match event {
            "sched:sched_switch:" => {
                let (Some(prev), Some(next)) = (number(" prev_pid="), number(" next_pid=")) else { continue };
                if let Some(last) = on_cpu.insert(cpu, next).filter(|last| *last != prev) {
                    for tid in [last, prev] {
                        threads.entry(tid).or_default().misses = true;
                    }
                }
                let ends = line.contains(" prev_state=X ");
                threads.entry(prev).or_default().leaves(ms, ends);
                threads.entry(next).or_default().comes(ms);
            }
            "sched:sched_waking:" | "sched:sched_wakeup_new:" => {
                let Some(tid) = number(" pid=") else { continue };
                let thread = threads.entry(tid).or_default();
                if thread.came.is_none() {
                    thread.woken.get_or_insert(ms);
                }
            }
            _ => {}
        }
    }
    let whole = threads.into_iter().filter(|(_, thread)| !thread.misses);
    let last = |of: &Thread| if of.ends { of.last } else { Times::default() };
    whole.map(|(tid, thread)| (tid, (thread.times, last(&thread)))).collect()
}

fn number_of(line: &str, name: &str) -> Option<u64> {
    let (_, rest) = line.split_once(name)?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

impl Thread {
    fn leaves(&mut self, ms: f64, ends: bool) {
        self.misses |= self.came.is_none() && self.left.is_some();
        self.last.on = self.came.take().map_or(0.0, |came| ms - came);
        self.times.on += self.last.on;
        self.ends = ends;
        (self.left, self.woken) = (Some(ms), None);
    }

    fn comes(&mut self, ms: f64) {
        self.misses |= self.came.is_some();
        let (left, woken) = (self.left.take(), self.woken.take());
        self.last.off = left.or(woken).map_or(0.0, |since| ms - since);
        self.last.delayed = woken.map_or(0.0, |woken| ms - woken);
        self.times.off += self.last.off;
        self.times.delayed += self.last.delayed;
        self.came = Some(ms);
    }
}

/// `TIME [CPU] NAME[TID/PID] WAIT DELAY RUN`, one line for each time a thread leaves a CPU. Names may contain blanks.
/// The wait includes the delay, except for a new thread's first, which has no wait.
// Source: linux v6.1 tools/perf/builtin-sched.c timehist_update_runtime_stats()
fn of_timehist(text: &str) -> BTreeMap<u64, Times> {
    let mut threads: BTreeMap<u64, Times> = BTreeMap::new();
    for line in text.lines() {
        let Some((task, numbers)) = line.rsplit_once(']') else { continue };
        let ms: Vec<f64> = numbers.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        // The idle task has only the CPU in brackets.
        let ids = task.rsplit_once('[').filter(|(before, _)| before.contains(']'));
        let tid = ids.and_then(|(_, ids)| ids.split('/').next()?.parse().ok());
        let (&[wait, delayed, on], Some(tid)) = (ms.as_slice(), tid) else { continue };
        let sum = threads.entry(tid).or_default();
        *sum = Times { on: sum.on + on, delayed: sum.delayed + delayed, off: sum.off + wait.max(delayed) };
    }
    threads
}

/// The programs' threads by id: name, life in ms, times.
fn of_tally(text: &str, pids: &[u64]) -> Result<BTreeMap<u64, (String, f64, Times)>> {
    let value: Value = serde_json::from_str(text)?;
    let mut threads = BTreeMap::new();
    for thread in value["threads"].as_array().into_iter().flatten() {
        let name = thread["comm"].as_str().unwrap_or_default();
        let is_theirs = thread["pid"].as_u64().is_some_and(|pid| pids.contains(&pid));
        let Some(tid) = thread["tid"].as_u64().filter(|_| is_theirs) else { continue };
        let life_ms = thread["life_ns"].as_f64().unwrap_or(0.0) / 1e6;
        let part = |state: &str| thread["shares"][state].as_f64().unwrap_or(0.0) * life_ms;
        let off = part("unknown state")
            + part("sleeping")
            + part("disk")
            + part("preempted")
            + part("stopped")
            + part("runnable");
        let times = Times { on: part("on CPU"), delayed: part("runnable"), off };
        threads.insert(tid, (name.to_owned(), life_ms, times));
    }
    Ok(threads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_summed_up_by_thread_and_missing_switches_are_seen() {
        let text = "[000]  1.000000000: sched:sched_wakeup_new: comm=a b pid=7 prio=120 target_cpu=000\n\
                    [000]  1.001000000: sched:sched_switch: prev_comm=x prev_pid=9 prev_prio=1 prev_state=S ==> next_comm=a b next_pid=7 next_prio=120\n\
                    [000]  1.003000000: sched:sched_switch: prev_comm=a b prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=x next_pid=9 next_prio=1\n\
                    [001]  1.007000000: sched:sched_waking: comm=a b pid=7 prio=120 target_cpu=000\n\
                    [000]  1.008000000: sched:sched_switch: prev_comm=y prev_pid=10 prev_prio=1 prev_state=R ==> next_comm=a b next_pid=7 next_prio=120\n";
        let sums = of_events(text);
        let near = |a: f64, b: f64| (a - b).abs() < 1e-6;
        let (of, last) = sums[&7];
        assert!(near(of.on, 2.0) && near(of.off, 6.0) && near(of.delayed, 2.0), "{of:?}");
        assert!(near(last.on + last.off, 0.0), "it did not end");
        assert_eq!(
            sums.keys().copied().collect::<Vec<_>>(),
            [7],
            "9 came, 10 left: the events do not cover both"
        );
        let ended = of_events(
            &text.replace("prev_pid=7 prev_prio=120 prev_state=S", "prev_pid=7 prev_prio=120 prev_state=X"),
        );
        assert!(near(ended[&7].1.on, 2.0), "{ended:?}");
    }

    #[test]
    fn both_texts_are_read() {
        let text = "           time    cpu  task name                       wait time  sch delay   run time\n\
                    29283.783021 [0001]  a b[7/6]                         1.000      0.009      0.132 \n\
                    29283.783356 [0000]  <idle>                              0.000      0.000      0.277 \n\
                    29283.783456 [0000]  perf[8]                             0.000      0.000      0.277 \n";
        let read = of_timehist(text);
        assert_eq!(read.keys().copied().collect::<Vec<_>>(), [7, 8]);
        assert!((read[&7].off - 1.0).abs() < 1e-9 && (read[&7].on - 0.132).abs() < 1e-9);
        let json = r#"{"threads":[{"comm":"split","pid":6,"tid":7,"life_ns":2000000,"shares":{"on CPU":0.5,"sleeping":0.25}},
                      {"comm":"bash","pid":8,"tid":8,"life_ns":1,"shares":{}}]}"#;
        let read = of_tally(json, &[6]).expect("JSON");
        assert_eq!(read.len(), 1);
        assert!((read[&7].2.on - 1.0).abs() < 1e-9 && (read[&7].2.off - 0.5).abs() < 1e-9);
    }
}
