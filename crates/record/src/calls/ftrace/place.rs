//! Where a tracer of the kernel runs: in an instance of ours, or at the top level, borrowed.
//!
//! `function_graph` has no instances before Linux 6.12 (kernel/trace/trace_functions_graph.c, `allow_instances`), and
//! no instance has a filter for functions with their callees (kernel/trace/ftrace.c, ftrace_init_dyn_tracefs). The
//! settings at the top level are saved to a file first. If this tally is killed, the next one restores them.

use std::fs;
use std::path::{Path, PathBuf};

use super::error::FtraceError;
use crate::files::output_file::write_part;
use crate::files::scratch;
use dso::system_file;

/// Prefix of the names of instances and notes. The process id follows, and random digits for instances.
const PREFIX: &str = "tally-calls-";
/// Suffix of a note's name.
const NOTE: &str = ".ftrace";
/// Notes of borrowed settings: gone at a restart, as the settings are.
const NOTES: &str = "/run";
/// The borrowed files, in the order in which they are restored.
const BORROWED: [&str; 8] = [
    "current_tracer",
    "set_graph_function",
    "max_graph_depth",
    "set_ftrace_pid",
    "options/function-fork",
    "trace_clock",
    "buffer_size_kb",
    "tracing_on",
];

/// A tracer's folder, to itself until dropped.
pub struct TracerPlace {
    dir: PathBuf,
    /// Files and what they held, at the top level.
    held: Vec<(&'static str, String)>,
    note: PathBuf,
}

impl TracerPlace {
    /// An instance of ours below the tracing folder `root`. It is always a new one: who made an instance of that name
    /// before us would read what we trace, and lose it when we are done.
    ///
    /// # Errors
    /// If it can't be made.
    pub fn instance(root: &Path) -> Result<Self, FtraceError> {
        let instances = root.join("instances");
        let name = scratch::random_name(&format!("{PREFIX}{}-", std::process::id()));
        let dir = instances.join(name.map_err(FtraceError::of_file(&instances))?);
        fs::create_dir(&dir).map_err(FtraceError::of_file(&dir))?;
        Ok(Self { dir, held: Vec::new(), note: PathBuf::new() })
    }

    /// The tracing folder `root` itself.
    ///
    /// # Errors
    /// If somebody traces there, or if the settings there can't be saved.
    pub fn top_level(root: &Path) -> Result<Self, FtraceError> {
        let read = |file: &str| {
            let path = root.join(file);
            system_file::read_text(&path).map_err(FtraceError::of_file(&path))
        };
        let tracer = read("current_tracer")?;
        if tracer.trim() != "nop" {
            return Err(FtraceError::Busy { tracer: tracer.trim().to_owned(), dir: root.to_owned() });
        }
        if !read("set_event")?.trim().is_empty() {
            return Err(FtraceError::EventsTraced(root.to_owned()));
        }
        // An option that this kernel lacks needs no putting back.
        let held = BORROWED.iter().filter_map(|file| Some((*file, to_write(&read(file).ok()?)?)));
        let held: Vec<_> = held.collect();
        let note = Path::new(NOTES).join(format!("{PREFIX}{}{NOTE}", std::process::id()));
        let lines: String = held.iter().map(|(file, text)| format!("{file}\t{text}\n")).collect();
        write_part(&note, lines).map_err(FtraceError::of_file(&note))?;
        Ok(Self { dir: root.to_owned(), held, note })
    }

    /// The folder with the tracer's files.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether it is the kernel's own, with the settings that instances lack.
    pub fn is_top_level(&self) -> bool {
        !self.held.is_empty()
    }

    /// Writes a file of the tracer.
    ///
    /// # Errors
    /// The kernel's error, with the file's name.
    pub fn write(&self, file: &str, text: &str) -> Result<(), FtraceError> {
        let path = self.dir.join(file);
        system_file::write(&path, text).map_err(FtraceError::of_file(&path))
    }
}

impl Drop for TracerPlace {
    fn drop(&mut self) {
        // Only the next tally can repair a failure here.
        let _ = self.write("tracing_on", "0");
        let _ = self.write("current_tracer", "nop");
        if !self.is_top_level() {
            let _ = fs::remove_dir(&self.dir);
            return;
        }
        // Nobody needs the rest of the trace.
        let _ = self.write("trace", "");
        for (file, text) in &self.held {
            let _ = self.write(file, text);
        }
        let _ = fs::remove_file(&self.note);
    }
}

/// Removes instances of tallies that are gone, and puts back what they borrowed.
pub fn remove_stale(root: &Path) {
    for (path, _) in of_the_gone(&root.join("instances"), "") {
        // Its tracer is stopped first: an instance in use can't be removed.
        let _ = system_file::write(path.join("current_tracer"), "nop");
        let _ = fs::remove_dir(path);
    }
    put_back(root, Path::new(NOTES));
}

/// Puts back what tallies that are gone borrowed at the top level, by their notes.
fn put_back(root: &Path, notes: &Path) {
    for (path, text) in of_the_gone(notes, NOTE) {
        let _ = system_file::write(root.join("tracing_on"), "0");
        for (file, held) in text.lines().filter_map(|line| line.split_once('\t')) {
            if BORROWED.contains(&file) {
                let _ = system_file::write(root.join(file), held);
            }
        }
        let _ = fs::remove_file(path);
    }
}

/// Files (with their text) and folders of tallies that are gone.
fn of_the_gone(dir: &Path, suffix: &str) -> Vec<(PathBuf, String)> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let gone = entries.filter(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let rest = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(suffix));
        let pid = rest.and_then(|rest| rest.split('-').next());
        pid.is_some_and(|pid| pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists())
    });
    gone.map(|entry| (entry.path(), system_file::read_text(entry.path()).unwrap_or_default())).collect()
}

