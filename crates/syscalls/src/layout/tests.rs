use super::*;

const HEADER: &str = include_str!("../../../record/bpf/syscalls_shared.h");

fn constant(name: &str) -> u64 {
    let line = HEADER.lines().find(|line| line.split_whitespace().nth(1) == Some(name));
    let value = line.and_then(|line| line.split_whitespace().nth(2)).unwrap_or_else(|| panic!("{name}"));
    let hex = value.strip_prefix("0x").map(|hex| u64::from_str_radix(hex, 16));
    hex.unwrap_or_else(|| value.parse()).unwrap_or_else(|_| panic!("{name} {value}"))
}

#[test]
fn the_header_and_this_file_agree() {
    for (name, value) in [
        ("SPECS", SPECS as u64),
        ("CALL_ARGS", ARGS as u64),
        ("CALL_COPIES", COPIES as u64),
        ("COPY_BYTES", u64::from(COPY_BYTES)),
        ("COPY_FAULT", u64::from(COPY_FAULT)),
        ("COPY_NONE", u64::from(COPY_NONE)),
        ("SUM_COMPAT", u64::from(SUM_COMPAT)),
        ("REC_CALL", 1),
        ("REC_NEW", 2),
        ("REC_FORK", 3),
        ("REC_EXEC", 4),
        ("REC_EXIT", 5),
        ("REC_OPEN", 1),
        ("REC_COMPAT", 2),
        ("HOW_STRING", 1),
        ("HOW_FIXED", 2),
        ("HOW_ARG", 3),
        ("HOW_RET", 4),
        ("HOW_POINTED", 5),
        ("HOW_ONLY_OK", 16),
        ("SPEC_WANTED", 1),
        ("SPEC_TRACKED", 2),
        ("SPEC_NO_RETURN", 4),
        ("SPEC_FORK", 16),
    ] {
        assert_eq!(constant(name), value, "{name}");
    }
}

fn record(lens: [u16; 3], nargs: u8, tail: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [5u64, 9, 2u64.wrapping_neg(), 7 | 8 << 32] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend([1, 1, 1, nargs, 2, 0]);
    lens.iter().for_each(|len| bytes.extend(len.to_le_bytes()));
    bytes.extend([0; 4]);
    bytes.extend(tail);
    bytes
}

#[test]
fn a_record_has_its_arguments_and_copies() {
    let mut tail: Vec<u8> = (1..=6u64).flat_map(u64::to_le_bytes).collect();
    tail.extend(b"namerest");
    let bytes = record([4, COPY_FAULT, 4], 6, &tail);
    let parsed = parse_record(&bytes).expect("whole");
    assert_eq!((parsed.start_ns, parsed.end_ns, parsed.ret), (5, 9, -2));
    assert_eq!((parsed.tid, parsed.tgid, parsed.nr), (7, 8, 257));
    assert_eq!((parsed.is_open, parsed.is_compat), (false, true));
    assert_eq!(parsed.args, [1, 2, 3, 4, 5, 6]);
    assert_eq!(
        (parsed.bytes(0), parsed.bytes(1), parsed.bytes(2)),
        (Some(&b"name"[..]), None, Some(&b"rest"[..]))
    );
    let short = record([0, 0, 0], 2, &[1, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(parse_record(&short).expect("whole").args, [1, 3, 0, 0, 0, 0]);
    assert_eq!(parse_record(&bytes[..bytes.len() - 1]), None, "cut within its data");
    assert!((0..HEAD_BYTES - 8).all(|len| parse_record(&bytes[..len]).is_none()));
}

#[test]
fn a_spec_is_written_as_the_kernel_side_reads_it() {
    let copy = CallCopy { arg: 1, length: CopyLength::Argument(2), unit: 16, most: 2000, is_output: true };
    let spec = CallSpec {
        is_wanted: true,
        is_fork: true,
        nargs: 3,
        copies: [copy, CallCopy::default(), CallCopy::default()],
        ..CallSpec::default()
    };
    assert_eq!(spec.to_bytes()[..8], [17, 3, 1, 19, 2, 16, 0, 2]);
}
