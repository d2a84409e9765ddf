//! Switches on what a runtime does for profilers, when tally starts the program itself: the names of compiled code, and
//! frame pointers in it.
//!
//! By a variable where the runtime has a silent one. `java` gets options in its command: a JVM reports its variables
//! on standard error. Build tools that start JVMs get the variable all the same.

use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// How a runtime is asked.
struct KnownRuntime {
    runtime: &'static str,
    /// Names of the programs that are it or start it.
    programs: &'static [&'static str],
    variable: &'static str,
    /// Goes after the user's own value.
    flags: &'static str,
    /// Part of the user's own value or command: the user has chosen.
    mark: &'static str,
}

/// Older JVMs end at an option they don't know, so the first one lets them pass.
const JAVA_FLAGS: &str = "-XX:+IgnoreUnrecognizedVMOptions -XX:+PreserveFramePointer \
                          -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit -XX:+DebugNonSafepoints";
const JAVA_MARKS: [&str; 2] = ["PreserveFramePointer", "DumpPerfMapAtExit"];
const JAVA_PROGRAM: &str = "java";
const PYTHON_VARIABLE: &str = "PYTHONPERFSUPPORT";

const RUNTIMES: [KnownRuntime; 5] = [
    KnownRuntime {
        runtime: "Node",
        programs: &["node", "nodejs", "npm", "npx", "yarn", "pnpm", "tsx"],
        variable: "NODE_OPTIONS",
        flags: "--perf-basic-prof --interpreted-frames-native-stack",
        mark: "--perf-",
    },
    KnownRuntime {
        runtime: "Java",
        // `java` itself is asked in its command, unless a shell starts it.
        programs: &[
            JAVA_PROGRAM,
            "mvn",
            "mvnw",
            "gradle",
            "gradlew",
            "ant",
            "sbt",
            "scala",
            "kotlin",
            "groovy",
            "clojure",
        ],
        variable: "JAVA_TOOL_OPTIONS",
        flags: JAVA_FLAGS,
        mark: JAVA_MARKS[0],
    },
    KnownRuntime {
        runtime: ".NET",
        programs: &["dotnet"],
        variable: "DOTNET_PerfMapEnabled",
        // The map alone. 1 writes a jitdump, too, which nobody removes.
        flags: "3",
        mark: "PerfMapEnabled",
    },
    KnownRuntime {
        runtime: "Mono",
        programs: &["mono", "mono-sgen"],
        variable: "MONO_ENV_OPTIONS",
        flags: "--jitmap",
        mark: "--jitmap",
    },
    KnownRuntime {
        runtime: "Erlang",
        programs: &["erl", "elixir", "iex", "mix", "rebar3"],
        variable: "ERL_FLAGS",
        flags: "+JPperf map",
        mark: "JPperf",
    },
];

/// Programs that run the command in their arguments.
const WRAPPERS: [&str; 14] = [
    "env", "nice", "timeout", "taskset", "ionice", "stdbuf", "setsid", "nohup", "chrt", "numactl", "unshare",
    "nsenter", "setpriv", "chroot",
];
/// Shells that take a text to run after `-c`.
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "ash", "zsh", "ksh"];
/// Programs that start others right after their own start, which may be Python's or Go's.
const LAUNCHERS: [&str; 10] =
    ["fish", "busybox", "make", "gmake", "ninja", "cargo", "sudo", "time", "xargs", "find"];
/// Arguments of a wrapper looked at.
const MOST_WRAPPED: usize = 8;

