//! Rules about the modules that open and create files.

use crate::repo::File;

/// Files of product code that open files for reading themselves, each with its reason. All others use
/// `dso::untrusted_file` for files that another party can name or write, `dso::system_file` for fixed places of the
/// system, `dso::named_file` for files that the user named.
const OPENERS: &[(&str, &str)] = &[
    ("crates/dso/src/files/untrusted_file.rs", "the designated module"),
    ("crates/dso/src/files/system_file.rs", "the designated module"),
    ("crates/dso/src/files/named_file.rs", "the designated module"),
    ("crates/dso/src/files/private_folder.rs", "a folder, opened as a place only"),
    ("crates/record/src/session/control.rs", "pipes that the user named, for reading and writing"),
    ("crates/record/src/files/output_file.rs", "a recording of our own, for reading and writing"),
    ("crates/record/src/files/scratch.rs", "an unnamed file of our own, for reading and writing"),
    ("crates/record/src/sys/fifo.rs", "a pipe of our own, for reading and writing"),
    ("crates/record/src/sys/mem.rs", "a folder of our own"),
];

/// Files of product code that create or write files and folders themselves, each with its reason. All others use
/// `record::output_file` for files that the user keeps, `record::scratch` for files removed at the end,
/// `calls::own_folder` for folders of calls, `dso::system_file` for settings of the kernel.
const CREATORS: &[(&str, &str)] = &[
    ("crates/record/src/files/output_file.rs", "the designated module"),
    ("crates/record/src/files/scratch.rs", "the designated module"),
    ("crates/cli/src/calls/own_folder.rs", "the designated module"),
    ("crates/dso/src/files/system_file.rs", "the designated module; nothing is created"),
    ("crates/dso/src/files/private_folder.rs", "a folder of this user's that others can't enter"),
    ("crates/dso/src/symtab/index.rs", "files in such a folder"),
    ("crates/record/src/files/build_id_cache.rs", "~/.debug, unless it is another user's"),
    ("crates/record/src/calls/ftrace/place.rs", "an instance of tracefs, always a new one"),
    ("crates/record/src/runtimes/hotspot/attach.rs", "an empty file in a JVM's folder, always a new one"),
    ("crates/record/src/session/control.rs", "pipes that the user named; nothing is created"),
    ("crates/record/src/sys/fifo.rs", "a pipe in a folder of our own"),
    ("crates/cli/src/calls/preloaded_tracer.rs", "a library that all may read, always a new file"),
    (
        "crates/calls/src/recording/tail_reader.rs",
        "space given back in a file of our own; nothing is created",
    ),
];

/// Files that read a file named on the command line, each with the flag.
const NAMED: &[(&str, &str)] = &[
    ("crates/record/src/runtimes/command_variable.rs", "the command"),
    ("crates/dso/src/kernel/kallsyms.rs", "--kallsyms"),
    ("crates/cli/src/flags/recording/process_arg.rs", "-p FILE"),
    ("crates/cli/src/flags/name_args.rs", "--vmlinux, --kallsyms"),
    ("crates/calls/src/selection/pattern.rs", "calls -P @FILE"),
];

/// Ways to open a file for reading. A name directly before them doesn't count, as in `ObjectFile::open`.
const OPENS: &[&str] = &["File::open(", "fs::read(", "fs::read_to_string(", ".read(true)"];

/// Ways to create a file, a folder or a link, or to open a file for writing.
const CREATES: &[&str] = &[
    "File::create(",
    "File::create_new(",
    "fs::write(",
    "fs::copy(",
    "fs::hard_link(",
    "symlink(",
    "create_dir(",
    "create_dir_all(",
    "DirBuilder::new(",
    "mkfifo(",
    ".create(true)",
    ".create_new(true)",
    ".write(true)",
    ".append(true)",
];

fn is_product(file: &File) -> bool {
    let path = &file.path;
    // The recorder inside other programs has its own system calls.
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

/// Listed files that contain none of `words`.
fn stale_rooms<'r>(files: &[File], rooms: &'r [(&str, &str)], words: &[&str]) -> Vec<&'r str> {
    let has_words = |path: &str| {
        files.iter().any(|file| file.path == path && file.product().lines().any(|line| has(line, words)))
    };
    rooms.iter().map(|(path, _)| *path).filter(|path| !has_words(path)).collect()
}

/// Files are opened only in listed files, and every listed file opens some.
pub fn files_are_opened_in_named_rooms(files: &[File]) -> Vec<String> {
    const BY_NAME: &[&str] = &["named_file::"];
    let mut faults = lines_outside(files, OPENERS, OPENS);
    faults.extend(lines_outside(files, NAMED, BY_NAME));
    let stale = [stale_rooms(files, OPENERS, OPENS), stale_rooms(files, NAMED, BY_NAME)].concat();
    faults.extend(stale.iter().map(|path| format!("{path} opens no file and need not be listed")));
    faults
}

/// Files are created and written only in listed files, and every listed file does so.
pub fn files_are_created_in_named_rooms(files: &[File]) -> Vec<String> {
    let mut faults = lines_outside(files, CREATORS, CREATES);
    let stale = stale_rooms(files, CREATORS, CREATES);
    faults.extend(stale.iter().map(|path| format!("{path} creates no file and need not be listed")));
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
        assert_eq!(faults("crates/dso/src/files/named_file.rs", text), 0);
        assert_eq!(faults("crates/cli/src/a/tests.rs", text), 0);
        let created = |path, text| lines_outside(&[file(path, text)], CREATORS, CREATES).len();
        let text = "std::fs::write(p, b)?;\nlet f = File::options().append(true);\nfs::rename(a, b)?; // fs::write(\n";
        assert_eq!(created("crates/cli/src/a.rs", text), 2);
        assert_eq!(created("crates/record/src/files/output_file.rs", text), 0);
        assert_eq!(created("crates/tracer/src/a.rs", text), 0);
        assert_eq!(faults("crates/cli/src/a.rs", &format!("#[cfg(test)]\nmod tests {{\n{text}")), 0);
    }
}
