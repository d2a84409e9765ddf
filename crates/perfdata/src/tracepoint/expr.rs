//! The print part of a format: a printf string and C expressions.

mod print_macros;

use super::TracepointField;
use super::eval::binary;
use super::printf::{self, Piece};
use super::token::{Token, tokens};

/// An expression. Fields are positions in the format's list.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expr {
    Number(u64),
    Text(String),
    Field(usize),
    /// An element of an array field, or of a dynamic one's data.
    Index(usize, Box<Expr>),
    Unary(char, Box<Expr>),
    Binary(&'static str, Box<Expr>, Box<Expr>),
    Ternary(Box<Expr>, Box<Expr>, Box<Expr>),
    /// Cast to an integer of this size, signed or not.
    Cast {
        bytes: usize,
        signed: bool,
        of: Box<Expr>,
    },
    Flags {
        value: Box<Expr>,
        delimiter: String,
        table: Vec<(u64, String)>,
    },
    Symbolic {
        value: Box<Expr>,
        table: Vec<(u64, String)>,
    },
    /// Bytes of a field in hexadecimal, with this between them.
    Hex {
        field: usize,
        len: Box<Expr>,
        between: &'static str,
    },
    Array {
        field: usize,
        count: Box<Expr>,
        size: Box<Expr>,
    },
    Bitmask(usize),
    DynamicLen(usize),
}

/// The printf string and its arguments; `None` if something in it is not understood.
pub(super) fn parse_print(text: &str, fields: &[TracepointField]) -> Option<(Vec<Piece>, Vec<Expr>)> {
    let tokens = tokens(text)?;
    let mut p = Parser { tokens: &tokens, at: 0, fields, depth: 0 };
    let Some(Token::Text(format)) = p.next() else { return None };
    let pieces = printf::parse(&format);
    let mut args = Vec::new();
    while p.eat(",") {
        args.push(p.expression()?);
    }
    (p.at == tokens.len()).then_some((pieces, args))
}

struct Parser<'t> {
    tokens: &'t [Token],
    at: usize,
    fields: &'t [TracepointField],
    depth: usize,
}

/// Two parts under an operator. Two numbers are one: masks of states have tens of parts, and are used for every payload.
fn combined(op: &'static str, left: Expr, right: Expr) -> Expr {
    match (left, right) {
        (Expr::Number(left), Expr::Number(right)) => Expr::Number(binary(op, left, right)),
        (left, right) => Expr::Binary(op, Box::new(left), Box::new(right)),
    }
}

