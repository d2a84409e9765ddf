//! From a place as written to the kernel's definitions: `p:probe_app/add /bin/app:0x1139 a=%di:s32`.
//
// Source of the form: linux v6.18 Documentation/trace/uprobetracer.rst; names, types and argument forms are perf probe's.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use dso::dwarf::probe::{Access, Place as Storage, Point, ProbeInfo, TypeShape, Value, Variable};
use dso::{DebugSearch, FileOffset, Machine, ObjectFile, Svma, SymbolTable};
use record::event::glob;

use super::spec::{Arg, At, Place, ProbeSpec, What};

/// One definition to give to the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// Is it a function's return?
    pub is_return: bool,
    /// The event's group.
    pub group: String,
    /// The event's name.
    pub event: String,
    /// The program, its real path.
    pub path: PathBuf,
    /// Where its file has the code.
    pub offset: u64,
    /// `name=fetch:type`, in order.
    pub args: Vec<String>,
    /// The place in words, as `--add` reports it.
    pub place: String,
}

impl std::fmt::Display for Definition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = if self.is_return { 'r' } else { 'p' };
        write!(f, "{kind}:{}/{} {}:{:#x}", self.group, self.event, self.path.display(), self.offset)?;
        self.args.iter().try_for_each(|arg| write!(f, " {arg}"))
    }
}

/// A program with what its debug information tells.
pub struct Program {
    /// Its real path.
    pub path: PathBuf,
    object: ObjectFile,
    info: Option<ProbeInfo>,
}

/// A point found, with or without debug information.
pub(super) struct Found {
    pub(super) svma: Svma,
    pub(super) function: String,
    pub(super) inlined: bool,
    /// `None`: found by the symbol table.
    pub(super) point: Option<Point>,
}

impl Program {
    /// Opens a program or library; a bare name is looked for in PATH.
    pub fn open(file: &Path) -> anyhow::Result<Self> {
        let path = find_program(file).with_context(|| format!("there is no file {}", file.display()))?;
        let object = ObjectFile::open(&path).with_context(|| format!("cannot probe {}", path.display()))?;
        let info = ProbeInfo::open(&object, &DebugSearch::from_env());
        let info = info.with_context(|| format!("the debug information of {} is damaged", path.display()))?;
        Ok(Self { path, object, info })
    }

    /// Its debug information.
    pub fn info(&mut self) -> anyhow::Result<&mut ProbeInfo> {
        let path = self.path.display().to_string();
        self.info.as_mut().with_context(|| no_debug_info(&path))
    }

    /// The definitions of a probe: one per address it stands for.
    pub fn define(&mut self, spec: &ProbeSpec, inlines: bool) -> anyhow::Result<Vec<Definition>> {
        let mut found = self.find(spec)?;
        if !inlines {
            found.retain(|f| !f.inlined);
        }
        if let Place::Function { name, at: At::Return, .. } = &spec.place {
            found.retain(|f| !f.inlined);
            if found.is_empty() {
                bail!("'{name}' is inlined everywhere: it has no return to probe");
            }
        }
        found.iter().map(|f| self.definition(spec, f)).collect()
    }

    /// Addresses of the place, for `--vars`.
    pub fn points(&mut self, place: &Place) -> anyhow::Result<Vec<Point>> {
        self.info()?;
        let spec = ProbeSpec { group: None, event: None, place: place.clone(), args: Vec::new() };
        Ok(self.find(&spec)?.into_iter().filter_map(|f| f.point).collect())
    }

    fn find(&mut self, spec: &ProbeSpec) -> anyhow::Result<Vec<Found>> {
        let found = match &spec.place {
            Place::Address(address) => return self.find_address(*address),
            Place::Pattern { of, pattern } => return self.find_matching(of, pattern),
            Place::Line(file, line) => {
                let points = self.info()?.file_line_points(file, *line);
                by_debug_info(points.with_context(|| format!("{file}:{line}"))?)
            }
            Place::Function { name, file, at: At::Line(line) } => {
                let fits = |n: &str| fits(name, n);
                let points = self.info()?.function_line_points(&fits, file.as_deref(), *line);
                let points = points.with_context(|| format!("{name}:{line}"))?;
                by_debug_info(points)
            }
            Place::Function { name, file, at } => self.find_function(name, file.as_deref(), *at, spec),
        };
        if found.is_empty() {
            bail!(self.not_found(&spec.place));
        }
        Ok(found)
    }

