//! Compilers of test programs: how each is called here, its options, and why it failed.

use std::process::Command;
use std::sync::OnceLock;

/// clang's sleds, which only clang makes.
pub const XRAY: &[&str] = &["-fxray-instrument", "-fxray-instruction-threshold=1"];

/// The compiler for C, or C++, of clang: the machine's own, or the version that Debian 12 has next to another one.
pub fn clang(is_cpp: bool) -> &'static str {
    static PLAIN: OnceLock<bool> = OnceLock::new();
    let is_plain = *PLAIN.get_or_init(|| Command::new("clang").arg("--version").output().is_ok());
    match (is_plain, is_cpp) {
        (true, false) => "clang",
        (true, true) => "clang++",
        (false, false) => "clang-14",
        (false, true) => "clang++-14",
    }
}

/// Flags that every test program gets. gcc's attribute `noipa` is unknown to clang, which has no equal of it: there
/// `noinline` separates functions, and those that count are not static, so that their signatures stay as they are.
pub fn dialect(compiler: &str) -> &'static [&'static str] {
    if compiler.contains("clang") { &["-Dnoipa=noinline"] } else { &[] }
}

/// The line of a compiler's output with the reason, not the warnings before it.
pub fn first_error(stderr: &[u8]) -> String {
    const ERRORS: [&str; 3] = ["error:", "cannot find", "undefined reference"];
    let text = String::from_utf8_lossy(stderr);
    let is_error = |line: &&str| ERRORS.iter().any(|words| line.contains(words));
    text.lines().find(is_error).or_else(|| text.lines().next()).unwrap_or_default().to_owned()
}

#[test]
#[ignore = "live: records on this machine"]
fn the_reason_of_a_build_that_failed_is_its_first_error() {
    const LINKER: &str = "/usr/bin/ld: cannot find libclang_rt.xray-x86_64.a: No such file or directory";
    let output =
        format!("calls.c:17:26: warning: unknown attribute 'noipa' ignored\nlong leaf();\n{LINKER}\n");
    assert_eq!(first_error(output.as_bytes()), LINKER);
    assert_eq!(first_error(b"killed\n"), "killed");
}
