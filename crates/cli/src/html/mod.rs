//! The report as one HTML file: a flame graph on a canvas and a table of functions, for each event. It needs no
//! network and nothing next to it.

use crate::flame::{NodeId, Tree, Unit};
use crate::foreign::{self, harmless, xml};
use serde_json::{Value, json};
use std::io::{self, Write};

const SCRIPT: &str = include_str!("../../assets/report.js");
const STYLE: &str = include_str!("../../assets/report.css");

/// One event's stacks.
pub struct Page {
    /// The event's name.
    pub event: String,
    /// Its stacks.
    pub tree: Tree,
}

/// Writes the file.
///
/// # Errors
/// `out` can't be written.
pub fn write(out: &mut impl Write, title: &str, pages: &[Page]) -> io::Result<()> {
    let data: Vec<Value> = pages.iter().map(page).collect();
    writeln!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{}</title>\n<style>\n{STYLE}</style>\
         </head>\n<body><script type=\"application/json\" id=\"data\">{}</script>\n<script>\n{SCRIPT}</script>\
         </body></html>",
        xml(title),
        in_script(&json!({ "title": title, "events": data })),
    )
}

/// Columns by node, the root first; callers are before what they call.
fn page(page: &Page) -> Value {
    let tree = &page.tree;
    let ids: Vec<NodeId> =
        [Tree::ROOT].into_iter().chain(tree.nodes_with_parents().map(|(id, _)| id)).collect();
    let column = |value: &dyn Fn(NodeId) -> Value| ids.iter().map(|&id| value(id)).collect::<Vec<_>>();
    let names: Vec<Value> = tree
        .names()
        .map(|(name, kind)| json!([harmless(name), format!("{kind:?}").to_lowercase()]))
        .collect();
    json!({
        "event": page.event,
        "unit": if tree.unit == Unit::Nanoseconds { "ns" } else { "" },
        "names": names,
        "name": column(&|id| tree.node(id).name.index().into()),
        "parent": column(&|id| tree.node(id).parent.index().into()),
        "own": column(&|id| tree.node(id).own.into()),
        "samples": column(&|id| tree.node(id).samples.into()),
    })
}

/// JSON that cannot end the script element it is in.
fn in_script(value: &Value) -> String {
    foreign::json(value).replace("</", "<\\/").replace("<!--", "<\\!--")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_the_script() {
        let tree = crate::input::folded::read(b"p;</script><b>;x 3\n").tree;
        let mut out = Vec::new();
        write(&mut out, "<t>", &[Page { event: "e".to_owned(), tree }]).expect("writing to memory");
        let text = String::from_utf8(out).expect("UTF-8");
        assert_eq!(text.matches("</script>").count(), 2);
        assert!(text.contains("<title>&lt;t&gt;</title>"));
    }
}
