//! Events of the function tracers → entries and exits of the selected kernel functions.

use std::path::Path;

use dso::system_file;
use perfdata::Endian;
use perfdata::tracepoint::Format;
use rustc_hash::{FxHashMap, FxHashSet};

use super::super::layout::{CallEvent, CallEventKind};
use super::super::plan::KernelSelection;
use super::error::FtraceError;
use super::parse_page;

/// Offsets of an event's fields, from its format file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    id: u16,
    function: usize,
    /// `None`: the tracer reports no depth.
    depth: Option<usize>,
}

/// The selected function that a thread is in.
#[derive(Clone, Copy, Debug)]
struct Inside {
    /// Depth at which the selected function was entered.
    base: u32,
}

/// A function of the kernel, and how deep in calls the thread was there.
#[derive(Clone, Copy, Debug)]
struct TracedAt {
    address: u64,
    depth: u32,
}

/// An entry or exit that a tracer reported.
#[derive(Clone, Copy, Debug)]
struct KernelMoment {
    time_ns: u64,
    tid: u32,
    at: TracedAt,
}

/// Reads pages.
pub struct FtraceDecoder {
    enter: Shape,
    exit: Option<Shape>,
    wanted: FxHashSet<u64>,
    depth: u32,
    inside: FxHashMap<u32, Inside>,
    numbers: FxHashMap<u64, u32>,
    functions: Vec<u64>,
    /// Events lost, and pages that could not be read.
    pub lost: u64,
}

impl FtraceDecoder {
    /// For a tracer whose format files are in `formats` (`events/ftrace`).
    ///
    /// # Errors
    /// If they are missing or have another layout.
    pub fn new(formats: &Path, tracer: &str, selection: &KernelSelection) -> Result<Self, FtraceError> {
        let read = |name: &str, field: &'static str| {
            let path = formats.join(name).join("format");
            let text = system_file::read(&path).map_err(FtraceError::of_file(&path))?;
            shape(&text, field).ok_or(FtraceError::NoField { path, field })
        };
        let (enter, exit) = if tracer == super::FUNCTION {
            (read("function", "ip")?, None)
        } else {
            (read("funcgraph_entry", "func")?, Some(read("funcgraph_exit", "func")?))
        };
        Ok(Self::of(enter, exit, selection))
    }

    fn of(enter: Shape, exit: Option<Shape>, selection: &KernelSelection) -> Self {
        let mut decoder = Self {
            enter,
            exit,
            wanted: selection.functions.iter().map(|function| function.address).collect(),
            depth: selection.depth.max(1),
            inside: FxHashMap::default(),
            numbers: FxHashMap::default(),
            functions: Vec::new(),
            lost: 0,
        };
        // Numbers begin as in the wish, whichever way records them.
        for function in &selection.functions {
            decoder.number(function.address);
        }
        decoder
    }

    /// Addresses by number.
    pub fn functions(&self) -> &[u64] {
        &self.functions
    }

    /// Reads a page of the ring.
    pub fn take_page(&mut self, page: &[u8], sink: &mut dyn FnMut(CallEvent)) {
        let read = parse_page(page, &mut |time_ns, data| self.take(time_ns, data, sink));
        self.lost += read.unwrap_or(1);
    }

    fn take(&mut self, time_ns: u64, data: &[u8], sink: &mut dyn FnMut(CallEvent)) {
        let id = data.get(..2).map(|bytes| u16::from_ne_bytes([bytes[0], bytes[1]]));
        let tid = u32_at(data, 4);
        let (Some(id), Some(tid)) = (id, tid) else { return };
        if id == self.enter.id {
            let Some(at) = read(data, self.enter) else { return };
            self.enter(KernelMoment { time_ns, tid, at }, sink);
        } else if let Some(exit) = self.exit.filter(|exit| exit.id == id)
            && let Some(at) = read(data, exit)
        {
            self.leave(KernelMoment { time_ns, tid, at }, sink);
        }
    }

    fn enter(&mut self, moment: KernelMoment, sink: &mut dyn FnMut(CallEvent)) {
        let KernelMoment { time_ns, tid, at: TracedAt { address, depth } } = moment;
        let address = start_of(address, |start| self.wanted.contains(&start)).unwrap_or(address);
        let meant = self.wanted.is_empty() || self.wanted.contains(&address);
        let base = match self.inside.get(&tid) {
            // Its exit was lost: at the same or a smaller depth it can't be open any more.
            Some(inside) if depth > inside.base => inside.base,
            _ if meant => {
                self.inside.insert(tid, Inside { base: depth });
                depth
            }
            _ => {
                self.inside.remove(&tid);
                return;
            }
        };
        if depth - base >= self.depth {
            return;
        }
        let function = self.number(address);
        let event = event(CallEventKind::Kernel, time_ns, tid, function);
        sink(event);
        if self.exit.is_none() {
            // Only entries are reported, so the call takes no time.
            sink(CallEvent { kind: CallEventKind::KernelEnd, ..event });
            self.inside.remove(&tid);
        }
    }

    fn leave(&mut self, moment: KernelMoment, sink: &mut dyn FnMut(CallEvent)) {
        let KernelMoment { time_ns, tid, at: TracedAt { address, depth } } = moment;
        let Some(Inside { base }) = self.inside.get(&tid).copied().filter(|inside| depth >= inside.base)
        else {
            return;
        };
        if depth == base {
            self.inside.remove(&tid);
        }
        if depth - base < self.depth {
            let address = start_of(address, |start| self.wanted.contains(&start)).unwrap_or(address);
            let function = self.number(address);
            sink(event(CallEventKind::KernelEnd, time_ns, tid, function));
        }
    }

    fn number(&mut self, address: u64) -> u32 {
        let functions = &mut self.functions;
        *self.numbers.entry(address).or_insert_with(|| {
            functions.push(address);
            functions.len() as u32 - 1
        })
    }
}

