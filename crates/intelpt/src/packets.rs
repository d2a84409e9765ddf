//! From bytes to packets, one at a time.

use memchr::memmem;

use crate::erratum::{Errata, Erratum};
use crate::packet::{Ip, Packet, PacketError};

/// The bytes of a PSB.
pub(crate) const PSB: [u8; 16] = [2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82];

/// Offset of the first PSB at or after `from`.
#[must_use]
pub fn find_psb(bytes: &[u8], from: usize) -> Option<usize> {
    Some(from + memmem::find(bytes.get(from..)?, &PSB)?)
}

/// How many bytes at the beginning of a snapshot of a trace end the snapshot before: found by the last boundary of
/// that, whose time comes only once. `None` if that is not in it.
#[must_use]
pub fn snapshot_overlap(before: &[u8], now: &[u8]) -> Option<usize> {
    const PADDING: usize = 7;
    let zeros = before.iter().rev().take_while(|byte| **byte == 0).count();
    let before = before.get(..before.len() - zeros.min(PADDING))?;
    let tail = before.get(memmem::rfind(before, &PSB)?..)?;
    Some(memmem::find(now, tail)? + tail.len())
}

/// A packet of a frequent kind.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Hot {
    /// Core cycles since the last of these.
    Cycles(u64),
    /// Branch bits, oldest highest, and how many.
    Bits(u64, u32),
}

/// Parses packets in order.
#[derive(Clone, Debug)]
pub struct Packets<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Within a BBP … BEP block: whether its items are short.
    block: Option<bool>,
    errata: Errata,
    /// The packet before was a TMA.
    behind_tma: bool,
}