    fn find_address(&mut self, address: u64) -> anyhow::Result<Vec<Found>> {
        let svma = Svma(address);
        if !self.object.is_code(svma) {
            bail!("{address:#x} is no code of {}", self.path.display());
        }
        let point = self.info.as_mut().and_then(|info| info.point_at(svma));
        Ok(vec![Found { svma, function: format!("abs_{address:x}"), inlined: false, point }])
    }

    fn find_function(&mut self, name: &str, file: Option<&str>, at: At, spec: &ProbeSpec) -> Vec<Found> {
        let past_prologue = at == At::Entry && spec.wants_variables();
        let fits = |n: &str| fits(name, n);
        let points = self.info.as_mut().map(|info| info.function_points(&fits, file, past_prologue));
        let mut found = by_debug_info(points.unwrap_or_default());
        if found.is_empty() && file.is_none() {
            found = self.find_symbol(&fits);
        }
        if let At::Offset(offset) = at {
            for found in &mut found {
                found.svma = Svma(found.svma.0.wrapping_add(offset));
                if let Some(point) = &mut found.point {
                    point.svma = found.svma;
                }
            }
        }
        found
    }

    fn find_symbol(&self, fits: &dyn Fn(&str) -> bool) -> Vec<Found> {
        let debug = DebugSearch::from_env().find_debug(&self.object);
        let table = SymbolTable::load(&self.object, debug.as_ref());
        let code = table.iter().filter(|s| self.object.is_code(s.start));
        let wanted = code.filter(|s| fits(s.name) || fits(&dso::demangle(s.name)));
        let found =
            wanted.map(|s| Found { svma: s.start, function: s.name.to_owned(), inlined: false, point: None });
        found.collect()
    }

    fn not_found(&mut self, place: &Place) -> String {
        let path = self.path.display();
        let Place::Function { name, .. } = place else { return format!("nothing to probe there in {path}") };
        let mut text = format!("there is no function '{name}' in {path}");
        let names = self.function_names();
        let near: Vec<&String> = names.iter().filter(|n| is_near(name, n)).take(4).collect();
        if !near.is_empty() {
            let near: Vec<_> = near.into_iter().map(String::as_str).collect();
            text += &format!("; did you mean {}?", near.join(", "));
        } else if self.info.is_none() {
            text += " (it has no debug information, only symbols)";
        }
        text
    }

    /// Functions with code, sorted.
    pub fn function_names(&mut self) -> Vec<String> {
        let mut names = self.info.as_mut().map(ProbeInfo::function_names).unwrap_or_default();
        names.extend(self.find_symbol(&|_| true).into_iter().map(|f| f.function));
        names.sort();
        names.dedup();
        names
    }

    fn definition(&mut self, spec: &ProbeSpec, found: &Found) -> anyhow::Result<Definition> {
        let offset = self.object.file_offset_of(found.svma);
        let FileOffset(offset) = offset.with_context(|| format!("{:#x} is not in the file", found.svma.0))?;
        let is_return = matches!(spec.place, Place::Function { at: At::Return, .. });
        let mut args = Vec::new();
        for arg in &spec.args {
            self.fetch(arg, found, offset, &mut args)?;
        }
        Ok(Definition {
            is_return,
            group: spec.group.clone().unwrap_or_else(|| group_of(&self.path)),
            event: event_name(spec, &found.function, is_return),
            path: self.path.clone(),
            offset,
            args,
            place: place_words(&spec.place),
        })
    }

    /// Appends what one argument fetches.
    fn fetch(&mut self, arg: &Arg, found: &Found, offset: u64, out: &mut Vec<String>) -> anyhow::Result<()> {
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
        let as_text = matches!(arg.kind.as_deref(), Some("string" | "ustring" | "symstr"));
        let value = self.info()?.fetch(point, access, as_text);
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
    ) -> anyhow::Result<()> {
        let path = self.path.display().to_string();
        let point = found.point.as_ref().with_context(|| no_debug_info(&path))?;
        for variable in self.info()?.variables(point, false) {
            if !wanted(&variable) || !variable.is_available {
                continue;
            }
            let access = Access { variable: variable.name, steps: Vec::new() };
            let Ok(value) = self.info()?.fetch(point, &access, false) else { continue };
            if let Ok(fetch) = self.render(&value, found.svma, offset) {
                out.push(format!("{}={fetch}{}", access.variable, kind_of(None, value.shape)));
            }
        }
        Ok(())
    }

