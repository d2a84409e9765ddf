//! `tally flame --diff`: the stacks of two recordings in one graph, or in two columns.

use super::{Args, read_stacks, svg_opts};
use crate::reading::load;
use exchange::export;
use exchange::svg;
use profile::view::flame::{ChangeOpts, ChangeScale, ComparedTree, Tree};
use std::io::{self, Write};
use std::path::Path;

/// Two recordings' stacks with their words.
pub(super) struct Compared {
    tree: ComparedTree,
    names: (String, String),
    /// The amounts of both sides.
    amounts: (String, String),
    /// Values are of samples taken at random.
    is_sampled: bool,
}

pub(super) fn read(before: &Path, after: &Path, args: &Args) -> anyhow::Result<Compared> {
    let turned = |tree: Tree| if args.reverse { tree.reversed() } else { tree };
    let [a, b] = [read_stacks(before, args)?.0, read_stacks(after, args)?.0].map(turned);
    anyhow::ensure!(
        a.unit == b.unit,
        "{} has {}, and {} has {}: choose an event of both with --event, or compare --samples",
        before.display(),
        svg::amount(&a),
        after.display(),
        svg::amount(&b)
    );
    let is_sampled = !args.blame && args.wall_tree().is_none() && !b.is_waiting();
    let amount = |tree: &Tree| {
        if is_sampled { svg::amount(tree) } else { svg::value_of(&tree.unit, tree.totals()[0].0) }
    };
    let amounts = (amount(&a), amount(&b));
    let names = (load::name_of(before), load::name_of(after));
    Ok(Compared { tree: ComparedTree::new(&a, b), names, amounts, is_sampled })
}

impl Compared {
    pub(super) fn write(&self, out: &mut dyn Write, args: &Args) -> io::Result<()> {
        let mut out = out;
        if args.folded {
            out.write_all(export::folded::to_text_of_both(&self.tree).as_bytes())?;
        } else {
            let scale = if args.norm == "run" { ChangeScale::Run } else { ChangeScale::Share };
            let mut opts = svg_opts(&self.tree.tree, Some(self.subtitle(scale)), args);
            opts.title = args.title.clone().unwrap_or_else(|| self.heading(args));
            let change = ChangeOpts { scale, is_sampled: self.is_sampled };
            svg::write_compared(&mut out, &self.tree, &opts, change)?;
        }
        out.flush()
    }

    /// `Wall clock: old.data → new.data`.
    fn heading(&self, args: &Args) -> String {
        let (before, after) = &self.names;
        let what = if args.blame || args.wall_tree().is_some() { args.heading() } else { "Change" };
        format!("{what}: {before} → {after}")
    }

    fn subtitle(&self, scale: ChangeScale) -> String {
        let (before, after) = &self.amounts;
        let compared = match scale {
            ChangeScale::Share => "compared as shares of each side",
            ChangeScale::Run => "compared per run",
        };
        format!("{before} → {after} · widths of {} · {compared}", self.names.1)
    }
}
