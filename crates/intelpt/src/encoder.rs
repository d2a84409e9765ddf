//! Packets to bytes: what tests and the stepping tracer write traces with.

use crate::packet::{Ip, Packet};
use crate::packets::PSB;

/// Appends the packet's bytes.
pub fn encode(packet: &Packet, out: &mut Vec<u8>) {
    let mut extended = |second: u8, value: u64, bytes: usize| {
        out.extend([2, second]);
        out.extend(value.to_le_bytes().iter().take(bytes));
    };
    match *packet {
        Packet::Pad { count } => out.resize(out.len() + count, 0),
        Packet::Psb => out.extend(PSB),
        Packet::PsbEnd => extended(0x23, 0, 0),
        Packet::Ovf => extended(0xf3, 0, 0),
        Packet::TraceStop => extended(0x83, 0, 0),
        Packet::Tnt { bits, count: count @ 0..=6 } => out.push((1 << (count + 1)) | (bits << 1) as u8),
        Packet::Tnt { bits, count } => extended(0xa3, 1 << count | bits, 6),
        Packet::Tip(ip) => with_ip(0x0d, ip, out),
        Packet::TipPge(ip) => with_ip(0x11, ip, out),
        Packet::TipPgd(ip) => with_ip(0x01, ip, out),
        Packet::Fup(ip) => with_ip(0x1d, ip, out),
        Packet::Pip { cr3, non_root } => extended(0x43, cr3 >> 5 << 1 | u64::from(non_root), 6),
        Packet::Tsc(value) => {
            out.push(0x19);
            out.extend(value.to_le_bytes().iter().take(7));
        }
        Packet::Tma { ctc, fast } => extended(0x73, u64::from(ctc) | u64::from(fast) << 24, 5),
        Packet::Mtc(value) => out.extend([0x59, value]),
        Packet::Cyc(value) => cyc(value, out),
        Packet::Cbr(ratio) => extended(0x03, ratio.into(), 2),
        Packet::ModeExec { bits, interrupts } => {
            let size = match bits {
                64 => 1,
                32 => 2,
                _ => 0,
            };
            out.extend([0x99, size | u8::from(interrupts) << 2]);
        }
        Packet::ModeTsx { in_tx, abort } => out.extend([0x99, 0x20 | u8::from(in_tx) | u8::from(abort) << 1]),
        Packet::Vmcs(base) => extended(0xc8, base >> 12, 5),
        Packet::Mnt(value) => {
            out.extend([2, 0xc3, 0x88]);
            out.extend(value.to_le_bytes());
        }
        Packet::Ptw { value, bytes, fup } => {
            extended(0x12 | u8::from(bytes == 8) << 5 | u8::from(fup) << 7, value, bytes.into());
        }
        Packet::Exstop { fup } => extended(0x62 | u8::from(fup) << 7, 0, 0),
        Packet::Mwait { hints, extensions } => {
            extended(0xc2, u64::from(hints) | u64::from(extensions) << 32, 8)
        }
        Packet::Pwre { hardware, state, sub_state } => {
            let value = u64::from(hardware) << 7 | u64::from(sub_state) << 8 | u64::from(state) << 12;
            extended(0x22, value, 2);
        }
        Packet::Pwrx { last, deepest, reason } => {
            extended(0xa2, u64::from(deepest) | u64::from(last) << 4 | u64::from(reason) << 8, 5);
        }
        Packet::Bbp { short, kind } => extended(0x63, u64::from(kind) | u64::from(short) << 7, 1),
        Packet::Bip { id, value, short } => {
            out.push(id << 3 | 0b100);
            out.extend(value.to_le_bytes().iter().take(if short { 4 } else { 8 }));
        }
        Packet::Bep { fup } => extended(0x33 | u8::from(fup) << 7, 0, 0),
        Packet::Cfe { kind, vector, fup } => {
            extended(0x13, u64::from(kind) | u64::from(fup) << 7 | u64::from(vector) << 8, 2);
        }
        Packet::Evd { kind, value } => {
            out.extend([2, 0x53, kind]);
            out.extend(value.to_le_bytes());
        }
    }
}

fn with_ip(opcode: u8, ip: Ip, out: &mut Vec<u8>) {
    let count = Ip::payload_bytes(ip.ip_bytes).unwrap_or(0);
    out.push(opcode | ip.ip_bytes << 5);
    out.extend(ip.payload.to_le_bytes().iter().take(count));
}