/// Variable that a command gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeSupport {
    /// The runtime, as a notice names it.
    pub runtime: &'static str,
    /// Variable that is set, or the option that is given, as a notice names it.
    pub means: &'static str,
    /// A variable's name and its value, with the user's own before ours.
    pub variable: Option<(&'static str, OsString)>,
    /// Options, and after which word of the command they go.
    arguments: Option<(usize, &'static str)>,
}

impl RuntimeSupport {
    /// The command with the options of the runtime.
    #[must_use]
    pub fn command(&self, command: &[OsString]) -> Vec<OsString> {
        let mut command = command.to_vec();
        if let Some((after, options)) = self.arguments {
            let at = (after + 1).min(command.len());
            command.splice(at..at, options.split_whitespace().map(OsString::from));
        }
        command
    }

    fn by_variable(runtime: &'static str, variable: &'static str, value: OsString) -> Self {
        Self { runtime, means: variable, variable: Some((variable, value)), arguments: None }
    }
}

/// Variable that makes this command name its code; `None` if it is no such program, or the user has chosen already.
/// `own` looks a variable up in our environment. `reads_python`: tally reads Python's functions itself.
#[must_use]
pub fn of_command(
    command: &[OsString],
    own: &dyn Fn(&str) -> Option<OsString>,
    reads_python: bool,
) -> Option<RuntimeSupport> {
    let (at, name) = program_of(command, own)?;
    let has = |mark: &str| command.iter().any(|word| word.to_string_lossy().contains(mark));
    let in_shell = shell_text(command).is_some();
    if name == JAVA_PROGRAM && !in_shell {
        let variables = ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"].map(own);
        let variables: Vec<_> = variables.iter().flatten().map(|value| value.to_string_lossy()).collect();
        let is_chosen =
            |mark: &&str| has(mark) || variables.iter().any(|value| value.contains(mark.to_owned()));
        let support = RuntimeSupport {
            runtime: "Java",
            means: "-XX:+PreserveFramePointer -XX:+DumpPerfMapAtExit -XX:+DebugNonSafepoints",
            variable: None,
            arguments: Some((at, JAVA_FLAGS)),
        };
        return (!JAVA_MARKS.iter().any(is_chosen)).then_some(support);
    }
    if let Some(known) = RUNTIMES.iter().find(|known| known.programs.contains(&name.as_str())) {
        let before = own(known.variable).unwrap_or_default();
        let replaces = known.flags.parse::<u32>().is_ok() && !before.is_empty();
        if replaces || has(known.mark) || before.to_string_lossy().contains(known.mark) {
            return None;
        }
        let value = [before.as_os_str(), OsStr::new(known.flags)].into_iter().filter(|part| !part.is_empty());
        let value = value.collect::<Vec<_>>().join(OsStr::new(" "));
        return Some(RuntimeSupport::by_variable(known.runtime, known.variable, value));
    }
    let minor = name.strip_prefix("python3.").and_then(|minor| minor.parse::<u32>().ok());
    let is_unset = !reads_python && own(PYTHON_VARIABLE).is_none() && minor.is_none_or(|minor| minor >= 12);
    (name.starts_with("python") && is_unset)
        .then(|| RuntimeSupport::by_variable("Python", PYTHON_VARIABLE, "1".into()))
}

/// True if the command is a Python interpreter, or a script of one.
#[must_use]
pub fn is_python(command: &[OsString], own: &dyn Fn(&str) -> Option<OsString>) -> bool {
    program_of(command, own).is_some_and(|(_, name)| name.starts_with("python"))
}

/// The program that runs: its word in the command and its name, past programs that run another one. For a script, the
/// name of its interpreter.
fn program_of(command: &[OsString], own: &dyn Fn(&str) -> Option<OsString>) -> Option<(usize, String)> {
    let first = file_name(command.first()?)?;
    if WRAPPERS.contains(&first.as_str()) {
        let names = command.iter().enumerate().take(MOST_WRAPPED).skip(1);
        let mut names = names.filter_map(|(at, word)| Some((at, file_name(word)?)));
        if let Some(found) = names.find(|(_, name)| is_known(name)) {
            return Some(found);
        }
    }
    if is_known(&first) {
        return Some((0, first));
    }
    if let Some(text) = shell_text(command) {
        return Some((0, named_in_shell_text(&text.to_string_lossy())?));
    }
    if WRAPPERS.contains(&first.as_str()) {
        return None;
    }
    // Options of a script's interpreter can't be given in the command.
    let interpreter = interpreter_of(command.first()?, own)?;
    (interpreter != JAVA_PROGRAM).then_some((0, interpreter))
}

/// The text of `sh -c TEXT`, also past a program that runs another one.
fn shell_text(command: &[OsString]) -> Option<&OsString> {
    let first = file_name(command.first()?)?;
    let most = if WRAPPERS.contains(&first.as_str()) { MOST_WRAPPED } else { 1 };
    let is_shell = |word| file_name(word).is_some_and(|name| SHELLS.contains(&name.as_str()));
    let mut shells = command.windows(3).take(most).filter(|words| is_shell(&words[0]) && words[1] == "-c");
    shells.next().map(|words| &words[2])
}

/// The first known program that a shell's text starts: `cd app && node a.js`.
fn named_in_shell_text(text: &str) -> Option<String> {
    let begins = text.split([';', '&', '|', '(', ')', '\n', '{']);
    let first_words = begins.filter_map(|part| {
        // Past assignments, and past programs that run the command in their arguments.
        let mut words = part.split_whitespace().skip_while(|word| word.contains('=') || *word == "exec");
        let name = |word: &str| word.rsplit('/').next().unwrap_or(word).to_owned();
        let first = name(words.next()?);
        if WRAPPERS.contains(&first.as_str()) {
            words.map(name).find(|name| is_known(name))
        } else {
            Some(first)
        }
    });
    first_words.filter(|name| !name.starts_with("python")).find(|name| is_known(name))
}

fn is_known(name: &str) -> bool {
    let is_listed = RUNTIMES.iter().any(|known| known.programs.contains(&name));
    is_listed || name.starts_with("python")
}

fn file_name(word: &OsString) -> Option<String> {
    Some(Path::new(word).file_name()?.to_string_lossy().into_owned())
}

/// The interpreter in a script's first line, past `env`.
fn interpreter_of(program: &OsString, own: &dyn Fn(&str) -> Option<OsString>) -> Option<String> {
    let line = beginning_of(program, own)?;
    let line = line.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_whitespace().filter(|word| !word.starts_with('-'));
    let name_of = |word: &str| word.rsplit('/').next().unwrap_or(word).to_owned();
    let name = name_of(words.next()?);
    if name == "env" { words.next().map(name_of) } else { Some(name) }
}

/// The program's file, as a shell finds it.
#[must_use]
pub fn program_file(program: &OsString, own: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let path = Path::new(program);
    let is_path = path.components().count() > 1;
    let folders: Vec<PathBuf> =
        if is_path { Vec::new() } else { std::env::split_paths(&own("PATH")?).collect() };
    let candidates = if is_path { vec![path.to_path_buf()] } else { folders };
    let candidates = candidates.into_iter().map(|at| if is_path { at } else { at.join(path) });
    candidates.into_iter().find(|path| path.is_file())
}

/// The first bytes of the program's file: as many as the kernel reads of a script.
fn beginning_of(program: &OsString, own: &dyn Fn(&str) -> Option<OsString>) -> Option<Vec<u8>> {
    const LINE_BYTES: u64 = 256;
    let file = program_file(program, own)?;
    let mut bytes = Vec::new();
    dso::named_file::open(&file).ok()?.take(LINE_BYTES).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// True if the command is a compiled program, and neither a known runtime nor a program that runs another one.
#[must_use]
pub fn is_binary(command: &[OsString], own: &dyn Fn(&str) -> Option<OsString>) -> bool {
    let Some(name) = command.first().and_then(file_name) else { return false };
    let is_elf = || beginning_of(&command[0], own).is_some_and(|bytes| bytes.starts_with(b"\x7fELF"));
    let starts_others = [&WRAPPERS[..], &SHELLS, &LAUNCHERS].concat().contains(&name.as_str());
    !is_known(&name) && !starts_others && is_elf()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::ScratchFolder;

    fn words(command: &[&str]) -> Vec<OsString> {
        command.iter().map(OsString::from).collect()
    }

    fn support(command: &[&str], own: Option<&str>, reads_python: bool) -> Option<RuntimeSupport> {
        of_command(&words(command), &|_| own.map(OsString::from), reads_python)
    }

    fn value(command: &[&str], own: Option<&str>, reads_python: bool) -> Option<String> {
        let (name, value) = support(command, own, reads_python)?.variable?;
        Some(format!("{name}={}", value.to_string_lossy()))
    }

    fn options(command: &[&str], own: Option<&str>) -> Option<String> {
        let support = support(command, own, true)?;
        Some(support.command(&words(command)).join(OsStr::new(" ")).to_string_lossy().into_owned())
    }

    const NODE: &str = "NODE_OPTIONS=--perf-basic-prof --interpreted-frames-native-stack";

    #[test]
    fn the_users_own_variables_stay() {
        assert_eq!(value(&["/usr/bin/node", "a.js"], None, true).as_deref(), Some(NODE));
        let added =
            "NODE_OPTIONS=--max-old-space-size=99 --perf-basic-prof --interpreted-frames-native-stack";
        assert_eq!(value(&["npm", "start"], Some("--max-old-space-size=99"), true).as_deref(), Some(added));
        assert_eq!(value(&["node", "a.js"], Some("--perf-prof"), true), None);
        assert_eq!(value(&["node", "--perf-basic-prof", "a.js"], None, true), None);
        assert_eq!(value(&["dotnet", "a.dll"], None, true).as_deref(), Some("DOTNET_PerfMapEnabled=3"));
        assert_eq!(value(&["dotnet", "a.dll"], Some("0"), true), None);
    }

    #[test]
    fn a_shells_text_is_searched_for_known_programs() {
        assert_eq!(value(&["sh", "-c", "cd app && exec node a.js"], None, true).as_deref(), Some(NODE));
        assert_eq!(
            value(&["bash", "-c", "X=1 timeout 9 /opt/bin/node a.js | tail"], None, true).as_deref(),
            Some(NODE)
        );
        let java = value(&["sh", "-c", "javac A.java; java A"], None, true);
        assert_eq!(java, Some(format!("JAVA_TOOL_OPTIONS={JAVA_FLAGS}")));
        assert_eq!(value(&["sh", "-c", "java -XX:+PreserveFramePointer A"], None, true), None);
        assert_eq!(value(&["sh", "-c", "echo node; ls java"], None, true), None);
        assert_eq!(value(&["sh", "a.sh"], None, true), None);
        let java =
            value(&["unshare", "-mp", "--fork", "sh", "-c", "mount -t tmpfs none /tmp; java A"], None, true);
        assert_eq!(java, Some(format!("JAVA_TOOL_OPTIONS={JAVA_FLAGS}")));
        assert_eq!(value(&["unshare", "-mp", "sh", "-c", "ls java"], None, true), None);
    }

    #[test]
    fn java_gets_options_before_the_users() {
        let expected = format!("java {JAVA_FLAGS} -jar a.jar");
        assert_eq!(options(&["java", "-jar", "a.jar"], None), Some(expected.clone()));
        assert_eq!(
            options(&["nice", "-n", "5", "java", "-jar", "a.jar"], None),
            Some(format!("nice -n 5 {expected}"))
        );
        assert_eq!(support(&["java", "-XX:-PreserveFramePointer", "A"], None, true), None);
        assert_eq!(support(&["java", "A"], Some("-XX:+DumpPerfMapAtExit"), true), None);
        let variable = format!("JAVA_TOOL_OPTIONS=-Xmx1g {JAVA_FLAGS}");
        assert_eq!(value(&["mvn", "test"], Some("-Xmx1g"), true), Some(variable));
    }

    #[test]
    fn python_is_asked_only_where_it_is_not_read() {
        assert_eq!(value(&["python3.12", "a.py"], None, false), Some("PYTHONPERFSUPPORT=1".to_owned()));
        assert_eq!(value(&["python3.12", "a.py"], None, true), None);
        assert_eq!(value(&["python3.11", "a.py"], None, false), None);
        assert_eq!(value(&["python3.12", "a.py"], Some("0"), false), None);
    }

    #[test]
    fn a_script_is_run_by_the_program_in_its_first_line() {
        let folder = ScratchFolder::private("shebang").expect("a folder");
        let script = folder.path().join("tool");
        std::fs::write(&script, "#!/usr/bin/env -S node --no-warnings\n").expect("a script");
        let script = script.to_str().expect("plain");
        assert_eq!(value(&[script], None, true).as_deref(), Some(NODE));
        let own = |name: &str| (name == "PATH").then(|| folder.path().as_os_str().to_owned());
        assert!(of_command(&words(&["tool"]), &own, true).is_some());
        assert_eq!(of_command(&words(&["absent"]), &own, true), None);
        assert_eq!(value(&["env", "A=1", "node", "a.js"], None, true).as_deref(), Some(NODE));
        assert_eq!(support(&["sort", "node"], None, true), None);
    }
}
