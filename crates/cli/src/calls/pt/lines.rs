//! Branches as `perf script --itrace=cr` prints them: the same fields, flags and columns, for comparison and for
//! programs that read that text.
//
// Source: linux v6.18 tools/perf/builtin-script.c perf_sample__fprintf_start(), perf_sample__fprintf_bts();
//         util/auxtrace.c itrace_synth_opts__parse(); util/intel-pt.c, which branches c and r choose.

use intelpt::{Event, Gap, What, branch_word};
use profile::pt::Sideband;
use rustc_hash::FxHashMap;
use std::fmt::Write as _;
use std::io::{self, Write};

use super::image::{At, Code};
use crate::out::harmless;

/// Which events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds {
    branches: bool,
    calls: bool,
    returns: bool,
    errors: bool,
}

impl Kinds {
    /// The letters of `--itrace`.
    ///
    /// # Errors
    /// Letters whose events are not made here, with what to use instead.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let mut kinds = Self::default();
        for letter in text.chars() {
            match letter {
                'b' => kinds.branches = true,
                'c' => kinds.calls = true,
                'r' => kinds.returns = true,
                'e' => kinds.errors = true,
                'i' | 'y' | 'g' | 'G' | 'l' | 'L' => anyhow::bail!(
                    "--itrace={text}: '{letter}' samples the trace; here branches are told one by one (b, c, r, e), and \
                     `tally calls -i FILE` counts and times every call"
                ),
                'x' | 'w' | 'p' | 'o' | 'I' => anyhow::bail!(
                    "--itrace={text}: '{letter}' tells packets beside the branches: `tally dump --pt` shows them all; \
                     here are b, c, r, e"
                ),
                _ => anyhow::bail!(
                    "--itrace={text}: want letters of b (branches), c (calls), r (returns), e (errors)"
                ),
            }
        }
        anyhow::ensure!(kinds != Self::default(), "--itrace: want letters of b, c, r, e, as --itrace=cr");
        Ok(kinds)
    }

    /// Jumps within functions are wanted.
    #[must_use]
    pub const fn every(self) -> bool {
        self.branches
    }

    fn means(self, flags: &str) -> bool {
        let call = || {
            flags.starts_with("tr end") || matches!(flags, "call" | "syscall" | "int" | "hw int" | "tx abrt")
        };
        let back = || flags.starts_with("tr strt") || matches!(flags, "return" | "sysret" | "iret");
        self.branches || self.calls && call() || self.returns && back()
    }
}

/// The fields, in perf's order.
const FIELDS: [&str; 13] =
    ["comm", "pid", "tid", "cpu", "time", "period", "event", "flags", "ip", "sym", "symoff", "dso", "addr"];
/// Those printed unless asked otherwise.
const USUAL: [&str; 10] = ["comm", "tid", "cpu", "time", "period", "event", "ip", "sym", "symoff", "dso"];

/// Which fields.
#[derive(Clone, Debug)]
struct Fields(Vec<&'static str>);

impl Fields {
    fn parse(texts: &[String]) -> anyhow::Result<Self> {
        let mut fields = Self(USUAL.into_iter().chain(["addr"]).collect());
        for text in texts {
            let text = text.strip_prefix("hw:").unwrap_or(text);
            if !text.starts_with(['+', '-']) {
                fields.0.clear();
            }
            for word in text.split(',').filter(|word| !word.is_empty()) {
                let (on, name) = match word.strip_prefix('-') {
                    Some(name) => (false, name),
                    None => (true, word.strip_prefix('+').unwrap_or(word)),
                };
                let Some(known) = FIELDS.iter().find(|known| **known == name) else {
                    anyhow::bail!("-F {name}: branches of a trace have {}", FIELDS.join(", "));
                };
                fields.0.retain(|field| field != known);
                if on {
                    fields.0.push(known);
                }
            }
        }
        Ok(fields)
    }

    fn has(&self, name: &str) -> bool {
        self.0.contains(&name)
    }
}

/// What is to be printed.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Which events.
    pub kinds: Kinds,
    fields: Fields,
    nanoseconds: bool,
    /// Only these processes, threads, names, CPUs, times; all if empty.
    pub pids: Vec<u32>,
    /// See `pids`.
    pub tids: Vec<u32>,
    /// See `pids`.
    pub comms: Vec<String>,
    /// See `pids`.
    pub cpus: Option<Vec<i32>>,
    /// First and last, ns.
    pub times: Option<(u64, u64)>,
    /// Width of the longest event's name in the file.
    pub name_width: usize,
}

impl Wanted {
    /// All threads and times.
    ///
    /// # Errors
    /// Unknown letters or fields.
    pub fn new(kinds: &str, fields: &[String], nanoseconds: bool) -> anyhow::Result<Self> {
        Ok(Self {
            kinds: Kinds::parse(kinds)?,
            fields: Fields::parse(fields)?,
            nanoseconds,
            pids: Vec::new(),
            tids: Vec::new(),
            comms: Vec::new(),
            cpus: None,
            times: None,
            name_width: 0,
        })
    }
}

