//! Resource usage of a finished program, from the kernel's accounting.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Cost of one run.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// From start to end.
    pub wall: Duration,
    /// User and system time of the program and the children it waited for.
    pub cpu: Duration,
    /// The largest resident size, in bytes.
    pub peak_bytes: u64,
    /// Whether the limit ended it. Then `wall` is a lower bound.
    pub cut: bool,
}

/// Runs `command` to its end (or `limit`) with no input, its output going to `out` or nowhere.
pub fn measure(command: &mut Command, out: Option<std::fs::File>, limit: Duration) -> Result<Usage> {
    use std::os::unix::process::CommandExt;
    let name = command.get_program().to_string_lossy().into_owned();
    let start = Instant::now();
    let out = out.map_or_else(Stdio::null, Stdio::from);
    let child = command
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot start {name}"))?;
    let pid = libc::pid_t::try_from(child.id()).context("a pid fits")?;
    let (done, ended) = std::sync::mpsc::channel::<()>();
    let watcher = std::thread::spawn(move || {
        let cut = ended.recv_timeout(limit) == Err(std::sync::mpsc::RecvTimeoutError::Timeout);
        if cut {
            let _ = Command::new("kill").args(["-KILL", "--", &format!("-{pid}")]).status();
        }
        cut
    });
    let (status, usage) = wait4(pid)?;
    let wall = start.elapsed();
    drop(done);
    let cut = watcher.join().unwrap_or(false);
    if !cut && status != 0 {
        bail!("{name} ended with status {status:#x}");
    }
    let time =
        |t: libc::timeval| Duration::new(t.tv_sec.unsigned_abs(), t.tv_usec.unsigned_abs() as u32 * 1000);
    Ok(Usage {
        wall,
        cpu: time(usage.ru_utime) + time(usage.ru_stime),
        peak_bytes: usage.ru_maxrss.unsigned_abs() * 1024,
        cut,
    })
}

fn wait4(pid: libc::pid_t) -> Result<(i32, libc::rusage)> {
    let mut status = 0;
    // SAFETY: `rusage` is a struct of integers, for which all bits zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both pointers are to live locals of the types that wait4 fills in; `pid` is our own child, which
        // nobody else waits for.
        let got = unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) };
        if got == pid {
            return Ok((status, usage));
        }
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(error).context("wait4");
        }
    }
}
