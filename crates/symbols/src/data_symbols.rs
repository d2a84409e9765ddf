//! Names of data: which global variable of which process an address is.
//!
//! A recording has the mappings of code. Data of the same file is at a fixed distance from it, so that the file's
//! symbol table names variables of programs and libraries; what was allocated has no name.

use crate::object_files::ObjectFiles;
use dso::{FileOffset, Svma};
use perfdata::{Order, PerfData, Record};
use profile::Profile;
use profile::table::Dso;
use std::collections::HashMap;
use std::ops::ControlFlow;

/// One mapping of code.
#[derive(Clone, Debug)]
struct Code {
    start: u64,
    offset: u64,
    path: String,
}

/// The mappings of a recording's processes.
#[derive(Clone, Debug, Default)]
pub struct DataSymbols {
    /// By process, newest last.
    code: HashMap<u32, Vec<Code>>,
}

impl DataSymbols {
    /// Reads all mappings of `file`.
    #[must_use]
    pub fn of(file: &PerfData<'_>) -> Self {
        let mut code: HashMap<u32, Vec<Code>> = HashMap::new();
        file.visit(Order::Time, |item| {
            match &item.record {
                Record::Mmap(map) => code.entry(map.pid).or_default().push(Code {
                    start: map.addr.0,
                    offset: map.pgoff,
                    path: String::from_utf8_lossy(map.filename).into_owned(),
                }),
                // A child has what its parent has.
                Record::Fork(task) if task.pid != task.ppid => {
                    if let Some(inherited) = code.get(&task.ppid).cloned() {
                        code.entry(task.pid).or_insert(inherited);
                    }
                }
                _ => {}
            }
            ControlFlow::Continue(())
        });
        Self { code }
    }

    /// `cache_lock in app`, with an offset where the address is inside a larger variable; `None` if no symbol table
    /// has it.
    #[must_use]
    pub fn name(&self, profile: &Profile, files: &ObjectFiles, pid: i32, address: u64) -> Option<String> {
        let code = self.code.get(&pid.cast_unsigned())?;
        code.iter().rev().find_map(|code| {
            let dso = profile.dsos.iter().map(|(_, dso)| dso).find(|dso| dso.path == code.path)?;
            name_in(files, dso, code, address)
        })
    }
}

fn name_in(files: &ObjectFiles, dso: &Dso, code: &Code, address: u64) -> Option<String> {
    let loaded = files.open(dso);
    let file = loaded.as_ref().as_ref().ok()?;
    let begin = file.svma_of(FileOffset(code.offset))?;
    let svma = Svma(address.wrapping_sub(code.start).wrapping_add(begin.0));
    let symbol = file.symbol(svma).ok()?;
    let offset = svma.0.wrapping_sub(symbol.start.0);
    let offset = if offset == 0 { String::new() } else { format!("+{offset:#x}") };
    Some(format!("{}{offset} in {}", symbol.name, dso.short_name))
}
