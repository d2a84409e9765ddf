//! The machine's own counters from /proc, read before and after: what happened outside of the target meanwhile.
//!
//! Needs no rights. What a kernel or container does not show is `None`.

use std::fs;
use std::time::Instant;

/// The counters at one moment.
#[derive(Debug, Clone)]
pub struct SystemCounters {
    at: Instant,
    /// Of all CPUs, then of each: user nice system idle iowait irq softirq steal, in ticks.
    cpus: Vec<[u64; 8]>,
    forks: Option<u64>,
    /// ns with some task waiting: for a CPU, for I/O, for memory.
    pressure_us: [Option<u64>; 3],
    swapped_pages: Option<u64>,
    /// Periods, throttled periods, throttled µs of our cgroup.
    throttling: Option<[u64; 3]>,
    /// TCP segments sent, sent again.
    tcp: Option<[u64; 2]>,
    listen_drops: Option<u64>,
    /// Name, requests done, ms of all requests, ms busy.
    disks: Vec<(String, [u64; 3])>,
}

/// What changed between two moments. Shares are 0 to 1.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SystemChange {
    /// Online CPUs.
    pub cpus: u32,
    /// Share of all CPU time taken by the hypervisor.
    pub steal: Option<f64>,
    /// Share of all CPU time in interrupts.
    pub interrupts: Option<f64>,
    /// The same of the CPU with most.
    pub interrupts_of_one_cpu: Option<f64>,
    /// Share of all CPU time idle with a disk request open.
    pub iowait: Option<f64>,
    /// Share of the time some task waited for: CPU, I/O, memory.
    pub pressure: [Option<f64>; 3],
    /// Pages swapped in and out.
    pub swapped_pages: Option<u64>,
    /// Share of cgroup periods throttled, and ns.
    pub throttled: Option<(f64, u64)>,
    /// Forks a second.
    pub forks_per_s: Option<f64>,
    /// Share of TCP segments sent again.
    pub tcp_retransmitted: Option<f64>,
    /// Connections dropped for a full backlog.
    pub listen_drops: Option<u64>,
    /// Busiest disk: name, share of time busy, ns a request.
    pub busiest_disk: Option<(String, f64, u64)>,
}

impl SystemCounters {
    /// Now.
    #[must_use]
    pub fn read() -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let vmstat = fs::read_to_string("/proc/vmstat").unwrap_or_default();
        let swap = [key(&vmstat, "pswpin"), key(&vmstat, "pswpout")];
        Self {
            at: Instant::now(),
            cpus: stat.lines().filter(|line| line.starts_with("cpu")).map(numbers).collect(),
            forks: key(&stat, "processes"),
            pressure_us: ["cpu", "io", "memory"].map(pressure_us),
            swapped_pages: swap[0].zip(swap[1]).map(|(a, b)| a + b),
            throttling: throttling(),
            tcp: netstat("/proc/net/snmp", "Tcp:", &["OutSegs", "RetransSegs"]).map(|v| [v[0], v[1]]),
            listen_drops: netstat("/proc/net/netstat", "TcpExt:", &["ListenDrops"]).map(|v| v[0]),
            disks: disks(),
        }
    }

    /// What changed from `self` until `after`.
    #[must_use]
    pub fn until(&self, after: &Self) -> SystemChange {
        let seconds = after.at.duration_since(self.at).as_secs_f64().max(1e-3);
        let spent: Vec<[u64; 8]> = self.cpus.iter().zip(&after.cpus).map(|(a, b)| change(a, b)).collect();
        let share = |ticks: &[u64; 8], which: &[usize]| {
            let all: u64 = ticks.iter().sum();
            let part: u64 = which.iter().map(|&i| ticks[i]).sum();
            if all == 0 { 0.0 } else { part as f64 / all as f64 }
        };
        let of_all = |which: &[usize]| spent.first().map(|ticks| share(ticks, which));
        let delta = |a: Option<u64>, b: Option<u64>| Some(b?.saturating_sub(a?));
        let ratio = |[part, whole]: [u64; 2]| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
        let throttled = self.throttling.zip(after.throttling).map(|(a, b)| change(&a, &b));
        let tcp = self.tcp.zip(after.tcp).map(|(a, b)| change(&a, &b));
        let one = spent.iter().skip(1).map(|ticks| share(ticks, &[5, 6])).reduce(f64::max);
        let pressure = [0, 1, 2].map(|i| {
            delta(self.pressure_us[i], after.pressure_us[i]).map(|us| (us as f64 / 1e6 / seconds).min(1.0))
        });
        SystemChange {
            cpus: u32::try_from(self.cpus.len().saturating_sub(1)).unwrap_or(1).max(1),
            steal: of_all(&[7]),
            interrupts: of_all(&[5, 6]),
            interrupts_of_one_cpu: one,
            iowait: of_all(&[4]),
            pressure,
            swapped_pages: delta(self.swapped_pages, after.swapped_pages),
            throttled: throttled.map(|[periods, times, us]| (ratio([times, periods]), us * 1000)),
            forks_per_s: delta(self.forks, after.forks).map(|forks| forks as f64 / seconds),
            tcp_retransmitted: tcp.map(|[sent, again]| ratio([again, sent])),
            listen_drops: delta(self.listen_drops, after.listen_drops),
            busiest_disk: self.busiest_disk(after, seconds),
        }
    }

    fn busiest_disk(&self, after: &Self, seconds: f64) -> Option<(String, f64, u64)> {
        let changes = after.disks.iter().filter_map(|(name, now)| {
            let (_, before) = self.disks.iter().find(|(known, _)| known == name)?;
            let [requests, total_ms, busy_ms] = change(before, now);
            let each_ns = total_ms * 1_000_000 / requests.max(1);
            Some((name.clone(), (busy_ms as f64 / 1e3 / seconds).min(1.0), each_ns))
        });
        changes.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, busy, _)| *busy > 0.01)
    }
}

