//! Errata: where processors differ from the manual, and how the decoder handles it.
//
// Source: Intel's specification updates (Broadwell BDM, Skylake SKD/SKL/SKZ, Apollo Lake APL) for what happens;
// which models have them is what Intel's own libipt assumes (pt_config.c, `pt_cpu_errata`).

/// One erratum, by the number of its first specification update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Erratum {
    /// The packet of a branch right before an abort may have a wrong target: the abort's own address is used.
    Bdm64,
    /// The PSB+ before a TIP.PGE may hold a FUP though tracing is off: it does not begin anything.
    Bdm70,
    /// An OVF may follow the first byte of a longer CYC: it is recognized there.
    Skd007,
    /// The FUP after an OVF may be missing: tracing resumes at the next address in any packet.
    Skd010,
    /// A VM entry that ends tracing may send a FUP before its TIP.PGD: an end like any other.
    Skd022,
    /// A direct branch out of the traced range may lack its target: the trace ends at the last known address.
    Skl014,
    /// A CYC before a PSB may be missing: no cycle is measured across a PSB.
    Skl168,
    /// In guests with a scaled TSC a TMA is followed by one byte that isn't a packet: it is skipped.
    Skz84,
    /// An OVF may be followed by the TIP.PGD of an end: tracing stays off.
    Apl11,
    /// An OVF while tracing is off may be followed by a FUP: it begins nothing if a TIP.PGE follows.
    Apl12,
}

impl Erratum {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Bdm64,
        Self::Bdm70,
        Self::Skd007,
        Self::Skd010,
        Self::Skd022,
        Self::Skl014,
        Self::Skl168,
        Self::Skz84,
        Self::Apl11,
        Self::Apl12,
    ];

    /// The name Intel gave it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bdm64 => "BDM64",
            Self::Bdm70 => "BDM70",
            Self::Skd007 => "SKD007",
            Self::Skd010 => "SKD010",
            Self::Skd022 => "SKD022",
            Self::Skl014 => "SKL014",
            Self::Skl168 => "SKL168",
            Self::Skz84 => "SKZ84",
            Self::Apl11 => "APL11",
            Self::Apl12 => "APL12",
        }
    }
}

/// The errata of one processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Errata(u16);

impl Errata {
    /// As in the manual.
    pub const NONE: Self = Self(0);

    /// These.
    #[must_use]
    pub fn of(errata: &[Erratum]) -> Self {
        Self(errata.iter().fold(0, |bits, erratum| bits | 1 << *erratum as u16))
    }

    /// Whether this one is among them.
    #[inline]
    #[must_use]
    pub const fn has(self, erratum: Erratum) -> bool {
        self.0 & 1 << erratum as u16 != 0
    }

    /// Each of them.
    pub fn iter(self) -> impl Iterator<Item = Erratum> {
        Erratum::ALL.into_iter().filter(move |erratum| self.has(*erratum))
    }

    /// Those of an Intel processor by family and model, as CPUID counts them.
    #[must_use]
    pub fn of_processor(family: u32, model: u32) -> Self {
        use Erratum::{Apl11, Apl12, Bdm64, Bdm70, Skd007, Skd010, Skd022, Skl014, Skl168, Skz84};
        Self::of(match (family, model) {
            (6, 0x3d | 0x47 | 0x4f | 0x56) => &[Bdm70, Bdm64],
            (6, 0x4e | 0x5e | 0x8e | 0x9e | 0xa5 | 0xa6) => &[Bdm70, Skd007, Skd022, Skd010, Skl014, Skl168],
            (6, 0x55 | 0x6a | 0x6c | 0x8f | 0xad | 0xae | 0xcf) | (0x13, 1) => {
                &[Bdm70, Skl014, Skd022, Skz84]
            }
            (6, 0x66 | 0x7d | 0x7e | 0x8c | 0x8d | 0xa7 | 0xa8) => &[Bdm70, Skl014, Skd022],
            (6, 0x97 | 0x9a | 0xaa | 0xac | 0xb5 | 0xb7 | 0xba | 0xbd | 0xbf | 0xc5 | 0xc6 | 0xcc) => {
                &[Bdm70, Skl014, Skd022, Apl11]
            }
            (6, 0x5c | 0x5f) => &[Apl12, Apl11],
            (6, 0x7a | 0x86 | 0x96 | 0x9c | 0xaf | 0xb6 | 0xdd) => &[Apl11],
            _ => &[],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_has_the_errata_of_its_model() {
        let skylake = Errata::of_processor(6, 0x5e);
        assert!(skylake.has(Erratum::Skd007) && !skylake.has(Erratum::Apl12));
        assert_eq!(Errata::of_processor(6, 0x1a), Errata::NONE);
        let names: Vec<&str> = skylake.iter().map(Erratum::name).collect();
        assert_eq!(names, ["BDM70", "SKD007", "SKD010", "SKD022", "SKL014", "SKL168"]);
    }
}