/// Writes the lines.
pub struct Lines<'a> {
    code: &'a Code,
    side: &'a Sideband<'a>,
    wanted: &'a Wanted,
    /// What is behind an address, by space and address.
    names: FxHashMap<(u32, u64), Box<str>>,
    words: FxHashMap<(u32, u64), &'static str>,
    line: String,
    last_ns: FxHashMap<usize, u64>,
}

impl<'a> Lines<'a> {
    /// Nothing is written yet.
    pub fn new(code: &'a Code, side: &'a Sideband<'a>, wanted: &'a Wanted) -> Self {
        Self {
            code,
            side,
            wanted,
            names: FxHashMap::default(),
            words: FxHashMap::default(),
            line: String::new(),
            last_ns: FxHashMap::default(),
        }
    }

    /// Writes one event of a thread, if it is wanted.
    pub fn write(
        &mut self,
        out: &mut impl Write,
        (tid, buffer): (i32, usize),
        event: &Event,
    ) -> io::Result<()> {
        let last = self.last_ns.entry(buffer).or_insert(0);
        let time_ns = event.tsc.map_or(*last, |tsc| self.side.setup.clock.ns_at(tsc));
        *last = time_ns;
        let pid = self.side.process_of(tid);
        let name = self.side.name_of(tid, time_ns).unwrap_or("");
        if !self.chosen((pid, tid), name, (buffer, time_ns)) {
            return Ok(());
        }
        self.line.clear();
        if let What::Gap(gap) = event.what {
            if !self.wanted.kinds.errors {
                return Ok(());
            }
            self.error(gap, (pid, tid), (buffer, time_ns), event.from);
        } else if !self.branch((pid, tid), (buffer, time_ns), event) {
            return Ok(());
        }
        out.write_all(self.line.as_bytes())
    }

    fn cpu(&self, buffer: usize) -> i32 {
        self.side.buffers[buffer].cpu.map_or(-1, u32::cast_signed)
    }

    fn chosen(&self, (pid, tid): (i32, i32), name: &str, (buffer, time_ns): (usize, u64)) -> bool {
        let wanted = self.wanted;
        (wanted.pids.is_empty() || wanted.pids.contains(&pid.cast_unsigned()))
            && (wanted.tids.is_empty() || wanted.tids.contains(&tid.cast_unsigned()))
            && (wanted.comms.is_empty() || wanted.comms.iter().any(|comm| comm == name))
            && wanted.cpus.as_ref().is_none_or(|cpus| cpus.contains(&self.cpu(buffer)))
            && wanted.times.is_none_or(|(from, to)| (from..=to).contains(&time_ns))
    }

    /// A line as of perf's error events.
    fn error(&mut self, gap: Gap, (pid, tid): (i32, i32), (buffer, time_ns): (usize, u64), ip: u64) {
        let (code, text) = match gap {
            Gap::Overflow => (7, "Overflow packet"),
            Gap::Packet => (3, "Bad packet"),
            Gap::Code(_) => (5, "Failed to get instruction"),
            Gap::Mismatch => (6, "Trace doesn't match instruction"),
            Gap::NotSaved => (8, "Lost trace data"),
            Gap::Loop => (10, "Never-ending loop (refer perf config intel-pt.max-loops)"),
            _ => (9, "Unknown error!"),
        };
        let (seconds, ns) = (time_ns / 1_000_000_000, time_ns % 1_000_000_000);
        let cpu = self.cpu(buffer);
        let _ = writeln!(
            self.line,
            " instruction trace error type 1 time {seconds}.{ns:09} cpu {cpu} pid {pid} tid {tid} ip {ip:#x} code {code}: {text}"
        );
    }

