//! This crate's parsers as plain functions over bytes, for `cargo test` and libFuzzer alike.

use crate::{layout, memory};

/// Every fuzz target with its name.
#[expect(clippy::type_complexity, reason = "every crate with parsers offers this same type")]
pub const TARGETS: &[(&str, fn(&[u8]))] = &[("system_call", system_call)];

/// A record of the ring, and structures in memory of callers.
fn system_call(data: &[u8]) {
    let _ = layout::parse_record(data);
    let _ =
        (memory::parse_socket_address(data), memory::parse_time_span(data), memory::parse_file_stat(data));
    let _ = (memory::parse_message_head(data), memory::parse_polled_fds(data));
    let _ = (memory::parse_vector_sizes(data), memory::parse_fds(data), memory::parse_signal_set(data));
    let _ = memory::parse_epoll_events(data);
}
