//! Names as people write them: without template arguments, ABI tags and the suffixes of parts and copies of a function.

use super::v8_names;
use std::borrow::Cow;

/// The function through which Rust starts a thread: what it starts is only in its arguments.
const STARTER: &str = "__rust_begin_short_backtrace";
/// In the place of arguments left out.
const LEFT_OUT: char = '…';
/// Demangled name of std::string.
const STRINGS: [&str; 2] = [
    "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >",
    "std::basic_string<char, std::char_traits<char>, std::allocator<char> >",
];
/// Suffixes of the copies and parts that compilers make of a function; digits and dots may follow.
const PARTS: [&str; 6] = [".cold", ".isra", ".part", ".constprop", ".lto_priv", ".llvm"];

/// The demangled `name` in short, so that the instances of a template, and the parts of a function, have one name:
/// `std::vector<…>::push_back`, `sort_tail` of `sort_tail.isra.0`, `memcpy` of `memcpy@@GLIBC_2.14`; so that the code
/// that V8's compilers make of a function has one: `JS:handler app.js:2:9`. A name whose brackets don't match is
/// unchanged.
#[must_use]
pub fn brief(name: &str) -> Cow<'_, str> {
    if name.starts_with("JS:") {
        return of_any_compiler(name);
    }
    if let Some(method) = dotnet_method(name) {
        return Cow::Borrowed(method);
    }
    let whole = without_return_type(without_part(without_version(name)));
    if let Some(short) = without_hidden_number(whole) {
        return Cow::Owned(short);
    }
    if whole.contains(STARTER) || !whole.contains(['<', '[']) {
        return Cow::Borrowed(whole);
    }
    let mut text = Cow::Borrowed(whole);
    for string in STRINGS {
        if text.contains(string) {
            text = Cow::Owned(text.replace(string, "std::string"));
        }
    }
    folded(&text).map_or(text, Cow::Owned)
}

/// The whole `name` without the compiler that made the code: `JS:f a.js:2:9` of `JS:*f a.js:2:9`,
/// `void [App] Work::Spin()` of `void [App] Work::Spin()[OptimizedTier1]`. Other names are unchanged.
#[must_use]
pub fn of_any_compiler(name: &str) -> Cow<'_, str> {
    if let Some(function) = name.strip_prefix("JS:").and_then(|name| name.strip_prefix(v8_names::COMPILERS)) {
        return Cow::Owned(format!("JS:{function}"));
    }
    match dotnet_method(name) {
        Some(method) => {
            let before = name.find(method).unwrap_or(0);
            Cow::Borrowed(&name[..before + method.len()])
        }
        None => Cow::Borrowed(name),
    }
}

/// `Work::Spin(int64)` of `float64 [Split] Work::Spin(int64)[OptimizedTier1]`, as .NET writes the names of methods:
/// after the result's type and the assembly, before the compiler that made the code. `None` for other names.
fn dotnet_method(name: &str) -> Option<&str> {
    let (before, _) = name.split_once("::")?;
    let method_at = before.rfind("] ")? + 2;
    let (_, assembly) = before[..method_at - 2].rsplit_once(" [")?;
    let is_assembly =
        !assembly.is_empty() && assembly.chars().all(|c| c.is_alphanumeric() || "._-".contains(c));
    let method = &name[method_at..];
    let end = method.rfind(")[").map_or(method.len(), |at| at + 1);
    (is_assembly && !before.contains('(')).then_some(&method[..end])
}

/// `Main.work(int)` of `long Main.work(int)`, as HotSpot writes the names of methods.
fn without_return_type(name: &str) -> &str {
    let Some((kind, method)) = name.split_once(' ') else { return name };
    let is_type = |c: char| c.is_alphanumeric() || "._$[]".contains(c);
    let is_method = method.split_once('(').is_some_and(|(path, _)| {
        path.contains('.') && path.chars().all(|c| c.is_alphanumeric() || "._$<>/".contains(c))
    });
    if kind.chars().all(is_type) && is_method { method } else { name }
}

