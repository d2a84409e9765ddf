//! Which rows are kept, and how much of their chains, once their frames have names.

use super::frame::own_name;
use super::row::Row;
use profile::profile::Profile;
use profile::table::FrameId;

/// What was asked for by name. Empty lists let everything pass.
#[derive(Clone, Debug, Default)]
pub struct Picks {
    /// Functions of the sampled address.
    pub symbols: Vec<String>,
    /// Files of the sampled address, by path or short name.
    pub dsos: Vec<String>,
    /// Functions that end a chain: their callers are not shown.
    pub stop_at: Vec<String>,
}

impl Picks {
    /// Leaves out what was not asked for. Records that are no samples stay.
    pub fn apply(&self, profile: &Profile, rows: &mut Vec<Row<'_>>) {
        if !self.symbols.is_empty() || !self.dsos.is_empty() {
            rows.retain(|row| row.note.is_some() || row.leaf.is_some_and(|leaf| self.keeps(profile, leaf)));
        }
        if !self.stop_at.is_empty() {
            rows.iter_mut().filter_map(|row| row.chain.as_mut()).for_each(|chain| self.cut(profile, chain));
        }
    }

    fn keeps(&self, profile: &Profile, leaf: FrameId) -> bool {
        let dso = profile.dsos.of(profile.frames.of(leaf).dso);
        let name = own_name(profile, leaf).map(|own| profile.strings.of(profile.symbols.of(own.symbol).name));
        (self.dsos.is_empty() || self.dsos.iter().any(|d| *d == dso.path || *d == dso.short_name))
            && (self.symbols.is_empty() || name.is_some_and(|name| self.symbols.iter().any(|s| s == name)))
    }

    fn cut(&self, profile: &Profile, chain: &mut Vec<FrameId>) {
        let stops = |frame: &FrameId| {
            let mut names =
                profile.frame_names(*frame).iter().map(|name| profile.symbols.of(name.symbol).name);
            names.any(|name| self.stop_at.iter().any(|stop| stop == profile.strings.of(name)))
        };
        if let Some(last) = chain.iter().position(stops) {
            chain.truncate(last + 1);
        }
    }
}
