//! Processes as a person names them: by number, by the name of a program, by a file with the number.

use std::path::Path;
use std::str::FromStr;

use record::named_processes;

/// The processes that one word of `-p` means, ascending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessArg(Vec<u32>);

impl ProcessArg {
    /// All processes of several words, in their order, each once.
    #[must_use]
    pub fn pids(words: &[Self]) -> Vec<u32> {
        let mut pids = Vec::new();
        for &pid in words.iter().flat_map(|word| &word.0) {
            if !pids.contains(&pid) {
                pids.push(pid);
            }
        }
        pids
    }
}

impl From<u32> for ProcessArg {
    fn from(pid: u32) -> Self {
        Self(vec![pid])
    }
}

impl FromStr for ProcessArg {
    type Err = String;

    /// `812`, `812 813` (as `pgrep` prints them), `nginx`, `app.py`, `/run/nginx.pid`.
    fn from_str(text: &str) -> Result<Self, String> {
        let numbers: Result<Vec<u32>, _> = text.split_whitespace().map(str::parse).collect();
        match numbers {
            Ok(numbers) if !numbers.is_empty() => return Ok(Self(numbers)),
            _ if text.trim().is_empty() => {
                return Err("no process: the list is empty (did pgrep find none?)".to_owned());
            }
            _ => {}
        }
        if text.contains('/') {
            return pid_in_file(Path::new(text)).map(Self::from);
        }
        match named_processes::find_by_name(text) {
            pids if pids.is_empty() => Err(format!("no process is called '{text}'; ps -e lists all")),
            pids => Ok(Self(pids)),
        }
    }
}

/// The first word of a pid file.
fn pid_in_file(path: &Path) -> Result<u32, String> {
    let text = dso::named_file::read_text(path).map_err(|error| error.to_string())?;
    let first = text.split_whitespace().next().and_then(|word| word.parse().ok());
    first.ok_or_else(|| "the file does not begin with a process's number".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_names_and_pid_files_are_processes() {
        let parse = |text: &str| text.parse::<ProcessArg>();
        assert_eq!(parse("812").map(|p| p.0), Ok(vec![812]));
        assert_eq!(parse("812\n813\n").map(|p| p.0), Ok(vec![812, 813]));
        assert!(parse("no-such-program-runs").expect_err("none").contains("no process is called"));
        assert!(parse(" ").is_err() && parse("/nowhere/x.pid").is_err() && parse("/etc/passwd").is_err());
        let words = [ProcessArg(vec![2, 1]), ProcessArg(vec![1, 3])];
        assert_eq!(ProcessArg::pids(&words), [2, 1, 3]);
    }

    #[test]
    fn a_pid_file_is_read_whatever_follows_the_number() {
        let folder = record::scratch::ScratchFolder::private("pid-file").expect("a folder of our own");
        let file = folder.path().join("postmaster.pid");
        std::fs::write(&file, "4711\n/var/lib/postgresql\n").expect("ours");
        assert_eq!(pid_in_file(&file), Ok(4711));
    }
}