fn change<const N: usize>(before: &[u64; N], after: &[u64; N]) -> [u64; N] {
    std::array::from_fn(|i| after[i].saturating_sub(before[i]))
}

/// The first eight numbers behind a line's first word.
fn numbers(line: &str) -> [u64; 8] {
    let mut words = line.split_whitespace().skip(1).map(|word| word.parse().unwrap_or(0));
    std::array::from_fn(|_| words.next().unwrap_or(0))
}

fn key(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.split_whitespace().next() == Some(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// `some avg10=0.00 … total=123` of /proc/pressure.
fn pressure_us(what: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/pressure/{what}")).ok()?;
    text.lines().next()?.rsplit_once("total=")?.1.trim().parse().ok()
}

fn throttling() -> Option<[u64; 3]> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let stat = fs::read_to_string(format!("/sys/fs/cgroup{path}/cpu.stat")).ok()?;
    Some([key(&stat, "nr_periods")?, key(&stat, "nr_throttled")?, key(&stat, "throttled_usec")?])
}

/// Values by name of a table with a line of names and a line of values.
fn netstat(path: &str, table: &str, names: &[&str]) -> Option<Vec<u64>> {
    let text = fs::read_to_string(path).ok()?;
    let mut lines = text.lines().filter(|line| line.starts_with(table));
    let (heads, values) = (lines.next()?, lines.next()?);
    let heads: Vec<&str> = heads.split_whitespace().collect();
    let values: Vec<&str> = values.split_whitespace().collect();
    names.iter().map(|name| values.get(heads.iter().position(|head| head == name)?)?.parse().ok()).collect()
}

// Source: linux Documentation/admin-guide/iostats.rst: reads 1, ms reading 4, writes 5, ms writing 8, ms busy 10
fn disks() -> Vec<(String, [u64; 3])> {
    let text = fs::read_to_string("/proc/diskstats").unwrap_or_default();
    let of_line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let name = (*words.get(2)?).to_owned();
        let at = |field: usize| words.get(2 + field).and_then(|word| word.parse::<u64>().ok());
        let whole = std::path::Path::new("/sys/block").join(&name).exists();
        let sums = [at(1)? + at(5)?, at(4)? + at(8)?, at(10)?];
        (whole && !name.starts_with("loop") && !name.starts_with("ram")).then_some((name, sums))
    };
    text.lines().filter_map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_readings_give_shares() {
        let before = SystemCounters::read();
        std::thread::sleep(std::time::Duration::from_millis(30));
        let change = before.until(&SystemCounters::read());
        assert!(change.cpus >= 1);
        for share in [change.steal, change.interrupts, change.iowait].into_iter().flatten() {
            assert!((0.0..=1.0).contains(&share), "{change:?}");
        }
    }
}
