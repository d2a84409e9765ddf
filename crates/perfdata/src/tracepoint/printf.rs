//! printf strings, cut once and filled per payload.

use std::borrow::Cow;
use std::fmt::Write;

use super::eval::Payload;
use super::expr::Expr;

/// A piece of a printf string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    /// Literal text.
    Text(String),
    /// One conversion.
    Conversion(Conversion),
}

/// `%-08.3lld`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Conversion {
    left: bool,
    zero: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    width: Option<Size>,
    precision: Option<Size>,
    /// -2 = char, -1 = short, 0 = int, 1 = long, 2 = long long.
    length: i8,
    kind: char,
    /// Letters after `%p`: `S`, `I4`, `M` …
    pointer: String,
}

impl Conversion {
    /// Arguments it takes: its value, and a width or precision of `*`.
    fn arguments(&self) -> usize {
        1 + [self.width, self.precision].iter().filter(|size| **size == Some(Size::Argument)).count()
    }
}

/// A number in the string, or `*`: taken from the arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Size {
    Fixed(usize),
    Argument,
}

/// The most a width pads to: a format with a larger width is damaged.
const MAX_WIDTH: usize = 1024;

pub(super) fn parse(format: &str) -> Vec<Piece> {
    let mut out = Vec::new();
    let mut text = String::new();
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        let (before, tail) = rest.split_at_checked(at).unwrap_or((rest, ""));
        text.push_str(before);
        rest = tail.get(1..).unwrap_or("");
        if let Some(tail) = rest.strip_prefix('%') {
            text.push('%');
            rest = tail;
            continue;
        }
        let (conversion, tail) = conversion(rest);
        out.push(Piece::Text(std::mem::take(&mut text)));
        out.push(Piece::Conversion(conversion));
        rest = tail;
    }
    text.push_str(rest);
    out.push(Piece::Text(text));
    out.retain(|p| *p != Piece::Text(String::new()));
    out
}

fn conversion(text: &str) -> (Conversion, &str) {
    let mut c = Conversion::default();
    let mut rest = text;
    let take = |rest: &mut &str, wanted: char| -> bool {
        match rest.strip_prefix(wanted) {
            Some(tail) => {
                *rest = tail;
                true
            }
            None => false,
        }
    };
    loop {
        if take(&mut rest, '-') {
            c.left = true;
        } else if take(&mut rest, '0') {
            c.zero = true;
        } else if take(&mut rest, '+') {
            c.plus = true;
        } else if take(&mut rest, ' ') {
            c.space = true;
        } else if take(&mut rest, '#') {
            c.alternate = true;
        } else {
            break;
        }
    }
    c.width = size(&mut rest);
    if take(&mut rest, '.') {
        c.precision = size(&mut rest).or(Some(Size::Fixed(0)));
    }
    loop {
        if take(&mut rest, 'l') {
            c.length += 1;
        } else if take(&mut rest, 'h') {
            c.length -= 1;
        } else if take(&mut rest, 'L') || take(&mut rest, 'j') {
            c.length = 2;
        } else if take(&mut rest, 'z') || take(&mut rest, 'Z') || take(&mut rest, 't') {
            c.length = 1;
        } else {
            break;
        }
    }
    c.length = c.length.clamp(-2, 2);
    let mut chars = rest.chars();
    c.kind = chars.next().unwrap_or('%');
    rest = chars.as_str();
    if c.kind == 'p' {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        if let Some((suffix, tail)) = rest.split_at_checked(end) {
            c.pointer = suffix.to_owned();
            rest = tail;
        }
    }
    (c, rest)
}

fn size(rest: &mut &str) -> Option<Size> {
    if let Some(tail) = rest.strip_prefix('*') {
        *rest = tail;
        return Some(Size::Argument);
    }
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (digits, tail) = rest.split_at_checked(end)?;
    let size = digits.parse().ok()?;
    *rest = tail;
    Some(Size::Fixed(size))
}

/// Appends the filled string; a conversion without an argument stays away.
pub(super) fn print(pieces: &[Piece], args: &[Expr], payload: &Payload<'_>, out: &mut String) {
    let mut args = args.iter();
    for piece in pieces {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Conversion(c) => convert(c, &mut args, payload, out),
        }
    }
}

/// The text after `name=` up to the next space, where the string itself has that word; `None` where it has not.
/// The pieces before it are not filled.
pub(super) fn print_word(
    name: &str,
    format: &(Vec<Piece>, Vec<Expr>),
    payload: &Payload<'_>,
) -> Option<String> {
    let (pieces, args) = format;
    let mut args = args.iter();
    let (mut out, mut is_found) = (String::new(), false);
    for (at, piece) in pieces.iter().enumerate() {
        match piece {
            _ if out.contains(' ') => break,
            Piece::Conversion(c) if is_found => convert(c, &mut args, payload, &mut out),
            Piece::Conversion(c) => args.by_ref().take(c.arguments()).for_each(drop),
            Piece::Text(text) if is_found => out.push_str(text),
            Piece::Text(text) => {
                let value = value_in(text, name, at == 0);
                is_found = value.is_some();
                out.push_str(value.unwrap_or_default());
            }
        }
    }
    out.truncate(out.find(' ').unwrap_or(out.len()));
    is_found.then_some(out)
}

/// The rest of a literal after its word `name=`. A word begins after a space, or where the string does.
fn value_in<'t>(text: &'t str, name: &str, is_first: bool) -> Option<&'t str> {
    let starts = is_first.then_some(0).into_iter().chain(text.match_indices(' ').map(|(at, _)| at + 1));
    starts.filter_map(|at| text.get(at..)?.strip_prefix(name)?.strip_prefix('=')).next()
}

