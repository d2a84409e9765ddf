//! Which rows are kept, and how much of their chains, once their frames have names.

use super::frame::own_name;
use super::row::Row;
use profile::profile::Profile;
use profile::table::FrameId;

/// Selection by name. Empty lists let everything pass.
#[derive(Clone, Debug, Default)]
pub struct Picks {
    /// Functions of the sampled address.
    pub symbols: Vec<String>,
    /// Addresses in the process, and how many bytes from each on count: the sampled address, or its function's first.
    pub addresses: (Vec<u64>, u64),
    /// Files of the sampled address, by path or short name.
    pub dsos: Vec<String>,
    /// Functions that end a chain: their callers are not shown.
    pub stop_at: Vec<String>,
}

impl Picks {
    /// Leaves out what was not asked for. Records that are no samples stay.
    pub fn apply(&self, profile: &Profile, rows: &mut Vec<Row<'_>>) {
        if !self.symbols.is_empty() || !self.addresses.0.is_empty() || !self.dsos.is_empty() {
            let keeps = |row: &Row<'_>| row.leaf.is_some_and(|leaf| self.keeps(profile, row, leaf));
            rows.retain(|row| row.note.is_some() || keeps(row));
        }
        if !self.stop_at.is_empty() {
            rows.iter_mut().filter_map(|row| row.chain.as_mut()).for_each(|chain| self.cut(profile, chain));
        }
    }

    fn keeps(&self, profile: &Profile, row: &Row<'_>, leaf: FrameId) -> bool {
        let dso = profile.dsos.of(profile.frames.of(leaf).dso);
        let anywhere = self.symbols.is_empty() && self.addresses.0.is_empty();
        (self.dsos.is_empty() || self.dsos.iter().any(|d| *d == dso.path || *d == dso.short_name))
            && (anywhere || self.keeps_place(profile, row, leaf))
    }

    fn keeps_place(&self, profile: &Profile, row: &Row<'_>, leaf: FrameId) -> bool {
        let symbol = own_name(profile, leaf).map(|own| profile.symbols.of(own.symbol));
        let at = row.sample.ip.map(|ip| ip.0);
        // A function is in the process as far from the sampled address as it does in its file.
        let into = symbol.map(|symbol| profile.frames.of(leaf).addr.wrapping_sub(symbol.start));
        let start = at.zip(into).map(|(at, into)| at.wrapping_sub(into));
        let (addresses, range) = &self.addresses;
        let has = |from: &u64| start == Some(*from) || at.is_some_and(|at| at.wrapping_sub(*from) < *range);
        symbol.is_some_and(|symbol| self.symbols.iter().any(|s| s == profile.strings.of(symbol.name)))
            || addresses.iter().any(has)
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
