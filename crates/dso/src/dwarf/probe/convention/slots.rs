//! Registers and stack places given out to one parameter after another.

use super::{Class, Convention, Incoming, Passed, PassedIn, argument_registers};
use crate::Machine;

/// The places not yet taken.
pub(in crate::dwarf::probe) struct Slots {
    general: u8,
    vector: u8,
    general_end: u8,
    stack: u64,
    known: bool,
}

impl Slots {
    pub fn new(machine: Machine) -> Self {
        Self { general: 0, vector: 0, general_end: argument_registers(machine), stack: 0, known: true }
    }

    /// The next parameter's place.
    pub fn take(&mut self, way: PassedIn, convention: Convention) -> Option<Passed> {
        match way {
            _ if !self.known => None,
            PassedIn::Unknown => {
                self.known = false;
                None
            }
            PassedIn::Nothing => None,
            PassedIn::Reference => {
                let place = self.registers(&[Class::General])?;
                Some(Passed { by_reference: true, ..place })
            }
            PassedIn::Registers(classes) if convention.is_rust => self.one_by_one(&classes),
            PassedIn::Registers(classes) => self.registers(&classes),
            PassedIn::Memory(bytes, align) => Some(Passed::one(self.on_stack(bytes, align))),
            PassedIn::X87 => Some(Passed::one(self.on_stack(16, 16))),
            PassedIn::Wide => self.wide(convention),
        }
    }

    /// The result's place; the address of one in memory takes the first register, and is returned.
    pub fn result(&mut self, way: &PassedIn, convention: Convention) -> Option<Passed> {
        if let PassedIn::Memory(..) | PassedIn::Reference = way {
            // On aarch64 that address has a register of its own, which the function need not keep.
            let is_first = convention.machine != Machine::Aarch64;
            self.general += u8::from(is_first);
            let place = Passed { by_reference: true, ..Passed::one(Incoming::General(0)) };
            return is_first.then_some(place);
        }
        let classes = match way {
            PassedIn::Registers(classes) => classes.as_slice(),
            PassedIn::Wide => &[Class::General; 2],
            PassedIn::X87 => return Some(Passed::one(Incoming::X87)),
            _ => return None,
        };
        let (mut general, mut vector) = (0u8..2, 0u8..2);
        let place = |class: &Class| match class {
            Class::General => general.next().map(Incoming::General),
            Class::Vector => vector.next().map(Incoming::Vector),
        };
        let places = classes.iter().map(place).collect::<Option<Vec<_>>>()?;
        Some(Passed { places, by_reference: false })
    }

    /// An integer of 16 bytes: in two registers that are left, or aligned on the stack; on aarch64 an even one is the first.
    fn wide(&mut self, convention: Convention) -> Option<Passed> {
        const BOTH: [Class; 2] = [Class::General; 2];
        if convention.is_rust {
            return self.one_by_one(&BOTH);
        }
        if convention.machine == Machine::Aarch64 {
            self.general = self.general.next_multiple_of(2);
        }
        if convention.splits_wide {
            return self.one_by_one(&BOTH);
        }
        if self.general + 2 > self.general_end {
            return Some(Passed::one(self.on_stack(16, 16)));
        }
        self.registers(&BOTH)
    }

    /// Rust passes each part of a pair by itself.
    fn one_by_one(&mut self, classes: &[Class]) -> Option<Passed> {
        let parts: Option<Vec<Passed>> = classes.iter().map(|class| self.registers(&[*class])).collect();
        let places = parts?.into_iter().flat_map(|passed| passed.places).collect();
        Some(Passed { places, by_reference: false })
    }

    pub(super) fn registers(&mut self, classes: &[Class]) -> Option<Passed> {
        const VECTOR_END: usize = 8;
        let general = classes.iter().filter(|class| **class == Class::General).count();
        let fits = usize::from(self.general) + general <= usize::from(self.general_end)
            && usize::from(self.vector) + classes.len() - general <= VECTOR_END;
        if !fits {
            return Some(Passed::one(self.on_stack(8 * classes.len() as u64, 8)));
        }
        let place = |class: &Class| {
            let next = if *class == Class::General { &mut self.general } else { &mut self.vector };
            let number = *next;
            *next += 1;
            if *class == Class::General { Incoming::General(number) } else { Incoming::Vector(number) }
        };
        Some(Passed { places: classes.iter().map(place).collect(), by_reference: false })
    }

    fn on_stack(&mut self, bytes: u64, align: u64) -> Incoming {
        // Sizes come from debug information and may be wrong: no argument is further away than the size of a
        // stack.
        const STACK_BYTES: u64 = 1 << 30;
        let at = self.stack.next_multiple_of(align.clamp(8, 64));
        self.stack = (at + bytes.min(STACK_BYTES).next_multiple_of(8)).min(STACK_BYTES);
        Incoming::Stack(at as u32)
    }
}
