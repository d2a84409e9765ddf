//! Rules about who opens files.

use crate::repo::File;

/// Files of product code that open files for reading by themselves, each with its reason. All others go through a room:
/// `dso::untrusted_file` for what another party can name or write, `dso::system_file` for fixed places of the system,
/// `dso::named_file` for what the user named.
const OPENERS: &[(&str, &str)] = &[
    ("crates/dso/src/untrusted_file.rs", "the room"),
    ("crates/dso/src/system_file.rs", "the room"),
    ("crates/dso/src/named_file.rs", "the room"),
    ("crates/dso/src/private_folder.rs", "a folder, opened as a place only"),
    ("crates/record/src/control.rs", "pipes that the user named, for reading and writing"),
    ("crates/record/src/output_file.rs", "a recording that we make, for reading and writing"),
    ("crates/record/src/scratch.rs", "a nameless file of our own, for reading and writing"),
    ("crates/record/src/sys/fifo.rs", "a pipe of our own, for reading and writing"),
    ("crates/record/src/sys/mem.rs", "a folder of our own"),
];

/// Files that read what the user named on the command line, each with the flag.
const NAMED: &[(&str, &str)] = &[
    ("crates/dso/src/kallsyms.rs", "--kallsyms"),
    ("crates/cli/src/name_args.rs", "--vmlinux, --kallsyms"),
    ("crates/cli/src/calls/pattern.rs", "calls -P @FILE"),
];

/// Ways to open a file for reading; nothing of a name may stand before them, as in `ObjectFile::open`.
const OPENS: &[&str] = &["File::open(", "fs::read(", "fs::read_to_string(", ".read(true)"];

fn is_product(file: &File) -> bool {
    let path = &file.path;
    // The recorder inside other programs has system calls of its own.
    let is_ours =
        path.starts_with("crates/") && path.contains("/src/") && !path.starts_with("crates/tracer/");
    is_ours && file.is_rust() && !path.contains("/tests") && !path.ends_with("_test.rs")
}

fn has(line: &str, words: &[&str]) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    words.iter().any(|word| {
        let mut starts = code.match_indices(word).map(|(at, _)| at);
        starts.any(|at| {
            word.starts_with('.') || !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_')
        })
    })
}

fn lines_outside(files: &[File], rooms: &[(&str, &str)], words: &[&str]) -> Vec<String> {
    let outside =
        files.iter().filter(|file| is_product(file) && !rooms.iter().any(|(path, _)| *path == file.path));
    outside
        .flat_map(|file| {
            let lines = file.product().lines().enumerate().filter(|(_, line)| has(line, words));
            lines
                .map(|(index, line)| format!("{}:{}: {}", file.path, index + 1, line.trim()))
                .collect::<Vec<_>>()
        })
        .collect()
}

/// No opening of files elsewhere, and no room on the list that is gone.
pub fn files_are_opened_in_named_rooms(files: &[File]) -> Vec<String> {
    let mut faults = lines_outside(files, OPENERS, OPENS);
    faults.extend(lines_outside(files, NAMED, &["named_file::"]));
    let opens = |path: &str, words: &[&str]| {
        files.iter().any(|file| file.path == path && file.product().lines().any(|line| has(line, words)))
    };
    let stale = OPENERS.iter().filter(|(path, _)| !opens(path, OPENS));
    let stale = stale.chain(NAMED.iter().filter(|(path, _)| !opens(path, &["named_file::"])));
    faults.extend(stale.map(|(path, _)| format!("{path} opens no file and need not be listed")));
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opening_is_found_in_product_code_of_files_not_listed() {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let faults = |path, text| lines_outside(&[file(path, text)], OPENERS, OPENS).len();
        let text = "let a = File::open(p)?;\nlet b = std::fs::read(p)?;\nlet c = ObjectFile::open(p)?; // File::open(\n";
        assert_eq!(faults("crates/cli/src/a.rs", text), 2);
        assert_eq!(faults("crates/dso/src/named_file.rs", text), 0);
        assert_eq!(faults("crates/cli/src/a/tests.rs", text), 0);
        assert_eq!(faults("crates/cli/src/a.rs", &format!("#[cfg(test)]\nmod tests {{\n{text}")), 0);
    }
}
