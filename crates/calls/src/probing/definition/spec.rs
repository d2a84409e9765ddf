//! A probe as the user wrote it: `[[GROUP:]EVENT=]PLACE [ARG …]`, in `perf probe`'s grammar.

use dso::dwarf::probe::{Access, AccessStep};

/// A probe as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeSpec {
    /// `GROUP:` of `GROUP:EVENT=`.
    pub group: Option<String>,
    /// `EVENT=`.
    pub event: Option<String>,
    /// Where.
    pub place: ProbePlace,
    /// Values to fetch there, in order.
    pub args: Vec<Arg>,
}

/// A place in a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbePlace {
    /// `FUNC[@FILE][:LINE|+OFFSET|%return]`
    Function {
        /// Name, or a pattern of names.
        name: String,
        /// End of the path of the file it is declared in.
        file: Option<String>,
        /// Where in it.
        at: ProbePoint,
    },
    /// `FILE:LINE`
    Line(String, u32),
    /// `0xADDRESS`, as the file states it.
    Address(u64),
    /// `FUNC[@FILE];PATTERN` or `FILE;PATTERN`: the lines that look so.
    Pattern {
        /// `FUNC[@FILE]`, or the end of a file's path.
        of: String,
        /// A glob; blanks don't matter.
        pattern: String,
    },
}

/// A place in a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbePoint {
    /// Entry.
    Entry,
    /// This many bytes after its entry.
    Offset(u64),
    /// This many lines below its head.
    Line(u32),
    /// Return.
    Return,
}

/// Something to fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arg {
    /// `NAME=`.
    pub name: Option<String>,
    /// Value to fetch.
    pub what: What,
    /// `:TYPE`.
    pub kind: Option<String>,
}

/// Value to fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// `$vars`: all variables that can be seen.
    AllVariables,
    /// `$params`: all parameters.
    AllParameters,
    /// A variable, perhaps with steps into it.
    Variable(Access),
    /// The kernel's own fetch language: `%ax`, `$retval`, `+8(%sp)`, `@+0x4010`.
    Raw(String),
}

/// Why a probe's text is not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// Nothing there.
    #[error("no place to probe is given")]
    Empty,
    /// A number was expected.
    #[error("'{0}' is not a number")]
    Number(String),
    /// `%` with something else than `return`.
    #[error("'%{0}' is unknown; a return is probed by FUNC%return")]
    Percent(String),
    /// A name that the kernel would not take.
    #[error("'{0}' cannot be a name of a group, event or argument: letters, digits and _, no digit first")]
    Name(String),
    /// Brackets or arrows without their part.
    #[error("'{0}' is not a variable with .member, ->member or [index]")]
    Access(String),
    /// A pattern of lines without its part.
    #[error("'{0}': lines are probed by FUNC;PATTERN or FILE;PATTERN, such as 'parse;*total+=*'")]
    Lazy(String),
}

impl ProbeSpec {
    /// Reads a probe; arguments are separated by blanks.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let mut words = text.split_whitespace();
        let first = words.next().ok_or(SpecError::Empty)?;
        let (names, place) = match first.find([';', '=', '@', '+', '%']) {
            Some(i) if first[i..].starts_with('=') => (Some(&first[..i]), &first[i + 1..]),
            _ => (None, first),
        };
        let (group, event) = match names.map(|n| n.split_once(':').map_or((None, n), |(g, e)| (Some(g), e))) {
            Some((group, event)) => (group.map(checked_name).transpose()?, Some(checked_name(event)?)),
            None => (None, None),
        };
        let args = words.map(Arg::parse).collect::<Result<_, _>>()?;
        Ok(Self { group, event, place: ProbePlace::parse(place)?, args })
    }

    /// Does it name variables of the program, so that parameters must be in their places?
    pub fn wants_variables(&self) -> bool {
        self.args.iter().any(|a| !matches!(a.what, What::Raw(_)))
    }
}

impl ProbePlace {
    /// Reads a place without event name and arguments.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        if text.is_empty() {
            return Err(SpecError::Empty);
        }
        if let Some((of, pattern)) = text.split_once(';') {
            if of.is_empty() || pattern.is_empty() {
                return Err(SpecError::Lazy(text.to_owned()));
            }
            return Ok(Self::Pattern { of: of.to_owned(), pattern: pattern.trim_matches('"').to_owned() });
        }
        if text.starts_with("0x") {
            return Ok(Self::Address(number(text)?));
        }
        let (head, rest) = split_place(text);
        if let Some(line) =
            rest.strip_prefix(':').filter(|_| head.contains(['.', '/']) && !head.contains("::"))
        {
            return Ok(Self::Line(head.to_owned(), line_number(line)?));
        }
        let (file, rest) = match rest.strip_prefix('@') {
            Some(file) => {
                let end = file.find([':', '+', '%']).unwrap_or(file.len());
                (Some(file[..end].to_owned()), &file[end..])
            }
            None => (None, rest),
        };
        if head.is_empty() {
            return Err(SpecError::Empty);
        }
        Ok(Self::Function { name: head.to_owned(), file, at: ProbePoint::parse(rest)? })
    }
}

