//! The kernel's macros in print formats: `__print_flags`, `__get_str` and the like, and the tables within them.

use super::{Expr, Parser, known};
use crate::tracepoint::eval;
use crate::tracepoint::token::Token;

impl Parser<'_> {
    /// A field as the argument of a helper: `REC->x`, `__get_dynamic_array(x)`, maybe cast or in parentheses.
    fn field_argument(&mut self) -> Option<usize> {
        match self.expression()? {
            Expr::Field(f) => Some(f),
            Expr::Cast { of, .. } => match *of {
                Expr::Field(f) => Some(f),
                _ => None,
            },
            _ => None,
        }
    }

    pub(super) fn function(&mut self, name: &str) -> Option<Expr> {
        Some(match name {
            "__get_str"
            | "__get_rel_str"
            | "__get_dynamic_array"
            | "__get_rel_dynamic_array"
            | "__get_sockaddr" => Expr::Field(self.field_name()?),
            "__get_dynamic_array_len" | "__get_rel_dynamic_array_len" => Expr::DynamicLen(self.field_name()?),
            "__get_bitmask" | "__get_rel_bitmask" | "__get_cpumask" | "__get_rel_cpumask" => {
                Expr::Bitmask(self.field_name()?)
            }
            "__print_flags" | "__print_flags_u64" => {
                let value = Box::new(self.expression()?);
                self.expect(",")?;
                let Token::Text(delimiter) = self.next()? else { return None };
                Expr::Flags { value, delimiter, table: self.table()? }
            }
            "__print_symbolic" | "__print_symbolic_u64" => {
                Expr::Symbolic { value: Box::new(self.expression()?), table: self.table()? }
            }
            "__print_hex" | "__print_hex_str" => {
                let field = self.field_argument()?;
                self.expect(",")?;
                let between = if name == "__print_hex" { " " } else { "" };
                Expr::Hex { field, len: Box::new(self.expression()?), between }
            }
            "__print_array" => {
                let field = self.field_argument()?;
                self.expect(",")?;
                let count = Box::new(self.expression()?);
                self.expect(",")?;
                Expr::Array { field, count, size: Box::new(self.expression()?) }
            }
            _ => return None,
        })
    }

    /// `, { value, "name" }, …`
    fn table(&mut self) -> Option<Vec<(u64, String)>> {
        let mut table = Vec::new();
        while self.eat(",") {
            self.expect("{")?;
            let value = self.table_value()?;
            self.expect(",")?;
            let name = self.expression()?;
            self.expect("}")?;
            // Newer kernels end the table with `{ 0, ((void *)0) }`.
            if let (TableKey::Number(value), Expr::Text(name)) = (value, name) {
                table.push((value, name));
            }
        }
        Some(table)
    }

    /// The value of a table's entry.
    fn table_value(&mut self) -> Option<TableKey> {
        if let (Some(Token::Name(n)), Some(Token::Op(","))) = (self.peek(), self.tokens.get(self.at + 1)) {
            let value = known(n);
            self.at += 1;
            return Some(value.into());
        }
        Some(eval::constant(&self.expression()?).into())
    }
}

/// The value of an entry in a table of names.
enum TableKey {
    Number(u64),
    /// Not known here: the entry cannot match.
    Unknown,
}

impl From<Option<u64>> for TableKey {
    fn from(value: Option<u64>) -> Self {
        value.map_or(Self::Unknown, Self::Number)
    }
}
