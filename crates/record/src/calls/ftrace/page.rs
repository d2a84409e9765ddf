//! A page of the kernel's trace ring, as `per_cpu/cpuN/trace_pipe_raw` hands it out.
//!
//! Layout: u64 time stamp; u64 commit (bytes of events, flags in bits 30 and 31); then events: u32 with `type_len` in
//! the low 5 bits and the time since the event before in the others, then the event's bytes, 4-aligned.
//! Source: linux v6.18 include/linux/ring_buffer.h, kernel/trace/ring_buffer.c (rb_event_length, rb_event_data,
//! rb_update_read_stamp, ring_buffer_read_page).

/// Bytes before the first event.
const HEADER_BYTES: usize = 16;
/// The part of `commit` that is a size.
const COMMIT_MASK: u64 = (1 << 20) - 1;
/// Events before this page were lost.
const MISSED: u64 = 1 << 31;
/// The number of lost events is stored after the events.
const MISSED_STORED: u64 = 1 << 30;
/// Bits of a time that the event's first word holds.
const DELTA_BITS: u32 = 27;
/// The part of an absolute time that no event carries.
const TIME_HIGH: u64 = 0xf8 << 56;

/// The page isn't valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the trace page breaks off at byte {offset} of {bytes}")]
pub struct Damaged {
    /// Where reading stopped.
    pub offset: usize,
    /// Bytes there are.
    pub bytes: usize,
}

/// Reads the page; each event goes to `each` with its time in ns of the trace clock. Returns the number of events
/// lost before it: at least 1 if the kernel doesn't store the number.
///
/// # Errors
/// [`Damaged`]; the events before that place were handed out.
pub fn parse_page(page: &[u8], each: &mut dyn FnMut(u64, &[u8])) -> Result<u64, Damaged> {
    let damaged = |offset| Damaged { offset, bytes: page.len() };
    let mut time_ns = u64_at(page, 0).ok_or(damaged(0))?;
    let commit = u64_at(page, 8).ok_or(damaged(8))?;
    let end = HEADER_BYTES + (commit & COMMIT_MASK) as usize;
    let events = page.get(..end).ok_or(damaged(page.len()))?;
    let mut at = HEADER_BYTES;
    while at < end {
        let word = u32_at(events, at).ok_or(damaged(at))?;
        let (kind, delta) = (word & 31, u64::from(word >> 5));
        let second = || u32_at(events, at + 4).ok_or(damaged(at + 4));
        let (start, bytes) = match kind {
            29 if delta == 0 => break,
            29 => (at + 4, second()? as usize),
            30 => {
                time_ns = time_ns.wrapping_add((u64::from(second()?) << DELTA_BITS) + delta);
                (at + 4, 4)
            }
            31 => {
                time_ns = (time_ns & TIME_HIGH) | ((u64::from(second()?) << DELTA_BITS) + delta);
                (at + 4, 4)
            }
            0 => (at + 8, (second()? as usize).checked_sub(4).ok_or(damaged(at + 4))?),
            words => (at + 4, words as usize * 4),
        };
        let next = start.checked_add(bytes).ok_or(damaged(at))?.next_multiple_of(4);
        let data = events.get(start..start + bytes).ok_or(damaged(start))?;
        if kind < 29 {
            time_ns = time_ns.wrapping_add(delta);
            each(time_ns, data);
        }
        at = next;
    }
    Ok(match (commit & MISSED != 0, commit & MISSED_STORED != 0) {
        (false, _) => 0,
        (true, true) => u64_at(page, end).unwrap_or(1),
        (true, false) => 1,
    })
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(commit_flags: u64, words: &[u32]) -> Vec<u8> {
        let mut page = Vec::new();
        page.extend(1000u64.to_ne_bytes());
        page.extend(((words.len() as u64 * 4) | commit_flags).to_ne_bytes());
        words.iter().for_each(|word| page.extend(word.to_ne_bytes()));
        page
    }

    /// Events lost, and of each event time, bytes, first byte.
    type Read = (Result<u64, Damaged>, Vec<(u64, usize, u8)>);

    fn read(page: &[u8]) -> Read {
        let mut seen = Vec::new();
        let lost = parse_page(page, &mut |time, data| seen.push((time, data.len(), data[0])));
        (lost, seen)
    }

    #[test]
    fn small_and_large_events_have_their_times_and_bytes() {
        // Two words after 5 ns, then 12 bytes with a length of their own after 7 ns.
        let words = [5 << 5 | 2, 0xaa, 0, 7 << 5, 16, 0xbb, 0, 0];
        assert_eq!(read(&page(0, &words)), (Ok(0), vec![(1005, 8, 0xaa), (1012, 12, 0xbb)]));
    }

    #[test]
    fn times_are_extended_and_set() {
        let words = [3 << 5 | 30, 2, 1 << 5 | 1, 0xaa, 9 << 5 | 31, 4, 1 << 5 | 1, 0xbb];
        let first = 1000 + (2 << 27) + 3 + 1;
        assert_eq!(read(&page(0, &words)).1, [(first, 4, 0xaa), ((4 << 27) + 9 + 1, 4, 0xbb)]);
    }

    #[test]
    fn discarded_events_are_passed_over_and_padding_ends_the_page() {
        let words = [1 << 5 | 29, 8, 0, 2 << 5 | 1, 0xcc, 29, 0xdddd];
        assert_eq!(read(&page(0, &words)), (Ok(0), vec![(1002, 4, 0xcc)]));
    }

    #[test]
    fn what_was_lost_before_the_page_is_told() {
        let mut stored = page(MISSED | MISSED_STORED, &[1 << 5 | 1, 0xaa]);
        stored.extend(77u64.to_ne_bytes());
        assert_eq!(read(&stored).0, Ok(77));
        assert_eq!(read(&page(MISSED, &[1 << 5 | 1, 0xaa])).0, Ok(1));
    }

    #[test]
    fn a_page_cut_short_or_with_wrong_lengths_is_damaged_not_a_panic() {
        let whole = page(0, &[5 << 5 | 2, 0xaa, 0, 7 << 5, 16, 0xbb, 0, 0]);
        for bytes in 0..whole.len() {
            assert!(read(&whole[..bytes]).0.is_err(), "{bytes}");
        }
        assert!(read(&page(0, &[28, 1])).0.is_err());
        assert!(read(&page(0, &[0, 3, 0])).0.is_err());
        assert!(read(&page(0, &[1 << 5 | 29, u32::MAX])).0.is_err());
    }
}
