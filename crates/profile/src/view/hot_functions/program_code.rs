//! Which functions a reader wrote: those of the program, and not of libraries and runtimes. (What
//! [`crate::view::wall::own_code`] takes has all libraries but the C library.)

use crate::off_cpu::work_waits::java_method;
use crate::profile::Profile;
use crate::table::FrameId;
use crate::view::wall::name_of;

/// True for code of the program itself, judged by its places: `dso` is the path of the object file, `source` that
/// of the source file if known.
pub(crate) fn is_program_code(dso: &str, source: Option<&str>, name: &str) -> bool {
    /// Where packages of distributions and languages put sources and object files.
    const OTHERS: &[&str] = &[
        "/rustc/",
        "/.cargo/registry/",
        "/.cargo/git/",
        "/go/pkg/mod/",
        "/usr/local/go/src/",
        "/site-packages/",
        "/dist-packages/",
        "/lib/python",
        "/node_modules/",
        "node:internal/",
        "sysdeps/",
        "<frozen ",
    ];
    const SYSTEM: &[&str] =
        &["/usr/lib", "/lib/", "/lib64/", "/usr/include/", "/usr/share/", "/usr/local/lib"];
    const NAMES: &[&str] =
        &["std::", "core::", "alloc::", "__gnu_cxx::", "boost::", "runtime.", "void std::", "bool std::"];
    let is_others = |path: &str| {
        SYSTEM.iter().any(|begin| path.starts_with(begin)) || OTHERS.iter().any(|part| path.contains(part))
    };
    let is_library = is_others(dso) || source.is_some_and(is_others);
    let is_known = !dso.starts_with('[') || source.is_some();
    let plain = name.trim_start_matches(['<', '&']);
    is_known && !is_library && !name.starts_with('[') && !NAMES.iter().any(|begin| plain.starts_with(begin))
}

/// True for a function in a file of the program itself, not of a library.
pub(crate) fn is_own(profile: &Profile, frame: FrameId) -> bool {
    let dso = &profile.dsos.of(profile.frames.of(frame).dso).path;
    let file = profile.frame_names(frame).last().and_then(|inline| inline.file);
    let name = name_of(profile, frame).unwrap_or("");
    is_program_code(dso, file.map(|file| profile.strings.of(file)), name)
}

/// True for code that a runtime's compiler made of the program's own: by its name, for it is in no file.
pub(crate) fn is_script_code(name: &str) -> bool {
    const OF_NODE: [&str; 2] = [" node:", "/node_modules/"];
    const OF_JAVA: [&str; 7] = ["java.", "javax.", "jdk.", "sun.", "com.sun.", "kotlin.", "scala."];
    if dso::v8_function(name).is_some() {
        return !OF_NODE.iter().any(|part| name.contains(part));
    }
    java_method(name).is_some_and(|method| !OF_JAVA.iter().any(|begin| method.starts_with(begin)))
}

#[cfg(test)]
mod tests {
    use super::{is_program_code, is_script_code};

    #[test]
    fn code_of_scripts_is_known_by_its_name() {
        assert!(is_script_code("JS:^hash /srv/s.js:2:14") && is_script_code("long W.hot(int)"));
        assert!(
            !is_script_code("JS:^emit node:events:471:44")
                && !is_script_code("JS:*f /a/node_modules/b.js:1:2")
        );
        assert!(!is_script_code("void java.lang.Thread.run()") && !is_script_code("std::map<…>::find(int)"));
    }

    #[test]
    fn code_of_libraries_is_known_by_its_place_or_its_name() {
        let app = "/home/me/app";
        assert!(is_program_code(app, Some("/home/me/app.cpp"), "price"));
        assert!(is_program_code(app, None, "price") && is_program_code("/opt/lib/libown.so", None, "price"));
        assert!(!is_program_code(app, Some("/usr/include/c++/12/bits/stl_tree.h"), "find"));
        assert!(!is_program_code("/usr/lib/x86_64-linux-gnu/libc.so.6", Some("./string/memcmp.c"), "memcmp"));
        assert!(
            !is_program_code(app, None, "std::map<…>::find")
                && !is_program_code(app, None, "<core::str::Chars as core::iter::Iterator>::next")
        );
        assert!(!is_program_code(app, Some("/rustc/9fc6b4/library/core/src/iter.rs"), "next"));
        assert!(!is_program_code(
            "[python]",
            Some("/usr/lib/python3.11/json/decoder.py"),
            "decode (decoder.py)"
        ));
        assert!(
            !is_program_code("[JIT] tid 7", None, "JS:handler /srv/app.js:2:9")
                && !is_program_code(app, None, "[app]")
        );
    }
}
