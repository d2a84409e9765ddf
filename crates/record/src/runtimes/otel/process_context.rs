//! Facts that a process publishes about itself, in a mapping named `OTEL_CTX`: the names of its threads' attributes.
//
// Source: OTEP 4719 (process context) as opentelemetry-ebpf-profiler reads it (processcontext/processcontext.go), and
// OTEP 4947, "Process Context: Thread-Local Reference Data". The payload is protobuf: opentelemetry-proto,
// common/v1/common.proto.

use std::os::unix::fs::FileExt as _;

use dso::system_file;

use crate::machine::proc;

/// Longest payload that is read.
const MOST_BYTES: u32 = 65536;
/// Keys are numbered by one byte.
const MOST_KEYS: usize = 256;
/// A payload that changes meanwhile is read again so often.
const TRIES: usize = 3;
/// Versions of the header with this layout; 1 is that of writers from before the standard.
const VERSIONS: std::ops::RangeInclusive<u32> = 1..=2;

/// Field numbers of the messages, and the kind of fields that have a length.
const RESOURCE: u64 = 1;
const ATTRIBUTE: u64 = 2;
const ATTRIBUTE_OF_RESOURCE: u64 = 1;
const KEY: u64 = 1;
const VALUE: u64 = 2;
const STRING_VALUE: u64 = 1;
const ARRAY_VALUE: u64 = 5;
const VALUE_OF_ARRAY: u64 = 1;
const WITH_LENGTH: u64 = 2;

/// Reads the names of attributes, by number; `None` if the process publishes none, or is writing them.
pub(super) fn read_keys(pid: u32) -> Option<Vec<Vec<u8>>> {
    let names: [&[u8]; 3] = [b"/memfd:OTEL_CTX", b"[anon_shmem:OTEL_CTX]", b"[anon:OTEL_CTX]"];
    let lines = proc::maps(pid)?;
    let line = lines.iter().find(|line| names.iter().any(|name| line.name.starts_with(name)))?;
    let memory = system_file::open(format!("/proc/{pid}/mem")).ok()?;
    let read = |at: u64, into: &mut [u8]| memory.read_exact_at(into, at).is_ok();
    (0..TRIES).find_map(|_| attribute_keys(&payload(line.start, &read)?))
}

