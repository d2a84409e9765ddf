//! The data source of a memory access (`PERF_SAMPLE_DATA_SRC`), in perf's words.
//
// Layout: union perf_mem_data_src, fields of 5, 14, 5, 2, 7, 4, 1, 2, 3 and 3 bits from the lowest on.
// Source: linux v7.2 include/uapi/linux/perf_event.h; the words are those that perf 6.1 printed for every bit.

use std::fmt;

/// Source of the data of a memory access, as reported by the hardware.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct DataSource(pub u64);

const LEVELS: [&str; 14] = [
    "N/A",
    "",
    "",
    "L1",
    "LFB/MAB",
    "L2",
    "L3",
    "Local RAM",
    "Remote RAM (1 hop)",
    "Remote RAM (2 hops)",
    "Remote Cache (1 hop)",
    "Remote Cache (2 hops)",
    "I/O",
    "Uncached",
];
const HOPS: [&str; 5] = ["", "core, same node", "node, same socket", "socket, same board", "board"];
const TLB_HIT: u64 = 1 << 1;
const TLB_MISS: u64 = 1 << 2;
/// Hit and miss have the same places in the level as in the TLB field.
const HIT_MISS: u64 = TLB_HIT | TLB_MISS;

impl DataSource {
    fn bits(self, shift: u32, count: u32) -> u64 {
        (self.0 >> shift) & ((1 << count) - 1)
    }

    /// The bits for the cache level or memory, which the sort key `mem` uses.
    #[must_use]
    pub fn level_bits(self) -> u64 {
        self.bits(5, 14)
    }

    /// The bits of [`DataSource::snoop`].
    #[must_use]
    pub fn snoop_bits(self) -> u64 {
        self.bits(19, 5)
    }

    /// The bits of [`DataSource::lock`].
    #[must_use]
    pub fn lock_bits(self) -> u64 {
        self.bits(24, 2)
    }

    /// The bits of [`DataSource::tlb`].
    #[must_use]
    pub fn tlb_bits(self) -> u64 {
        self.bits(26, 7)
    }

    /// The bits of [`DataSource::blocked`].
    #[must_use]
    pub fn blocked_bits(self) -> u64 {
        self.bits(40, 3)
    }

    /// `LOAD`, `STORE`, …; the lowest if there are several.
    #[must_use]
    pub fn operation(self) -> &'static str {
        const WORDS: [&str; 5] = ["N/A", "LOAD", "STORE", "PFETCH", "EXEC"];
        WORDS.get(self.bits(0, 5).trailing_zeros() as usize).copied().unwrap_or("No")
    }

    /// `L1 hit`, `Remote Cache (1 hop) miss`, …
    #[must_use]
    pub fn level(self) -> String {
        let mut words = words(self.level_bits() & !HIT_MISS, &LEVELS);
        match self.bits(33, 4) {
            0 => {}
            number => words.push(level_number(number)),
        }
        let remote = if self.bits(37, 1) == 1 { "Remote " } else { "" };
        let hops = match self.bits(43, 3) {
            0 => String::new(),
            hops => format!(
                "{} ",
                usize::try_from(hops).ok().and_then(|at| HOPS.get(at)).copied().unwrap_or("(null)")
            ),
        };
        let place = format!("{remote}{hops}{}", words.join(" or "));
        with_hit_or_miss(place, self.level_bits())
    }

    /// `HitM`, `None`, …
    #[must_use]
    pub fn snoop(self) -> String {
        let mut found = words(self.snoop_bits(), &["N/A", "None", "Hit", "Miss", "HitM"]);
        found.extend(words(self.bits(38, 2), &["Fwd", "Peer"]));
        if found.is_empty() { "N/A".to_owned() } else { found.join(" or ") }
    }

    /// `L1 hit`, `Walker miss`, …
    #[must_use]
    pub fn tlb(self) -> String {
        const WORDS: [&str; 7] = ["N/A", "", "", "L1", "L2", "Walker", "Fault"];
        with_hit_or_miss(words(self.tlb_bits() & !HIT_MISS, &WORDS).join(" or "), self.tlb_bits())
    }

    /// `Yes`, `No` or `N/A`.
    #[must_use]
    pub fn lock(self) -> &'static str {
        match self.lock_bits() {
            bits if bits & 1 != 0 => "N/A",
            0 => "No",
            _ => "Yes",
        }
    }

    /// Why the load was blocked: `Data`, `Addr`, both, or `N/A`; a blank before each but between both.
    #[must_use]
    pub fn blocked(self) -> String {
        match self.blocked_bits() {
            bits if bits & 1 != 0 || bits == 0 => " N/A".to_owned(),
            bits => words(bits, &["", " Data", " Addr"]).concat(),
        }
    }
}

