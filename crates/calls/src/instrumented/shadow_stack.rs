//! Programs that will run with a shadow stack (CET): no return address of theirs may be replaced.
//!
//! The processor must have it, the program be built for it, and the C library be configured to use it.

/// The variable that configures glibc.
const TUNABLES: &str = "GLIBC_TUNABLES";

/// Whether a program that `allows` it will have one.
#[must_use]
pub fn is_expected(allows: bool) -> bool {
    let asked = || std::env::var(TUNABLES).is_ok_and(|tunables| asks(&tunables));
    let has = || dso::system_file::read_text("/proc/cpuinfo").is_ok_and(|text| processor_has(&text));
    allows && asked() && has()
}

/// Whether the tunables ask for it: `glibc.cpu.x86_shstk=on` (or `permissive`), `glibc.cpu.hwcaps=SHSTK,…`.
fn asks(tunables: &str) -> bool {
    let settings = tunables.split(':').filter_map(|setting| setting.split_once('='));
    settings.fold(false, |asked, (name, value)| match name {
        "glibc.cpu.x86_shstk" => matches!(value, "on" | "permissive"),
        "glibc.cpu.hwcaps" => {
            value.split(',').fold(asked, |asked, word| word == "SHSTK" || asked && word != "-SHSTK")
        }
        _ => asked,
    })
}

/// Whether /proc/cpuinfo describes shadow stacks for programs.
fn processor_has(cpuinfo: &str) -> bool {
    let flags = cpuinfo.lines().find_map(|line| line.strip_prefix("flags")?.split_once(':'));
    flags.is_some_and(|(_, flags)| flags.split_whitespace().any(|flag| flag == "user_shstk"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_expected_only_where_asked_for_and_there() {
        for yes in ["glibc.cpu.x86_shstk=on", "glibc.malloc.check=1:glibc.cpu.hwcaps=-AVX2,SHSTK"] {
            assert!(asks(yes), "{yes}");
        }
        for no in ["", "glibc.cpu.x86_shstk=off", "glibc.cpu.hwcaps=-SHSTK", "glibc.cpu.hwcaps=IBT"] {
            assert!(!asks(no), "{no}");
        }
        assert!(processor_has("processor\t: 0\nflags\t\t: fpu user_shstk sse\n"));
        assert!(!processor_has("flags\t\t: fpu shstk\n") && !processor_has(""));
        assert!(!is_expected(false));
    }
}
