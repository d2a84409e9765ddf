//! The last instruction pointer, against which the next one is compressed.

use crate::packet::Ip;

/// The last address sent or received. Starts at 0, as after every PSB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LastIp(u64);

impl LastIp {
    /// Takes a packet's address; `None` when it carries none.
    pub fn update(&mut self, ip: Ip) -> Option<u64> {
        let sign_extended = |value: u64| ((value << 16) as i64 >> 16) as u64;
        self.0 = match ip.ip_bytes {
            1 => self.0 & !0xffff | ip.payload,
            2 => self.0 & !0xffff_ffff | ip.payload,
            3 => sign_extended(ip.payload),
            4 => self.0 & !0xffff_ffff_ffff | ip.payload,
            6 => ip.payload,
            _ => return None,
        };
        Some(self.0)
    }

    /// The shortest form of an address; becomes the last one.
    pub fn compress(&mut self, ip: u64) -> Ip {
        let last = std::mem::replace(&mut self.0, ip);
        let low = |bits: u32| ip & ((1 << bits) - 1);
        let same_above = |bits: u32| last >> bits == ip >> bits;
        let canonical = ((ip << 16) as i64 >> 16) as u64 == ip;
        match () {
            () if same_above(16) => Ip { ip_bytes: 1, payload: low(16) },
            () if same_above(32) => Ip { ip_bytes: 2, payload: low(32) },
            () if canonical => Ip { ip_bytes: 3, payload: low(48) },
            () => Ip { ip_bytes: 6, payload: ip },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compressed_is_read_back() {
        let (mut writer, mut reader) = (LastIp::default(), LastIp::default());
        for ip in [0x401000, 0x401010, 0x7fff_1234_5678, 0xffff_ffff_8100_0000, 0x1234_5678_9abc_def0, 5] {
            assert_eq!(reader.update(writer.compress(ip)), Some(ip));
        }
        assert_eq!(reader.update(Ip::NONE), None);
    }
}