impl<'a> Packets<'a> {
    /// From offset `at`, which must be a packet's first byte (a PSB's, to be sure).
    #[must_use]
    pub const fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at, block: None, errata: Errata::NONE, behind_tma: false }
    }

    /// The processor that wrote them has these errata.
    pub const fn set_errata(&mut self, errata: Errata) {
        self.errata = errata;
    }

    /// The next packet that is not about time, if it is near.
    fn find_next_but_timing(&self) -> Option<Packet> {
        const LOOK: usize = 64;
        let ahead = self.clone().take(LOOK).map_while(Result::ok);
        ahead.map(|(_, packet)| packet).find(|packet| !packet.is_timing())
    }

    /// The low bits of the next TSC packet, if no other packet of time and no loss comes before it.
    pub(crate) fn find_next_tsc(&self) -> Option<u64> {
        for packet in self.clone() {
            match packet {
                Ok((_, Packet::Tsc(low))) => return Some(low),
                Ok((_, Packet::Mtc(_) | Packet::Cyc(_) | Packet::Ovf)) | Err(_) => return None,
                Ok(_) => {}
            }
        }
        None
    }

    /// Whether that is a TIP.PGE.
    pub(crate) fn is_pge_next(&self) -> bool {
        matches!(self.find_next_but_timing(), Some(Packet::TipPge(_)))
    }

    /// Whether that has the address where tracing resumes after an overflow.
    fn is_ip_next(&self) -> bool {
        matches!(self.find_next_but_timing(), Some(Packet::TipPge(_) | Packet::Fup(_)))
    }

    /// Whether a TIP.PGE follows the PSBEND that is still to come.
    pub(crate) fn is_pge_after_psb(&self) -> bool {
        const LOOK: usize = 16;
        let mut ahead = self.clone();
        let end = ahead.by_ref().take(LOOK).flatten().any(|(_, packet)| packet == Packet::PsbEnd);
        end && ahead.is_pge_next()
    }

    /// Offset of the next packet.
    #[must_use]
    pub const fn offset(&self) -> usize {
        self.at
    }

    /// The trace.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Goes on at the next PSB; false when there is none.
    pub fn resync(&mut self) -> bool {
        let next = find_psb(self.bytes, self.at);
        self.at = next.unwrap_or(self.bytes.len());
        self.block = None;
        next.is_some()
    }

    fn byte(&self, ahead: usize) -> Result<u8, PacketError> {
        self.bytes.get(self.at + ahead).copied().ok_or(PacketError::Truncated { at: self.at })
    }

    /// `count` bytes (1 to 8) from `ahead`, little-endian.
    #[inline]
    fn number(&self, ahead: usize, count: usize) -> Result<u64, PacketError> {
        let rest = self.bytes.get(self.at + ahead..).unwrap_or_default();
        if let Some(eight) = rest.first_chunk() {
            return Ok(u64::from_le_bytes(*eight) & u64::MAX >> (64 - 8 * count));
        }
        let taken = rest.get(..count).ok_or(PacketError::Truncated { at: self.at })?;
        Ok(taken.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn unknown(&self) -> PacketError {
        let second = self.bytes.get(self.at + 1).copied().unwrap_or(0);
        PacketError::Unknown { at: self.at, first: self.byte(0).unwrap_or(0), second }
    }

    /// The next packet if it is one of the two that traces are full of, past which it moves.
    #[inline]
    pub(crate) fn next_hot(&mut self) -> Option<Hot> {
        let first = *self.bytes.get(self.at)?;
        if first & 0b111 == 0b011 {
            self.at += 1;
            return Some(Hot::Cycles(u64::from(first >> 3)));
        }
        if first & 0b111 == 0b111
            && let Some(second) = self.bytes.get(self.at + 1)
            && second & 1 == 0
            && !self.errata.has(Erratum::Skd007)
        {
            self.at += 2;
            return Some(Hot::Cycles(u64::from(first >> 3) | u64::from(second >> 1) << 5));
        }
        if first & 1 == 0 && first > 2 && self.block.is_none() {
            self.at += 1;
            let count = 6 - first.leading_zeros();
            return Some(Hot::Bits(u64::from(first >> 1) & ((1 << count) - 1), count));
        }
        None
    }

    /// The next packet and its length in bytes, not moving on.
    #[inline]
    fn parse(&self) -> Result<(Packet, usize), PacketError> {
        let first = self.byte(0)?;
        if let (Some(short), 0b100) = (self.block, first & 0b111) {
            let bytes = if short { 4 } else { 8 };
            return Ok((Packet::Bip { id: first >> 3, value: self.number(1, bytes)?, short }, 1 + bytes));
        }
        match first {
            0 => {
                let rest = self.bytes.get(self.at..).unwrap_or_default();
                let count = rest.iter().position(|byte| *byte != 0).unwrap_or(rest.len());
                Ok((Packet::Pad { count }, count))
            }
            2 => self.extended(),
            0x19 => Ok((Packet::Tsc(self.number(1, 7)?), 8)),
            0x59 => Ok((Packet::Mtc(self.byte(1)?), 2)),
            0x99 => self.mode(),
            _ if first & 1 == 0 => {
                let count = 6 - first.leading_zeros() as u8;
                let bits = u64::from(first >> 1) & ((1 << count) - 1);
                Ok((Packet::Tnt { bits, count }, 1))
            }
            _ if first & 3 == 3 => self.cyc(first),
            _ => self.ip_packet(first),
        }
    }

    fn ip_packet(&self, first: u8) -> Result<(Packet, usize), PacketError> {
        let ip_bytes = first >> 5;
        let make = match first & 0x1f {
            0x0d => Packet::Tip,
            0x11 => Packet::TipPge,
            0x01 => Packet::TipPgd,
            0x1d => Packet::Fup,
            _ => return Err(self.unknown()),
        };
        let count = Ip::payload_bytes(ip_bytes).ok_or_else(|| self.unknown())?;
        let payload = if count == 0 { 0 } else { self.number(1, count)? };
        Ok((make(Ip { ip_bytes, payload }), 1 + count))
    }

    /// First byte: 5 bits of value, "more" in bit 2; then 7 bits each, "more" in bit 0.
    fn cyc(&self, first: u8) -> Result<(Packet, usize), PacketError> {
        let mut value = u64::from(first >> 3);
        let (mut shift, mut length) = (5, 1);
        let mut more = first & 4 != 0;
        if more
            && self.errata.has(Erratum::Skd007)
            && self.bytes.get(self.at + 1..self.at + 3) == Some(&[0x02, 0xf3])
            && (Self { at: self.at + 3, errata: Errata::NONE, ..self.clone() }).is_ip_next()
        {
            return Ok((Packet::Ovf, 3));
        }
        while more {
            let byte = self.byte(length)?;
            if shift >= 64 {
                return Err(self.unknown());
            }
            value |= u64::from(byte >> 1) << shift;
            more = byte & 1 != 0;
            shift += 7;
            length += 1;
        }
        Ok((Packet::Cyc(value), length))
    }

    fn mode(&self) -> Result<(Packet, usize), PacketError> {
        let byte = self.byte(1)?;
        let packet = match byte >> 5 {
            0 => Packet::ModeExec {
                bits: match byte & 3 {
                    1 => 64,
                    2 => 32,
                    0 => 16,
                    _ => return Err(self.unknown()),
                },
                interrupts: byte & 4 != 0,
            },
            1 => Packet::ModeTsx { in_tx: byte & 1 != 0, abort: byte & 2 != 0 },
            _ => return Err(self.unknown()),
        };
        Ok((packet, 2))
    }

    fn extended(&self) -> Result<(Packet, usize), PacketError> {
        let second = self.byte(1)?;
        let fup = second & 0x80 != 0;
        let low = |value: u64| (value & 0xff) as u8;
        Ok(match second {
            0x82 if self.bytes.get(self.at..self.at + PSB.len()) == Some(&PSB) => (Packet::Psb, PSB.len()),
            0x23 => (Packet::PsbEnd, 2),
            0xf3 => (Packet::Ovf, 2),
            0x83 => (Packet::TraceStop, 2),
            0xa3 => self.long_tnt()?,
            0x03 => (Packet::Cbr(self.byte(2)?), 4),
            0x43 => {
                let value = self.number(2, 6)?;
                (Packet::Pip { cr3: (value >> 1) << 5, non_root: value & 1 != 0 }, 8)
            }
            0xc8 => (Packet::Vmcs(self.number(2, 5)? << 12), 7),
            0x73 => {
                let (ctc, fast) = (self.number(2, 2)?, self.number(5, 2)?);
                (Packet::Tma { ctc: ctc as u16, fast: (fast & 0x1ff) as u16 }, 7)
            }
            0xc3 if self.byte(2)? == 0x88 => (Packet::Mnt(self.number(3, 8)?), 11),
            0x62 | 0xe2 => (Packet::Exstop { fup }, 2),
            0xc2 => {
                let value = self.number(2, 8)?;
                (Packet::Mwait { hints: low(value), extensions: low(value >> 32) & 3 }, 10)
            }
            0x22 => {
                let value = self.number(2, 2)?;
                let state = low(value >> 12);
                (Packet::Pwre { hardware: value & 0x80 != 0, state, sub_state: low(value >> 8) & 15 }, 4)
            }
            0xa2 => {
                let value = self.number(2, 5)?;
                let (last, deepest) = (low(value >> 4) & 15, low(value) & 15);
                (Packet::Pwrx { last, deepest, reason: low(value >> 8) & 15 }, 7)
            }
            0x63 => {
                let byte = self.byte(2)?;
                (Packet::Bbp { short: byte & 0x80 != 0, kind: byte & 0x1f }, 3)
            }
            0x33 | 0xb3 => (Packet::Bep { fup }, 2),
            0x13 => {
                let value = self.number(2, 2)?;
                let kind = low(value) & 0x1f;
                (Packet::Cfe { kind, vector: low(value >> 8), fup: value & 0x80 != 0 }, 4)
            }
            0x53 => (Packet::Evd { kind: self.byte(2)? & 0x3f, value: self.number(3, 8)? }, 11),
            _ if second & 0x1f == 0x12 => {
                let bytes: u8 = match second >> 5 & 3 {
                    0 => 4,
                    1 => 8,
                    _ => return Err(self.unknown()),
                };
                (Packet::Ptw { value: self.number(2, bytes.into())?, bytes, fup }, 2 + usize::from(bytes))
            }
            _ => return Err(self.unknown()),
        })
    }

    fn long_tnt(&self) -> Result<(Packet, usize), PacketError> {
        let value = self.number(2, 6)?;
        // A stop bit and at least one more.
        let count = value.checked_ilog2().filter(|stop| *stop > 0).ok_or_else(|| self.unknown())?;
        Ok((Packet::Tnt { bits: value & ((1 << count) - 1), count: count as u8 }, 8))
    }
}

impl Iterator for Packets<'_> {
    type Item = Result<(usize, Packet), PacketError>;

    /// The next packet with its offset. After an error nothing moves: go on with [`Packets::resync`].
    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.bytes.len() {
            return None;
        }
        let (packet, length) = match self.parse() {
            Ok(parsed) => parsed,
            Err(PacketError::Unknown { .. }) if self.behind_tma && self.errata.has(Erratum::Skz84) => {
                (self.at, self.behind_tma) = (self.at + 1, false);
                return self.next();
            }
            Err(error) => {
                // Past the first byte, so that the next PSB is looked for after it.
                self.at += 1;
                return Some(Err(error));
            }
        };
        let offset = self.at;
        self.at = (self.at + length).min(self.bytes.len());
        self.behind_tma = matches!(packet, Packet::Tma { .. });
        match packet {
            Packet::Bbp { short, .. } => self.block = Some(short),
            Packet::Bep { .. } | Packet::Psb | Packet::Ovf => self.block = None,
            _ => {}
        }
        Some(Ok((offset, packet)))
    }
}
