//! The programs that a recording is about.

use crate::grow::Grow as _;
use crate::profile::Profile;
use crate::view::ranking::RankRows as _;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// Options of running processes and threads.
const ATTACHED: [&str; 4] = ["-p", "--pid", "-t", "--tid"];

/// The recorded command. Where it only set the time, after the programs that were recorded: `postgres (sleep 5)`,
/// `whole machine (sleep 5)`. `words` are those of the recorder's own command line.
#[must_use]
pub fn subject(profile: &Profile, command: String, words: &[String]) -> String {
    if profile.has_all_processes() {
        return format!("whole machine ({command})");
    }
    let mut own = words.iter().take_while(|word| *word != "--");
    let is_attached = own.any(|word| ATTACHED.contains(&word.split('=').next().unwrap_or_default()));
    let programs = if is_attached { programs(profile) } else { Vec::new() };
    match programs.as_slice() {
        [] => command,
        // Attached to processes without a command, their names are the command.
        [first] if command.starts_with(&format!("{first} (")) && command.contains("), ") => {
            let (names, meanwhile) = command.split_at(command.find(" while ").unwrap_or(command.len()));
            format!("{first}, {} processes{meanwhile}", names.split("), ").count())
        }
        [first] => format!("{first} ({command})"),
        [first, second] => format!("{first}, {second} ({command})"),
        [first, second, others @ ..] => format!("{first}, {second}, {} more ({command})", others.len()),
    }
}

/// Names of the recorded processes, those with most samples and waits first.
fn programs(profile: &Profile) -> Vec<String> {
    let name = |task| {
        let of = profile.task(task);
        profile.last_comms.get(&of.pid).copied().unwrap_or_else(|| profile.last_comm(task))
    };
    let mut counts: FxHashMap<&str, u64> = FxHashMap::default();
    for (key, sums) in profile.cells() {
        counts.entry(profile.strings.of(name(key.task))).or_default().grow(sums.count);
    }
    let mut counts: Vec<(&str, u64)> = counts.into_iter().collect();
    counts.rank_by_key(|&(name, count)| (Reverse(count), name));
    counts.into_iter().map(|(name, _)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{CellKey, ExtraId, Sums, Task};
    use crate::table::CallsiteId;

    fn of(names: &[(&str, u64)], words: &str) -> String {
        of_command(names, "sleep 5", words)
    }

    fn of_command(names: &[(&str, u64)], command: &str, words: &str) -> String {
        let mut profile = Profile::default();
        for (at, &(name, count)) in names.iter().enumerate() {
            let pid = at as i32 + 10;
            let comm = profile.strings.intern(name);
            let task = profile.intern_task(Task { process: at as u32, pid, tid: pid + 100, comm });
            let (callsite, extra) = (CallsiteId::from_index(0), ExtraId(0));
            let key = CellKey { event: 0, task, cpu: -1, callsite, extra };
            profile.add(key, Sums { count, ..Sums::default() });
        }
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        subject(&profile, command.to_owned(), &words)
    }

    #[test]
    fn a_command_that_only_sets_the_time_comes_after_the_recorded_programs() {
        let names = [("bash", 3), ("postgres", 7), ("postgres", 7), ("pgbench", 10)];
        let attached = of(&names, "tally record -p 10,11 -- sleep 5");
        assert_eq!(attached, "postgres, pgbench, 1 more (sleep 5)");
        assert_eq!(of(&names[1..3], "tally record --pid=10 -- sleep 5"), "postgres (sleep 5)");
    }

    #[test]
    fn processes_of_one_program_are_counted_where_their_names_are_the_command() {
        let names = [("postgres", 3), ("postgres", 7)];
        let of = |command| of_command(&names, command, "tally run -p postgres");
        assert_eq!(of("postgres (10), postgres (11)"), "postgres, 2 processes");
        assert_eq!(of("postgres (10)"), "postgres (postgres (10))");
        let meanwhile = of("postgres (10), postgres (11) while sh -c 'a), b' ran");
        assert_eq!(meanwhile, "postgres, 2 processes while sh -c 'a), b' ran");
    }

    #[test]
    fn a_recorded_command_is_the_title_whatever_its_own_options() {
        assert_eq!(of(&[("sleep", 1)], "tally record -- sleep 5 -p"), "sleep 5");
    }
}