/// `Main$$Lambda.run()` of `Main$$Lambda$14/0x00007f69a4000a08.run()`: HotSpot numbers hidden classes as it makes them.
/// `None` for other names.
fn without_hidden_number(method: &str) -> Option<String> {
    const LEAST_DIGITS: usize = 8;
    let (class, rest) = method.split_once("/0x")?;
    let rest = rest.split_at(rest.find(|c: char| !c.is_ascii_hexdigit())?);
    let (_, function) = Some(rest).filter(|(number, _)| number.len() >= LEAST_DIGITS)?;
    let function = Some(function).filter(|function| function.starts_with('.') && function.contains('('))?;
    let class = match class.rsplit_once("$$Lambda$") {
        Some((owner, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("{owner}$$Lambda")
        }
        _ => class.to_owned(),
    };
    Some(class + function)
}

/// `memcpy` of `memcpy@@GLIBC_2.14`, a library's version of a function; `memcpy@plt` stays.
#[must_use]
pub fn without_version(name: &str) -> &str {
    let Some((function, version)) = name.rsplit_once('@') else { return name };
    let is_version = version.starts_with(|c: char| c.is_ascii_uppercase())
        && version.chars().all(|c| c.is_ascii_alphanumeric() || "_.".contains(c));
    let function = function.trim_end_matches('@');
    if is_version && !function.is_empty() { function } else { name }
}

/// `name` without ` [clone .cold]`, or `.isra.0` after a name of C.
fn without_part(name: &str) -> &str {
    let name = name.split(" [clone ").next().unwrap_or(name);
    if name.contains(['@', ':', '<']) {
        return name;
    }
    let first = PARTS.iter().filter_map(|part| {
        let at = name.find(part).filter(|&at| at > 0)?;
        let rest = &name[at + part.len()..];
        (rest.is_empty() || rest.starts_with('.')).then_some(at)
    });
    first.min().map_or(name, |at| &name[..at])
}

/// Brackets that are open in a name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    /// Those around arguments, left out.
    Arguments,
    /// `<` of a type that a function belongs to, in Rust: kept.
    Path,
    /// `(`, `{` or `[`: comparisons may be in them.
    Other,
}

/// `text` with what is between brackets of arguments left out; `None` if brackets don't match.
fn folded(text: &str) -> Option<String> {
    let mut fold = Fold { short: String::with_capacity(text.len()), open: Vec::new(), hidden: 0 };
    let mut at = 0;
    while at < text.len() {
        at += fold.take(&text[..at], &text[at..])?;
    }
    fold.open.is_empty().then_some(fold.short)
}

/// A name in the making.
struct Fold {
    short: String,
    open: Vec<Open>,
    /// Number of open brackets of arguments.
    hidden: usize,
}

impl Fold {
    /// Takes what `rest` begins with; returns its bytes. `None` if it closes what is not open.
    fn take(&mut self, done: &str, rest: &str) -> Option<usize> {
        let letter = rest.chars().next()?;
        let before = done.chars().next_back().unwrap_or(' ');
        match letter {
            'o' if !is_of_name(before) && operator(rest) > 0 => return Some(self.take_operator(rest)),
            '[' if rest.starts_with("[abi:") => return rest.find(']').map(|end| end + 1),
            '[' if rest.starts_with("[go.shape.") => self.begin_arguments('['),
            '<' if is_of_name(before) || (before == ':' && !rest.starts_with("<impl ")) => {
                self.begin_arguments('<');
            }
            '<' if before == ')' => self.show(letter),
            '<' if self.open.last() == Some(&Open::Other) && " <".contains(before) => self.show(letter),
            '<' => self.begin(Open::Path, letter),
            '(' | '{' | '[' => self.begin(Open::Other, letter),
            '>' if before == '-' || self.open.last() == Some(&Open::Other) => self.show(letter),
            '>' | ')' | '}' | ']' => self.end(letter)?,
            _ => self.show(letter),
        }
        Some(letter.len_utf8())
    }

