//! Mangled names → what people wrote, in the form perf and c++filt print.
//!
//! Rust names go without their hash (`h0123456789abcdef`, `[disambiguator]`), C++ names with their
//! parameters as perf shows them. Names that don't parse come back as they are.

use std::borrow::Cow;

/// Longer names are left mangled: demangling may grow them without bound.
const NAME_LIMIT: usize = 64 * 1024;
/// A demangled name is cut here, with `…`: back-references in mangled names can grow exponentially.
const OUTPUT_LIMIT: usize = 256 * 1024;

/// The demangled form of `name`, or `name` itself. A version suffix (`@GLIBC_2.2.5`, `@plt`) stays.
pub fn demangle(name: &str) -> Cow<'_, str> {
    if name.len() > NAME_LIMIT {
        return Cow::Borrowed(name);
    }
    let (base, suffix) = name.split_at(name.find('@').unwrap_or(name.len()));
    match demangle_base(base) {
        Some(text) => Cow::Owned(text + suffix),
        None => Cow::Borrowed(name),
    }
}

fn demangle_base(name: &str) -> Option<String> {
    let rust =
        name.starts_with("_R") || name.starts_with("__R") || name.starts_with("_ZN") && rust_hash(name);
    if let (true, Ok(rust)) = (rust, rustc_demangle::try_demangle(name)) {
        return Some(limited(&format_args!("{rust:#}")));
    }
    let cpp = name.starts_with("_Z") || name.starts_with("__Z") || name.starts_with("_GLOBAL_");
    if !cpp {
        return None;
    }
    // GCC's clones: `_Zfoo.constprop.0` is shown as `foo() [clone .constprop.0]`.
    let symbol = cpp_demangle::Symbol::new(name.as_bytes()).ok()?;
    let text = symbol.demangle().ok()?;
    (text.len() <= OUTPUT_LIMIT).then_some(text)
}

/// Whether a legacy `_ZN…` name ends in Rust's `17h<16 hex digits>E`, suffix such as `.llvm.123` aside.
fn rust_hash(name: &str) -> bool {
    let base = &name[..name.find('.').unwrap_or(name.len())];
    let Some(base) = base.strip_suffix('E') else { return false };
    base.len() > 19 && base.is_char_boundary(base.len() - 19) && {
        let tail = &base.as_bytes()[base.len() - 19..];
        tail.starts_with(b"17h") && tail[3..].iter().all(u8::is_ascii_hexdigit)
    }
}

fn limited(args: &std::fmt::Arguments<'_>) -> String {
    struct Limited(String);
    impl std::fmt::Write for Limited {
        fn write_str(&mut self, s: &str) -> std::fmt::Result {
            if self.0.len() + s.len() > OUTPUT_LIMIT {
                return Err(std::fmt::Error);
            }
            self.0.push_str(s);
            Ok(())
        }
    }
    let mut out = Limited(String::new());
    if std::fmt::write(&mut out, *args).is_err() {
        out.0.push('…');
    }
    out.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_language_takes_its_form() {
        let pairs = [
            ("_ZN3foo3barEi", "foo::bar(int)"),
            ("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad"),
            ("_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar"),
            ("main", "main"),
            ("_Znwm@plt", "operator new(unsigned long)@plt"),
            ("_Z", "_Z"),
            ("_ZN", "_ZN"),
        ];
        for (mangled, expected) in pairs {
            assert_eq!(demangle(mangled), expected);
        }
    }
}
