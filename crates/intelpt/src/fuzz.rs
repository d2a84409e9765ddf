//! Entry points for fuzzing: any bytes must end without a panic.

use crate::{BlockCache, Flow, Image, MissingCode, Packets, TimeParams};

/// Name and function of every target.
#[expect(clippy::type_complexity, reason = "every crate with parsers offers this same type")]
pub const TARGETS: &[(&str, fn(&[u8]))] = &[("pt_packets", packets), ("pt_flow", flow)];

fn packets(bytes: &[u8]) {
    let mut packets = Packets::new(bytes, 0);
    while packets.next().is_some() {}
    let mut packets = Packets::new(bytes, 0);
    while packets.resync() && packets.next().is_some() {}
}

/// The first half is code, the second the trace.
fn flow(bytes: &[u8]) {
    struct Code<'a>(&'a [u8]);
    impl Image for Code<'_> {
        fn code(&self, ip: u64) -> Result<&[u8], MissingCode> {
            let at = usize::try_from(ip.wrapping_sub(0x1000)).map_err(|_| MissingCode::NotMapped)?;
            self.0.get(at..).filter(|rest| !rest.is_empty()).ok_or(MissingCode::NotMapped)
        }

        fn unit(&self, ip: u64) -> (u32, bool) {
            ((ip >> 4) as u32, ip & 15 == 0)
        }

        fn space(&self, tsc: Option<u64>) -> u32 {
            tsc.is_some_and(|tsc| tsc & 1 == 1).into()
        }
    }
    let (code, trace) = bytes.split_at(bytes.len() / 2);
    let mut cache = BlockCache::new();
    let params = TimeParams { tsc_per_ctc: (200, 2), mtc_shift: 3, max_nonturbo_ratio: 25 };
    let mut flow = Flow::new(trace, 0, params, &mut cache);
    flow.run(&Code(code), usize::MAX, &mut |_| {});
}