fn convert<'e>(
    c: &Conversion,
    args: &mut impl Iterator<Item = &'e Expr>,
    payload: &Payload<'_>,
    out: &mut String,
) {
    let mut sized = |size: Option<Size>| match size? {
        Size::Fixed(n) => Some(n.min(MAX_WIDTH)),
        Size::Argument => usize::try_from(payload.value(args.next()?)).ok().map(|n| n.min(MAX_WIDTH)),
    };
    let (width, precision) = (sized(c.width).unwrap_or(0), sized(c.precision));
    let Some(arg) = args.next() else { return };
    let body = match c.kind {
        's' => {
            let text = payload.string(arg);
            match precision {
                Some(n) => Cow::Owned(text.chars().take(n).collect()),
                None => text,
            }
        }
        'c' => payload
            .value(arg)
            .to_le_bytes()
            .first()
            .map_or(String::new(), |b| char::from(*b).to_string())
            .into(),
        'p' => pointer(c, arg, payload).into(),
        _ => {
            let bits = match c.length {
                -2 => 8,
                -1 => 16,
                0 => 32,
                // `long` is as wide as the recording kernel's.
                1 if payload.format.long_size == 4 => 32,
                _ => 64,
            };
            return number(c, NumberShape { bits, width, precision }, payload.value(arg), out);
        }
    };
    if width == 0 {
        return out.push_str(&body);
    }
    let _ = if c.left { write!(out, "{body:<width$}") } else { write!(out, "{body:>width$}") };
}

/// `%pI4`, `%pM` … of bytes in the payload; any other pointer as a number.
fn pointer(c: &Conversion, arg: &Expr, payload: &Payload<'_>) -> String {
    let field = match arg {
        Expr::Field(f) => payload.format.fields.get(*f),
        Expr::Cast { of, .. } => match **of {
            Expr::Field(f) => payload.format.fields.get(f),
            _ => None,
        },
        _ => None,
    };
    let bytes = field.map_or(&[][..], |f| payload.bytes(f));
    let join = |between: &str, f: &dyn Fn(&u8) -> String, n: usize| {
        bytes.iter().take(n).map(f).collect::<Vec<_>>().join(between)
    };
    match c.pointer.as_str() {
        "I4" | "i4" => join(".", &u8::to_string, 4),
        "M" => join(":", &|b| format!("{b:02x}"), 6),
        p if p.starts_with("IS") => {
            socket_address(bytes, p.contains('p'), payload.format.endian).unwrap_or_default()
        }
        p if p.starts_with("I6") => {
            let ip: Option<[u8; 16]> = bytes.first_chunk().copied();
            ip.map_or(String::new(), |ip| std::net::Ipv6Addr::from(ip).to_string())
        }
        p => {
            let value = payload.value(arg);
            let code = matches!(p, "F" | "f" | "S" | "s" | "B");
            match (payload.resolve)(value).filter(|_| code) {
                Some((name, offset)) if matches!(p, "F" | "S") => format!("{name}+{offset:#x}"),
                Some((name, _)) => name,
                None if value == 0 && !code => "(nil)".into(),
                None => format!("{value:#x}"),
            }
        }
    }
}

/// A `sockaddr` of IPv4 or IPv6, followed by its port if asked for.
fn socket_address(bytes: &[u8], port: bool, endian: crate::Endian) -> Option<String> {
    const AF_INET6: u16 = 10;
    let (family, port_bytes) = (*bytes.first_chunk()?, *bytes.get(2..)?.first_chunk()?);
    let number = u16::from_be_bytes(port_bytes);
    if endian.u16(family) == AF_INET6 {
        let ip: [u8; 16] = *bytes.get(8..)?.first_chunk()?;
        let ip = std::net::Ipv6Addr::from(ip);
        return Some(if port { format!("[{ip}]:{number}") } else { ip.to_string() });
    }
    let ip: [u8; 4] = *bytes.get(4..)?.first_chunk()?;
    let ip = std::net::Ipv4Addr::from(ip);
    Some(if port { format!("{ip}:{number}") } else { ip.to_string() })
}

/// Size of a printed number.
#[derive(Clone, Copy)]
struct NumberShape {
    /// Width of the value itself.
    bits: u32,
    /// Least characters printed.
    width: usize,
    /// Least digits printed, if given.
    precision: Option<usize>,
}

fn number(c: &Conversion, shape: NumberShape, value: u64, out: &mut String) {
    let NumberShape { bits, width, precision } = shape;
    let cut = if bits == 64 { value } else { value & ((1u64 << bits) - 1) };
    let (negative, digits) = match c.kind {
        'd' | 'i' => {
            let signed = (cut << (64 - bits)).cast_signed() >> (64 - bits);
            (signed < 0, signed.unsigned_abs().to_string())
        }
        'x' => (false, format!("{cut:x}")),
        'X' => (false, format!("{cut:X}")),
        'o' => (false, format!("{cut:o}")),
        _ => (false, cut.to_string()),
    };
    let sign = match (negative, c.kind) {
        (true, _) => "-",
        (false, 'd' | 'i') if c.plus => "+",
        (false, 'd' | 'i') if c.space => " ",
        (false, 'x') if c.alternate && cut != 0 => "0x",
        (false, 'X') if c.alternate && cut != 0 => "0X",
        (false, 'o') if c.alternate && cut != 0 => "0",
        _ => "",
    };
    let inner = match precision {
        Some(n) => n,
        None if c.zero && !c.left => width.saturating_sub(sign.len()),
        None => 0,
    };
    // The common case, without another string.
    if width == 0 && inner <= digits.len() {
        out.push_str(sign);
        out.push_str(&digits);
        return;
    }
    let body = format!("{sign}{digits:0>inner$}");
    let _ = if c.left { write!(out, "{body:<width$}") } else { write!(out, "{body:>width$}") };
}
