use super::*;
use std::path::PathBuf;
use std::process::Command;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tally-untrusted-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("made");
        Self(path)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).expect("written");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn kind_refused(rule: &FileRule, path: &Path) -> FileKind {
    match rule.read(path) {
        Err(Refused::NotRegular(kind)) => kind,
        other => panic!("{}: {other:?}", path.display()),
    }
}

#[test]
fn a_regular_file_is_read_to_its_limit_and_not_past_it() {
    let folder = Folder::new("limit");
    let path = folder.file("five", b"12345");
    assert_eq!(FileRule::up_to(5).read(&path).expect("it fits"), b"12345");
    let refused = FileRule::up_to(4).read(&path).expect_err("one byte too many");
    assert!(matches!(refused, Refused::TooLarge { bytes: 5, max_bytes: 4 }), "{refused}");
    assert_eq!(io::Error::from(refused).kind(), io::ErrorKind::FileTooLarge);
}

#[test]
fn a_sparse_file_is_refused_by_its_stated_size() {
    let folder = Folder::new("sparse");
    let path = folder.file("sparse", b"");
    File::options().write(true).open(&path).and_then(|f| f.set_len(1 << 40)).expect("sparse");
    let refused = FileRule::up_to(1 << 20).open(&path).expect_err("too large");
    assert!(matches!(refused, Refused::TooLarge { bytes, .. } if bytes == 1 << 40), "{refused}");
}

#[test]
fn a_large_file_of_holes_is_refused_where_size_is_no_limit() {
    use std::os::unix::fs::FileExt;
    let folder = Folder::new("holes");
    let path = folder.file("holes", b"\x7fELF");
    let file = File::options().write(true).open(&path).expect("ours");
    file.set_len(8 << 30).and_then(|()| file.write_at(b"end", 4 << 30)).expect("sparse");
    if file.metadata().expect("ours").blocks() > 1 << 20 {
        return println!("skipped: no sparse files here");
    }
    let rule = FileRule::up_to(u64::MAX);
    assert!(rule.open(&path).is_ok());
    let refused = rule.dense().open(&path).expect_err("all holes");
    assert!(matches!(refused, Refused::Sparse { bytes, .. } if bytes == 8 << 30), "{refused}");
    assert!(!is_sparse(8 << 30, 0) && !is_sparse(8 << 30, 1 << 30) && !is_sparse(1 << 30, 512));
}

#[test]
fn only_regular_files_are_opened() {
    let (folder, rule) = (Folder::new("kinds"), FileRule::up_to(1 << 20));
    let pipe = folder.0.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
    assert_eq!(kind_refused(&rule, &pipe), FileKind::Pipe);
    assert_eq!(kind_refused(&rule, &folder.0), FileKind::Directory);
    assert_eq!(kind_refused(&rule, Path::new("/dev/zero")), FileKind::Device);
    let _socket = std::os::unix::net::UnixListener::bind(folder.0.join("socket")).expect("bound");
    assert_eq!(kind_refused(&rule, &folder.0.join("socket")), FileKind::Socket);
    let link = folder.0.join("link to a pipe");
    std::os::unix::fs::symlink(&pipe, &link).expect("linked");
    assert_eq!(kind_refused(&rule, &link), FileKind::Pipe);
}

#[test]
fn links_are_followed_unless_the_rule_forbids_them() {
    let folder = Folder::new("links");
    let (path, link) = (folder.file("file", b"text"), folder.0.join("link"));
    std::os::unix::fs::symlink(&path, &link).expect("linked");
    assert_eq!(FileRule::up_to(9).read(&link).expect("followed"), b"text");
    assert_eq!(kind_refused(&FileRule::up_to(9).without_links(), &link), FileKind::Link);
    assert_eq!(FileRule::up_to(9).without_links().read(&path).expect("no link"), b"text");
}

#[test]
fn files_that_state_no_size_are_not_opened() {
    let rule = FileRule::up_to(1 << 20);
    for path in ["/proc/self/pagemap", "/proc/self/maps", "/proc/version"] {
        assert!(matches!(rule.open(Path::new(path)), Err(Refused::Empty)), "{path}");
        assert_eq!(rule.read(Path::new(path)).expect("no bytes"), b"", "{path}");
    }
}

#[test]
fn a_file_of_another_user_is_refused_where_owners_are_named() {
    let folder = Folder::new("owner");
    let path = folder.file("owned", b"text");
    let owner = std::fs::metadata(&path).expect("it is there").uid();
    let rule = FileRule::up_to(9);
    assert!(rule.clone().owned_by(vec![owner]).read(&path).is_ok());
    let refused = rule.owned_by(vec![owner + 1, owner + 2]).read(&path).expect_err("not the owner's");
    assert_eq!(
        refused.to_string(),
        format!("file owned by user {owner}, not by {} or {}", owner + 1, owner + 2)
    );
    assert_eq!(io::Error::from(refused).kind(), io::ErrorKind::PermissionDenied);
}

#[test]
fn an_absent_file_is_the_systems_error() {
    let refused = FileRule::up_to(1).read(Path::new("/nonexistent")).expect_err("absent");
    assert_eq!(io::Error::from(refused).kind(), io::ErrorKind::NotFound);
}
