//! `tally dump --pt`: the packets of an Intel PT recording, one a line.

use intelpt::{Ip, Packet, Packets};
use perfdata::{Order, PerfData, Record};
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::Path;

use crate::reading::damage;

/// Writes the packets of every piece of trace: offset in the buffer, bytes, packet. Bytes that are no packet are told, and
/// reading goes on at the next PSB.
///
/// # Errors
/// If it can't be written, or the file holds no trace.
pub fn write(to: &mut impl Write, path: &Path, file: &PerfData<'_>) -> anyhow::Result<()> {
    let mut failed = None;
    let mut pieces = 0;
    let found = file.visit(Order::File, |item| {
        let Record::Auxtrace(aux) = &item.record else { return ControlFlow::Continue(()) };
        pieces += 1;
        let place = |id: u32| if id == u32::MAX { "-".to_owned() } else { id.to_string() };
        let written = writeln!(
            to,
            "piece of buffer {}: cpu {}, tid {}, offset {:#x}, {} bytes",
            aux.idx,
            place(aux.cpu),
            place(aux.tid),
            aux.offset,
            aux.data.len()
        );
        failed = written.and_then(|()| write_piece(to, aux.data, aux.offset)).err();
        if failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    if let Some(error) = failed {
        return Err(error.into());
    }
    damage::warn(path, &found.problems);
    if pieces == 0 {
        return Err(damage::lacks(path, "no Intel PT trace in it", "no AUXTRACE record"));
    }
    Ok(())
}

fn write_piece(to: &mut impl Write, bytes: &[u8], offset: u64) -> io::Result<()> {
    let mut packets = Packets::new(bytes, 0);
    while packets.offset() < bytes.len() {
        let from = packets.offset();
        match packets.next() {
            Some(Ok((at, packet))) => {
                let end = packets.offset();
                writeln!(
                    to,
                    "  {:08x}  {:<32}  {}",
                    offset + at as u64,
                    hex(&bytes[at..end]),
                    text(&packet)
                )?;
            }
            Some(Err(error)) => {
                writeln!(to, "  {:08x}  {error}; on to the next PSB", offset + from as u64)?;
                // A PSB that is itself cut would be found for ever.
                packets = Packets::new(bytes, (from + 1).max(packets.offset()).min(bytes.len()));
                if !packets.resync() {
                    return Ok(());
                }
            }
            None => return Ok(()),
        }
    }
    Ok(())
}

/// At most 10 bytes; a run of filler is longer.
fn hex(bytes: &[u8]) -> String {
    const SHOWN: usize = 10;
    let shown: Vec<String> = bytes.iter().take(SHOWN).map(|byte| format!("{byte:02x}")).collect();
    shown.join(" ") + if bytes.len() > SHOWN { " …" } else { "" }
}

/// A packet by the manual's name, with what it carries, as perf writes it (but for filler, which perf leaves out).
fn text(packet: &Packet) -> String {
    match packet {
        Packet::Pad { count } => format!("PAD ×{count}"),
        Packet::Psb => "PSB".to_owned(),
        Packet::PsbEnd => "PSBEND".to_owned(),
        Packet::Ovf => "OVF".to_owned(),
        Packet::Tnt { bits, count } => {
            let taken = |at: u8| if bits >> at & 1 == 1 { 'T' } else { 'N' };
            format!("TNT {} ({count})", (0..*count).rev().map(taken).collect::<String>())
        }
        Packet::Tip(ip) => format!("TIP {}", address(ip)),
        Packet::TipPge(ip) => format!("TIP.PGE {}", address(ip)),
        Packet::TipPgd(ip) => format!("TIP.PGD {}", address(ip)),
        Packet::Fup(ip) => format!("FUP {}", address(ip)),
        Packet::Pip { cr3, non_root } => format!("PIP {cr3:#x} (NR={})", u8::from(*non_root)),
        Packet::Tsc(tsc) => format!("TSC {tsc:#x}"),
        Packet::Tma { ctc, fast } => format!("TMA CTC {ctc:#x} FC {fast:#x}"),
        Packet::Mtc(counter) => format!("MTC {counter:#x}"),
        Packet::Cyc(cycles) => format!("CYC {cycles:#x}"),
        Packet::Cbr(ratio) => format!("CBR {ratio:#x}"),
        Packet::ModeExec { bits, interrupts } => format!("MODE.Exec IF:{} {bits}", u8::from(*interrupts)),
        Packet::ModeTsx { in_tx, abort } => {
            format!("MODE.TSX TXAbort:{} InTX:{}", u8::from(*abort), u8::from(*in_tx))
        }
        other => format!("{other:x?}"),
    }
}

/// The bits carried.
fn address(ip: &Ip) -> String {
    match Ip::payload_bytes(ip.ip_bytes) {
        Some(0) => "no ip".to_owned(),
        Some(_) => format!("{:#x}", ip.payload),
        None => format!("reserved IPBytes {}", ip.ip_bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_named_and_damage_ends_at_the_next_psb() {
        let psb: Vec<u8> = [2, 0x82].repeat(8);
        let bytes = [&psb[..], &[2, 0x23, 0x0a], &[2, 0xff, 3], &psb, &[0x59, 7]].concat();
        let mut out = Vec::new();
        write_piece(&mut out, &bytes, 0x100).unwrap();
        let text = String::from_utf8(out).unwrap();
        let said: Vec<&str> = text.lines().filter_map(|line| line.rsplit("  ").next()).collect();
        assert_eq!((said[0], said[1], said[2]), ("PSB", "PSBEND", "TNT NT (2)"), "{text}");
        assert!(text.lines().next_back().is_some_and(|line| line.contains("MTC 0x7")), "{text}");
        assert!(text.starts_with("  00000100  02 82"), "{text}");
    }

    #[test]
    fn bytes_cut_anywhere_end() {
        let bytes = [[2, 0x82].repeat(8), vec![0x19, 1, 2, 3, 4, 5, 6, 7, 2, 0x23]].concat();
        for end in 0..bytes.len() {
            write_piece(&mut Vec::new(), &bytes[..end], 0).unwrap();
        }
    }
}
