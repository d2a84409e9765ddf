//! A flame tree of blame: a thread's time, with functions of other threads above the waits that they held up.

use super::of_profile::TreeBuilder;
use super::{FrameKind, NodeId, Tree, TreeOpts, Unit};
use crate::profile::Profile;
use crate::table::FrameId;
use crate::view::blame::{Blame, end_frames, end_words, thread_name, waiting_frames};

impl Tree {
    /// The chains of `blame`, root first.
    pub fn of_blame(profile: &Profile, opts: TreeOpts, blame: &Blame) -> Self {
        let mut builder = TreeBuilder::new(profile, opts, Unit::Nanoseconds);
        for path in &blame.paths {
            let mut node = builder.task_node(path.root);
            for link in blame.links(path) {
                let frames = link.sleeper.map(|sleeper| waiting_frames(profile, sleeper));
                node = below(&mut builder, node, &frames.unwrap_or_default());
                let name = thread_name(profile, link.waited_for).replace([' ', ';'], "_");
                node = mark(&mut builder, node, &format!("[waited for: {name}]"), FrameKind::Waiting);
            }
            let frames = path.callsite.map(|callsite| end_frames(profile, callsite, &path.end));
            node = below(&mut builder, node, &frames.unwrap_or_default());
            if let Some(words) = end_words(profile, path) {
                let kind = if path.end.lacks_evidence() { FrameKind::Unknown } else { FrameKind::Waiting };
                node = mark(&mut builder, node, &format!("[{}]", words.replace(';', "_")), kind);
            }
            builder.tree.add(node, path.ns, 1);
        }
        builder.tree
    }
}

fn mark(builder: &mut TreeBuilder<'_>, node: NodeId, text: &str, kind: FrameKind) -> NodeId {
    let name = builder.tree.intern(text, kind);
    builder.tree.child(node, name)
}

fn below(builder: &mut TreeBuilder<'_>, mut node: NodeId, frames: &[FrameId]) -> NodeId {
    for &frame in frames {
        for at in builder.frame(frame) {
            node = builder.tree.child(node, builder.names[at]);
        }
    }
    node
}