/// The function that begins at an address reported by the tracers, or shortly before it. They report the address of
/// the call to the tracer. That is after the instruction that marks a target of computed jumps (x86-64, aarch64) and
/// after room for another call (aarch64).
///
/// Source: linux v6.1 arch/arm64/kernel/ftrace.c, ftrace_call_adjust; arch/x86/kernel/ftrace_64.S, save_mcount_regs.
pub fn start_of(address: u64, begins: impl Fn(u64) -> bool) -> Option<u64> {
    [0, 4, 8].into_iter().map(|behind| address.wrapping_sub(behind)).find(|start| begins(*start))
}

fn event(kind: CallEventKind, time_ns: u64, tid: u32, function: u32) -> CallEvent {
    CallEvent { time_ns, sp: 0, tid, pid: 0, function, kind, generation: false, loops: false, maybe: false }
}

fn shape(text: &[u8], function: &str) -> Option<Shape> {
    let format = Format::parse("ftrace", text, Endian::NATIVE, 8)?;
    let offset = |name: &str| format.field(name).map(|field| field.offset);
    Some(Shape { id: format.id as u16, function: offset(function)?, depth: offset("depth") })
}

/// Address and depth.
fn read(data: &[u8], shape: Shape) -> Option<TracedAt> {
    let bytes = data.get(shape.function..shape.function.checked_add(8)?)?;
    let address = u64::from_ne_bytes(bytes.try_into().ok()?);
    let depth = shape.depth.map_or(Some(0), |at| u32_at(data, at))?;
    Some(TracedAt { address, depth })
}

