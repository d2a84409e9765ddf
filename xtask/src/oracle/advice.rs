//! `advice`: checks that every command on a screen of `tally run`, and of `tally why` after it, works on the recording
//! it was printed for, and that its remedies for missing names do.
//!
//! A command that fails, or that prints nothing and writes no file, is worse than none, because its user gives up.

mod remedies;
mod subjects;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use self::subjects::{SUBJECTS, Subject};
use super::Pair;
use crate::parallel;
use crate::process::Finished;
use crate::repo::Repo;
use crate::score::{self, Score, skip};

/// Minimum length of a useful output.
const LEAST_BYTES: usize = 40;

/// Time for all subjects; on a busy machine the last ones are skipped.
const BUDGET: Duration = Duration::from_secs(240);

/// Runs each subject, then each command of its screen.
pub fn compare(pair: &Pair) -> Result<Score> {
    let begin = Instant::now();
    let scores = parallel::map(SUBJECTS, |subject| {
        let what = format!("advice for {}", subject.name);
        match subject.missing() {
            Some(program) => skip(&what, &format!("no {program} on this machine")),
            None if begin.elapsed() > BUDGET => skip(&what, "no time is left on this busy machine"),
            None => of_one(pair, subject).unwrap_or_else(|error| {
                score::fault(&format!("{what}: {error:#}"));
                Score::FAIL
            }),
        }
    });
    let mut score = Score::default();
    scores.into_iter().for_each(|part| score += part);
    println!("advice: {score}");
    Ok(score)
}

fn of_one(pair: &Pair, subject: &Subject) -> Result<Score> {
    let letters = |name: &str| name.chars().filter(char::is_ascii_alphanumeric).collect::<String>();
    let folder = pair.dir.join("advice").join(letters(subject.name));
    subject.make_folder(&folder)?;
    let shell = Shell { pair, folder: &folder, subject };
    let prepared = shell.run(if subject.before.is_empty() { "true" } else { subject.before })?;
    if !prepared.ok() {
        return Ok(skip(&format!("advice for {}", subject.name), &prepared.tail(1)));
    }
    let ran = shell.run(&format!("tally run -- {} >/dev/null", subject.line))?;
    let evidence = shell.run("tally why")?;
    let screen = format!("{}\n{}", String::from_utf8_lossy(&ran.stderr), evidence.text());
    let commands = commands(&screen);
    let mut score = Score::of(!commands.is_empty());
    if commands.is_empty() {
        shell.fault(&format!("the screen names no command\n{}", ran.tail(5)));
    }
    // Those that record take the recording's place, so they come after those that read it. Those that read another
    // file read what one of them has recorded.
    let mut commands: Vec<String> = commands.into_iter().collect();
    commands.sort_by_key(|command| (command.contains(" -i "), command.contains(" -- ")));
    for command in commands {
        score += shell.try_command(&command)?;
    }
    score += remedies::compare(&shell)?;
    Ok(score)
}

/// The shell of a subject's user, in the folder of the recording.
struct Shell<'a> {
    pair: &'a Pair,
    folder: &'a Path,
    subject: &'a Subject,
}

impl Shell<'_> {
    fn run(&self, line: &str) -> Result<Finished> {
        let bin = self.pair.tally.parent().context("tally is in a folder")?;
        let sources = Repo::here().root.join("tests/programs");
        let line = format!(
            "cd '{}' && PATH='{}':'{}':$PATH && export SOURCES='{}' && {line}",
            self.folder.display(),
            bin.display(),
            self.pair.programs.display(),
            sources.display()
        );
        self.pair.run(Path::new("sh"), &["-c", &line])
    }

    fn fault(&self, what: &str) {
        score::fault(&format!("advice for {}: {what}", self.subject.name));
    }

    /// Runs a printed command, which has to end well and to print or write something.
    fn try_command(&self, command: &str) -> Result<Score> {
        let (before, ran) = (bytes_in(self.folder)?, self.run(command)?);
        // A second run may have nothing to show (its files are in memory now). A message about that is fine.
        let printed = ran.stdout.len().max(ran.stderr.len());
        let helps = printed >= LEAST_BYTES || bytes_in(self.folder)? != before;
        if !ran.ok() || !helps {
            let why = if ran.ok() { "printed nothing".to_owned() } else { ran.how() };
            self.fault(&format!("`{command}`: {why}: {}", ran.tail(2)));
        }
        Ok(Score::of(ran.ok() && helps))
    }
}

/// All bytes of the folder's files, which show whether a command wrote something.
fn bytes_in(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes)
}

/// The commands in a screen, each once, without the text next to them. Commands that would record the whole machine or
/// wait for a user to end them are left out.
fn commands(screen: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in screen.match_indices("tally ") {
        // The second of two commands is tried with the first.
        if screen[..at].ends_with("&& ") {
            continue;
        }
        let command = command_at(screen[at..].lines().next().unwrap_or_default());
        let Some((_, words)) = command.split_once(' ') else { continue };
        let (name, rest) = words.split_once(' ').unwrap_or((words, ""));
        let records = ["run", "record"].contains(&name);
        let is_prose = ["itself", "set"].contains(&name);
        let is_ours =
            !is_prose && !["top", "doctor"].contains(&name) && name.chars().all(|c| c.is_ascii_lowercase());
        if is_ours && !name.is_empty() && (!records || rest.contains(" -- ")) {
            found.insert(command.to_owned());
        }
    }
    found
}

/// The command that the line begins with. It ends where text goes on, but not within quotes.
fn command_at(line: &str) -> &str {
    let ends = ["  ", " (", ": ", ")", "`", ", ", " …"];
    let mut is_quoted = false;
    for (at, character) in line.char_indices() {
        is_quoted ^= character == '\'';
        if !is_quoted && ends.iter().any(|end| line[at..].starts_with(end)) {
            return line[..at].trim();
        }
    }
    line.trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_does_not_end_within_quotes() {
        assert_eq!(command_at("tally run -- node -p 'f(a, b)': more"), "tally run -- node -p 'f(a, b)'");
    }

    #[test]
    fn commands_are_found_in_notes_lists_and_brackets() {
        let screen = "files perf.data (1 kB; browse: tally report)\n  no graph (tally flame -o out.svg)\n\
                      next: tally locks\n then tally report -i faults.data: which code waits\n\
                      tally record -o a.data -- true && tally report -i a.data\n\
                      what ran was not recorded: tally run -a does; most for tally itself (more)\n";
        let found: Vec<String> = commands(screen).into_iter().collect();
        assert_eq!(
            found,
            [
                "tally flame -o out.svg",
                "tally locks",
                "tally record -o a.data -- true && tally report -i a.data",
                "tally report",
                "tally report -i faults.data"
            ]
        );
    }
}
