//! Paths of files as a user knows them: below the places where file systems are mounted.

use dso::system_file;

use super::layout::NameRecord;

/// Where file systems are mounted, as seen by tally.
#[derive(Debug, Default)]
pub(super) struct Mounts(Vec<Mount>);

#[derive(Debug)]
struct Mount {
    device: u32,
    /// Path in the file system that is mounted.
    root: String,
    /// Path at which it is.
    point: String,
}

impl Mounts {
    pub(super) fn read() -> Self {
        Self::parse(&system_file::read_text("/proc/self/mountinfo").unwrap_or_default())
    }

    // Source: linux v6.18 Documentation/filesystems/proc.rst, 3.5: ID PARENT MAJOR:MINOR ROOT POINT …
    fn parse(text: &str) -> Self {
        let mount = |line: &str| {
            let mut words = line.split(' ').skip(2);
            let (major, minor) = words.next()?.split_once(':')?;
            let device = major.parse::<u32>().ok()? << 20 | minor.parse::<u32>().ok()?;
            let mut path = || Some(unescaped(words.next()?.trim_end_matches('/')));
            Some(Mount { device, root: path()?, point: path()? })
        };
        Self(text.lines().filter_map(mount).collect())
    }

    /// Path of a named file; a part of it, with dots before it, where the rest isn't known.
    pub(super) fn path(&self, name: &NameRecord) -> String {
        if !name.is_whole {
            return format!("…/{}", name.path);
        }
        let in_system = format!("/{}", name.path);
        let below = |mount: &Mount| {
            let rest = in_system.strip_prefix(mount.root.as_str())?;
            rest.starts_with('/').then(|| format!("{}{rest}", mount.point))
        };
        let of_device = self.0.iter().filter(|mount| mount.device == name.key.device);
        // The whole file system, if it is mounted, else a folder of it.
        let mut paths: Vec<(usize, String)> =
            of_device.filter_map(|mount| Some((mount.root.len(), below(mount)?))).collect();
        paths.sort_by_key(|(root, path)| (*root, path.len()));
        paths.into_iter().next().map_or(in_system, |(_, path)| path)
    }
}

/// Spaces and other separators are `\040`.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()).filter(|_| first == b'\\');
        bytes.push(byte.unwrap_or(first));
        rest = if byte.is_some() { &after[3..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::super::layout::FileKey;
    use super::*;

    #[test]
    fn a_path_begins_where_its_file_system_is_mounted() {
        let mounts = Mounts::parse(
            "22 1 254:0 / / rw - ext4 /dev/vda rw\n\
             30 22 254:1 /@home /home rw - btrfs /dev/vdb rw\n\
             31 22 254:1 / /mnt/my\\040disk rw - btrfs /dev/vdb rw\n\
             32 22 254:2 /@home /srv rw - btrfs /dev/vdc rw\n",
        );
        let path = |minor: u32, path: &str, is_whole| {
            let key = FileKey { inode: 5, device: 254 << 20 | minor, generation: 0 };
            mounts.path(&NameRecord { key, is_whole, path: path.to_owned() })
        };
        assert_eq!(path(0, "usr/bin/ls", true), "/usr/bin/ls");
        assert_eq!(path(1, "@home/a", true), "/mnt/my disk/@home/a");
        assert_eq!(path(2, "@home/a", true), "/srv/a");
        assert_eq!(path(2, "@homely/a", true), "/@homely/a", "not mounted here");
        assert_eq!(path(0, "lib/x", false), "…/lib/x");
    }
}
