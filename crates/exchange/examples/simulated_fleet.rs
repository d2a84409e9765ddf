//! Writes a day of simulated machines into the folder of a fleet, as their agents would: for the bench.
//!
//! `simulated_fleet FOLDER HOSTS ROWS RECORDING...`: each round of each machine is one of the recordings, in turn, and
//! rounds are spread over the day so that there are at least `ROWS` rows. Prints rounds, rows, and bytes.

use exchange::export::parquet::{self, RowSource};
use exchange::export::samples::SampleSet;
use exchange::fleet::{IntervalKey, Ledger, RECORDINGS, SAMPLES, moment_text, without_idle};
use perfdata::PerfData;
use profile::Profile;
use profile::session::SessionOpts;
use rayon::prelude::*;
use std::io;
use std::path::{Path, PathBuf};
use symbols::LoadOpts;

/// 2026-11-27, s since 1970.
const DAY_S: u64 = 1_795_737_600;
const SECONDS_A_DAY: u64 = 86_400;

/// A day of rounds on some machines.
struct SimulatedDay {
    folder: PathBuf,
    hosts: usize,
    rounds: usize,
    recorded: Vec<Profile>,
}

impl SimulatedDay {
    /// By the arguments; `None` if they are others.
    fn of_args(args: &[String]) -> Option<Self> {
        let [folder, hosts, rows, recordings @ ..] = args else { return None };
        let (hosts, rows): (usize, usize) = (hosts.parse().ok()?, rows.parse().ok()?);
        let recorded: Vec<Profile> = recordings.iter().map(|path| load(Path::new(path))).collect();
        let all: usize = recorded.iter().map(|profile| samples_of(profile).stacks.len()).sum();
        let rounds = (rows * recorded.len()).div_ceil(hosts * all.max(1)).next_multiple_of(recorded.len());
        Some(Self { folder: PathBuf::from(folder), hosts, rounds, recorded })
    }

    /// Number of rows, and their bytes.
    fn write(&self) -> io::Result<(usize, u64)> {
        let shares = (0..self.hosts).into_par_iter().map(|host| {
            let (mut rows, mut bytes) = (0, 0);
            for (at, profile) in self.recorded.iter().enumerate() {
                let samples = samples_of(profile);
                // The same round at each machine would be the same file.
                let first = (at + host) % self.recorded.len();
                for round in (first..self.rounds).step_by(self.recorded.len()) {
                    bytes += self.write_round(host, round, &samples)?;
                    rows += samples.stacks.len();
                }
            }
            Ok((rows, bytes))
        });
        shares.try_reduce(|| (0, 0), |(rows, bytes), (more, longer)| Ok((rows + more, bytes + longer)))
    }

    /// Length of the file of stacks.
    fn write_round(&self, host: usize, round: usize, samples: &SampleSet<'_>) -> io::Result<u64> {
        let moment = moment_text(DAY_S + round as u64 * SECONDS_A_DAY / self.rounds as u64);
        let key = IntervalKey { host: format!("web{host:03}"), moment };
        let start_us = key.start_us().ok_or(io::ErrorKind::InvalidInput)?;
        let source = RowSource { host: key.host.clone(), start_us };
        let mut file = Vec::new();
        parquet::write(&mut file, samples, &source, |task| samples.process_name(task).to_owned())?;
        let ledger = Ledger { kinds: Ledger::kinds_of(samples), ..Ledger::default() };
        for (table, bytes) in [(SAMPLES, &file), (RECORDINGS, &ledger.to_file(&key.host, start_us)?)] {
            let folder = key.folders().iter().fold(self.folder.join(table), |path, name| path.join(name));
            std::fs::create_dir_all(&folder)?;
            std::fs::write(folder.join(key.file()), bytes)?;
        }
        Ok(file.len() as u64)
    }
}

fn load(path: &Path) -> Profile {
    let bytes = std::fs::read(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    let file = PerfData::open(&bytes).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    symbols::load(&file, LoadOpts { session: SessionOpts::default(), ..LoadOpts::default() }).profile
}

fn samples_of(profile: &Profile) -> SampleSet<'_> {
    without_idle(SampleSet::of(profile, false))
}

fn main() -> io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some(day) = SimulatedDay::of_args(&args) else {
        eprintln!("simulated_fleet FOLDER HOSTS ROWS RECORDING...");
        std::process::exit(2);
    };
    let (rows, bytes) = day.write()?;
    println!("{} {rows} {bytes}", day.hosts * day.rounds);
    Ok(())
}
