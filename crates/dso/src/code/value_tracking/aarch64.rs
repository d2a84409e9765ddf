//! The same calls in code for aarch64. Where the arguments are is not followed there.

use super::EntryReport;
use crate::Svma;
use crate::code::regs_aarch64::{RegValue, TrackedRegs};

/// Where a call leads, and what a slot of the table of addresses is for.
pub struct Names<'a> {
    /// Whether what begins there is the reporter, or leads to it.
    pub is_reporter: &'a dyn Fn(u64) -> bool,
    /// Where the function begins whose address a slot holds.
    pub function_of: &'a dyn Fn(u64) -> Option<u64>,
}

/// The calls in `code`, loaded at `start`, ascending.
///
/// What a register holds is taken to be what was put there last, whatever way the code was come by: who acts upon a
/// report looks at what is really passed.
pub fn reports_of(code: &[u8], start: u64, names: &Names<'_>) -> Vec<EntryReport> {
    let mut registers = TrackedRegs::default();
    let mut found = Vec::new();
    for (word, at) in
        code.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).zip((start..).step_by(4))
    {
        let callee = registers.callee(word, at);
        let is_reporter = match callee {
            RegValue::Address(to) => (names.is_reporter)(to),
            // Called through the table.
            RegValue::Loaded(slot) => (names.is_reporter)(slot),
            RegValue::Unknown => false,
        };
        if is_reporter {
            let passed = match registers.of(0) {
                RegValue::Address(function) => Some(function),
                RegValue::Loaded(slot) => (names.function_of)(slot),
                RegValue::Unknown => None,
            };
            // The first one is the function's own.
            let function = passed.or(found.is_empty().then_some(start));
            found.extend(function.map(|function| EntryReport {
                at: Svma(at),
                function: Svma(function),
                moved: None,
            }));
        }
        registers.take(word, at);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reports(words: &[u32]) -> Vec<(u64, u64)> {
        let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let names = Names {
            is_reporter: &|to| to == 0x9000 || to == 0x2_0f10,
            function_of: &|slot| (slot == 0x2_0f98).then_some(0x3000),
        };
        reports_of(&code, 0x1000, &names).iter().map(|report| (report.at.0, report.function.0)).collect()
    }

    #[test]
    fn the_function_passed_is_read_off_the_code() {
        // stp x29,x30,[sp,#-32]!; adrp x19,1000; add x19,x19,#0x0; mov x1,x30; mov x0,x19; bl 9000
        let first = [0xa9be_7bfd, 0x9000_0013, 0x9100_0273, 0xaa1e_03e1, 0xaa13_03e0, 0x9400_1ffb];
        assert_eq!(reports(&first), [(0x1014, 0x1000)]);
        // Another one, inlined: adrp x0,2000; add x0,x0,#0x40; bl 9000
        let inlined = [&first[..], &[0xb000_0000, 0x9101_0000, 0x9400_1ff8]].concat();
        assert_eq!(reports(&inlined), [(0x1014, 0x1000), (0x1020, 0x2040)]);
    }

    #[test]
    fn addresses_may_come_out_of_the_table() {
        // adrp x0,20000; ldr x0,[x0,#0xf98]; adrp x2,20000; ldr x2,[x2,#0xf10]; blr x2
        let words = [0xf000_00e0, 0xf947_cc00, 0xf000_00e2, 0xf947_8842, 0xd63f_0040];
        assert_eq!(reports(&words), [(0x1010, 0x3000)]);
        // The first report of a function whose address is unknown is its own; the next is left out.
        assert_eq!(reports(&[0x9400_2000, 0x9400_1fff]), [(0x1000, 0x1000)]);
    }
}
