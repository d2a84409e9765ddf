//! `advice`: checks that every command on a screen of `tally run`, and of `tally why` after it, works on the recording
//! it was printed for.
//!
//! A command that fails, or that prints nothing and writes no file, is worse than none, because its user gives up.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};

use super::Pair;
use crate::process::{self, Finished};
use crate::score::{self, Score, skip};

/// Subjects: test programs by their name, others by a shell line that begins with one.
const SUBJECTS: &[&str] = &[
    "split 1",
    "convoy 4 200",
    "pool",
    "words 10000",
    "disk",
    "git --version",
    "gzip -kc /usr/lib/x86_64-linux-gnu/libc.so.6",
    "sqlite3 :memory: 'with recursive c(x) as (select 1 union all select x+1 from c where x<300000) select sum(x) from c'",
    "python3 -c 'print(sum(i*i%7 for i in range(2000000)))'",
    "node -p '[...Array(3e6).keys()].reduce((a,b)=>a+b%7)'",
];

/// Minimum length of a useful output.
const LEAST_BYTES: usize = 40;

/// Runs each subject, then each command of its screen.
pub fn compare(pair: &Pair) -> Result<Score> {
    let mut score = Score::default();
    for line in SUBJECTS {
        let (program, args) = line.split_once(' ').unwrap_or((line, ""));
        let built = pair.programs.join(program);
        let program = match (built.is_file(), process::find(program)) {
            (true, _) => built.to_string_lossy().into_owned(),
            (false, Some(_)) => program.to_owned(),
            (false, None) => {
                score += skip(&format!("advice for {program}"), "it is not on this machine");
                continue;
            }
        };
        score += of_one(pair, &format!("{program} {args}"))?;
    }
    println!("advice: {score}");
    Ok(score)
}

fn of_one(pair: &Pair, line: &str) -> Result<Score> {
    let folder = pair.dir.join("advice");
    std::fs::remove_dir_all(&folder).ok();
    std::fs::create_dir_all(&folder)?;
    let ran = in_shell(pair, &folder, &format!("tally run -- {line} >/dev/null"))?;
    let evidence = in_shell(pair, &folder, "tally why")?;
    let screen = format!("{}\n{}", String::from_utf8_lossy(&ran.stderr), evidence.text());
    let commands = commands(&screen);
    let mut score = Score::of(!commands.is_empty());
    if commands.is_empty() {
        score::fault(&format!("advice for {line}: the screen names no command\n{}", ran.tail(5)));
    }
    // Those that record take the recording's place, so they come after those that read it. Those that read another
    // file read what one of them has recorded.
    let mut commands: Vec<String> = commands.into_iter().collect();
    commands.sort_by_key(|command| (command.contains(" -i "), command.contains(" -- ")));
    for command in commands {
        let (before, ran) = (bytes_in(&folder)?, in_shell(pair, &folder, &command)?);
        // A second run may have nothing to show (its files are in memory now). A message about that is fine.
        let printed = ran.stdout.len().max(ran.stderr.len());
        let helps = printed >= LEAST_BYTES || bytes_in(&folder)? != before;
        if !ran.ok() || !helps {
            let why = if ran.ok() { "printed nothing".to_owned() } else { ran.how() };
            score::fault(&format!("advice for {line}: `{command}`: {why}: {}", ran.tail(2)));
        }
        score += Score::of(ran.ok() && helps);
    }
    Ok(score)
}

/// Runs a line as a user would type it in the folder of the recording.
fn in_shell(pair: &Pair, folder: &Path, line: &str) -> Result<Finished> {
    let bin = pair.tally.parent().context("tally is in a folder")?;
    let line = format!("cd '{}' && PATH='{}':$PATH && {line}", folder.display(), bin.display());
    pair.run(Path::new("sh"), &["-c", &line])
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
        let command = command_at(screen[at..].lines().next().unwrap_or_default());
        let Some((_, words)) = command.split_once(' ') else { continue };
        let (name, rest) = words.split_once(' ').unwrap_or((words, ""));
        let records = ["run", "record"].contains(&name);
        let is_ours = !["top", "doctor"].contains(&name) && name.chars().all(|c| c.is_ascii_lowercase());
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
                      what ran was not recorded: tally run -a does; most for tally (itself)\n";
        let found: Vec<String> = commands(screen).into_iter().collect();
        assert_eq!(
            found,
            ["tally flame -o out.svg", "tally locks", "tally report", "tally report -i faults.data"]
        );
    }
}
