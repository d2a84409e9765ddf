//! The machine's own counters from /proc, read before and after, for activity outside of the target meanwhile.
//!
//! Needs no rights. Values that a kernel or container does not show are `None`.

use std::path::Path;
use std::time::Instant;

use dso::system_file;

/// The counters at one moment.
#[derive(Debug, Clone)]
pub struct SystemCounters {
    at: Instant,
    /// Ticks of all CPUs, then of each: user nice system idle iowait irq softirq steal.
    cpus: Vec<[u64; 8]>,
    /// ns with some task waiting: for a CPU, for I/O, for memory.
    pressure_us: [Option<u64>; 3],
    swapped_pages: Option<u64>,
    /// Periods, throttled periods, throttled ns of the target's cgroup.
    throttling: Option<[u64; 3]>,
    /// TCP segments sent, sent again.
    tcp: Option<[u64; 2]>,
    listen_drops: Option<u64>,
    /// Soft interrupts by name: how many on each CPU.
    soft_interrupts: Vec<(String, Vec<u64>)>,
    /// The file with the cgroup's limit.
    throttled_by: Option<String>,
    /// Name, requests done, ms of all requests, ms busy.
    disks: Vec<(String, [u64; 3])>,
}

/// The difference between two moments. Shares are 0 to 1.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SystemChange {
    /// Online CPUs.
    pub cpus: u32,
    /// Share of all CPU time in which something ran: neither idle nor taken by the hypervisor.
    pub busy: Option<f64>,
    /// Share of all CPU time taken by the hypervisor.
    pub steal: Option<f64>,
    /// The same of the CPU with most.
    pub steal_of_one_cpu: Option<f64>,
    /// Share of all CPU time in interrupts.
    pub interrupts: Option<f64>,
    /// The same of the CPU with most.
    pub interrupts_of_one_cpu: Option<f64>,
    /// Soft interrupts by name: how many a second, and which share of them on the CPU with most; most first.
    pub soft_interrupts: Vec<(String, f64, f64)>,
    /// Share of all CPU time idle with a disk request open.
    pub iowait: Option<f64>,
    /// Share of the time some task waited for: CPU, I/O, memory.
    pub pressure: [Option<f64>; 3],
    /// Pages swapped in and out.
    pub swapped_pages: Option<u64>,
    /// Share of cgroup periods throttled, and ns.
    pub throttled: Option<(f64, u64)>,
    /// The file with the cgroup's CPU limit.
    pub throttled_by: Option<String>,
    /// Share of TCP segments sent again.
    pub tcp_retransmitted: Option<f64>,
    /// Connections dropped for a full backlog.
    pub listen_drops: Option<u64>,
    /// Busiest disk: name, share of time busy, ns a request.
    pub busiest_disk: Option<(String, f64, u64)>,
}

impl SystemCounters {
    /// Now; the cgroup is that of process `pid`, or without one our own, which a command started here shares.
    #[must_use]
    pub fn read(pid: Option<u32>) -> Self {
        Self::read_in(Path::new("/proc"), pid)
    }

    /// The same of a folder that looks like /proc.
    #[must_use]
    pub fn read_in(proc: &Path, pid: Option<u32>) -> Self {
        let text = |file: &str| system_file::read_text(proc.join(file)).unwrap_or_default();
        let (stat, vmstat) = (text("stat"), text("vmstat"));
        let (throttled_by, throttling) = throttling(proc, pid).unzip();
        let swap = [key(&vmstat, "pswpin"), key(&vmstat, "pswpout")];
        Self {
            at: Instant::now(),
            cpus: stat.lines().filter(|line| line.starts_with("cpu")).map(numbers).collect(),
            pressure_us: ["cpu", "io", "memory"].map(|what| pressure_us(&text(&format!("pressure/{what}")))),
            swapped_pages: swap[0].zip(swap[1]).map(|(a, b)| a + b),
            throttling,
            throttled_by,
            tcp: netstat(&text("net/snmp"), "Tcp:", &["OutSegs", "RetransSegs"]).map(|v| [v[0], v[1]]),
            listen_drops: netstat(&text("net/netstat"), "TcpExt:", &["ListenDrops"]).map(|v| v[0]),
            soft_interrupts: soft_interrupts(&text("softirqs")),
            disks: disks(&text("diskstats")),
        }
    }