/// The payload of the header at this address, unless it changes while it is read.
fn payload(at: u64, read: &dyn Fn(u64, &mut [u8]) -> bool) -> Option<Vec<u8>> {
    let header = || {
        let mut bytes = [0; 32];
        read(at, &mut bytes).then_some(bytes)
    };
    let before = header()?;
    let word = |at: usize| Some(u32::from_ne_bytes(before.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_ne_bytes(before.get(at..at + 8)?.try_into().ok()?));
    let (version, size, published) = (word(8)?, word(12)?, long(16)?);
    if !before.starts_with(b"OTEL_CTX") || !VERSIONS.contains(&version) || published == 0 || size > MOST_BYTES
    {
        return None;
    }
    let mut bytes = vec![0; size as usize];
    (read(long(24)?, &mut bytes) && header()? == before).then_some(bytes)
}

/// The names in a payload: `threadlocal.attribute_key_map`. `None` if it has none.
#[must_use]
pub fn attribute_keys(payload: &[u8]) -> Option<Vec<Vec<u8>>> {
    // Writers from before the standard have a resource's attributes at the top, or all in the resource.
    let own = fields(payload).filter(|(number, _)| [RESOURCE, ATTRIBUTE].contains(number));
    let inner = fields(payload).filter(|(number, _)| *number == RESOURCE);
    let inner = inner.flat_map(|(_, of)| fields(of).filter(|(number, _)| *number == ATTRIBUTE_OF_RESOURCE));
    let is_map = |attribute: &[u8]| first(attribute, KEY) == Some(b"threadlocal.attribute_key_map");
    let attribute = own.chain(inner).map(|(_, of)| of).find(|of| is_map(of))?;
    let array = first(first(attribute, VALUE)?, ARRAY_VALUE)?;
    let values = fields(array).filter(|(number, _)| *number == VALUE_OF_ARRAY).take(MOST_KEYS);
    Some(values.map(|(_, value)| first(value, STRING_VALUE).unwrap_or_default().to_vec()).collect())
}

/// A key as text; `None` for an empty one or another encoding.
pub(super) fn text_of_key(key: &[u8]) -> Option<&str> {
    std::str::from_utf8(key).ok().filter(|text| !text.is_empty())
}

/// The attributes of a thread's record: numbers of keys and values; `false` if bytes are left that are none.
#[must_use]
pub fn attributes(mut bytes: &[u8]) -> (Vec<(u8, &[u8])>, bool) {
    let mut found = Vec::new();
    while let [key, length, rest @ ..] = bytes {
        let Some((value, after)) = rest.split_at_checked(usize::from(*length)) else { return (found, false) };
        found.push((*key, value));
        bytes = after;
    }
    (found, bytes.is_empty())
}

fn first(message: &[u8], wanted: u64) -> Option<&[u8]> {
    fields(message).find(|(number, _)| *number == wanted).map(|(_, bytes)| bytes)
}

/// The fields of a message that have a length, until something that is none.
fn fields(mut bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    std::iter::from_fn(move || {
        loop {
            let tag = varint(&mut bytes)?;
            match tag & 7 {
                0 => _ = varint(&mut bytes)?,
                1 => bytes = bytes.get(8..)?,
                5 => bytes = bytes.get(4..)?,
                WITH_LENGTH => {
                    let length = usize::try_from(varint(&mut bytes)?).ok()?;
                    let (value, rest) = bytes.split_at_checked(length)?;
                    bytes = rest;
                    return Some((tag >> 3, value));
                }
                _ => return None,
            }
        }
    })
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut all = vec![number << 3 | 2, bytes.len() as u8];
        all.extend(bytes);
        all
    }

    fn key_map(keys: &[&[u8]]) -> Vec<u8> {
        let values: Vec<u8> = keys.iter().flat_map(|key| message(1, &message(1, key))).collect();
        [message(1, b"threadlocal.attribute_key_map"), message(2, &message(5, &values))].concat()
    }

    #[test]
    fn keys_are_those_of_the_process_context_or_of_its_resource() {
        let keys = key_map(&[b"http.route", b"\xff\xfe", b""]);
        let other =
            message(2, &[message(1, b"threadlocal.schema_version"), message(2, &message(1, b"x"))].concat());
        let wanted = Some(vec![b"http.route".to_vec(), b"\xff\xfe".to_vec(), Vec::new()]);
        assert_eq!(attribute_keys(&[other, message(2, &keys)].concat()), wanted);
        assert_eq!(attribute_keys(&message(1, &message(1, &keys))), wanted);
        assert_eq!(attribute_keys(&message(1, &keys)), wanted);
        assert_eq!((text_of_key(b"http.route"), text_of_key(b"\xff\xfe")), (Some("http.route"), None));
    }

    #[test]
    fn damaged_payloads_are_read_up_to_the_damage() {
        let whole = message(2, &key_map(&[b"a", b"b"]));
        for end in 0..whole.len() {
            let _ = attribute_keys(&whole[..end]);
        }
        assert_eq!(attribute_keys(&[0xff; 40]), None);
        assert_eq!(attribute_keys(&[0x12, 0xff, 0xff, 0xff, 0xff, 0x0f]), None);
    }

    #[test]
    fn attributes_end_where_one_is_not_whole() {
        assert_eq!(
            attributes(b"\x00\x02/a\x01\x00"),
            (vec![(0, b"/a".as_slice()), (1, b"".as_slice())], true)
        );
        assert_eq!(attributes(b"\x00\x02/a\x01\x09x"), (vec![(0, b"/a".as_slice())], false));
        assert_eq!((attributes(b"\x00"), attributes(b"")), ((vec![], false), (vec![], true)));
    }

    #[test]
    fn a_header_that_is_being_written_has_no_payload() {
        let mut memory = vec![0u8; 64];
        memory[..8].copy_from_slice(b"OTEL_CTX");
        (memory[8], memory[12], memory[16], memory[24], memory[32]) = (2, 3, 9, 32, 7);
        let of = |memory: &[u8]| {
            payload(0, &|at, into| {
                let bytes = usize::try_from(at).ok().and_then(|at| memory.get(at..)?.get(..into.len()));
                bytes.is_some_and(|bytes| {
                    into.copy_from_slice(bytes);
                    true
                })
            })
        };
        assert_eq!(of(&memory), Some(vec![7, 0, 0]));
        // Being written, a wild pointer, a size of 4 GB, another version.
        for (at, value) in [(16, 0), (31, 0xff), (15, 0xff), (8, 9)] {
            let mut damaged = memory.clone();
            damaged[at] = value;
            assert_eq!(of(&damaged), None, "{at}");
        }
    }
}
