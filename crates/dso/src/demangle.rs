//! Mangled names → what people wrote, in the form perf and c++filt print.
//!
//! Rust names go without their hash (`h0123456789abcdef`, `[disambiguator]`), C++ names with their
//! parameters as perf shows them. Names that don't parse come back as they are.

mod brief;
mod v8_names;

pub use brief::{brief, of_any_compiler, without_version};
pub use v8_names::{V8Function, v8_function};

use std::borrow::Cow;

/// Longer names are left mangled: demangling may grow them without bound.
const NAME_LIMIT: usize = 64 * 1024;
/// A demangled name is cut here, with `…`: back-references in mangled names can grow exponentially.
const OUTPUT_LIMIT: usize = 256 * 1024;

/// The name as perf reports show it: C++ without parameters and return type, Rust without hash. A name that is
/// not mangled comes back as it is; a version or stub suffix (`@GLIBC_2.2.5`, `@plt`) stays.
pub fn demangle(name: &str) -> Cow<'_, str> {
    demangle_as(name, false)
}

/// The same with parameters, as c++filt prints: distinguishes overloads.
pub fn demangle_with_parameters(name: &str) -> Cow<'_, str> {
    demangle_as(name, true)
}

fn demangle_as(name: &str, with_parameters: bool) -> Cow<'_, str> {
    if !name.starts_with('_') || name.len() > NAME_LIMIT {
        return Cow::Borrowed(name);
    }
    let (base, suffix) = name.split_at(name.find('@').unwrap_or(name.len()));
    match demangle_base(base, with_parameters) {
        Some(text) => Cow::Owned(text + suffix),
        None => Cow::Borrowed(name),
    }
}

fn demangle_base(name: &str, with_parameters: bool) -> Option<String> {
    let rust =
        name.starts_with("_R") || name.starts_with("__R") || name.starts_with("_ZN") && rust_hash(name);
    if let (true, Ok(rust)) = (rust, rustc_demangle::try_demangle(name)) {
        return Some(limited(&format_args!("{rust:#}")));
    }
    let cpp = name.starts_with("_Z") || name.starts_with("__Z") || name.starts_with("_GLOBAL_");
    if !cpp {
        return None;
    }
    let symbol = cpp_demangle::Symbol::new(name.as_bytes()).ok()?;
    let options = cpp_demangle::DemangleOptions::new();
    // binutils keeps the parameters inside thunks and clones (`_ZTv…`, `_ZGTt…`).
    let special = ["_ZTv", "_ZTh", "_ZTc", "_ZGT"].iter().any(|p| name.starts_with(p));
    let options = if with_parameters || special { options } else { options.no_params().no_return_type() };
    let mut out = Limited(String::new());
    symbol.structured_demangle(&mut Text(&mut out), &options).ok()?;
    if special {
        out.0 = plain_thunk(out.0);
    } else if name.starts_with("_ZT") {
        out.0 = plain_table(out.0);
    }
    if !special && !with_parameters {
        // The reference qualifier belongs to the parameters that were left out.
        let bare = out.0.trim_end_matches(" &&").trim_end_matches(" &").len();
        if !out.0.ends_with("operator &&") && !out.0.ends_with("operator &") {
            out.0.truncate(bare);
        }
    }
    let mut text = plain_arguments(out.0);
    if name.contains("Dn") {
        text = text.replace("std::nullptr_t", "decltype(nullptr)");
    }
    Some(if ["Ss", "Si", "Sd", "So"].iter().any(|s| name.contains(s)) { abbreviated(text) } else { text })
}

/// Casts that cpp_demangle puts before literals, and the endings that binutils puts after them.
const LITERALS: [(&str, &str); 5] = [
    ("(unsigned int)", "u"),
    ("(unsigned long)", "ul"),
    ("(long)", "l"),
    ("(unsigned long long)", "ull"),
    ("(long long)", "ll"),
];