fn cyc(value: u64, out: &mut Vec<u8>) {
    let mut rest = value >> 5;
    out.push((value as u8 & 0x1f) << 3 | u8::from(rest > 0) << 2 | 3);
    while rest > 0 {
        let more = rest >> 7;
        out.push((rest as u8 & 0x7f) << 1 | u8::from(more > 0));
        rest = more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packets::Packets;
    use proptest::prelude::*;

    fn ip() -> impl Strategy<Value = Ip> {
        (prop::sample::select(vec![0u8, 1, 2, 3, 4, 6]), any::<u64>()).prop_map(|(ip_bytes, value)| {
            let bytes = Ip::payload_bytes(ip_bytes).unwrap() as u32;
            let payload = if bytes == 0 { 0 } else { value >> (64 - 8 * bytes) };
            Ip { ip_bytes, payload }
        })
    }

    fn packet() -> impl Strategy<Value = Packet> {
        let tnt = (1u8..=47, any::<u64>())
            .prop_map(|(count, bits)| Packet::Tnt { bits: bits & ((1 << count) - 1), count });
        prop_oneof![
            (1usize..40).prop_map(|count| Packet::Pad { count }),
            Just(Packet::Psb),
            Just(Packet::PsbEnd),
            Just(Packet::Ovf),
            Just(Packet::TraceStop),
            tnt,
            ip().prop_map(Packet::Tip),
            ip().prop_map(Packet::TipPge),
            ip().prop_map(Packet::TipPgd),
            ip().prop_map(Packet::Fup),
            (0u64..1 << 47, any::<bool>())
                .prop_map(|(base, non_root)| Packet::Pip { cr3: base << 5, non_root }),
            (0u64..1 << 56).prop_map(Packet::Tsc),
            (any::<u16>(), 0u16..512).prop_map(|(ctc, fast)| Packet::Tma { ctc, fast }),
            any::<u8>().prop_map(Packet::Mtc),
            any::<u64>().prop_map(|value| Packet::Cyc(value >> 8)),
            any::<u8>().prop_map(Packet::Cbr),
            (prop::sample::select(vec![16u8, 32, 64]), any::<bool>())
                .prop_map(|(bits, interrupts)| Packet::ModeExec { bits, interrupts }),
            (any::<bool>(), any::<bool>()).prop_map(|(in_tx, abort)| Packet::ModeTsx { in_tx, abort }),
            (0u64..1 << 40).prop_map(|base| Packet::Vmcs(base << 12)),
            any::<u64>().prop_map(Packet::Mnt),
            (any::<u64>(), any::<bool>(), any::<bool>()).prop_map(|(value, long, fup)| Packet::Ptw {
                value: if long { value } else { value >> 32 },
                bytes: if long { 8 } else { 4 },
                fup
            }),
            any::<bool>().prop_map(|fup| Packet::Exstop { fup }),
            (any::<u8>(), 0u8..4).prop_map(|(hints, extensions)| Packet::Mwait { hints, extensions }),
            (any::<bool>(), 0u8..16, 0u8..16).prop_map(|(hardware, state, sub_state)| Packet::Pwre {
                hardware,
                state,
                sub_state
            }),
            (0u8..16, 0u8..16, 0u8..16).prop_map(|(last, deepest, reason)| Packet::Pwrx {
                last,
                deepest,
                reason
            }),
            (0u8..32, any::<u8>(), any::<bool>()).prop_map(|(kind, vector, fup)| Packet::Cfe {
                kind,
                vector,
                fup
            }),
            (0u8..64, any::<u64>()).prop_map(|(kind, value)| Packet::Evd { kind, value }),
        ]
    }

    proptest! {
        #[test]
        fn every_packet_reads_as_written(packets in prop::collection::vec(packet(), 1..60)) {
            let mut bytes = Vec::new();
            let mut wanted: Vec<Packet> = Vec::new();
            for packet in packets {
                encode(&packet, &mut bytes);
                match (wanted.last_mut(), packet) {
                    // Runs of filler join.
                    (Some(Packet::Pad { count }), Packet::Pad { count: more }) => *count += more,
                    _ => wanted.push(packet),
                }
            }
            let read: Vec<Packet> = Packets::new(&bytes, 0).map(|item| item.unwrap().1).collect();
            prop_assert_eq!(read, wanted);
        }

        #[test]
        fn any_bytes_end_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut packets = Packets::new(&bytes, 0);
            let mut steps = 0;
            while packets.next().is_some() {
                steps += 1;
                prop_assert!(steps <= bytes.len());
            }
        }
    }

    #[test]
    fn items_are_packets_only_within_a_block() {
        let mut bytes = Vec::new();
        let block = [
            Packet::Bbp { short: true, kind: 4 },
            Packet::Bip { id: 3, value: 0xdead_beef, short: true },
            Packet::Bep { fup: false },
            Packet::Tnt { bits: 0, count: 1 },
        ];
        block.iter().for_each(|packet| encode(packet, &mut bytes));
        // 0x1c begins an item in a block and is four TNT bits outside.
        bytes.push(0x1c);
        let read: Vec<Packet> = Packets::new(&bytes, 0).map(|item| item.unwrap().1).collect();
        assert_eq!(read[..4], block);
        assert_eq!(read[4], Packet::Tnt { bits: 0b110, count: 3 });
    }
}
