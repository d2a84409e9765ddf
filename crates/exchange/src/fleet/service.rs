//! Which service a process belongs to, by its control group.

/// The unit or container in the text of `/proc/PID/cgroup`; `None` for a login session, or without either.
#[must_use]
pub fn service_of_cgroup(text: &str) -> Option<String> {
    let paths = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    paths.flat_map(|path| path.split('/').rev()).find_map(service_of_group)
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
