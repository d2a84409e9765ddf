//! Limits of old kernels: how the verifier looks at functions of a program, each on its own or again at each call, and
//! data per thread.

use aya_obj::btf::BtfFeatures;
use dso::system_file;

/// Since then a function that is looked at on its own may get a pointer to memory that may be missing.
//
// Source: linux v5.12 kernel/bpf/btf.c, btf_prepare_func_args: PTR_TO_MEM_OR_NULL
const POINTERS_SINCE: (u32, u32) = (5, 12);

/// Since then programs may keep data per thread.
//
// Source: linux v5.11 include/uapi/linux/bpf.h: BPF_MAP_TYPE_TASK_STORAGE
const THREAD_DATA_SINCE: (u32, u32) = (5, 11);

/// As `uname -r` prints it; empty where /proc is missing.
pub(super) fn running_release() -> String {
    system_file::read_text("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned()
}

/// The running kernel's release if it is too old for data per thread.
pub(super) fn release_without_thread_data() -> Option<String> {
    Some(running_release()).filter(|release| lacks_thread_data(release))
}

fn lacks_thread_data(release: &str) -> bool {
    version(release).is_some_and(|version| version < THREAD_DATA_SINCE)
}

/// `known` for a kernel of this release: an older one would refuse our global functions for their arguments. As static ones
/// they are looked at again at each call, which takes longer.
pub(super) fn features_for(known: &BtfFeatures, release: &str) -> BtfFeatures {
    let takes_pointers = version(release).is_none_or(|version| version >= POINTERS_SINCE);
    BtfFeatures::new(
        known.btf_func(),
        known.btf_func_global() && takes_pointers,
        known.btf_datasec(),
        known.btf_datasec_zero(),
        known.btf_float(),
        known.btf_decl_tag(),
        known.btf_type_tag(),
        known.btf_enum64(),
    )
}

/// 5 and 10 of `5.10.0-32-amd64`; `None` for other texts.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.trim().split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_per_thread_came_with_5_11() {
        let releases = ["4.19.0", "5.10.0-46-amd64", "5.11.0", "6.1.0-56-amd64", "?"];
        assert_eq!(releases.map(lacks_thread_data), [true, true, false, false, false]);
    }

    #[test]
    fn functions_of_old_kernels_are_not_looked_at_on_their_own() {
        let all = BtfFeatures::new(true, true, true, true, true, true, true, true);
        let global = |release: &str| features_for(&all, release).btf_func_global();
        assert_eq!(
            ["5.10.0-32-amd64", "5.11.9", "5.12.0", "6.1.0", "6.18.44-fc\n", "?"].map(global),
            [false, false, true, true, true, true]
        );
        assert!(features_for(&all, "5.10.0").btf_datasec(), "only that");
    }
}