    /// Makes the line of a branch; false if it is not wanted.
    fn branch(&mut self, (pid, tid): (i32, i32), (buffer, time_ns): (usize, u64), event: &Event) -> bool {
        let space = self.side.code(pid, time_ns).map_or(0, |(number, _)| number);
        let flags = self.flags((pid, time_ns, space), event);
        if !self.wanted.kinds.means(flags) {
            return false;
        }
        let wanted = self.wanted;
        let fields = &wanted.fields;
        if fields.has("comm") {
            let name = harmless(self.side.name_of(tid, time_ns).unwrap_or("")).into_owned();
            let _ = write!(self.line, "{name:>16} ");
        }
        let _ = match (fields.has("pid"), fields.has("tid")) {
            (true, true) => write!(self.line, "{pid:>5}/{tid:<5} "),
            (true, false) => write!(self.line, "{pid:>5} "),
            (false, true) => write!(self.line, "{tid:>5} "),
            (false, false) => Ok(()),
        };
        if fields.has("cpu") && self.cpu(buffer) >= 0 {
            let _ = write!(self.line, "[{:03}] ", self.cpu(buffer));
        }
        if fields.has("time") {
            let (seconds, ns) = (time_ns / 1_000_000_000, time_ns % 1_000_000_000);
            let _ = match wanted.nanoseconds {
                true => write!(self.line, "{seconds:>5}.{ns:09}: "),
                false => write!(self.line, "{seconds:>5}.{:06}: ", ns / 1000),
            };
        }
        if fields.has("period") {
            let _ = write!(self.line, "{:>10} ", 1);
        }
        if fields.has("event") {
            let _ = write!(self.line, "{:>1$}: ", EVENT, wanted.name_width.max(EVENT.len()));
        }
        if fields.has("flags") {
            let _ = write!(self.line, "  {flags:<21} ");
        }
        if fields.has("ip") {
            self.line.push(' ');
            self.address((pid, time_ns, space), event.from);
        }
        if fields.has("addr") {
            self.line.push_str(" => ");
            self.address((pid, time_ns, space), event.to);
        }
        self.line.push('\n');
        true
    }

    fn address(&mut self, place: (i32, u64, u32), ip: u64) {
        let _ = write!(self.line, "{ip:>16x}");
        let (space, fields) = (place.2, &self.wanted.fields);
        if let Some(known) = self.names.get(&(space, ip)) {
            return self.line.push_str(known);
        }
        let at = self.at(place, ip);
        let mut text = String::new();
        if fields.has("sym") {
            match at.symbol {
                Some((name, offset)) => {
                    text.push(' ');
                    text.push_str(&harmless(&dso::demangle(name)));
                    if fields.has("symoff") {
                        let _ = write!(text, "+{offset:#x}");
                    }
                }
                None => text.push_str(" [unknown]"),
            }
        }
        if fields.has("dso") {
            let _ = write!(text, " ({})", harmless(at.file.unwrap_or("[unknown]")));
        }
        self.line.push_str(&text);
        self.names.insert((space, ip), text.into());
    }

    fn at(&self, (pid, time_ns, _): (i32, u64, u32), ip: u64) -> At<'a> {
        let side: &'a Sideband<'a> = self.side;
        side.code(pid, time_ns).map_or_else(At::default, |(_, mappings)| self.code.at(mappings, ip))
    }

    /// perf's word for what happened.
    fn flags(&mut self, place: (i32, u64, u32), event: &Event) -> &'static str {
        match event.what {
            What::Call => "call",
            What::Return => "return",
            What::Begin => "tr strt",
            What::EndAsync => "tr end  async",
            What::Interrupt => "hw int",
            What::Abort => "tx abrt",
            What::Jump | What::Far => self.word(place, event.from),
            What::End => match self.word(place, event.from) {
                "syscall" => "tr end  syscall",
                "int" => "tr end  int",
                "iret" => "tr end  iret",
                "sysret" => "tr end  sysret",
                "call" => "tr end  call",
                "return" => "tr end  return",
                "jcc" => "tr end  jcc",
                "jmp" => "tr end  jmp",
                _ => "tr end",
            },
            What::Gap(_) => "",
        }
    }

    fn word(&mut self, place: (i32, u64, u32), ip: u64) -> &'static str {
        let key = (place.2, ip);
        if let Some(known) = self.words.get(&key) {
            return known;
        }
        let word = branch_word(self.at(place, ip).code, 64).unwrap_or("");
        self.words.insert(key, word);
        word
    }
}

/// What perf calls the events it makes of branches in user mode.
const EVENT: &str = "branches:u";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_choose_kinds_and_others_are_refused_with_what_to_use() {
        let kinds = Kinds::parse("cr").unwrap();
        assert!(
            kinds.means("call")
                && kinds.means("tr end  syscall")
                && kinds.means("tr strt")
                && kinds.means("iret")
        );
        assert!(!kinds.means("jmp") && !kinds.every() && Kinds::parse("b").unwrap().means("jcc"));
        assert!(!Kinds::parse("r").unwrap().means("call") && !Kinds::parse("c").unwrap().means("return"));
        for refused in ["i100us", "x", "q", ""] {
            assert!(Kinds::parse(refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn fields_are_added_taken_away_and_set() {
        let has = |texts: &[&str], name| {
            let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
            Fields::parse(&texts).unwrap().has(name)
        };
        assert!(has(&[], "addr") && !has(&[], "flags"));
        assert!(has(&["-event,+flags"], "flags") && !has(&["-event,+flags"], "event"));
        assert!(!has(&["tid,ip"], "time"));
        assert!(Fields::parse(&["brstack".to_owned()]).is_err());
    }
}