    fn take_operator(&mut self, rest: &str) -> usize {
        let mut taken = operator(rest);
        rest[..taken].chars().for_each(|letter| self.show(letter));
        // `operator< <int>`: the blank keeps both apart.
        for arguments in [" <", "<"] {
            if rest[taken..].starts_with(arguments) {
                taken += arguments.len();
                self.begin_arguments('<');
                break;
            }
        }
        taken
    }

    fn show(&mut self, letter: char) {
        if self.hidden == 0 {
            self.short.push(letter);
        }
    }

    fn begin(&mut self, open: Open, letter: char) {
        self.open.push(open);
        self.show(letter);
    }

    fn begin_arguments(&mut self, letter: char) {
        self.begin(Open::Arguments, letter);
        self.show(LEFT_OUT);
        self.hidden += 1;
    }

    fn end(&mut self, letter: char) -> Option<()> {
        let open = self.open.pop()?;
        if open == Open::Arguments {
            self.hidden -= 1;
        }
        // A parenthesis closes no angle bracket; `]` closes Go's arguments, too.
        let fits = match letter {
            '>' => open != Open::Other,
            ']' => open != Open::Path,
            _ => open == Open::Other,
        };
        self.show(letter);
        fits.then_some(())
    }
}

/// Whether arguments may follow: the letter ends a name, or an ABI tag.
fn is_of_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_' || letter == ']'
}