/// Arguments as binutils has them: `8u` instead of `(unsigned int)8`, `Pack<void>` instead of `Pack<void, >`.
fn plain_arguments(text: String) -> String {
    if !text.contains(", >") && !text.contains(", )") && !LITERALS.iter().any(|(cast, _)| text.contains(cast))
    {
        return text;
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(at) = rest.find(['(', ',']) {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        if rest.starts_with(", >") || rest.starts_with(", )") {
            rest = &rest[2..];
        } else if let Some((number, suffix, after)) = cast_literal(rest) {
            plain.extend([number, suffix]);
            rest = after;
        } else {
            plain.push_str(&rest[..1]);
            rest = &rest[1..];
        }
    }
    plain + rest
}

/// Splits text that begins with a cast of a number: the number, its ending, and the text after it.
fn cast_literal(text: &str) -> Option<(&str, &'static str, &str)> {
    let (cast, suffix) = LITERALS.iter().find(|(cast, _)| text.starts_with(cast))?;
    let number = &text[cast.len()..];
    let digits = number.strip_prefix('-').unwrap_or(number);
    let count = digits.bytes().take_while(u8::is_ascii_digit).count();
    let (number, after) = number.split_at(number.len() - digits.len() + count);
    (count > 0).then_some((number, *suffix, after))
}

/// `{virtual override thunk({offset(-16)}, X)}` is `non-virtual thunk to X` elsewhere.
fn plain_thunk(text: String) -> String {
    let Some(inner) = text.strip_prefix("{virtual override thunk(").and_then(|t| t.strip_suffix(")}")) else {
        return text;
    };
    let Some((offset, target)) = inner.split_once("}, ") else { return text };
    let kind = if offset.starts_with("{virtual") { "virtual" } else { "non-virtual" };
    format!("{kind} thunk to {target}")
}

/// `{vtable(X)}` is `vtable for X` elsewhere.
fn plain_table(text: String) -> String {
    let inner = |head: &str| text.strip_prefix(head)?.strip_suffix(")}");
    match (inner("{vtable("), inner("{vtt(")) {
        (Some(class), _) => format!("vtable for {class}"),
        (_, Some(class)) => format!("VTT for {class}"),
        _ => plain_construction(text),
    }
}

/// `construction vtable for Derived-in-Base` has base and derived class the other way round elsewhere.
fn plain_construction(text: String) -> String {
    const HEAD: &str = "construction vtable for ";
    match text.strip_prefix(HEAD).and_then(|classes| classes.split_once("-in-")) {
        Some((derived, base)) => format!("{HEAD}{base}-in-{derived}"),
        None => text,
    }
}

/// Spells the standard abbreviations as binutils does.
fn abbreviated(mut text: String) -> String {
    const PAIRS: [(&str, &str); 6] = [
        ("std::ostream::ostream", "std::ostream::basic_ostream"),
        ("std::ostream::~ostream", "std::ostream::~basic_ostream"),
        ("std::basic_istream<char, std::char_traits<char> >", "std::istream"),
        ("std::basic_iostream<char, std::char_traits<char> >", "std::iostream"),
        ("std::string::string", "std::string::basic_string"),
        ("std::string::~string", "std::string::~basic_string"),
    ];
    for (from, to) in PAIRS {
        if text.contains(from) {
            text = text.replace(from, to);
        }
    }
    text
}

/// Whether a legacy `_ZN…` name ends in Rust's `17h<16 hex digits>E`, ignoring a suffix such as `.llvm.123`.
/// (The name may contain dots as well: `vtable.shim`, `..` for `::`.)
fn rust_hash(name: &str) -> bool {
    let ends = name.match_indices("E.").map(|(at, _)| at + 1).chain([name.len()]);
    ends.filter_map(|end| name[..end].strip_suffix('E')).any(|base| {
        base.len().checked_sub(19).is_some_and(|at| {
            let tail = &base.as_bytes()[at..];
            tail.starts_with(b"17h") && tail[3..].iter().all(u8::is_ascii_hexdigit)
        })
    })
}

/// Collects text up to [`OUTPUT_LIMIT`] bytes.
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

/// cpp_demangle's side of it.
struct Text<'a>(&'a mut Limited);

impl cpp_demangle::DemangleWrite for Text<'_> {
    fn write_string(&mut self, s: &str) -> std::fmt::Result {
        std::fmt::Write::write_str(self.0, s)
    }
}

fn limited(args: &std::fmt::Arguments<'_>) -> String {
    let mut out = Limited(String::new());
    if std::fmt::write(&mut out, *args).is_err() {
        out.0.push('…');
    }
    out.0
}

