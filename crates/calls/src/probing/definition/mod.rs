//! From a place as written to the kernel's definitions: `p:probe_app/add /bin/app:0x1139 a=%di:s32`.
//
// Source of the form: linux v6.18 Documentation/trace/uprobetracer.rst; names, types and argument forms are perf probe's.

mod fetch;
mod find;
mod pattern;
pub mod spec;

use std::path::{Path, PathBuf};

use crate::error::{Context, bail};
use dso::dwarf::probe::{Point, ProbeInfo};
use dso::{DebugSearch, FileOffset, ObjectFile};
use perfdata::text::glob;

use find::{Found, by_debug_info};

use self::spec::{ProbePlace, ProbePoint, ProbeSpec};

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

/// A program with what its debug information shows.
pub struct Program {
    /// Real path.
    pub path: PathBuf,
    object: ObjectFile,
    info: Option<ProbeInfo>,
}

impl Program {
    /// Opens a program or library; a bare name is looked for in PATH.
    pub fn open(file: &Path) -> crate::Result<Self> {
        let path = find_program(file).with_context(|| format!("there is no file {}", file.display()))?;
        let object = ObjectFile::open(&path).with_context(|| format!("cannot probe {}", path.display()))?;
        let info = ProbeInfo::open(&object, &DebugSearch::from_env());
        let info = info.with_context(|| format!("the debug information of {} is damaged", path.display()))?;
        Ok(Self { path, object, info })
    }

    /// The user id of the file's owner.
    #[must_use]
    pub fn owner(&self) -> Option<u32> {
        self.object.owner()
    }

    /// Debug information.
    pub fn info(&mut self) -> crate::Result<&mut ProbeInfo> {
        let path = self.path.display().to_string();
        self.info.as_mut().with_context(|| no_debug_info(&path))
    }

    /// The definitions of a probe: one per address it represents.
    pub fn define(&mut self, spec: &ProbeSpec, inlines: bool) -> crate::Result<Vec<Definition>> {
        let mut found = self.find(spec)?;
        if !inlines {
            found.retain(|f| !f.inlined);
        }
        if let ProbePlace::Function { name, at: ProbePoint::Return, .. } = &spec.place {
            found.retain(|f| !f.inlined);
            if found.is_empty() {
                bail!("'{name}' is inlined everywhere: it has no return to probe");
            }
        }
        found.iter().map(|f| self.definition(spec, f)).collect()
    }

    /// Addresses of the place, for `--vars`.
    pub fn points(&mut self, place: &ProbePlace) -> crate::Result<Vec<Point>> {
        self.info()?;
        let spec = ProbeSpec { group: None, event: None, place: place.clone(), args: Vec::new() };
        Ok(self.find(&spec)?.into_iter().filter_map(|f| f.point).collect())
    }

    fn definition(&mut self, spec: &ProbeSpec, found: &Found) -> crate::Result<Definition> {
        let offset = self.object.file_offset_of(found.svma);
        let FileOffset(offset) = offset.with_context(|| format!("{:#x} is not in the file", found.svma.0))?;
        let is_return = matches!(spec.place, ProbePlace::Function { at: ProbePoint::Return, .. });
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
        ProbePlace::Function { name, at: ProbePoint::Line(line), .. } if !glob::is_glob(name) => {
            format!("{}_L{line}", bare(name))
        }
        ProbePlace::Function { name, .. } if !glob::is_glob(name) => bare(name).to_owned(),
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

fn place_words(place: &ProbePlace) -> String {
    match place {
        ProbePlace::Address(address) => format!("{address:#x}"),
        ProbePlace::Line(file, line) => format!("{file}:{line}"),
        ProbePlace::Pattern { of, pattern } => format!("{of};{pattern}"),
        ProbePlace::Function { name, file, at } => {
            let at = match at {
                ProbePoint::Entry => String::new(),
                ProbePoint::Offset(offset) => format!("+{offset}"),
                ProbePoint::Line(line) => format!(":{line}"),
                ProbePoint::Return => "%return".to_owned(),
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

fn no_debug_info(path: &str) -> String {
    format!(
        "{path} has no debug information: build it with -g, or install its debug package; functions, FUNC+OFFSET and addresses work without"
    )
}
