//! Cases that hold everything in one file: code, packets, and the flow that they must give.
//!
//! ```text
//! # what it is about
//! errata SKL014
//! function 1000 main
//! 1000: e8 1b 00 00 00  call 1020h
//! packets
//! psb
//! tip 1020
//! flow
//! call 1000 -> 1020 leaf
//! ```
//!
//! The text of an instruction is checked against its bytes. `TALLY_BLESS=1` writes the flow as it is now; read it
//! before you believe it.

use std::path::Path;

use iced_x86::{Decoder, DecoderOptions, Formatter, IntelFormatter};
use intelpt::{
    BlockCache, Errata, Erratum, Flow, FlowEvent, FlowKind, Image, Ip, MissingCode, Packet, TimeParams,
    encode,
};

#[derive(Default)]
struct Case {
    errata: Vec<Erratum>,
    /// Name and first address.
    functions: Vec<(u64, String)>,
    /// Pieces of code.
    code: Vec<(u64, Vec<u8>)>,
    trace: Vec<u8>,
    flow: Vec<String>,
}

impl Image for Case {
    fn code(&self, ip: u64) -> Result<&[u8], MissingCode> {
        let piece = self.code.iter().find(|(at, bytes)| (*at..*at + bytes.len() as u64).contains(&ip));
        let (at, bytes) = piece.ok_or(MissingCode::NotMapped)?;
        Ok(&bytes[(ip - at) as usize..])
    }

    fn unit(&self, ip: u64) -> (u32, bool) {
        let after = self.functions.partition_point(|(start, _)| *start <= ip);
        let start = after.checked_sub(1).map(|at| self.functions[at].0);
        (after as u32, start == Some(ip))
    }

    fn space(&self, _: Option<u64>) -> u32 {
        0
    }
}

fn hex(text: &str) -> u64 {
    u64::from_str_radix(text, 16).unwrap_or_else(|_| panic!("'{text}' is not a hex number"))
}

impl Case {
    fn parse(text: &str) -> Self {
        let mut case = Self::default();
        let mut section = "code";
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            match (section, line) {
                (_, "packets" | "flow") => section = line,
                ("packets", _) => case.packet(line),
                ("flow", _) => case.flow.push(line.to_owned()),
                _ => case.setting(line),
            }
        }
        case
    }

    fn setting(&mut self, line: &str) {
        if let Some(names) = line.strip_prefix("errata ") {
            let named = |name| Erratum::ALL.into_iter().find(|erratum| erratum.name() == name);
            self.errata = names.split(' ').map(|name| named(name).expect("an erratum")).collect();
        } else if let Some((start, name)) = line.strip_prefix("function ").and_then(|f| f.split_once(' ')) {
            self.functions.push((hex(start), name.to_owned()));
        } else {
            let (at, rest) = line.split_once(": ").expect("ADDRESS: BYTES  TEXT");
            let (bytes, text) = rest.split_once("  ").expect("two blanks between bytes and text");
            self.instruction(hex(at), bytes.split(' ').map(|byte| hex(byte) as u8).collect(), text.trim());
        }
    }

    fn instruction(&mut self, at: u64, bytes: Vec<u8>, text: &str) {
        let instruction = Decoder::with_ip(64, &bytes, at, DecoderOptions::NONE).decode();
        let mut formatted = String::new();
        let mut formatter = IntelFormatter::new();
        formatter.options_mut().set_branch_leading_zeros(false);
        formatter.format(&instruction, &mut formatted);
        assert_eq!(formatted, text, "at {at:#x}");
        match self.code.last_mut().filter(|(start, bytes)| start + bytes.len() as u64 == at) {
            Some((_, piece)) => piece.extend(bytes),
            None => self.code.push((at, bytes)),
        }
    }

    fn packet(&mut self, line: &str) {
        let mut words = line.split(' ');
        let name = words.next().unwrap_or_default();
        let rest: Vec<&str> = words.collect();
        if name == "raw" {
            self.trace.extend(rest.iter().map(|byte| hex(byte) as u8));
            return;
        }
        let packet = packet(name, &rest).unwrap_or_else(|| panic!("'{line}' is not a packet"));
        encode(&packet, &mut self.trace);
    }

    fn decode(&self) -> Vec<String> {
        let params = TimeParams { tsc_per_ctc: (200, 2), mtc_shift: 3, max_nonturbo_ratio: 25 };
        let mut cache = BlockCache::new();
        let mut flow = Flow::new(&self.trace, 0, params, &mut cache).with_errata(Errata::of(&self.errata));
        let mut lines = Vec::new();
        flow.run(self, self.trace.len(), &mut |event| lines.push(self.line(event)));
        lines.push(format!("{} instructions", flow.instructions()));
        lines
    }

    fn line(&self, event: &FlowEvent) -> String {
        let to = match event.unit.checked_sub(1) {
            Some(unit) if event.to != 0 => {
                let start = if event.at_start { "" } else { "+" };
                format!(" -> {:x} {}{start}", event.to, self.functions[unit as usize].1)
            }
            _ if event.to != 0 => format!(" -> {:x}", event.to),
            _ => String::new(),
        };
        let from = if event.from == 0 { String::new() } else { format!(" {:x}", event.from) };
        let what = match event.what {
            FlowKind::Gap(gap) => format!("gap {gap:?}"),
            what => format!("{what:?}").to_lowercase(),
        };
        format!("{} {what}{from}{to}", event.tsc.map_or("-".to_owned(), |tsc| tsc.to_string()))
    }
}

