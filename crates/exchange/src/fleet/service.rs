//! Which service a process belongs to, by its control group.

/// The unit or container in the text of `/proc/PID/cgroup`; `None` for a login session, or without either.
#[must_use]
pub fn service_of_cgroup(text: &str) -> Option<String> {
    let paths = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    paths.flat_map(|path| path.split('/').rev()).find_map(service_of_group)
}

/// Is it the text of `/proc/PID/stat` of one of the kernel's own threads?
//
// Source: man 5 proc_pid_stat, (9) flags; linux include/linux/sched.h: PF_KTHREAD
#[must_use]
pub fn is_kernel_thread(stat: &str) -> bool {
    const PF_KTHREAD: u32 = 0x0020_0000;
    /// Fields after the name, which may have blanks and brackets itself.
    const FLAGS: usize = 6;
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let flags = fields.split_whitespace().nth(FLAGS).and_then(|flags| flags.parse::<u32>().ok());
    flags.is_some_and(|flags| flags & PF_KTHREAD != 0)
}

fn service_of_group(group: &str) -> Option<String> {
    // docker-ID.scope, cri-containerd-ID.scope, or the ID alone.
    let inner = group.strip_suffix(".scope").unwrap_or(group);
    let id = inner.rsplit('-').next().unwrap_or_default();
    if id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Some(id[..12].to_owned());
    }
    group.strip_suffix(".service").filter(|unit| !unit.starts_with("user@")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_the_kernel_are_known_by_their_flags() {
        assert!(is_kernel_thread("2 (kthreadd) S 0 0 0 0 -1 2129984 0 0"));
        assert!(!is_kernel_thread("1 (a) b (c) S 0 1 1 0 -1 4194560 5 6"));
        assert!(!is_kernel_thread("?"));
    }

    #[test]
    fn units_and_containers_are_services() {
        let of = |path: &str| service_of_cgroup(&format!("0::{path}\n"));
        assert_eq!(of("/system.slice/nginx.service").as_deref(), Some("nginx"));
        let id = "0123456789abcdef".repeat(4);
        let names = [format!("/system.slice/docker-{id}.scope"), format!("/kubepods/pod7/{id}")];
        assert!(names.iter().all(|name| of(name).as_deref() == Some("0123456789ab")));
        assert_eq!(of("/user.slice/user-0.slice/session-1.scope"), None);
        assert_eq!(
            of("/user.slice/user-1.slice/user@1.service/app.slice/tmux.service").as_deref(),
            Some("tmux")
        );
        assert_eq!(of("/"), None);
    }
}
