//! Notices of a recording by probes: its plan before it begins, its overhead and depth at its end, and refusals.

use std::fs;

use display::number;
use record::calls::{Exits, FunctionSums, ProbedObject, STRAYS};

use super::super::kernel;
use super::ProbeSession;
use crate::terminal::out;

/// CPU time may be tick-based; below a few ticks it is meaningless.
const SEVERAL_TICKS_NS: u64 = 40_000_000;

/// A program whose time in the kernel is this many times what its probes cost spends most of it otherwise.
const MOSTLY_OWN: f64 = 4.0;

impl ProbeSession {
    /// The plan and its cost.
    pub fn print_plan(&self, why: &str) {
        let functions = number::grouped(self.chosen.functions.len() as u64);
        let mut line = format!(
            "tally calls: {why}: {functions} functions by {} ({} places, attached in {})",
            self.engine.name(),
            number::grouped(self.engine.probes() as u64),
            number::duration_ns(self.attach.as_nanos() as u64)
        );
        if let Some(cost) = self.cost_ns {
            line += &format!("; a call costs about {} here", number::duration_ns(cost as u64));
            if let Some(rate) = self.watch.expected_per_s {
                line += &format!(
                    ", at now {} calls/s {:.1} % of a CPU",
                    number::grouped(rate as u64),
                    rate * cost / 1e7
                );
            }
        }
        out::note(&line);
        if let Some(why) = &self.why_no_bpf {
            out::note(&format!(
                "tally calls: without BPF, which is cheaper ({why}): every call comes out of the kernel as records"
            ));
        }
        if let Some(line) = kernel::status(&*self.engine, &self.options.kernel_selection) {
            out::note(&format!("tally calls: {line}"));
        }
        let left = self.chosen.left_out.iter().map(|(why, count)| (*why, *count));
        let refused =
            Some(("that the kernel can't probe", self.engine.refused().len())).filter(|(_, n)| *n > 0);
        for (why, count) in left.chain(refused) {
            let functions = if count == 1 { "function" } else { "functions" };
            out::note(&format!("tally calls: left out: {count} {functions} {why}"));
        }
        if !self.chosen.unmet.is_empty() {
            let unmet = self.chosen.unmet.join(", ");
            out::note(&format!(
                "tally calls: -P {unmet}: matches no function (`nm -C` and `nm -CD` list them)"
            ));
        }
        self.engine.missing().iter().for_each(|why| out::note(&format!("tally calls: not recorded: {why}")));
    }

    /// Measured cost of the calls of a command that was run: its time in the kernel, where the probes are; it made
    /// system calls of its own there, too. `None` where those are most of it, or too little was used to measure.
    fn measured(&self, entries: u64) -> Option<String> {
        let used = self.child.as_ref()?.used();
        let each_ns = used.system_ns.checked_div(entries)?;
        let expected_ns = entries as f64 * self.cost_ns?;
        let tells = used.system_ns >= SEVERAL_TICKS_NS && expected_ns * MOSTLY_OWN > used.system_ns as f64;
        tells.then(|| {
            format!(
                "measured: the program used {} of CPU by itself and {} in the kernel, where the probes run: {} a call, its own \
                 system calls included",
                number::duration_ns(used.user_ns),
                number::duration_ns(used.system_ns),
                number::duration_ns(each_ns)
            )
        })
    }

    /// Effect of the kernel's limit of return probes on deep recursion, if it may have had one.
    //
    // Source: linux v6.18 include/linux/uprobes.h: MAX_URETPROBE_DEPTH; kernel/events/uprobes.c: prepare_uretprobe()
    pub(super) fn depth_notice(&self, sums: &[(u32, FunctionSums)]) -> Option<String> {
        const MOST_RETURNS: usize = 64;
        let was_left = sums.iter().any(|(_, sums)| sums.unwound > 0);
        let is_deep = self.watch.written.deepest > MOST_RETURNS;
        (self.options.exits == Exits::Return && (was_left || is_deep)).then(|| {
            format!(
                "by return probes the kernel sees no more than {MOST_RETURNS} open calls of a thread return: deeper ones end \
                 with those around them and are shown as left; without --return-probes there is no such limit"
            )
        })
    }

    /// Notes besides the numbers.
    pub(super) fn notes(&self, entries: u64, wall_ns: u64) -> Vec<String> {
        let mut notes = self.watch.detached.clone();
        notes.extend(self.cut_short.clone());
        if let Some(cost) = self.cost_ns {
            let spent_ns = entries as f64 * cost;
            notes.push(format!(
                "cost: {} calls at about {} each, {:.1} % of a CPU over {}",
                number::grouped(entries),
                number::duration_ns(cost as u64),
                spent_ns * 100.0 / wall_ns.max(1) as f64,
                number::duration_ns(wall_ns)
            ));
        }
        notes.extend(self.measured(entries));
        notes.extend(self.became.iter().map(|program| {
            format!(
                "a process became {program}, whose functions are not probed; record it under its own name"
            )
        }));
        let losses = self.engine.losses();
        let strays = (self.watch.written.strays, STRAYS);
        let losses = losses.into_iter().chain([strays]).filter(|(count, _)| *count > 0);
        notes.extend(losses.map(|(count, name)| {
            let why = match (name == STRAYS, &self.child) {
                (true, None) => ", as of calls that were open when tally attached",
                _ => "",
            };
            format!("{} {name}{why}", number::grouped(count))
        }));
        notes
    }
}

/// The program that a process runs now, if none of its functions is probed.
pub(super) fn other_program(pid: u32, objects: &[ProbedObject]) -> Option<String> {
    let Ok(program) = fs::read_link(format!("/proc/{pid}/exe")) else {
        return Some("another program (it ended before its name was read)".to_owned());
    };
    let is_probed = |object: &ProbedObject| object.path.canonicalize().is_ok_and(|path| path == program);
    (!objects.iter().any(is_probed)).then(|| program.display().to_string())
}

/// The kernel's error, and the alternatives.
pub(super) fn refusal(why: &record::calls::Error) -> anyhow::Error {
    // The limits that end an attempt, by the system's words for them.
    for (word, limit) in [("Too many open files", "ulimit -n"), ("Cannot allocate memory", "ulimit -v")] {
        if why.to_string().contains(word) {
            return anyhow::anyhow!(
                "uprobes are refused: {}; raise `{limit}`, or choose fewer functions by -P",
                short(why)
            );
        }
    }
    anyhow::anyhow!(
        "uprobes are refused: {}; run as root, or setcap cap_perfmon,cap_bpf,cap_sys_ptrace=ep tally; in docker \
         --cap-add PERFMON --cap-add BPF. Without: build with -pg or -fpatchable-function-entry=5 and run \
         `tally calls record -- CMD`",
        short(why)
    )
}

/// Without the verifier's log.
pub(super) fn short(why: &record::calls::Error) -> String {
    let text = why.to_string();
    text.split(" | ").next().unwrap_or(&text).to_owned()
}
