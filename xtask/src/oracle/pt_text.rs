//! Compares the texts of a processor's trace with perf's: packets, and a line for each branch.

use std::collections::BTreeMap;

use anyhow::Result;

use super::Pair;

/// Whether the packets equal perf's, in its words. Filler is ignored, because perf mostly leaves it out.
pub fn same_packets(pair: &Pair, what: &str, data: &str) -> Result<bool> {
    let ours = pair.tally(&["dump", "--pt", data])?.text();
    // The text after offset and bytes, which take this number of columns.
    let ours = ours.lines().filter(|line| line.starts_with("  ")).filter_map(|line| line.get(46..));
    let ours: Vec<&str> = ours.map(str::trim).filter(|text| !text.starts_with("PAD")).collect();
    let perf = pair.perf(&["script", "-D", "-i", data])?.text();
    let perf: Vec<&str> = perf.lines().filter_map(packet_of_perf).filter(|text| *text != "PAD").collect();
    Ok(same(&format!("{what}, packets"), &ours, &perf))
}

/// `.  00000010:  19 00 e4 0b 54 02 00 00          TSC 0x2540be400`.
fn packet_of_perf(line: &str) -> Option<&str> {
    let (offset, rest) = line.strip_prefix(".  ")?.split_once(':')?;
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if offset.len() != 8 || !is_hex(offset) {
        return None;
    }
    let mut text = rest.trim_start();
    while let Some((_, after)) = text.split_once(' ').filter(|(byte, _)| byte.len() == 2 && is_hex(byte)) {
        text = after.trim_start();
    }
    (!text.is_empty()).then(|| text.trim_end())
}

/// Whether all branches and errors of each thread have perf's lines. Times are not compared, because both programs
/// only estimate the time of branches between two packets. perf 6.1 names stubs (`@plt`) after the symbol before them,
/// or not at all.
pub fn same_lines(pair: &Pair, what: &str, data: &str) -> Result<bool> {
    by_fields(pair, what, ["script", "--itrace=b", "--ns", "-F-period,+flags,+addr", "-i", data])
}

/// Whether both programs sample the same instructions of each thread, every n-th one.
pub fn same_samples(pair: &Pair, what: &str, data: &str) -> Result<bool> {
    by_fields(pair, &format!("{what}, samples"), ["script", "--itrace=i100i", "--ns", "-F-flags", "-i", data])
}

fn by_fields(pair: &Pair, what: &str, args: [&str; 6]) -> Result<bool> {
    let (ours, perf) = (pair.tally(&args)?.text(), pair.perf(&args)?.text());
    let (ours, perf) = (by_thread(&ours), by_thread(&perf));
    let mut all = ours.keys().eq(perf.keys());
    for (tid, perf) in &perf {
        let ours = ours.get(tid).map_or(&[][..], Vec::as_slice);
        all &= same(&format!("{what}, lines of thread {tid}"), ours, perf);
    }
    Ok(all)
}

/// The lines of each thread without their times.
fn by_thread(text: &str) -> BTreeMap<&str, Vec<String>> {
    let mut threads: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let Some(tid) = words.find(|word| word.bytes().all(|byte| byte.is_ascii_digit())) else { continue };
        let is_time = |word: &&str| word.ends_with(':') && word.starts_with(|c: char| c.is_ascii_digit());
        let kept = line.split_whitespace().filter(|word| !is_time(word));
        threads.entry(tid).or_default().push(kept.collect::<Vec<_>>().join(" "));
    }
    threads
}

/// Whether all words but the names of stubs are the same.
fn same_words(ours: &str, perf: &str) -> bool {
    let fits = |(a, b): (&str, &str)| a == b || a.contains("@plt");
    ours == perf
        || ours.split(' ').count() == perf.split(' ').count()
            && ours.split(' ').zip(perf.split(' ')).all(fits)
}

/// Whether two lists are equal. Prints the first difference.
fn same<A: AsRef<str> + std::fmt::Debug, B: AsRef<str> + std::fmt::Debug>(
    what: &str,
    ours: &[A],
    perf: &[B],
) -> bool {
    let differs = ours.iter().zip(perf).position(|(a, b)| !same_words(a.as_ref(), b.as_ref()));
    if differs.is_none() && ours.len() == perf.len() {
        return true;
    }
    let at = differs.unwrap_or(ours.len().min(perf.len()));
    let (counts, places) = ((ours.len(), perf.len()), (ours.get(at), perf.get(at)));
    println!(
        "{what}: {} of ours, {} of perf's; number {at}:\n    {:?}\n    {:?}",
        counts.0, counts.1, places.0, places.1
    );
    false
}