/// Binary operators by rising precedence.
const LEVELS: [&[&str]; 10] = [
    &["||"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["==", "!="],
    &["<=", ">=", "<", ">"],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
];

/// Deeper nesting than any kernel's format has.
const MAX_DEPTH: usize = 200;
/// Operators of one precedence in a row (`a|b|c`), each of which nests the ones before it. Kernels write some tens.
const MAX_CHAIN: usize = 500;

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.peek().cloned();
        self.at += 1;
        token
    }

    fn eat(&mut self, op: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Op(o)) if *o == op);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, op: &str) -> Option<()> {
        self.eat(op).then_some(())
    }

    fn expression(&mut self) -> Option<Expr> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let condition = self.binary(0)?;
        let out = if self.eat("?") {
            let yes = self.expression()?;
            self.expect(":")?;
            Expr::Ternary(Box::new(condition), Box::new(yes), Box::new(self.expression()?))
        } else {
            condition
        };
        self.depth -= 1;
        Some(out)
    }

    fn binary(&mut self, level: usize) -> Option<Expr> {
        let Some(ops) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        let mut chain = 0;
        while let Some(op) = ops.iter().find(|op| self.eat(op)) {
            chain += 1;
            if chain > MAX_CHAIN {
                return None;
            }
            left = combined(op, left, self.binary(level + 1)?);
        }
        Some(left)
    }

    fn unary(&mut self) -> Option<Expr> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let out = self.unary_inner();
        self.depth -= 1;
        out
    }

    fn unary_inner(&mut self) -> Option<Expr> {
        for (op, c) in [("!", '!'), ("~", '~'), ("-", '-'), ("+", '+')] {
            if self.eat(op) {
                return Some(Expr::Unary(c, Box::new(self.unary()?)));
            }
        }
        // `*` before an expression: data at a pointer into the payload (`*(u8 *)__get_dynamic_array(x)`).
        if self.eat("*") {
            return match self.unary()? {
                Expr::Field(f) => Some(Expr::Index(f, Box::new(Expr::Number(0)))),
                Expr::Cast { of, .. } => match *of {
                    Expr::Field(f) => Some(Expr::Index(f, Box::new(Expr::Number(0)))),
                    _ => None,
                },
                _ => None,
            };
        }
        if self.eat("&") {
            return self.unary();
        }
        if self.eat("(") {
            if let Some((bytes, signed)) = self.cast_type() {
                return Some(Expr::Cast { bytes, signed, of: Box::new(self.unary()?) });
            }
            let inner = self.expression()?;
            self.expect(")")?;
            return self.index(inner);
        }
        let primary = self.primary()?;
        self.index(primary)
    }

    /// `[n]` after a field.
    fn index(&mut self, of: Expr) -> Option<Expr> {
        if !self.eat("[") {
            return Some(of);
        }
        let at = self.expression()?;
        self.expect("]")?;
        let field = match of {
            Expr::Field(f) => f,
            Expr::Cast { of, .. } => match *of {
                Expr::Field(f) => f,
                _ => return None,
            },
            _ => return None,
        };
        Some(Expr::Index(field, Box::new(at)))
    }

    /// A type up to its `)`, or nothing consumed. Names only, with `*`, and none that begins an expression.
    fn cast_type(&mut self) -> Option<(usize, bool)> {
        let mut words = Vec::new();
        let mut at = self.at;
        loop {
            match self.tokens.get(at)? {
                Token::Name(n) if n != "REC" && !n.starts_with("__print") && !n.starts_with("__get") => {
                    words.push(n.as_str())
                }
                Token::Op("*") if !words.is_empty() => words.push("*"),
                Token::Op(")") if !words.is_empty() => break,
                _ => return None,
            }
            at += 1;
        }
        self.at = at + 1;
        let text = words.join(" ");
        let signed = !text.contains('*') && !words.iter().any(|w| is_unsigned(w));
        let size = if text.contains("int")
            && !text.contains("long")
            && !text.contains('*')
            && !text.contains("64")
        {
            if text.contains("16") {
                2
            } else if text.contains("int8") {
                1
            } else {
                4
            }
        } else {
            super::type_size(&text)
        };
        Some((size, signed))
    }

    fn primary(&mut self) -> Option<Expr> {
        match self.next()? {
            Token::Number(n) => Some(Expr::Number(n)),
            Token::Text(s) => Some(Expr::Text(s)),
            Token::Name(n) if n == "REC" => {
                self.expect("->")?;
                Some(Expr::Field(self.field_name()?))
            }
            Token::Name(n) if n == "sizeof" => self.sizeof(),
            // libtraceevent takes a name nobody resolved (`vmemmap_base`) for 0, and so do we.
            Token::Name(n) if self.peek() != Some(&Token::Op("(")) => {
                Some(Expr::Number(known(&n).unwrap_or(0)))
            }
            Token::Name(n) => {
                self.expect("(")?;
                let out = self.function(&n)?;
                self.expect(")")?;
                Some(out)
            }
            Token::Op(_) => None,
        }
    }

    fn sizeof(&mut self) -> Option<Expr> {
        self.expect("(")?;
        if let Some((bytes, _)) = self.cast_type() {
            return Some(Expr::Number(bytes as u64));
        }
        let Expr::Field(f) = self.expression()? else { return None };
        self.expect(")")?;
        Some(Expr::Number(self.fields.get(f)?.size as u64))
    }

    /// A bare name that is a field.
    fn field_name(&mut self) -> Option<usize> {
        let Token::Name(name) = self.next()? else { return None };
        self.fields.iter().position(|f| f.name == name)
    }
}

fn is_unsigned(word: &str) -> bool {
    const WORDS: [&str; 8] =
        ["unsigned", "bool", "size_t", "gfp_t", "sector_t", "ulong", "uint", "dma_addr_t"];
    let sized = word
        .trim_start_matches("__")
        .strip_prefix('u')
        .is_some_and(|r| r.starts_with(|c: char| c.is_ascii_digit()));
    sized || WORDS.contains(&word) || word.starts_with("uint")
}

/// Names that formats use without their values.
fn known(name: &str) -> Option<u64> {
    const NAMES: [(&str, u64); 14] = [
        ("HI_SOFTIRQ", 0),
        ("TIMER_SOFTIRQ", 1),
        ("NET_TX_SOFTIRQ", 2),
        ("NET_RX_SOFTIRQ", 3),
        ("BLOCK_SOFTIRQ", 4),
        ("IRQ_POLL_SOFTIRQ", 5),
        ("TASKLET_SOFTIRQ", 6),
        ("SCHED_SOFTIRQ", 7),
        ("HRTIMER_SOFTIRQ", 8),
        ("RCU_SOFTIRQ", 9),
        ("HRTIMER_NORESTART", 0),
        ("HRTIMER_RESTART", 1),
        ("true", 1),
        ("false", 0),
    ];
    NAMES.iter().find(|(n, _)| *n == name).map(|(_, v)| *v)
}