fn words(bits: u64, names: &[&str]) -> Vec<String> {
    let set = names.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 != 0);
    set.map(|(_, name)| (*name).to_owned()).collect()
}

fn level_number(number: u64) -> String {
    match number {
        0x9 => "CXL".to_owned(),
        0xa => "I/O".to_owned(),
        0xb => "Any cache".to_owned(),
        0xc => "LFB/MAB".to_owned(),
        0xd => "RAM".to_owned(),
        0xe => "PMEM".to_owned(),
        0xf => "N/A".to_owned(),
        level => format!("L{level}"),
    }
}

fn with_hit_or_miss(place: String, bits: u64) -> String {
    let mut text = if place.is_empty() { "N/A".to_owned() } else { place };
    if bits & TLB_HIT != 0 {
        text.push_str(" hit");
    }
    if bits & TLB_MISS != 0 {
        text.push_str(" miss");
    }
    text
}

impl fmt::Display for DataSource {
    /// As `perf script` writes it after the number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (operation, level, snoop) = (self.operation(), self.level(), self.snoop());
        let (tlb, lock, blocked) = (self.tlb(), self.lock(), self.blocked());
        write!(f, "|OP {operation}|LVL {level}|SNP {snoop}|TLB {tlb}|LCK {lock}|BLK {blocked}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_what_perf_printed_for_its_bits() {
        let printed = [
            (0x1, "|OP N/A|LVL N/A|SNP N/A|TLB N/A|LCK No|BLK  N/A"),
            (0x10, "|OP EXEC|LVL N/A|SNP N/A|TLB N/A|LCK No|BLK  N/A"),
            (0x20, "|OP No|LVL N/A|SNP N/A|TLB N/A|LCK No|BLK  N/A"),
            (0x40, "|OP No|LVL N/A hit|SNP N/A|TLB N/A|LCK No|BLK  N/A"),
            (0x200, "|OP No|LVL LFB/MAB|SNP N/A|TLB N/A|LCK No|BLK  N/A"),
            (0x4_0000, "|OP No|LVL Uncached|SNP N/A|TLB N/A|LCK No|BLK  N/A"),
            (0x80_0000, "|OP No|LVL N/A|SNP HitM|TLB N/A|LCK No|BLK  N/A"),
            (0x100_0000, "|OP No|LVL N/A|SNP N/A|TLB N/A|LCK N/A|BLK  N/A"),
            (0x200_0000, "|OP No|LVL N/A|SNP N/A|TLB N/A|LCK Yes|BLK  N/A"),
            (0x1000_0000, "|OP No|LVL N/A|SNP N/A|TLB N/A miss|LCK No|BLK  N/A"),
            (0x1_0000_0000, "|OP No|LVL N/A|SNP N/A|TLB Fault|LCK No|BLK  N/A"),
            (0x12_0000_0000, "|OP No|LVL CXL|SNP N/A|TLB N/A|LCK No|BLK  N/A"),
            (0x10_0000_0000, "|OP No|LVL L8|SNP N/A|TLB N/A|LCK No|BLK  N/A"),
            (0x80_0000_0000, "|OP No|LVL N/A|SNP Peer|TLB N/A|LCK No|BLK  N/A"),
            (0x400_0000_0000, "|OP No|LVL N/A|SNP N/A|TLB N/A|LCK No|BLK  Addr"),
            (0x20_0000_0000, "|OP No|LVL Remote |SNP N/A|TLB N/A|LCK No|BLK  N/A"),
            (0x1826_0000_0000, "|OP No|LVL Remote socket, same board L3|SNP N/A|TLB N/A|LCK No|BLK  N/A"),
            (0x2_2910_0142, "|OP LOAD|LVL L1 or L1 hit|SNP None|TLB L1 hit|LCK N/A|BLK  N/A"),
            (0x100_9220_0884, "|OP STORE|LVL L3 miss|SNP Hit|TLB Walker miss|LCK Yes|BLK  N/A"),
            (0x1e_0508_0021, "|OP N/A|LVL N/A or N/A|SNP N/A|TLB N/A|LCK N/A|BLK  N/A"),
        ];
        for (bits, text) in printed {
            assert_eq!(DataSource(bits).to_string(), text, "{bits:#x}");
        }
    }
}
