//! Rules as triggers: now and then the window is written as a draft, which another process judges. Where a rule fires,
//! the draft becomes a file: it has just what was judged.

use super::WorkerState;
use super::rule_watch::{Judging, started};
use crate::sys::mem::children_use;
use crate::sys::time::{coarse_ns, thread_cpu_ns};

impl WorkerState {
    /// Goes on with a look, or begins one where it is time.
    pub(super) fn mind_rules(&mut self) {
        if self.rules.judging.is_some() {
            return self.end_of_look();
        }
        let now_ns = coarse_ns();
        // A window that isn't full yet would be judged by a program's start.
        let has_run = now_ns.saturating_sub(self.rules.pace.began_ns) >= self.rules.window_ns;
        if self.rules.is_used() && has_run && self.rules.pace.may_look(now_ns) {
            self.begin_look();
        }
    }

    fn begin_look(&mut self) {
        let Some(judge) = self.rules.judge.clone() else { return };
        let before_ns = thread_cpu_ns();
        let (features, appendix) = self.file_end(self.written.sample_times);
        let draft = self.sink.write_draft(&features, &appendix);
        self.rules.pace.spent_ns += thread_cpu_ns().saturating_sub(before_ns);
        let Some(path) = draft else { return };
        match started(&judge, &path) {
            Ok(judging) => self.rules.judging = Some(judging),
            Err(error) => self.give_up_rules(&error.to_string()),
        }
    }

    fn end_of_look(&mut self) {
        let before_ns = children_use().cpu_ns();
        let Some(judging) = &mut self.rules.judging else { return };
        let status = match judging.child.try_wait() {
            Ok(None) => return,
            Ok(Some(status)) => status.code(),
            Err(_) => None,
        };
        let text = self.rules.judging.take().map(Judging::text).unwrap_or_default();
        let cost_ns = children_use().cpu_ns().saturating_sub(before_ns);
        let now_ns = coarse_ns();
        self.rules.pace.looked(now_ns, cost_ns);
        self.rules.looks += 1;
        match status {
            Some(0) => {
                self.rules.fired += 1;
                text.lines().for_each(|line| self.notice(&format!("tally: {line}")));
                self.sink.keep_draft();
                // Its window has just been written.
                self.rules.pace.next_ns = now_ns + self.rules.window_ns;
            }
            Some(1) => self.sink.remove_draft(),
            _ => self.give_up_rules(text.lines().next().unwrap_or("it was ended")),
        }
    }

    fn give_up_rules(&mut self, why: &str) {
        self.rules.judge = None;
        self.sink.remove_draft();
        self.notice(&format!("tally: rules of --trigger aren't looked at any more: {why}"));
    }

    /// Another file is due, or the last one: the look is for nothing.
    pub(super) fn abandon_look(&mut self) {
        if let Some(mut judging) = self.rules.judging.take() {
            let _ = judging.child.kill();
            let _ = judging.child.wait();
            self.sink.remove_draft();
        }
    }
}
