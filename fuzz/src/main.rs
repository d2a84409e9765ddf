//! Drives one fuzz target on the stable compiler: recorded files in, mutated, for some seconds.
//!
//! `fuzz-smoke --list`; `fuzz-smoke TARGET SECONDS KEEP [CORPUS]`; `fuzz-smoke TARGET --input FILE`.
//! The input that a target fails on is kept as `KEEP/TARGET.crash`, that it is too slow on as `KEEP/TARGET.slow`.
#![forbid(unsafe_code)]

mod mutate;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mutate::Mutator;

/// One input may take this long; the biggest takes a hundredth of it.
const SLOW: Duration = Duration::from_secs(20);
/// Bigger corpus files are cut: a mutation near the start matters most.
const LONGEST: usize = 64 << 10;

/// The input in work and since when, for the watchdog and the panic hook.
#[derive(Default)]
struct InWork(Option<(Vec<u8>, Instant)>);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["--list"] => {
            fuzz::targets().for_each(|(name, _)| println!("{name}"));
            ExitCode::SUCCESS
        }
        [name, "--input", file] => once(name, Path::new(file)),
        [name, seconds, keep] => run(name, seconds, keep, None),
        [name, seconds, keep, corpus] => run(name, seconds, keep, Some(Path::new(corpus))),
        _ => {
            eprintln!("usage: fuzz-smoke --list | TARGET SECONDS KEEP [CORPUS] | TARGET --input FILE");
            ExitCode::FAILURE
        }
    }
}

fn find(name: &str) -> Option<fn(&[u8])> {
    let found = fuzz::targets().find(|(known, _)| known == name).map(|(_, call)| call);
    if found.is_none() {
        eprintln!("no target '{name}'");
    }
    found
}

fn once(name: &str, file: &Path) -> ExitCode {
    let (Some(call), Ok(input)) = (find(name), std::fs::read(file)) else { return ExitCode::FAILURE };
    call(&input);
    println!("no fault");
    ExitCode::SUCCESS
}

fn run(name: &str, seconds: &str, keep: &str, corpus: Option<&Path>) -> ExitCode {
    let (Some(call), Ok(seconds)) = (find(name), seconds.parse::<u64>()) else { return ExitCode::FAILURE };
    let in_work = Arc::new(Mutex::new(InWork::default()));
    watch(name, Path::new(keep), &in_work);
    let seeds = seeds(name, corpus);
    let mut mutator = Mutator::new(0x7A11_u64.wrapping_add(name.len() as u64));
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut runs = 0_u64;
    for seed in &seeds {
        try_one(call, seed.clone(), &in_work);
    }
    while Instant::now() < end {
        let input = mutator.next(&seeds);
        try_one(call, input, &in_work);
        runs += 1;
    }
    println!("{runs} inputs from {} seeds", seeds.len());
    ExitCode::SUCCESS
}

fn try_one(call: fn(&[u8]), input: Vec<u8>, in_work: &Mutex<InWork>) {
    let copy = input.clone();
    if let Ok(mut now) = in_work.lock() {
        now.0 = Some((copy, Instant::now()));
    }
    call(&input);
}

/// Keeps the input of a panic, and ends the process when one input takes too long.
fn watch(name: &str, keep: &Path, in_work: &Arc<Mutex<InWork>>) {
    let crash: PathBuf = keep.join(format!("{name}.crash"));
    let slow: PathBuf = keep.join(format!("{name}.slow"));
    let hook_work = Arc::clone(in_work);
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if let Ok(now) = hook_work.lock()
            && let Some((input, _)) = &now.0
        {
            // The message matters more than the file.
            let _ = std::fs::write(&crash, input);
        }
        usual(info);
    }));
    let work = Arc::clone(in_work);
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(Duration::from_millis(500));
            let Ok(now) = work.lock() else { return };
            if let Some((input, since)) = &now.0
                && since.elapsed() > SLOW
            {
                let _ = std::fs::write(&slow, input);
                eprintln!("one input took more than {} s", SLOW.as_secs());
                std::process::exit(1);
            }
        }
    });
}

/// Small inputs of every kind, and the recorded files whose names fit the target.
fn seeds(name: &str, corpus: Option<&Path>) -> Vec<Vec<u8>> {
    let mut seeds = vec![Vec::new(), vec![0; 64], vec![0xff; 64], b"PERFILE2".repeat(16)];
    let wants_text = ["text", "folded", "script", "spec", "maps", "kallsyms", "map", "filter"];
    let text = wants_text.iter().any(|word| name.contains(word));
    let mut folders: Vec<PathBuf> = vec![Path::new("tests/corpus").join(name)];
    if let Some(corpus) = corpus {
        folders.push(corpus.join(if text { "folded" } else { "perfdata" }));
    }
    if name.contains("maps") {
        seeds.extend(std::fs::read("/proc/self/maps").ok());
    }
    if name.contains("elf") || name.contains("dso") || name.contains("unwind") {
        seeds.extend(std::env::current_exe().ok().and_then(|exe| std::fs::read(exe).ok()).map(cut));
        seeds.extend(std::fs::read("/bin/true").ok().map(cut));
    }
    for folder in folders {
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        files.sort();
        files.retain(|file| file.extension().is_none_or(|ext| ext != "json"));
        seeds.extend(files.into_iter().filter_map(|file| std::fs::read(file).ok()).map(cut));
    }
    seeds
}

fn cut(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.truncate(LONGEST);
    bytes
}
