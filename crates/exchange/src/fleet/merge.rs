//! Rows of a fleet added up by machine.

use super::{FleetFilter, FleetSums};
use crate::export::samples::SampleSet;
use crate::import::{
    ImportError, RowSum, RowSums, RowTexts, SampleColumns, SampleRows, StackOwner, StackRow, hosts, services,
};
use crate::parquet::ReadMemory;
use profile::view::wall::{Part, part_name};
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// The samples of all tasks but the kernel's idle ones, which run while a CPU has nothing to do.
#[must_use]
pub fn without_idle(mut samples: SampleSet<'_>) -> SampleSet<'_> {
    let mut stacks = std::mem::take(&mut samples.stacks);
    stacks.retain(|stack| samples.profile.task(stack.task).pid != 0);
    samples.with_stacks(stacks)
}

/// Rows read of a fleet: one sum for each machine, or one of all.
#[derive(Default)]
pub struct FleetProfiles {
    /// The sum of all has an empty name.
    sums: BTreeMap<String, RowSums>,
    /// Names of the machines.
    pub hosts: BTreeSet<String>,
    /// Intervals that were added.
    pub files: u64,
    memory: ReadMemory,
}

impl FleetProfiles {
    /// Adds the rows of a file that are of the services asked for.
    ///
    /// # Errors
    /// If it can't be read: then nothing is added, unless its stacks are too many.
    pub fn add_file(&mut self, file: &[u8], filter: &FleetFilter) -> Result<(), ImportError> {
        let is_wanted = |service: &str| filter.takes_service(service);
        if !filter.services.is_empty() && !services(file)?.iter().any(|service| is_wanted(service)) {
            return Ok(());
        }
        let is_kind = |kind: &str| filter.takes_kind(kind) || (kind == WALL && filter.takes_kind(OFF_CPU));
        let read = SampleRows::read_kinds(file, &is_kind, &mut self.memory)?;
        let Some(columns) = read.columns() else { return Ok(()) };
        if !read.has_all() {
            for host in hosts(file)? {
                self.sums_of(&host, filter);
            }
        }
        let wanted = columns.wanted_services(is_wanted);
        let rows: Vec<usize> =
            (0..columns.rows).filter(|&row| wanted[columns.numbers(row).service as usize]).collect();
        let mut known = KnownRows { filter, owners: FxHashMap::default(), paths: FxHashMap::default() };
        for rows in rows.chunk_by(|&a, &b| columns.numbers(a).host == columns.numbers(b).host) {
            let sums = self.sums_of(columns.row(rows[0]).host, filter);
            rows.iter().try_for_each(|&row| known.add(&columns, row, sums))?;
        }
        self.files += u64::from(!rows.is_empty() || !read.has_all());
        read.give_back(&mut self.memory);
        Ok(())
    }

    /// Adds a row. Threads of one name are one; time off the CPU is a kind of value of its own, too.
    ///
    /// # Errors
    /// If the stacks of a machine are too many.
    pub fn add(&mut self, row: &StackRow<'_>, filter: &FleetFilter) -> Result<(), ImportError> {
        let sums = self.sums_of(row.host, filter);
        let row = StackRow { pid: 0, tid: 0, ..*row };
        sums.add(&row)?;
        off_cpu(&row).map_or(Ok(()), |off_cpu| sums.add(&off_cpu))
    }

    fn sums_of(&mut self, host: &str, filter: &FleetFilter) -> &mut RowSums {
        if !self.hosts.contains(host) {
            self.hosts.insert(host.to_owned());
        }
        let name = if filter.sums == FleetSums::OfAll { "" } else { host };
        if !self.sums.contains_key(name) {
            self.sums.insert(name.to_owned(), RowSums::default());
        }
        self.sums.get_mut(name).expect("invariant: just inserted")
    }

    /// Adds the sums of others, as if their rows were added after those of this one.
    ///
    /// # Errors
    /// If the stacks of a machine are too many.
    pub fn merge(&mut self, other: Self) -> Result<(), ImportError> {
        self.files += other.files;
        self.hosts.extend(other.hosts);
        for (name, sums) in other.sums {
            match self.sums.get_mut(&name) {
                Some(known) => known.merge(sums)?,
                None => drop(self.sums.insert(name, sums)),
            }
        }
        Ok(())
    }

    /// Gives up what only more rows would need.
    pub fn shrink(&mut self) {
        self.sums.values_mut().for_each(RowSums::shrink);
        self.memory = ReadMemory::default();
    }

    /// The sums, by machine; that of all machines has an empty name.
    #[must_use]
    pub fn into_sums(self) -> impl ExactSizeIterator<Item = (String, RowSums)> {
        self.sums.into_iter()
    }
}

/// The kind of value that is the wall clock.
const WALL: &str = "wall";
/// The kind of value that is the wall clock off the CPU.
pub(super) const OFF_CPU: &str = "off_cpu";

/// The same row as time off the CPU, if it is.
fn off_cpu<'a>(row: &StackRow<'a>) -> Option<StackRow<'a>> {
    (row.kind == WALL && row.state != part_name(Part::On)).then_some(StackRow { kind: OFF_CPU, ..*row })
}

/// Threads, kinds of value and paths of one file by the numbers of their texts: texts are looked up once a file.
struct KnownRows<'f> {
    filter: &'f FleetFilter,
    owners: FxHashMap<(u32, [u32; 4]), Owners>,
    paths: FxHashMap<(u32, [u32; 2]), usize>,
}

/// The sums that a row counts for: those of its own kind, and of time off the CPU.
type Owners = [Option<StackOwner>; 2];

impl KnownRows<'_> {
    fn add(&mut self, file: &SampleColumns<'_>, row: usize, to: &mut RowSums) -> Result<(), ImportError> {
        let RowTexts { host, owner, path, .. } = file.numbers(row);
        let filter = self.filter;
        let owners: Owners = *self.owners.entry((host, owner)).or_insert_with(|| {
            let row = file.row(row);
            [Some(row), off_cpu(&row)]
                .map(|row| Some(to.owner(&row.filter(|row| filter.takes_kind(row.kind))?)))
        });
        if owners == [None; 2] {
            return Ok(());
        }
        let path = match self.paths.entry((host, path)) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => *new.insert(to.path(&file.row(row))?),
        };
        let sum = RowSum::of_row(file.sums(row));
        owners.into_iter().flatten().for_each(|owner| to.add_sum(owner, path, sum));
        Ok(())
    }
}
