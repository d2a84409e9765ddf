//! A flame tree of the wall clock: the paths of running and waiting time on one scale, each wait topped by its reason.

use super::of_profile::TreeBuilder;
use super::{FrameKind, Tree, TreeOpts, Unit};
use crate::profile::Profile;
use crate::view::wall::{Part, WallOpts, WallPath, causing_frames, paths, state_frame};

/// Which part of the wall clock to draw.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WallTree {
    /// All of it.
    Wall,
    /// Time off the CPU.
    OffCpu,
    /// Time on the CPU, scaled to its exact length.
    OnCpu,
    /// Blocked time, with the stacks of those who ended it above the sleepers'.
    Wakers,
}

impl Tree {
    /// The wall clock of `profile`.
    pub fn of_wall(profile: &Profile, opts: TreeOpts, which: WallTree, wall: &WallOpts) -> Self {
        let mut builder = TreeBuilder::new(profile, opts, Unit::Nanoseconds);
        builder.tree.waiting = matches!(which, WallTree::OffCpu | WallTree::Wakers);
        // Idle waits are distinguished even where they are wanted: they are drawn grey.
        let distinguished = WallOpts { with_idle: false, ..wall.clone() };
        for path in paths(profile, &distinguished).iter().filter(|path| is_part(which, path, wall.with_idle))
        {
            add(&mut builder, which, path);
        }
        builder.tree
    }
}

fn is_part(which: WallTree, path: &WallPath, with_idle: bool) -> bool {
    match (which, path.part) {
        (WallTree::OnCpu, Part::Idle) => false,
        (_, Part::Idle) => with_idle,
        (WallTree::Wall, _) => true,
        (WallTree::OnCpu, part) => part == Part::On,
        (WallTree::OffCpu, part) => part != Part::On,
        (WallTree::Wakers, part) => matches!(part, Part::Blocked(_)),
    }
}

fn add(builder: &mut TreeBuilder<'_>, which: WallTree, path: &WallPath) {
    let mut node = match path.callsite {
        Some(callsite) => builder.node(path.task, callsite),
        None => builder.task_node(path.task),
    };
    let mut push = |builder: &mut TreeBuilder<'_>, name: &str, kind: FrameKind| {
        let name = builder.tree.intern(name, kind);
        node = builder.tree.child(node, name);
    };
    if path.callsite.is_none() && path.part != Part::On {
        push(builder, "[no stack]", FrameKind::Unknown);
    }
    if let Some(state) = state_frame(path) {
        let kind = if path.part == Part::On { FrameKind::Unknown } else { FrameKind::Waiting };
        push(builder, &format!("[{state}]"), kind);
    }
    if let Some(target) = &path.target {
        push(builder, &format!("[for {}]", target.replace(';', "_")), FrameKind::Waiting);
    }
    if let (WallTree::Wakers, Some((waker, callsite))) = (which, &path.waker) {
        push(builder, &format!("[woken by {}]", waker.replace([' ', ';'], "_")), FrameKind::Waiting);
        for frame in causing_frames(builder.profile, waker, *callsite) {
            for at in builder.frame(frame).rev() {
                node = builder.tree.child(node, builder.names[at]);
            }
        }
    }
    builder.tree.add(node, path.ns, 1);
}
