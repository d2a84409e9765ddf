//! `--hierarchy`: the tree of rows as perf draws it.
//
// Source: linux v6.1 tools/perf/ui/stdio/hist.c, hist_entry__hierarchy_fprintf() and hists__fprintf_hierarchy_headers().

use super::{Column, Table};
use profile::view::report::{Level, ReportField, ReportRow, SortKey, hierarchy};
use std::fmt::Write as _;
use std::io::{self, Write};

/// Blanks by which a level is further to the right than the one around it.
const INDENT: usize = 3;

impl Table<'_> {
    /// The two heading lines and the one below them.
    pub(super) fn tree_headings(&self) -> String {
        let indent = self.indent();
        let (mut names, mut dots) = (format!("# {:indent$}", ""), format!("# {}", ".".repeat(indent)));
        for (i, column) in self.numbers().enumerate() {
            let width = column.width;
            let _ = write!(names, "{:>width$}", column.heading);
            self.separate(&mut names);
            if i > 0 {
                dots.push_str("..");
            }
            dots.push_str(&".".repeat(width));
        }
        let keys: Vec<&str> = self.keys().map(|column| column.heading.trim()).collect();
        let title = keys.join(" / ");
        let widths = self.keys().enumerate().map(|(depth, column)| depth * INDENT + column.width);
        let width = widths.max().unwrap_or(0).max(title.chars().count());
        self.separate(&mut dots);
        format!("{names}{title}\n{dots}{}\n#\n", ".".repeat(width))
    }

    /// All lines of the tree.
    pub(in crate::text::report) fn write_tree(&self, out: &mut dyn Write) -> io::Result<()> {
        let levels = hierarchy(self.profile, &self.opts.tree.clone().unwrap_or_default(), self.section);
        let mut text = String::new();
        for (at, level) in levels.iter().enumerate().filter(|(_, level)| self.is_shown(&level.row)) {
            text.clear();
            self.level(&mut text, level);
            if let Some(style) = self.opts.graph.filter(|_| level.is_leaf) {
                self.graph(&mut text, &level.row, style);
            }
            let mut below = levels[at + 1..].iter().take_while(|other| other.depth > level.depth);
            if !level.is_leaf && !below.any(|below| self.is_shown(&below.row)) {
                let indent = (self.keys().count() + level.depth) * INDENT;
                let blanks = indent + self.overhead_width();
                let _ = writeln!(text, "{:blanks$}no entry >= {:.2}%", "", self.opts.min_percent);
            }
            out.write_all(text.as_bytes())?;
        }
        Ok(())
    }

    fn level(&self, text: &mut String, level: &Level) {
        let blanks = level.depth * INDENT;
        let _ = write!(text, "{:blanks$}", "");
        for (i, column) in self.numbers().enumerate() {
            if i > 0 || self.opts.separator.is_none() {
                self.separate(text);
            }
            let cell = self.cell(&level.row, column);
            let gap = column.width.saturating_sub(cell.chars().count());
            text.push_str(&self.coloured(&level.row, column.field, cell));
            let _ = write!(text, "{:gap$}", "");
        }
        let _ = write!(text, "{:1$}", "", self.indent());
        self.separate(text);
        text.push_str(&self.key_cell(&level.row, level.depth));
        text.push('\n');
    }

    /// The value of one key; all but functions and tasks are as wide as their column.
    fn key_cell(&self, row: &ReportRow, depth: usize) -> String {
        let column = self.keys().find(|column| column.value == Some(depth));
        let Some(column) = column else { return String::new() };
        let cell = self.cell(row, column);
        let cell = cell.trim_start();
        match column.field {
            ReportField::Key(SortKey::Symbol | SortKey::Pid | SortKey::Tid | SortKey::Tgid) => {
                cell.to_owned()
            }
            _ => format!("{cell:<width$}", width = column.width),
        }
    }

    fn numbers(&self) -> impl Iterator<Item = &Column<'_>> {
        self.columns.iter().filter(|column| !matches!(column.field, ReportField::Key(_)))
    }

    fn keys(&self) -> impl Iterator<Item = &Column<'_>> {
        self.columns.iter().filter(|column| matches!(column.field, ReportField::Key(_)))
    }

    /// Text between the numbers of the outermost level and its key.
    fn indent(&self) -> usize {
        match self.opts.separator {
            Some(_) => 0,
            None => (self.section.keys.len() - 1) * INDENT,
        }
    }

    fn overhead_width(&self) -> usize {
        self.numbers().map(|column| column.width + 2).sum::<usize>() + 2
    }
}
