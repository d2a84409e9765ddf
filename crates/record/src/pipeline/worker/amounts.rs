//! Amounts written to the file.

/// Amounts written of a processor's trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TraceAmounts {
    /// Bytes.
    pub bytes: u64,
    /// Times an area was full.
    pub stopped: u64,
    /// Times the processor paused by itself.
    pub holes: u64,
}

/// Samples and trace written so far.
#[derive(Debug, Default)]
pub struct WrittenAmounts {
    /// Time of the first and last sample of the present file, in ns.
    pub sample_times: Option<(u64, u64)>,
    /// Bytes of sample records handed to the output.
    pub sample_bytes: u64,
    /// The processor's trace.
    pub traced: TraceAmounts,
}

impl WrittenAmounts {
    /// A sample has this time; samples come in time order.
    pub(super) fn note_time(&mut self, time_ns: u64) {
        let first = self.sample_times.map_or(time_ns, |(first, _)| first);
        self.sample_times = Some((first, time_ns));
    }
}
