use super::*;
use crate::files::scratch::ScratchFolder;
use std::os::unix::fs::symlink;

fn folder() -> ScratchFolder {
    ScratchFolder::private("test").expect("a place")
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").mode() & 0o7777
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).expect("it is there")
}

#[test]
fn a_recording_is_for_its_owner_and_keeps_the_one_before() {
    let folder = folder();
    let path = folder.path().join("perf.data");
    create_recording(&path).and_then(|mut file| file.write_all(b"first")).expect("room");
    assert_eq!(mode(&path), 0o600);
    create_recording(&path).and_then(|mut file| file.write_all(b"second")).expect("room");
    assert_eq!((text(&path), text(&path.with_extension("data.old"))), ("second".into(), "first".into()));
}

#[test]
fn an_empty_file_is_taken_and_made_private() {
    let folder = folder();
    let path = folder.path().join("perf.data");
    fs::write(&path, "").expect("room");
    fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("ours");
    let before = fs::metadata(&path).expect("it is there").ino();
    create_recording(&path).expect("ours");
    assert_eq!((fs::metadata(&path).expect("it is there").ino(), mode(&path)), (before, 0o600));
    assert!(!path.with_extension("data.old").exists());
}

#[test]
fn a_recording_never_follows_a_link() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("victim"), "precious").expect("room");
    for target in ["victim", "nothing"] {
        symlink(path(target), path("link")).expect("room");
        create_recording(&path("link")).and_then(|mut file| file.write_all(b"new")).expect("room");
        assert_eq!(text(&path("victim")), "precious");
        assert!(!path("nothing").exists());
        assert!(fs::symlink_metadata(path("link")).expect("made").is_file());
        assert_eq!(fs::read_link(path("link.old")).expect("the link"), path(target));
        fs::remove_file(path("link")).expect("ours");
    }
}

#[test]
fn streams_are_written_and_neither_renamed_nor_removed() {
    let folder = folder();
    let (file, link) = (folder.path().join("file"), folder.path().join("null"));
    symlink("/dev/null", &link).expect("room");
    let held = create_recording(&file).expect("room");
    let by_number = PathBuf::from(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&held)));
    for path in [Path::new("/dev/null"), &link, &by_number] {
        assert!(is_stream(path), "{}", path.display());
        create_recording(path).and_then(|mut to| to.write_all(b"x")).expect("writable");
        remove_recording(path);
        assert!(path.symlink_metadata().is_ok());
    }
    assert_eq!(text(&file), "x");
    remove_recording(&file);
    assert!(!file.exists());
}

#[test]
fn an_export_overwrites_and_follows_links_of_our_own() {
    let folder = folder();
    let (path, link) = (folder.path().join("out.svg"), folder.path().join("link"));
    write_export(&path, "a longer text").expect("room");
    fs::set_permissions(&path, Permissions::from_mode(0o640)).expect("ours");
    symlink(&path, &link).expect("room");
    write_export(&link, "short").expect("ours");
    assert_eq!((text(&path), mode(&path)), ("short".into(), 0o640));
    append_export(&path).and_then(|mut file| file.write_all(b"er")).expect("ours");
    assert_eq!(text(&path), "shorter");
}

#[test]
fn parts_are_private_and_no_links() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    write_part(&path("info"), "one").expect("room");
    append_part(&path("info")).and_then(|mut file| file.write_all(b" two")).expect("ours");
    assert_eq!((text(&path("info")), mode(&path("info"))), ("one two".into(), 0o600));
    symlink(path("info"), path("link")).expect("room");
    assert!(write_part(&path("link"), "x").is_err() && append_part(&path("link")).is_err());
}

#[test]
fn what_another_user_planted_is_refused() {
    if mem::effective_uid() != 0 {
        return println!("skipped: only root can make files of another user");
    }
    let folder = folder();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o1777)).expect("ours");
    let path = |name: &str| folder.path().join(name);
    fs::write(path("victim"), "precious").expect("room");
    fs::write(path("file"), "theirs").expect("room");
    symlink(path("victim"), path("link")).expect("room");
    symlink("/dev/full", path("device")).expect("room");
    for name in ["file", "link", "device"] {
        std::os::unix::fs::lchown(path(name), Some(65534), Some(65534)).expect("root may");
        let refused = create_export(&path(name)).expect_err("planted").to_string();
        assert!(refused.starts_with("user 65534 has put it into a folder"), "{refused}");
        create_recording(&path(name)).expect("the planted one is renamed");
        assert!(fs::symlink_metadata(path(name)).is_ok_and(|made| made.is_file() && made.uid() == 0));
    }
    assert_eq!(text(&path("victim")), "precious");
}
