//! /proc/modules: where the running kernel's modules are.

use crate::addr::Avma;

/// Where a module of the running kernel begins, by its name without brackets. `None` if it is not
/// loaded, or its address is not shown to us.
pub fn start_of_running(name: &str) -> Option<Avma> {
    parse_start(&crate::files::system_file::read_text("/proc/modules").ok()?, name)
}

/// Layout: `ext4 999424 1 - Live 0xffffffffc0400000`, with `(OE)` after it for tainting ones.
/// Source: `m_show` in kernel/module/procfs.c.
fn parse_start(text: &str, name: &str) -> Option<Avma> {
    let line = text.lines().find(|line| line.split(' ').next() == Some(name))?;
    let address = line.split(' ').find_map(|word| word.strip_prefix("0x"))?;
    u64::from_str_radix(address, 16).ok().filter(|&start| start != 0).map(Avma)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_that_of_the_module_of_exactly_that_name() {
        let text = "ext4_more 1 0 - Live 0xffffffffc0100000\n\
            ext4 999424 1 - Live 0xffffffffc0400000\n\
            zfs 4096 6 spl,icp, Live 0xffffffffc0800000 (POE)\n\
            hidden 4096 0 - Live 0x0000000000000000\n";
        assert_eq!(parse_start(text, "ext4"), Some(Avma(0xffff_ffff_c040_0000)));
        assert_eq!(parse_start(text, "zfs"), Some(Avma(0xffff_ffff_c080_0000)));
        assert_eq!(parse_start(text, "hidden"), None);
        assert_eq!(parse_start(text, "xfs"), None);
    }
}