/// Text to write to a file of the tracer so that it shows `shown` again; `None` if no text does that.
///
/// Source: linux v6.1 kernel/trace/trace.c (tracing_clock_show, tracing_entries_read), ftrace.c (fpid_show, g_show):
/// the clock in use is in brackets, `no pid` and `#### all` are empty lists, and a buffer that was never used shows
/// its later size in brackets.
fn to_write(shown: &str) -> Option<String> {
    let shown = shown.trim();
    if shown.starts_with("####") || shown == "no pid" {
        return Some(String::new());
    }
    if let Some((_, rest)) = shown.split_once("expanded: ") {
        return Some(rest.trim_end_matches(')').to_owned());
    }
    if let Some((_, rest)) = shown.split_once('[') {
        return Some(rest.split_once(']')?.0.to_owned());
    }
    // CPUs with buffers of different sizes.
    (shown != "X").then(|| shown.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_shows_of_a_setting_is_written_as_it_takes_it() {
        let cases = [
            ("nop\n", Some("nop")),
            ("[local] global counter mono boot\n", Some("local")),
            ("local global counter [mono] boot\n", Some("mono")),
            ("7 (expanded: 1408)\n", Some("1408")),
            ("1408\n", Some("1408")),
            ("X\n", None),
            ("no pid\n", Some("")),
            ("12\n345\n", Some("12 345")),
            ("#### all functions enabled ####\n", Some("")),
            ("vfs_read\nvfs_write\n", Some("vfs_read vfs_write")),
        ];
        for (shown, written) in cases {
            assert_eq!(to_write(shown).as_deref(), written, "{shown}");
        }
    }

    /// A folder of plain files in place of the kernel's.
    fn top(name: &str, tracer: &str, events: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("tally-top-{name}-{}", std::process::id()));
        let write = |file: &str, text: &str| fs::write(dir.join(file), text).expect("it is ours");
        fs::create_dir_all(dir.join("options")).expect("it is ours");
        write("current_tracer", tracer);
        write("set_event", events);
        write("trace_clock", "[local] mono\n");
        write("set_ftrace_pid", "no pid\n");
        write("tracing_on", "1\n");
        dir
    }

    #[test]
    fn the_top_level_is_put_back_as_it_stood() {
        let root = top("back", "nop\n", "");
        let Ok(place) = TracerPlace::top_level(&root) else {
            println!("skipped: no note can be left in {NOTES}");
            return;
        };
        let note = place.note.clone();
        assert!(note.is_file());
        place.write("trace_clock", "mono").expect("a file");
        place.write("set_ftrace_pid", "77").expect("a file");
        drop(place);
        let read = |file: &str| fs::read_to_string(root.join(file)).expect("it is there");
        assert_eq!((read("trace_clock"), read("set_ftrace_pid")), ("local".to_owned(), String::new()));
        assert_eq!((read("tracing_on"), read("current_tracer")), ("1".to_owned(), "nop".to_owned()));
        assert!(!note.exists());
        fs::remove_dir_all(root).expect("it is ours");
    }

    #[test]
    fn an_instance_is_always_a_new_one_and_is_removed_when_its_tally_is_gone() {
        let root = top("instances", "nop\n", "");
        fs::create_dir(root.join("instances")).expect("it is ours");
        let (one, other) =
            (TracerPlace::instance(&root).expect("new"), TracerPlace::instance(&root).expect("new"));
        assert_ne!(one.dir(), other.dir());
        // No process has so high a number; an earlier tally added no random digits.
        for gone in ["4194305", "4194305-00112233445566778899"] {
            fs::create_dir(root.join("instances").join(format!("{PREFIX}{gone}"))).expect("it is ours");
        }
        let left = of_the_gone(&root.join("instances"), "").len();
        remove_stale(&root);
        let kept = fs::read_dir(root.join("instances")).expect("it is ours").count();
        assert_eq!((left, kept), (2, 2));
        drop((one, other));
        assert_eq!(fs::read_dir(root.join("instances")).expect("it is ours").count(), 0);
        fs::remove_dir_all(root).expect("it is ours");
    }

    #[test]
    fn what_a_killed_tally_borrowed_is_put_back_by_the_next() {
        let root = top("killed", "function_graph\n", "");
        // No process has so high a number; the other note is a living one's.
        let gone = root.join(format!("{PREFIX}4194305{NOTE}"));
        let living = root.join(format!("{PREFIX}{}{NOTE}", std::process::id()));
        fs::write(&gone, "current_tracer\tnop\ntrace_clock\tlocal\n../outside\tno\ntracing_on\t1\n")
            .expect("ours");
        fs::write(&living, "trace_clock\tboot\n").expect("it is ours");
        put_back(&root, &root);
        let read = |file: &str| fs::read_to_string(root.join(file)).expect("it is there");
        assert_eq!((read("current_tracer"), read("trace_clock")), ("nop".to_owned(), "local".to_owned()));
        assert!(read("tracing_on") == "1" && !gone.exists() && living.exists());
        fs::remove_dir_all(root).expect("it is ours");
    }

    #[test]
    fn the_top_level_is_left_to_those_who_trace_there() {
        let why = |name, tracer, events| {
            let root = top(name, tracer, events);
            let why = TracerPlace::top_level(&root).err().expect("refused");
            fs::remove_dir_all(root).expect("it is ours");
            why.to_string()
        };
        assert!(why("tracer", "function\n", "").contains("the tracer function runs"));
        assert!(why("events", "nop\n", "sched:sched_switch\n").contains("events are traced"));
    }
}