/// The name, and what follows from the first `:`, `+`, `@` or `%` on; `::` belongs to the name.
fn split_place(text: &str) -> (&str, &str) {
    let bytes = text.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        match bytes[i] {
            b':' if bytes.get(i + 1) == Some(&b':') => i += 1,
            b':' | b'+' | b'@' | b'%' => break,
            _ => {}
        }
        i += 1;
    }
    text.split_at(i.min(text.len()))
}

impl ProbePoint {
    fn parse(rest: &str) -> Result<Self, SpecError> {
        if let Some(line) = rest.strip_prefix(':') {
            let line = line_number(line)?;
            return Ok(if line == 0 { Self::Entry } else { Self::Line(line) });
        }
        if let Some(offset) = rest.strip_prefix('+') {
            return Ok(Self::Offset(number(offset)?));
        }
        match rest.strip_prefix('%') {
            Some("return") => Ok(Self::Return),
            Some(other) => Err(SpecError::Percent(other.to_owned())),
            None => Ok(Self::Entry),
        }
    }
}

impl Arg {
    fn parse(text: &str) -> Result<Self, SpecError> {
        let (name, rest) = match text.split_once('=') {
            Some((name, rest)) => (Some(checked_name(name)?), rest),
            None => (None, text),
        };
        let (what, kind) = rest.split_once(':').map_or((rest, None), |(w, k)| (w, Some(k.to_owned())));
        let what = what.strip_suffix("@user").unwrap_or(what);
        let what = match what {
            "$vars" => What::AllVariables,
            "$params" => What::AllParameters,
            _ if what.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') => {
                What::Variable(parse_access(what).ok_or_else(|| SpecError::Access(what.to_owned()))?)
            }
            _ => What::Raw(what.to_owned()),
        };
        Ok(Self { name, what, kind })
    }

    /// The name that the fetched value gets; `None`: the kernel chooses (`arg1` …).
    pub fn default_name(&self) -> Option<String> {
        if self.name.is_some() {
            return self.name.clone();
        }
        let What::Variable(access) = &self.what else { return None };
        let member = access.steps.iter().rev().find_map(|step| match step {
            AccessStep::Member(name) | AccessStep::Arrow(name) => Some(name.clone()),
            AccessStep::Index(_) => None,
        });
        match (member, &self.kind) {
            (Some(member), _) => Some(member),
            // perf's habit: `a:x32` becomes `a_x32`, but `a[0]:x32` becomes `a`.
            (None, Some(kind)) if access.steps.is_empty() => Some(format!("{}_{kind}", access.variable)),
            (None, _) => Some(access.variable.clone()),
        }
    }
}

/// Reads `a->b.c[2]`.
fn parse_access(text: &str) -> Option<Access> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':' || c == '$';
    let take = |text: &str| text.find(|c| !is_name(c)).unwrap_or(text.len());
    let end = take(text);
    let (variable, mut rest) = (text[..end].to_owned(), &text[end..]);
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix('[') {
            let (index, after) = inside.split_once(']')?;
            steps.push(AccessStep::Index(index.parse().ok()?));
            rest = after;
            continue;
        }
        let (arrow, after) = match rest.strip_prefix("->") {
            Some(after) => (true, after),
            None => (false, rest.strip_prefix('.')?),
        };
        let end = take(after);
        if end == 0 {
            return None;
        }
        let name = after[..end].to_owned();
        steps.push(if arrow { AccessStep::Arrow(name) } else { AccessStep::Member(name) });
        rest = &after[end..];
    }
    (!variable.is_empty()).then_some(Access { variable, steps })
}

fn number(text: &str) -> Result<u64, SpecError> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| SpecError::Number(text.to_owned()))
}

fn line_number(text: &str) -> Result<u32, SpecError> {
    u32::try_from(number(text)?).map_err(|_| SpecError::Number(text.to_owned()))
}

fn checked_name(name: &str) -> Result<String, SpecError> {
    let good = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if good { Ok(name.to_owned()) } else { Err(SpecError::Name(name.to_owned())) }
}

/// Fuzz target: the text of a probe.
pub(crate) fn fuzz(data: &[u8]) {
    if let Ok(spec) = ProbeSpec::parse(&String::from_utf8_lossy(data)) {
        let _ = spec.args.iter().map(Arg::default_name).count();
    }
}