    /// The difference from `self` to `after`.
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
        let of_one = |which: &[usize]| spent.iter().skip(1).map(|ticks| share(ticks, which)).reduce(f64::max);
        let pressure = [0, 1, 2].map(|i| {
            delta(self.pressure_us[i], after.pressure_us[i]).map(|us| (us as f64 / 1e6 / seconds).min(1.0))
        });
        SystemChange {
            cpus: u32::try_from(self.cpus.len().saturating_sub(1)).unwrap_or(1).max(1),
            busy: of_all(&[0, 1, 2, 5, 6]),
            steal: of_all(&[7]),
            steal_of_one_cpu: of_one(&[7]),
            interrupts: of_all(&[5, 6]),
            interrupts_of_one_cpu: of_one(&[5, 6]),
            soft_interrupts: self.soft_interrupts_until(after, seconds),
            iowait: of_all(&[4]),
            pressure,
            swapped_pages: delta(self.swapped_pages, after.swapped_pages),
            throttled: throttled.map(|[periods, times, ns]| (ratio([times, periods]), ns)),
            throttled_by: after.throttled_by.clone(),
            tcp_retransmitted: tcp.map(|[sent, again]| ratio([again, sent])),
            listen_drops: delta(self.listen_drops, after.listen_drops),
            busiest_disk: self.busiest_disk(after, seconds),
        }
    }

    fn soft_interrupts_until(&self, after: &Self, seconds: f64) -> Vec<(String, f64, f64)> {
        let changes = after.soft_interrupts.iter().filter_map(|(name, now)| {
            let (_, before) = self.soft_interrupts.iter().find(|(known, _)| known == name)?;
            let more: Vec<u64> = before.iter().zip(now).map(|(a, b)| b.saturating_sub(*a)).collect();
            let (all, most) = (more.iter().sum::<u64>(), more.iter().copied().max().unwrap_or(0));
            (all > 0).then(|| (name.clone(), all as f64 / seconds, most as f64 / all as f64))
        });
        let mut list: Vec<_> = changes.collect();
        list.sort_by(|a, b| b.1.total_cmp(&a.1));
        list
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

/// The first eight numbers after a line's first word.
fn numbers(line: &str) -> [u64; 8] {
    let mut words = line.split_whitespace().skip(1).map(|word| word.parse().unwrap_or(0));
    std::array::from_fn(|_| words.next().unwrap_or(0))
}

fn key(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.split_whitespace().next() == Some(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// `some avg10=0.00 … total=123` of /proc/pressure.
fn pressure_us(text: &str) -> Option<u64> {
    text.lines().next()?.rsplit_once("total=")?.1.trim().parse().ok()
}

/// The names of a table with a line each and a column for each CPU: /proc/softirqs.
fn soft_interrupts(text: &str) -> Vec<(String, Vec<u64>)> {
    let of_line = |line: &str| {
        let (name, counts) = line.split_once(':')?;
        Some((name.trim().to_owned(), counts.split_whitespace().filter_map(|n| n.parse().ok()).collect()))
    };
    text.lines().filter_map(of_line).collect()
}

/// The file of the cgroup's CPU limit, and what it counts.
fn throttling(proc: &Path, pid: Option<u32>) -> Option<(String, [u64; 3])> {
    let of = pid.map_or_else(|| "self".to_owned(), |pid| pid.to_string());
    let cgroups = system_file::read_text(proc.join(of).join("cgroup")).ok()?;
    let mounts = system_file::read_text(proc.join("self/mounts")).ok()?;
    let counts = |folder: String| {
        let stat = system_file::read_text(format!("{folder}/cpu.stat")).ok()?;
        let limits = ["cpu.max", "cpu.cfs_quota_us", "cpu.stat"].map(|file| format!("{folder}/{file}"));
        let limit = limits.into_iter().find(|file| Path::new(file).exists())?;
        Some((limit, parse_throttling(&stat)?))
    };
    cpu_folders(&cgroups, &mounts).into_iter().find_map(counts)
}

/// Folders that may hold the cgroup's CPU limit: of the hierarchy with the cpu controller, then of the unified one.
fn cpu_folders(cgroups: &str, mounts: &str) -> Vec<String> {
    let mount_of = |kind: &str, option: &str| {
        let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let wanted = |words: &Vec<&str>| {
            words.len() > 3
                && words[2] == kind
                && (option.is_empty() || words[3].split(',').any(|o| o == option))
        };
        mounts.find(wanted).map(|words| words[1].to_owned())
    };
    let path_of = |wanted: &str| {
        let mut lines = cgroups.lines().map(|line| line.splitn(3, ':').collect::<Vec<_>>());
        let line = lines.find(|words| words.len() == 3 && words[1].split(',').any(|name| name == wanted))?;
        Some(line[2].to_owned())
    };
    let folder = |(kind, name)| Some(format!("{}{}", mount_of(kind, name)?, path_of(name)?));
    [("cgroup", "cpu"), ("cgroup2", "")].into_iter().filter_map(folder).collect()
}

// Source: linux v6.18 kernel/sched/core.c: cpu_cfs_stat_show() for throttled_time (ns), cpu_extra_stat_show() for
// throttled_usec
fn parse_throttling(stat: &str) -> Option<[u64; 3]> {
    let ns = key(stat, "throttled_time").or_else(|| Some(key(stat, "throttled_usec")? * 1000))?;
    Some([key(stat, "nr_periods")?, key(stat, "nr_throttled")?, ns])
}

/// Values by name of a table with a line of names and a line of values.
fn netstat(text: &str, table: &str, names: &[&str]) -> Option<Vec<u64>> {
    let mut lines = text.lines().filter(|line| line.starts_with(table));
    let (heads, values) = (lines.next()?, lines.next()?);
    let heads: Vec<&str> = heads.split_whitespace().collect();
    let values: Vec<&str> = values.split_whitespace().collect();
    names.iter().map(|name| values.get(heads.iter().position(|head| head == name)?)?.parse().ok()).collect()
}

/// Requests that all disks have done so far.
pub(crate) fn disk_requests() -> u64 {
    let text = system_file::read_text("/proc/diskstats").unwrap_or_default();
    disks(&text).iter().map(|(_, [requests, ..])| requests).sum()
}

// Source: linux Documentation/admin-guide/iostats.rst: reads 1, ms reading 4, writes 5, ms writing 8, ms busy 10
fn disks(text: &str) -> Vec<(String, [u64; 3])> {
    let of_line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let name = (*words.get(2)?).to_owned();
        let at = |field: usize| words.get(2 + field).and_then(|word| word.parse::<u64>().ok());
        let whole = Path::new("/sys/block").join(&name).exists();
        let sums = [at(1)? + at(5)?, at(4)? + at(8)?, at(10)?];
        (whole && !name.starts_with("loop") && !name.starts_with("ram")).then_some((name, sums))
    };
    text.lines().filter_map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn two_readings_give_shares() {
        let before = SystemCounters::read(None);
        std::thread::sleep(std::time::Duration::from_millis(30));
        let change = before.until(&SystemCounters::read(None));
        assert!(change.cpus >= 1);
        for share in [change.steal, change.interrupts, change.iowait].into_iter().flatten() {
            assert!((0.0..=1.0).contains(&share), "{change:?}");
        }
    }

    #[test]
    fn what_the_hypervisor_and_interrupts_took_is_told_of_all_and_of_the_worst_cpu() {
        let proc = std::env::temp_dir().join(format!("tally-proc-{}", std::process::id()));
        fs::create_dir_all(&proc).expect("a folder");
        let reading = |stat: &str, softirqs: &str| {
            fs::write(proc.join("stat"), stat).expect("written");
            fs::write(proc.join("softirqs"), softirqs).expect("written");
            SystemCounters::read_in(&proc, None)
        };
        // user nice system idle iowait irq softirq steal
        let before = reading(
            "cpu 0 0 0 0 0 0 0 0 0 0\ncpu0 0 0 0 0 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0 0 0\n",
            "      CPU0  CPU1\n  NET_RX:  10  20\n  TIMER:  5  5\n",
        );
        let after = reading(
            "cpu 100 0 0 40 0 10 30 20 0 0\ncpu0 50 0 0 40 0 0 0 10 0 0\ncpu1 50 0 0 0 0 10 30 10 0 0\n",
            "      CPU0  CPU1\n  NET_RX:  110  920\n  TIMER:  6  5\n",
        );
        let change = before.until(&after);
        fs::remove_dir_all(&proc).expect("removed");
        assert_eq!((change.steal, change.interrupts), (Some(0.1), Some(0.2)));
        assert_eq!((change.steal_of_one_cpu, change.interrupts_of_one_cpu), (Some(0.1), Some(0.4)));
        let soft: Vec<_> = change.soft_interrupts.iter().map(|(name, _, one)| (&name[..], *one)).collect();
        assert_eq!(soft, [("NET_RX", 0.9), ("TIMER", 1.0)]);
    }

    #[test]
    fn both_kinds_of_cgroups_tell_of_throttling() {
        let mounts = "t /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let folders = cpu_folders("3:cpuset:/\n1:cpu:/limited\n0::/of/all\n", mounts);
        assert_eq!(folders, ["/sys/fs/cgroup/cpu/limited", "/sys/fs/cgroup/unified/of/all"]);
        let old = "nr_periods 20\nnr_throttled 7\nthrottled_time 123456\n";
        let new = "usage_usec 5\nnr_periods 20\nnr_throttled 7\nthrottled_usec 123\n";
        assert_eq!(parse_throttling(old), Some([20, 7, 123_456]));
        assert_eq!(parse_throttling(new), Some([20, 7, 123_000]));
        assert_eq!(parse_throttling("usage_usec 5\n"), None);
    }
}
