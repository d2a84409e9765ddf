//! Which events tell of block I/O, and how they are recorded.

use crate::event_args::EventArgs;
use profile::block_io::Happening;
use record::event::{EventSource, SystemSource};
use record::opts::{CallGraph, EventRequest, KeepFiles, Output, RecordOpts};
use record::{Target, Whom};
use std::path::Path;

/// Pages of all rings together, 64 MiB: stacks are copied into them, and disks come in bursts.
const ALL_PAGES: usize = 16_384;

/// Pages of each ring: 2 to 16 MiB.
fn ring_pages(cpus: usize) -> usize {
    (ALL_PAGES / cpus.next_power_of_two()).clamp(512, 4096)
}

/// Everything that happens to requests, on the whole machine: who completes one is not who began it.
///
/// # Errors
/// If the kernel offers no such events (to this user).
pub fn options(target: Target, output: &Path) -> anyhow::Result<RecordOpts> {
    let whom =
        if target.whom == Whom::Command && target.command.is_empty() { Whom::Command } else { Whom::System };
    let pages = ring_pages(target.cpus().len());
    Ok(RecordOpts {
        target: Target { whom, ..target },
        events: events()?,
        call_graph: CallGraph::Live,
        ring_pages: Some(pages),
        output: Output::File(output.to_path_buf()),
        keep_files: KeepFiles::None,
        command_line: std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect(),
        ..RecordOpts::default()
    })
}

/// The tracepoints this kernel has; the submitter's stack is taken only where a request begins.
fn events() -> anyhow::Result<Vec<EventRequest>> {
    let source = SystemSource::new();
    let there = source.list_tracefs("block").unwrap_or_default();
    let needed = [Happening::Issue, Happening::Complete];
    let wanted = Happening::ALL
        .into_iter()
        .filter(|(happening, name)| needed.contains(happening) || there.iter().any(|event| event == name));
    let texts: Vec<String> = wanted.map(|(happening, name)| text(happening, name)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut requests = crate::recording::requests(&EventArgs::of(&texts))?;
    for request in requests.iter_mut().filter(|request| request.name.contains("block_bio_queue")) {
        request.filter = Some("nr_sector == 0".to_owned());
    }
    Ok(requests)
}

fn text(happening: Happening, name: &str) -> String {
    match happening {
        Happening::Insert | Happening::Issue | Happening::Queue => format!("block:{name}/period=1/"),
        _ => format!("block:{name}/period=1,call-graph=no/"),
    }
}
