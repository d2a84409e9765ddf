//! Code made at run time: read from the files in which runtimes describe it, `jit-PID.dump`.

use crate::error::ensure;
use crate::pt::Sideband;
use perfdata::jitdump::JitDump;
use std::path::Path;

/// Larger files are not read: a runtime that runs for weeks writes some GB of code.
const MAX_BYTES: u64 = 16 << 30;

/// Adds their content to the code of their processes. Returns notes about it.
pub fn read_all(side: &mut Sideband<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    for (pid, path) in side.jit_dumps() {
        if let Err(why) = read(side, pid, &path, &mut notes) {
            notes.push(format!("code made at run time: {path}: {why:#}"));
        }
    }
    notes
}

fn read(side: &mut Sideband<'_>, pid: i32, path: &str, notes: &mut Vec<String>) -> crate::Result<()> {
    const X86_64: u32 = 62;
    let map = dso::MappedFile::open_by(&dso::FileRule::up_to(MAX_BYTES).dense(), Path::new(path))?;
    let dump = JitDump::parse(&map)?;
    ensure!(dump.machine == X86_64, "its code is for machine {}, not x86-64 ({X86_64})", dump.machine);
    if let Some(cut) = &dump.cut {
        notes.push(format!("code made at run time: {path}: {cut}; the part before it is used"));
    }
    let unsure = side.add_made(pid, &dump);
    if unsure > 0 {
        notes.push(format!(
            "{unsure} functions made at run time share addresses, and the times in {path} are of another clock: \
             their code is left out (runtimes that write the processor's time stamps have none of this)"
        ));
    }
    Ok(())
}