fn packet(name: &str, rest: &[&str]) -> Option<Packet> {
    let number = |at: usize| rest.get(at).map(|text| hex(text));
    let byte = |at: usize| number(at).map(|number| number as u8);
    let fup = rest.contains(&"fup");
    let ip = || match rest.first().copied() {
        Some("none") => Some(Ip::NONE),
        Some(text) => Some(Ip { ip_bytes: 6, payload: hex(text) }),
        None => None,
    };
    Some(match name {
        "pad" => Packet::Pad { count: byte(0)?.into() },
        "psb" => Packet::Psb,
        "psbend" => Packet::PsbEnd,
        "ovf" => Packet::Ovf,
        "stop" => Packet::TraceStop,
        "tnt" => {
            let letters = rest.first()?;
            let bits = letters.bytes().fold(0, |bits, letter| bits << 1 | u64::from(letter == b't'));
            Packet::Tnt { bits, count: letters.len() as u8 }
        }
        "tip" => Packet::Tip(ip()?),
        "pge" => Packet::TipPge(ip()?),
        "pgd" => Packet::TipPgd(ip()?),
        "fup" => Packet::Fup(ip()?),
        "pip" => Packet::Pip { cr3: number(0)?, non_root: false },
        "tsc" => Packet::Tsc(number(0)?),
        "tma" => Packet::Tma { ctc: number(0)? as u16, fast: number(1)? as u16 },
        "mtc" => Packet::Mtc(byte(0)?),
        "cyc" => Packet::Cyc(number(0)?),
        "cbr" => Packet::Cbr(byte(0)?),
        "exec" => Packet::ModeExec { bits: rest.first()?.parse().ok()?, interrupts: false },
        "tsx" => Packet::ModeTsx { in_tx: rest.contains(&"in"), abort: rest.contains(&"abort") },
        "vmcs" => Packet::Vmcs(number(0)?),
        "mnt" => Packet::Mnt(number(0)?),
        "ptw" => Packet::Ptw { value: number(0)?, bytes: 8, fup },
        "exstop" => Packet::Exstop { fup },
        "mwait" => Packet::Mwait { hints: byte(0)?, extensions: byte(1)? },
        "pwre" => Packet::Pwre { hardware: false, state: byte(0)?, sub_state: byte(1)? },
        "pwrx" => Packet::Pwrx { last: byte(0)?, deepest: byte(1)?, reason: byte(2)? },
        "bbp" => Packet::Bbp { short: false, kind: byte(0)? },
        "bip" => Packet::Bip { id: byte(0)?, value: number(1)?, short: false },
        "bep" => Packet::Bep { fup },
        "cfe" => Packet::Cfe { kind: byte(0)?, vector: byte(1)?, fup },
        "evd" => Packet::Evd { kind: byte(0)?, value: number(1)? },
        _ => return None,
    })
}

#[test]
fn every_case_gives_the_flow_in_its_file() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let bless = std::env::var_os("TALLY_BLESS").is_some();
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("the cases").map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    let mut wrong = Vec::new();
    for path in &files {
        let text = std::fs::read_to_string(path).expect("a text");
        let case = Case::parse(&text);
        let flow = case.decode();
        if bless {
            let head = text.split("\nflow\n").next().unwrap_or_default();
            std::fs::write(path, format!("{head}\nflow\n{}\n", flow.join("\n"))).expect("it can be written");
        } else if flow != case.flow {
            wrong.push(format!("{}: {:#?} instead of {:#?}", path.display(), flow, case.flow));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_packet_occurs_in_some_case() {
    const NAMES: [&str; 30] = [
        "pad", "psb", "psbend", "ovf", "stop", "tnt", "tip", "pge", "pgd", "fup", "pip", "tsc", "tma", "mtc",
        "cyc", "cbr", "exec", "tsx", "vmcs", "mnt", "ptw", "exstop", "mwait", "pwre", "pwrx", "bbp", "bip",
        "bep", "cfe", "evd",
    ];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let files = std::fs::read_dir(folder).expect("the cases").map(|entry| entry.expect("a file").path());
    let text: String = files.map(|path| std::fs::read_to_string(path).expect("a text")).collect();
    let first_words: Vec<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    for name in NAMES {
        assert!(first_words.contains(&name), "no case has a packet '{name}'");
    }
}

#[test]
fn every_erratum_has_a_case_with_it_and_its_name() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    for erratum in Erratum::ALL {
        let path = folder.join(format!("erratum-{}.ptt", erratum.name().to_lowercase()));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|_| panic!("{} is missing", path.display()));
        assert!(Case::parse(&text).errata.contains(&erratum), "{}", path.display());
    }
}