/// A function's name without what follows in brackets after it: `f(int) const` as `f`, Python's `parse (app.py)` as
/// `parse`. Lambdas and `operator()` keep their name.
#[must_use]
pub fn without_parameters(name: &str) -> &str {
    let trimmed = name.trim_end_matches(" const");
    if !trimmed.ends_with(')') {
        return name;
    }
    let mut depth = 0usize;
    for (at, c) in trimmed.char_indices().rev() {
        match c {
            ')' => depth += 1,
            '(' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            let is_name = at == 0 || trimmed[..at].ends_with("operator") || trimmed[..at].ends_with("::");
            return if is_name { name } else { trimmed[..at].trim_end() };
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_inside_of_a_rust_name_do_not_hide_its_hash() {
        let shim =
            "_ZN4core3ops8function6FnOnce40call_once$u7b$$u7b$vtable.shim$u7d$$u7d$17h0123456789abcdefE";
        assert_eq!(demangle(shim), "core::ops::function::FnOnce::call_once{{vtable.shim}}");
        assert_eq!(demangle("_ZN3foo3bar17h0123456789abcdefE.llvm.77"), "foo::bar");
    }

    #[test]
    fn each_language_takes_its_form() {
        let pairs = [
            ("_ZN3foo3barEi", "foo::bar"),
            ("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad"),
            ("_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar"),
            ("main", "main"),
            ("_Znwm@plt", "operator new@plt"),
            ("_Z", "_Z"),
            ("_ZN", "_ZN"),
        ];
        for (mangled, expected) in pairs {
            assert_eq!(demangle(mangled), expected);
        }
        assert_eq!(demangle_with_parameters("_ZN3foo3barEi"), "foo::bar(int)");
    }

    #[test]
    fn template_arguments_are_spelt_as_binutils_does() {
        let pairs = [
            ("_ZN3BitILj8EE3setEv", "Bit<8u>::set"),
            ("_ZN3BitILm18446744073709551615EE3setEv", "Bit<18446744073709551615ul>::set"),
            ("_ZN3BitILln8EE3setEv", "Bit<-8l>::set"),
            ("_ZN3BitILx8EE3setEv", "Bit<8ll>::set"),
            ("_ZN3BitILy8EE3setEv", "Bit<8ull>::set"),
            ("_ZN3BitILt8EE3setEv", "Bit<(unsigned short)8>::set"),
            ("_ZN3BitILi8EE3setEv", "Bit<8>::set"),
            ("_ZN4PackIvJEE3runEv", "Pack<void>::run"),
            ("_ZN4PackI3BitILj8EEJEE3runEv", "Pack<Bit<8u>>::run"),
            ("_ZN4PackIDnE3runEv", "Pack<decltype(nullptr)>::run"),
            ("_ZTV3Bit", "vtable for Bit"),
            ("_ZTC7Derived8_4Base", "construction vtable for Base-in-Derived"),
        ];
        for (mangled, expected) in pairs {
            assert_eq!(demangle(mangled), expected);
        }
        assert_eq!(demangle_with_parameters("_ZTV3Bit"), "vtable for Bit");
        assert_eq!(demangle_with_parameters("_Z1fI4PackIvJEEEvT_"), "void f<Pack<void> >(Pack<void>)");
    }

    const ABBREVIATIONS: [(&str, &str); 4] = [
        ("std::basic_string<char, std::char_traits<char>, std::allocator<char> >", "std::string"),
        ("std::basic_ostream<char, std::char_traits<char> >", "std::ostream"),
        ("std::basic_istream<char, std::char_traits<char> >", "std::istream"),
        ("std::basic_iostream<char, std::char_traits<char> >", "std::iostream"),
    ];

    /// Accepted differences between cpp_demangle and binutils, after a look at each kind.
    const EXPLAINED_PER_MILLE: usize = 10;

    #[test]
    fn libstdcxx_names_are_what_cxxfilt_prints() {
        use std::io::Write;
        use std::process::{Command, Stdio};
        let library = std::path::Path::new("/usr/lib/x86_64-linux-gnu/libstdc++.so.6");
        let Ok(object) = crate::ObjectFile::open(library) else { return println!("skipped: no libstdc++") };
        let filter = Command::new("c++filt").arg("-p").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let Ok(mut filter) = filter else { return println!("skipped: no c++filt") };
        let table = crate::SymbolTable::load(&object, None);
        let names: Vec<String> =
            table.iter().map(|s| s.name.to_owned()).filter(|n| n.starts_with("_Z")).collect();
        let (mut input, text) = (filter.stdin.take().unwrap(), names.join("\n"));
        let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
        let output = filter.wait_with_output().unwrap().stdout;
        writer.join().unwrap().unwrap();
        // c++filt spells abbreviations out, perf does not.
        let mut output = String::from_utf8(output).unwrap();
        for (long, short) in ABBREVIATIONS {
            output = output.replace(long, short);
            output = output.replace(&format!("{short} >"), &format!("{short}>"));
        }
        let different: Vec<_> =
            names.iter().zip(output.lines()).filter(|(n, theirs)| demangle(n) != **theirs).collect();
        println!("{} of {} names differ", different.len(), names.len());
        for (name, theirs) in different.iter().take(40) {
            println!("{name}\n  ours   {}\n  theirs {theirs}", demangle(name));
        }
        assert!(different.len() * 1000 <= names.len() * EXPLAINED_PER_MILLE);
    }
}