    /// The value in the kernel's fetch language.
    fn render(&self, value: &Value, probed: Svma, offset: u64) -> anyhow::Result<String> {
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

pub(super) fn by_debug_info(points: Vec<Point>) -> Vec<Found> {
    let found = points.into_iter().map(|point| Found {
        svma: point.svma,
        function: point.function.clone(),
        inlined: point.inlined,
        point: Some(point),
    });
    found.collect()
}

fn no_debug_info(path: &str) -> String {
    format!(
        "{path} has no debug information: build it with -g, or install its debug package; functions, FUNC+OFFSET and addresses work without"
    )
}

/// Is `name` the wanted one, or what the wanted pattern matches? `f` is also found as `a::f`, with parameters left out.
fn fits(wanted: &str, name: &str) -> bool {
    if glob::is_glob(wanted) {
        return glob::matches(wanted, name);
    }
    let bare = name.split_once('(').map_or(name, |(head, _)| head);
    bare == wanted
        || (wanted.contains("::")
            && bare.ends_with(wanted)
            && bare[..bare.len() - wanted.len()].ends_with("::"))
}

fn is_near(typed: &str, name: &str) -> bool {
    name.len() >= 3 && typed.len() >= 3 && (name.contains(typed) || typed.contains(name))
}

fn written(access: &Access) -> String {
    use dso::dwarf::probe::Step;
    let mut text = access.variable.clone();
    for step in &access.steps {
        match step {
            Step::Member(name) => text += &format!(".{name}"),
            Step::Arrow(name) => text += &format!("->{name}"),
            Step::Index(index) => text += &format!("[{index}]"),
        }
    }
    text
}

/// `:TYPE` as given, or as the variable's type says.
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
fn register(machine: Machine, number: u16) -> anyhow::Result<String> {
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

/// `probe_` and the file's name up to the first character that no name has.
fn group_of(path: &Path) -> String {
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let name: String = name.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    format!("probe_{name}")
}

fn event_name(spec: &ProbeSpec, function: &str, is_return: bool) -> String {
    if let Some(event) = &spec.event {
        return event.clone();
    }
    let base = match &spec.place {
        Place::Function { name, at: At::Line(line), .. } if !glob::is_glob(name) => {
            format!("{}_L{line}", bare(name))
        }
        Place::Function { name, .. } if !glob::is_glob(name) => bare(name).to_owned(),
        _ => bare(function).to_owned(),
    };
    let mut name: String =
        base.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).take(50).collect();
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        name.insert(0, '_');
    }
    if is_return { name + "__return" } else { name }
}

/// The last part of a path of namespaces, without what the compiler added (`.isra.0`, `@version`).
fn bare(name: &str) -> &str {
    let name = name.rsplit("::").next().unwrap_or(name);
    let end = name.char_indices().skip(1).find(|(_, c)| ".@(<".contains(*c)).map_or(name.len(), |(i, _)| i);
    &name[..end]
}

fn place_words(place: &Place) -> String {
    match place {
        Place::Address(address) => format!("{address:#x}"),
        Place::Line(file, line) => format!("{file}:{line}"),
        Place::Pattern { of, pattern } => format!("{of};{pattern}"),
        Place::Function { name, file, at } => {
            let at = match at {
                At::Entry => String::new(),
                At::Offset(offset) => format!("+{offset}"),
                At::Line(line) => format!(":{line}"),
                At::Return => "%return".to_owned(),
            };
            let file = file.as_ref().map(|f| format!("@{f}")).unwrap_or_default();
            format!("{name}{at}{file}")
        }
    }
}

/// Where the linker looks for libraries.
pub const LIBRARIES: [&str; 6] =
    ["/usr/lib", "/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/lib", "/lib64"];

/// The real path of a file, or of the program or library of that name in PATH and the usual folders.
pub fn find_program(file: &Path) -> Option<PathBuf> {
    if let Ok(path) = std::fs::canonicalize(file) {
        return Some(path);
    }
    if file.components().count() > 1 {
        return None;
    }
    let programs = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&programs).chain(LIBRARIES.iter().map(PathBuf::from));
    folders.into_iter().find_map(|folder| std::fs::canonicalize(folder.join(file)).ok())
}
