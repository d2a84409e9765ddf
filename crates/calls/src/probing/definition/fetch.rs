//! From variables as written to the kernel's fetch language.

use crate::error::Context;
use dso::dwarf::probe::{Access, TypeShape, Value, ValueForm, Variable, VariablePlace as Storage};
use dso::{Machine, Svma};

use super::spec::{Arg, What};
use super::{Found, Program, no_debug_info};

impl Program {
    /// Appends what one argument fetches.
    pub(super) fn fetch(
        &mut self,
        arg: &Arg,
        found: &Found,
        offset: u64,
        out: &mut Vec<String>,
    ) -> crate::Result<()> {
        let access = match &arg.what {
            What::Raw(raw) => {
                let name = arg.name.as_ref().map(|n| format!("{n}=")).unwrap_or_default();
                let kind = arg.kind.as_ref().map(|k| format!(":{k}")).unwrap_or_default();
                out.push(format!("{name}{raw}{kind}"));
                return Ok(());
            }
            What::AllVariables => return self.fetch_all(found, offset, |_| true, out),
            What::AllParameters => return self.fetch_all(found, offset, |v| v.is_parameter, out),
            What::Variable(access) => access,
        };
        let path = self.path.display().to_string();
        let point = found.point.as_ref().with_context(|| no_debug_info(&path))?;
        let form = match arg.kind.as_deref() {
            Some("string" | "ustring" | "symstr") => ValueForm::Text,
            _ => ValueForm::Plain,
        };
        let value = self.info()?.fetch(point, access, form);
        let value = value.with_context(|| format!("cannot fetch '{}'", written(access)))?;
        let name = arg.default_name().unwrap_or_default();
        let kind = kind_of(arg.kind.as_deref(), value.shape);
        let fetch = self.render(&value, found.svma, offset);
        out.push(format!(
            "{name}={}{kind}",
            fetch.with_context(|| format!("cannot fetch '{}'", written(access)))?
        ));
        Ok(())
    }

    /// All variables that have a place which probes can read; the others are left out.
    fn fetch_all(
        &mut self,
        found: &Found,
        offset: u64,
        wanted: fn(&Variable) -> bool,
        out: &mut Vec<String>,
    ) -> crate::Result<()> {
        let path = self.path.display().to_string();
        let point = found.point.as_ref().with_context(|| no_debug_info(&path))?;
        for variable in self.info()?.variables(point, false) {
            if !wanted(&variable) || !variable.is_available {
                continue;
            }
            let access = Access { variable: variable.name, steps: Vec::new() };
            let Ok(value) = self.info()?.fetch(point, &access, ValueForm::Plain) else { continue };
            if let Ok(fetch) = self.render(&value, found.svma, offset) {
                out.push(format!("{}={fetch}{}", access.variable, kind_of(None, value.shape)));
            }
        }
        Ok(())
    }

    /// The value in the kernel's fetch language.
    fn render(&self, value: &Value, probed: Svma, offset: u64) -> crate::Result<String> {
        let mut loads = value.loads.iter();
        let mut text = match value.place {
            Storage::Register(number) | Storage::Memory(number, _) => {
                register(self.object.machine(), number)?
            }
            Storage::Constant(constant) => format!("\\{constant}"),
            Storage::Static(svma) => {
                // The kernel reckons from where the probed code is mapped: address = probe + (this - probe's offset).
                let first = loads.next().copied().unwrap_or(0);
                let from_text = svma.wrapping_add_signed(first).wrapping_sub(probed.0).wrapping_add(offset);
                format!("@+{from_text:#x}")
            }
        };
        for load in loads {
            text = format!("{load:+}({text})");
        }
        Ok(text)
    }
}

fn written(access: &Access) -> String {
    use dso::dwarf::probe::AccessStep;
    let mut text = access.variable.clone();
    for step in &access.steps {
        match step {
            AccessStep::Member(name) => text += &format!(".{name}"),
            AccessStep::Arrow(name) => text += &format!("->{name}"),
            AccessStep::Index(index) => text += &format!("[{index}]"),
        }
    }
    text
}

/// `:TYPE` as given, or from the variable's type.
fn kind_of(given: Option<&str>, shape: TypeShape) -> String {
    let number = |letter: char, bits: u64| match bits.min(64) {
        bits @ (8 | 16 | 32 | 64) => format!(":{letter}{bits}"),
        _ => String::new(),
    };
    match (given, shape) {
        (Some("x"), TypeShape::Number { bits, .. }) => number('x', bits),
        (Some("u"), TypeShape::Number { bits, .. }) => number('u', bits),
        (Some("s"), TypeShape::Number { bits, .. }) => number('s', bits),
        (Some(given), _) => format!(":{given}"),
        (None, TypeShape::Number { bits, signed }) => number(if signed { 's' } else { 'x' }, bits),
        (None, TypeShape::BitField(width, from, storage)) => format!(":b{width}@{from}/{storage}"),
        (None, TypeShape::Text) => ":string".to_owned(),
        (None, TypeShape::Unsized) => String::new(),
    }
}

/// The kernel's name of a DWARF register.
fn register(machine: Machine, number: u16) -> crate::Result<String> {
    const X86_64: [&str; 16] = [
        "ax", "dx", "cx", "bx", "si", "di", "bp", "sp", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
    ];
    let name = match machine {
        Machine::X86_64 => X86_64.get(usize::from(number)).map(|n| format!("%{n}")),
        Machine::Aarch64 if number < 31 => Some(format!("%x{number}")),
        Machine::Aarch64 if number == 31 => Some("%sp".to_owned()),
        _ => None,
    };
    name.context("it is in a register that probes cannot read (vector or floating point)")
}