fn u32_at(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(data.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::super::super::plan::KernelFunction;
    use super::*;

    /// As Linux 6.18 has them.
    const ENTRY: &str = "name: funcgraph_entry\nID: 11\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:unsigned long func;\toffset:8;\tsize:8;\tsigned:0;\n\
        \tfield:unsigned int depth;\toffset:16;\tsize:4;\tsigned:0;\n\n\
        print fmt: \"--> %ps (%u)\", (void *)REC->func, REC->depth\n";

    fn decoder(wanted: &[u64], depth: u32) -> FtraceDecoder {
        let functions = wanted.iter().map(|address| KernelFunction { name: "f".into(), address: *address });
        let selection = KernelSelection { functions: functions.collect(), depth };
        let enter = shape(ENTRY.as_bytes(), "func").expect("it has all fields");
        FtraceDecoder::of(enter, Some(Shape { id: 10, ..enter }), &selection)
    }

    /// A page of entries (`+`) and exits (`-`): kind, function, depth. One every 10 ns from 1,010 on, all of thread
    /// 7.
    fn page(steps: &[(char, u64, u32)]) -> Vec<u8> {
        let mut events = Vec::new();
        for &(what, function, depth) in steps {
            let mut data = vec![if what == '+' { 11u8 } else { 10 }, 0, 0, 0];
            data.extend(7u32.to_ne_bytes());
            data.extend(function.to_ne_bytes());
            data.extend(depth.to_ne_bytes());
            events.extend(((10u32 << 5) | (data.len() as u32 / 4)).to_ne_bytes());
            events.extend(data);
        }
        let mut page = 1000u64.to_ne_bytes().to_vec();
        page.extend((events.len() as u64).to_ne_bytes());
        page.extend(events);
        page
    }

    fn run(mut decoder: FtraceDecoder, steps: &[(char, u64, u32)]) -> Vec<(char, u64, u64)> {
        let mut seen = Vec::new();
        decoder.take_page(&page(steps), &mut |event| seen.push(event));
        let what = |kind| if kind == CallEventKind::Kernel { '+' } else { '-' };
        seen.iter()
            .map(|event| (what(event.kind), decoder.functions[event.function as usize], event.time_ns))
            .collect()
    }

    #[test]
    fn only_the_functions_meant_and_what_they_call_down_to_the_depth() {
        let steps = [
            ('+', 1, 0),
            ('+', 2, 1),
            ('+', 3, 2),
            ('+', 4, 3),
            ('-', 4, 3),
            ('-', 3, 2),
            ('-', 2, 1),
            ('-', 1, 0),
        ];
        let seen = run(decoder(&[2], 2), &steps);
        assert_eq!(seen, [('+', 2, 1020), ('+', 3, 1030), ('-', 3, 1060), ('-', 2, 1070)]);
        assert_eq!(run(decoder(&[], 9), &steps).len(), 8);
    }

    #[test]
    fn a_function_is_known_by_the_place_in_it_that_calls_the_tracer() {
        let seen = run(decoder(&[0x100, 0x200], 1), &[('+', 0x104, 0), ('-', 0x104, 0), ('+', 0x208, 0)]);
        assert_eq!(seen, [('+', 0x100, 1010), ('-', 0x100, 1020), ('+', 0x200, 1030)]);
        assert_eq!(run(decoder(&[0x100], 1), &[('+', 0x10c, 0)]), []);
    }

    #[test]
    fn a_lost_exit_does_not_let_others_in() {
        let seen = run(decoder(&[2], 9), &[('+', 2, 1), ('+', 5, 1), ('-', 5, 1), ('+', 2, 3), ('-', 2, 3)]);
        assert_eq!(seen, [('+', 2, 1010), ('+', 2, 1040), ('-', 2, 1050)]);
    }

    #[test]
    fn the_function_tracer_tells_entries_without_time() {
        let selection = KernelSelection { functions: Vec::new(), depth: 1 };
        let enter = Shape { depth: None, ..shape(ENTRY.as_bytes(), "func").expect("it has all fields") };
        let seen = run(FtraceDecoder::of(enter, None, &selection), &[('+', 2, 0), ('+', 2, 0)]);
        assert_eq!(seen, [('+', 2, 1010), ('-', 2, 1010), ('+', 2, 1020), ('-', 2, 1020)]);
    }
}
