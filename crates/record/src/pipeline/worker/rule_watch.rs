//! The judge of a flight recorder's window: a process for each look, and when the next look may begin.

use std::io::{self, PipeReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::session::opts::{RecordOpts, WindowJudge};
use crate::sys::prompt;
use crate::sys::time::coarse_ns;

/// From the end of a look to the next, ns.
const LEAST_PAUSE_NS: u64 = 1_000_000_000;
/// Looks take one part in this many of a CPU, from the first one on: below 1 % also of 40 s with one more at their end.
const CPU_SHARE: u64 = 130;
/// Most bytes of what the judge prints.
const MOST_TEXT: u64 = 4096;

/// The judge, and when it looks.
pub(super) struct RuleWatch {
    pub judge: Option<WindowJudge>,
    pub window_ns: u64,
    pub pace: LookPace,
    pub judging: Option<Judging>,
    /// Ended looks.
    pub looks: u64,
    pub fired: u64,
}

/// A judge at work.
pub(super) struct Judging {
    pub child: Child,
    /// Its output.
    from: PipeReader,
}

impl Judging {
    /// All it printed; it has ended.
    pub fn text(self) -> String {
        let mut text = Vec::new();
        let _ = self.from.take(MOST_TEXT).read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    }
}

/// When a look may begin: once a second, and less often where looks take long.
#[derive(Debug, Default)]
pub(super) struct LookPace {
    pub began_ns: u64,
    pub next_ns: u64,
    pub spent_ns: u64,
    /// End of the first look.
    first_ns: Option<u64>,
}

impl LookPace {
    pub fn may_look(&self, now_ns: u64) -> bool {
        let is_paid = |first_ns| self.spent_ns <= now_ns.saturating_sub(first_ns) / CPU_SHARE;
        now_ns >= self.next_ns && self.first_ns.is_none_or(is_paid)
    }

    /// A look of this cost has ended.
    pub fn looked(&mut self, now_ns: u64, cost_ns: u64) {
        self.spent_ns += cost_ns;
        self.first_ns.get_or_insert(now_ns);
        self.next_ns = now_ns + LEAST_PAUSE_NS;
    }
}

impl RuleWatch {
    pub fn new(opts: &RecordOpts) -> Self {
        let window_ns = opts.file.window.map_or(0, |window| window.as_nanos() as u64);
        let pace = LookPace { began_ns: coarse_ns(), ..LookPace::default() };
        Self { judge: opts.file.judge.clone(), window_ns, pace, judging: None, looks: 0, fired: 0 }
    }

    pub fn is_used(&self) -> bool {
        self.judge.is_some()
    }

    /// None has fired, in this many looks.
    pub fn looks_in_vain(&self) -> Option<u64> {
        (self.is_used() && self.fired == 0).then_some(self.looks)
    }
}

/// Starts it for a file.
pub(super) fn started(judge: &WindowJudge, path: &Path) -> io::Result<Judging> {
    let (program, arguments) = judge.command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    let environment = judge.environment.iter().map(|(name, value)| (name, value));
    // Ctrl-C is for the recording.
    command.args(arguments).arg(path).envs(environment).process_group(0);
    // Both go one way: what it prints is shorter than the pipe.
    let (from, to) = io::pipe()?;
    let child = command.stdin(Stdio::null()).stdout(to.try_clone()?).stderr(to).spawn()?;
    prompt::calm(child.id());
    Ok(Judging { child, from })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn looks_are_a_second_apart_and_take_less_than_a_hundredth_of_a_cpu() {
        let mut pace = LookPace { began_ns: 5 * SECOND_NS, ..LookPace::default() };
        assert!(pace.may_look(5 * SECOND_NS));
        pace.looked(6 * SECOND_NS, SECOND_NS / 1000);
        assert!(!pace.may_look(7 * SECOND_NS - 1) && pace.may_look(7 * SECOND_NS));
        let (mut spent_ns, mut looks) = (0, 0);
        for tenth in 0..10_000 {
            let now_ns = 7 * SECOND_NS + tenth * SECOND_NS / 10;
            if pace.may_look(now_ns) {
                pace.looked(now_ns, SECOND_NS / 20);
                (spent_ns, looks) = (spent_ns + SECOND_NS / 20, looks + 1);
            }
        }
        assert!(spent_ns <= 1002 * SECOND_NS / CPU_SHARE + SECOND_NS / 20, "{spent_ns}");
        assert!(looks >= 150, "{looks}");
    }

    #[test]
    fn a_first_look_that_took_long_is_paid_for_before_the_next() {
        let mut pace = LookPace::default();
        assert!(pace.may_look(10 * SECOND_NS));
        pace.looked(10 * SECOND_NS, SECOND_NS);
        assert!(!pace.may_look(139 * SECOND_NS) && pace.may_look(140 * SECOND_NS));
    }

    #[test]
    fn looks_of_an_eighth_of_a_second_take_less_than_a_hundredth_of_any_forty_seconds() {
        let (mut pace, cost_ns) = (LookPace::default(), SECOND_NS / 8);
        let mut looks: Vec<u64> = Vec::new();
        for tenth in 100..10_000 {
            let now_ns = tenth * SECOND_NS / 10;
            if pace.may_look(now_ns) {
                pace.looked(now_ns, cost_ns);
                looks.push(now_ns);
            }
        }
        for &begin in &looks {
            let in_span =
                looks.iter().filter(|at| (begin..begin + 40 * SECOND_NS).contains(at)).count() as u64;
            assert!(in_span * cost_ns <= 40 * SECOND_NS / 100, "{in_span} from {begin}");
        }
        assert!(looks.len() >= 60, "{}", looks.len());
    }
}
