//! The files of a question, read on all cores.

use super::{FleetFilter, FleetProfiles};
use crate::import::ImportError;
use rayon::prelude::*;
use std::fmt::Display;
use std::ops::Deref;

/// Fewest files that a thread reads one after the other: each share of the work has sums of its own.
const FEWEST: usize = 16;

/// Sums of files.
#[derive(Default)]
pub struct ReadFiles {
    /// The sums.
    pub profiles: FleetProfiles,
    /// Why files were left out, by their position, in order.
    pub left_out: Vec<(usize, String)>,
}

impl ReadFiles {
    /// Reads files through `open`. The result doesn't depend on the number of threads. Files of one machine are best
    /// given next to each other: then shares of the work have few machines in common.
    ///
    /// # Errors
    /// If the stacks of a machine are too many.
    pub fn of<F: Sync, B: Deref<Target = [u8]>, E: Display>(
        files: &[F],
        filter: &FleetFilter,
        open: impl Fn(&F) -> Result<B, E> + Sync,
    ) -> Result<Self, ImportError> {
        let shares = files.par_iter().enumerate().with_min_len(FEWEST);
        let shares = shares.try_fold(Self::default, |mut read, (at, file)| {
            let added = open(file).map(|bytes| read.profiles.add_file(&bytes, filter));
            match added {
                Ok(Err(too_many @ ImportError::TooManyFrames { .. })) => return Err(too_many),
                Ok(Ok(())) => {}
                Ok(Err(why)) => read.left_out.push((at, why.to_string())),
                Err(why) => read.left_out.push((at, why.to_string())),
            }
            Ok(read)
        });
        let shares = shares.map(|read| {
            let mut read = read?;
            read.profiles.shrink();
            Ok(read)
        });
        shares.try_reduce(Self::default, |mut read, next| {
            read.profiles.merge(next.profiles)?;
            read.left_out.extend(next.left_out);
            Ok(read)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::parquet::SAMPLE_COLUMNS;
    use crate::fleet::FleetSums;
    use crate::import::{RowSums, SampleRows};
    use crate::parquet::{ColumnKind, ColumnValues, ParquetWriter, ReadMemory};
    use perfdata::appendix::summed_stacks::SummedStacks;
    use std::collections::BTreeMap;

    const KINDS: [&str; 2] = ["cpu", "wall"];

    /// A file of one machine: stacks in another order in each, some in all files and some in one only.
    fn file(at: usize) -> Vec<u8> {
        file_of_groups(at, &[&KINDS])
    }

    /// The same with groups of rows that have only some kinds.
    fn file_of_groups(at: usize, groups: &[&[&str]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = ParquetWriter::new(&mut bytes, SAMPLE_COLUMNS).expect("in memory");
        for kinds in groups {
            writer.group(&columns(at, kinds)).expect("in memory");
        }
        writer.finish().expect("in memory");
        bytes
    }

    fn columns(at: usize, kinds: &[&str]) -> Vec<ColumnValues> {
        let mut columns: Vec<ColumnValues> =
            SAMPLE_COLUMNS.iter().map(|column| ColumnValues::empty(column.kind)).collect();
        for row in (0..9).map(|row| (row * 5 + at) % 9).filter(|row| kinds.contains(&KINDS[row % 2])) {
            for (column, values) in SAMPLE_COLUMNS.iter().zip(&mut columns) {
                let text = match column.name {
                    "host" => format!("web{}", at % 3),
                    "service" => format!("service{}", at % 2),
                    "comm" => format!("thread{}", (row + at) % 4),
                    "kind" => KINDS[row % 2].to_owned(),
                    "unit" => "nanoseconds".to_owned(),
                    "state" => ["running", "futex"][row / 2 % 2].to_owned(),
                    "stack" => format!("main\nf{}", if row < 6 { row } else { at * 10 + row }),
                    "modules" => format!("/bin/a\n/lib/{}.so", row % 2),
                    _ => String::new(),
                };
                match (values, column.kind) {
                    (ColumnValues::Texts(texts), ColumnKind::Text) => texts.push(&text),
                    (ColumnValues::Numbers(numbers), _) => numbers.push((at * 100 + row) as i64),
                    _ => unreachable!(),
                }
            }
        }
        columns
    }

    fn read(files: &[Vec<u8>], filter: &FleetFilter) -> ReadFiles {
        let open = |file: &Vec<u8>| Ok::<_, ImportError>(file.clone());
        ReadFiles::of(files, filter, open).expect("few stacks")
    }

    fn recordings(profiles: FleetProfiles) -> Vec<(String, Vec<u8>)> {
        let recording = |sums: RowSums| sums.finish().expect("small sums").to_perf_data().expect("in memory");
        profiles.into_sums().map(|(host, sums)| (host, recording(sums))).collect()
    }

    #[test]
    fn sums_of_all_cores_are_those_of_rows_added_one_after_the_other() {
        let mut files: Vec<Vec<u8>> = (0..200).map(file).collect();
        files[150] = b"PAR1 cut".to_vec();
        let (mut rows, filter) = (FleetProfiles::default(), FleetFilter::default());
        for file in files.iter().filter(|file| file.len() > 20) {
            let read = SampleRows::read(file).expect("a table");
            let columns = read.columns().expect("of samples");
            (0..columns.rows).for_each(|row| rows.add(&columns.row(row), &filter).expect("few stacks"));
        }
        let expected = recordings(rows);
        assert_eq!(expected.len(), 3);
        for threads in [1, 2, 7] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
            let found = pool.install(|| read(&files, &filter));
            assert_eq!(found.profiles.files, 199);
            assert_eq!(found.left_out.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [150]);
            assert!(recordings(found.profiles) == expected, "{threads} threads");
        }
    }

    #[test]
    fn one_kind_of_value_has_the_sums_that_it_has_among_all() {
        let files: Vec<Vec<u8>> = (0..40).map(file).collect();
        let all = recordings(read(&files, &FleetFilter::default()).profiles);
        let sum = |recordings: &[(String, Vec<u8>)], kind: &str| {
            let sums = recordings.iter().map(|(host, bytes)| {
                let file = perfdata::PerfData::open(bytes).expect("of ours");
                let event = file.events().iter().position(|event| event.name == kind).expect("the kind");
                let appendix = file.appendix().expect("the sums");
                let stacks = SummedStacks::read(appendix, file.endian()).expect("readable").stacks;
                let of_kind = stacks.iter().filter(|stack| stack.event == event);
                (host.clone(), of_kind.map(|stack| stack.value).sum::<u64>())
            });
            sums.collect::<Vec<_>>()
        };
        for kind in ["cpu", "wall", "off_cpu"] {
            let filter = FleetFilter { kind: Some(kind.to_owned()), ..FleetFilter::default() };
            let found = read(&files, &filter).profiles;
            assert_eq!(found.files, 40);
            let found = recordings(found);
            assert_eq!(sum(&found, kind), sum(&all, kind), "{kind}");
            let names = |bytes: &[u8]| perfdata::PerfData::open(bytes).expect("of ours").events().len();
            assert!(found.iter().all(|(_, bytes)| names(bytes) == 1), "{kind} alone");
        }
    }

    #[test]
    fn groups_of_other_kinds_are_left_out_and_their_machines_count() {
        let by_kind = |at| file_of_groups(at, &[&["cpu"], &["wall"]]);
        let mixed: Vec<Vec<u8>> = (0..40).map(file).collect();
        let mut grouped: Vec<Vec<u8>> = (0..40).map(by_kind).collect();
        for kind in ["cpu", "wall", "off_cpu"] {
            let filter = FleetFilter { kind: Some(kind.to_owned()), ..FleetFilter::default() };
            let [expected, found] = [&mixed, &grouped].map(|files| read(files, &filter).profiles);
            assert_eq!((found.files, &found.hosts), (40, &expected.hosts));
            assert_eq!(value_of_stacks(found), value_of_stacks(expected), "{kind}");
        }
        let filter = FleetFilter { kind: Some("cpu".to_owned()), ..FleetFilter::default() };
        let is_cpu = |kind: &str| kind == "cpu";
        let rows = SampleRows::read_kinds(&grouped[0], &is_cpu, &mut ReadMemory::default()).expect("a table");
        assert_eq!((rows.has_all(), rows.columns().map(|columns| columns.rows)), (false, Some(5)));
        grouped = (0..40).map(|at| file_of_groups(at, &[&["wall"]])).collect();
        let found = read(&grouped, &filter).profiles;
        assert_eq!((found.files, found.hosts.len(), value_of_stacks(found).len()), (40, 3, 0));
    }

    #[test]
    fn the_sum_of_all_machines_is_the_sum_of_theirs() {
        let files: Vec<Vec<u8>> = (0..40).map(file).collect();
        let of_all = FleetFilter { sums: FleetSums::OfAll, ..FleetFilter::default() };
        let (one, each) = (read(&files, &of_all).profiles, read(&files, &FleetFilter::default()).profiles);
        assert_eq!((one.hosts.len(), &one.hosts, one.files), (3, &each.hosts, each.files));
        assert_eq!(one.into_sums().len(), 1);
        assert_eq!(value_of_stacks(read(&files, &of_all).profiles), value_of_stacks(each));
    }

    /// Values by kind, thread and functions, of all machines together.
    fn value_of_stacks(profiles: FleetProfiles) -> BTreeMap<(String, String, Vec<String>), u64> {
        let mut values = BTreeMap::new();
        for (_, bytes) in recordings(profiles) {
            let file = perfdata::PerfData::open(&bytes).expect("of ours");
            let sums =
                SummedStacks::read(file.appendix().expect("the sums"), file.endian()).expect("readable");
            for stack in &sums.stacks {
                let path = sums.paths[stack.path].iter();
                let functions = path.map(|frame| sums.frames[*frame].lines[0].function.clone()).collect();
                let names =
                    (file.events()[stack.event].name.clone(), sums.threads[stack.thread].name.clone());
                *values.entry((names.0, names.1, functions)).or_default() += stack.value;
            }
        }
        values
    }

    #[test]
    fn files_without_the_service_count_for_nothing() {
        let files: Vec<Vec<u8>> = (0..40).map(file).collect();
        let filter = FleetFilter { services: vec!["service1".to_owned()], ..FleetFilter::default() };
        let found = read(&files, &filter);
        assert_eq!((found.profiles.files, found.left_out.len()), (20, 0));
        let none = FleetFilter { services: vec!["web".to_owned()], ..FleetFilter::default() };
        let found = read(&files, &none);
        assert_eq!((found.profiles.files, recordings(found.profiles).len()), (0, 0));
    }
}