/// Bytes of the operator that `rest` begins with, if its name has brackets; else 0.
fn operator(rest: &str) -> usize {
    const NAMES: [&str; 12] = ["<=>", "<<=", ">>=", "->*", "<<", ">>", "<=", ">=", "->", "()", "<", ">"];
    let Some(name) = rest.strip_prefix("operator") else { return 0 };
    NAMES.iter().find(|known| name.starts_with(**known)).map_or(0, |known| "operator".len() + known.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(cases: &[(&str, &str)]) {
        for (name, short) in cases {
            assert_eq!(&brief(name), short, "of {name}");
        }
    }

    #[test]
    fn code_that_dotnets_compilers_make_of_a_method_has_one_name() {
        for tier in ["[QuickJitted]", "[OptimizedTier1OSR]", "[PreJIT]", ""] {
            let name = format!("float64 [Split] Work::Spin(int64){tier}");
            assert_eq!(brief(&name), "Work::Spin(int64)");
            assert_eq!(of_any_compiler(&name), "float64 [Split] Work::Spin(int64)");
        }
        let task = "class System.Threading.Tasks.Task`1<!0> [System.Private.CoreLib] System.IO.Stream::Read(uint8[])[Optimized]";
        assert_eq!(brief(task), "System.IO.Stream::Read(uint8[])");
        assert_eq!(brief("void [Split] Work::Main"), "Work::Main");
    }

    #[test]
    fn the_code_that_compilers_make_of_a_javascript_function_has_one_name() {
        for mark in ["", "~", "^", "*"] {
            let name = format!("JS:{mark}handler /srv/a.js:2:17");
            assert_eq!(brief(&name), "JS:handler /srv/a.js:2:17");
            assert_eq!(of_any_compiler(&name), brief(&name));
        }
        assert_eq!(brief("JS:^<anonymous> /srv/a.js:9:1"), "JS:<anonymous> /srv/a.js:9:1");
        let others = ["std::vector<int>::push_back", "sort_tail.isra.0", "long A.hot(int)"];
        assert_eq!(others.map(of_any_compiler), others);
    }

    #[test]
    fn arguments_of_cpp_templates_are_left_out() {
        check(&[
            ("std::vector<int, std::allocator<int> >::push_back", "std::vector<…>::push_back"),
            ("A<std::allocator<char>, 5>::b() const", "A<…>::b() const"),
            ("void sort<(3 > 2), f<(1)<(2)>, (8 >> 1)>::run<int>", "void sort<…>::run<…>"),
            ("std::map<K, V>::operator[]", "std::map<…>::operator[]"),
            ("bool operator< <int>(A<int> const&)", "bool operator<<…>(A<…> const&)"),
            ("std::operator<< <std::char_traits<char> >", "std::operator<<<…>"),
            ("P<X>::operator->", "P<…>::operator->"),
            ("F::operator()<int>", "F::operator()<…>"),
            (
                "(anonymous namespace)::f<int>::{lambda(A<int>)#1}::operator()",
                "(anonymous namespace)::f<…>::{lambda(A<…>)#1}::operator()",
            ),
            ("name[abi:cxx11]<int>", "name<…>"),
            (
                "f(std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> > const&)",
                "f(std::string const&)",
            ),
        ]);
    }

    #[test]
    fn rust_s_paths_keep_their_types_without_arguments() {
        check(&[
            (
                "<alloc::vec::Vec<u8> as core::iter::Iterator>::next",
                "<alloc::vec::Vec<…> as core::iter::Iterator>::next",
            ),
            ("core::ptr::drop_in_place::<alloc::vec::Vec<u8>>", "core::ptr::drop_in_place::<…>"),
            ("core::slice::<impl [T]>::iter", "core::slice::<impl [T]>::iter"),
            ("run::<fn(u8) -> Vec<u8>>::go", "run::<…>::go"),
            (
                "std::sys::backtrace::__rust_begin_short_backtrace::<a::helper<u8>, ()>",
                "std::sys::backtrace::__rust_begin_short_backtrace::<a::helper<u8>, ()>",
            ),
        ]);
    }

    #[test]
    fn go_s_shapes_are_left_out_and_its_other_brackets_stay() {
        check(&[
            ("slices.SortFunc[go.shape.[]uint8,go.shape.func(int) int]", "slices.SortFunc[…]"),
            ("main.(*T[...]).Do", "main.(*T[...]).Do"),
        ]);
    }

    #[test]
    fn java_s_methods_have_no_return_type_and_no_numbers_of_classes() {
        check(&[
            ("long Main.work(int)", "Main.work(int)"),
            ("java.lang.Object[] java.util.ArrayList.grow(int)", "java.util.ArrayList.grow(int)"),
            ("void java.lang.Thread.<init>(a.B)", "java.lang.Thread.<init>(a.B)"),
            ("void app.M$$Lambda$14/0x00007f69a4000a08.run()", "app.M$$Lambda.run()"),
            ("int app.M$$Lambda/0x000000003c040210.get(int)", "app.M$$Lambda.get(int)"),
            ("void a.LambdaForm$MH/0x0000000800066400.invoke(a.B)", "a.LambdaForm$MH.invoke(a.B)"),
            ("f (data/0x12345678.txt)", "f (data/0x12345678.txt)"),
            ("f (app.py)", "f (app.py)"),
            ("StubRoutines (2)", "StubRoutines (2)"),
        ]);
    }

    #[test]
    fn parts_and_copies_have_the_name_of_their_function() {
        check(&[
            ("sort_tail.isra.0", "sort_tail"),
            ("f.constprop.0.cold", "f"),
            ("A::b [clone .cold]", "A::b"),
            ("main.partition", "main.partition"),
            ("memcpy@@GLIBC_2.14", "memcpy"),
            ("memcpy@plt", "memcpy@plt"),
            (".cold", ".cold"),
            ("beta.<locals>.<genexpr>", "beta.<locals>.<genexpr>"),
            ("<module>", "<module>"),
        ]);
    }

    #[test]
    fn names_whose_brackets_do_not_match_stay() {
        check(&[
            ("a<b", "a<b"),
            ("a>b", "a>b"),
            ("a<(b>", "a<(b>"),
            ("a<b)", "a<b)"),
            ("a[abi:x", "a[abi:x"),
        ]);
    }
}
