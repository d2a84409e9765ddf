use super::*;
use crate::files::Descriptor;
use crate::layout::RecordKind;
use crate::table::CallTable;

const NO_ONE: u32 = 4_194_303;

fn shown(name: &str, args: [u64; 6], ret: i64, copies: [&[u8]; 2]) -> String {
    let table = CallTable::of_this_processor();
    let (nr, _) = table.names().find(|(_, known)| *known == name).expect("a call");
    let signature = table.of(nr).expect("known");
    let record = CallRecord {
        kind: RecordKind::Call,
        start_ns: 1,
        end_ns: 2,
        ret,
        tid: NO_ONE,
        tgid: NO_ONE,
        nr,
        is_open: false,
        is_compat: false,
        args,
        copies: [Copied::Bytes(copies[0]), Copied::Bytes(copies[1]), Copied::Nothing],
    };
    let mut files = OpenFiles::new(|_, _| Descriptor::default());
    let mut context = CallContext { files: &mut files, program: None };
    let mut text = String::new();
    write_call(signature, &record, &mut context, &mut text);
    text.push_str(" = ");
    context.files.learn(signature, &record);
    write_return(signature, &record, &mut context, &mut text);
    text
}

#[test]
fn calls_are_shown_with_names_of_flags_files_and_errors() {
    let at_cwd = u64::from(100u32.wrapping_neg());
    assert_eq!(
        shown("openat", [at_cwd, 1, 0o2_000_000, 0, 0, 0], 3, [b"/etc/passwd", b""]),
        "openat(AT_FDCWD, \"/etc/passwd\", O_RDONLY|O_CLOEXEC) = 3</etc/passwd>"
    );
    assert_eq!(
        shown("openat", [at_cwd, 1, 0o101, 0o644, 0, 0], -2, [b"a\"\x1b", b""]),
        "openat(AT_FDCWD, \"a\\\"\\33\", O_WRONLY|O_CREAT, 0644) = -1 ENOENT (No such file or directory)"
    );
    assert_eq!(shown("write", [1, 9, 5, 0, 0, 0], 5, [b"hel", b""]), "write(1, \"hel\"..., 5) = 5");
    assert_eq!(shown("read", [0, 9, 5, 0, 0, 0], 2, [b"h\n", b""]), "read(0, \"h\\n\", 5) = 2");
    assert_eq!(
        shown("connect", [3, 9, 16, 0, 0, 0], 0, [&[2, 0, 0, 80, 1, 2, 3, 4], b""]),
        "connect(3, 1.2.3.4:80) = 0"
    );
    let half = [1u64.to_le_bytes(), 500_000_000u64.to_le_bytes()].concat();
    assert_eq!(
        shown("clock_nanosleep", [1, 0, 9, 0, 0, 0], -516, [&half, b""]),
        "clock_nanosleep(CLOCK_MONOTONIC, 0x0, 1.5s, NULL) = -1 ERESTART_RESTARTBLOCK (interrupted by a signal)"
    );
    assert_eq!(
        shown("mmap", [0, 4096, 3, 0x22, 0xffff_ffff, 0], 0x7f00_0000_0000, [b"", b""]),
        "mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0x0) = 0x7f0000000000"
    );
    assert_eq!(
        shown("futex", [0x10, 0x81, 7, 0, 5, 9], 0, [b"", b""]),
        "futex(0x10, FUTEX_WAKE|FUTEX_PRIVATE_FLAG, 7) = 0"
    );
    assert_eq!(shown("kill", [0xffff_ffff, 15, 0, 0, 0, 0], 0, [b"", b""]), "kill(-1, SIGTERM) = 0");
    assert_eq!(
        shown("pipe2", [9, 0, 0, 0, 0, 0], 0, [&[3, 0, 0, 0, 4, 0, 0, 0], b""]),
        "pipe2([3, 4], 0) = 0"
    );
}
