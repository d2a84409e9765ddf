//! Which fields are shown: `-F`, and what perf shows by itself for each type of event.

use anyhow::bail;
use perfdata::Event;
use perfdata::abi::*;

/// One field of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of -F")]
pub enum ScriptField {
    Comm,
    Tid,
    Pid,
    Time,
    Cpu,
    Event,
    Trace,
    Ip,
    Sym,
    Symoff,
    Dso,
    Addr,
    Srcline,
    Period,
    Iregs,
    Uregs,
    Brstack,
    Brstacksym,
    Brstackoff,
    DataSrc,
    Weight,
    PhysAddr,
    DataPageSize,
    CodePageSize,
    Flags,
    Misc,
    InsLat,
    Cgroup,
    Label,
    /// Not of `-F`: source files with their folders (`--full-source-path`).
    SourceFolders,
}

/// All fields by their name in `-F`, with the `PERF_SAMPLE_*` bit the event needs for it.
const NAMES: [(&str, ScriptField, u64); 29] = [
    ("comm", ScriptField::Comm, 0),
    ("tid", ScriptField::Tid, PERF_SAMPLE_TID),
    ("pid", ScriptField::Pid, PERF_SAMPLE_TID),
    ("time", ScriptField::Time, PERF_SAMPLE_TIME),
    ("cpu", ScriptField::Cpu, PERF_SAMPLE_CPU),
    ("event", ScriptField::Event, 0),
    ("trace", ScriptField::Trace, PERF_SAMPLE_RAW),
    ("ip", ScriptField::Ip, PERF_SAMPLE_IP),
    ("sym", ScriptField::Sym, 0),
    ("symoff", ScriptField::Symoff, 0),
    ("dso", ScriptField::Dso, 0),
    ("addr", ScriptField::Addr, PERF_SAMPLE_ADDR),
    ("srcline", ScriptField::Srcline, 0),
    ("period", ScriptField::Period, 0),
    ("iregs", ScriptField::Iregs, PERF_SAMPLE_REGS_INTR),
    ("uregs", ScriptField::Uregs, PERF_SAMPLE_REGS_USER),
    ("brstack", ScriptField::Brstack, PERF_SAMPLE_BRANCH_STACK),
    ("brstacksym", ScriptField::Brstacksym, PERF_SAMPLE_BRANCH_STACK),
    ("brstackoff", ScriptField::Brstackoff, PERF_SAMPLE_BRANCH_STACK),
    ("data_src", ScriptField::DataSrc, PERF_SAMPLE_DATA_SRC),
    ("weight", ScriptField::Weight, PERF_SAMPLE_WEIGHT | PERF_SAMPLE_WEIGHT_STRUCT),
    ("phys_addr", ScriptField::PhysAddr, PERF_SAMPLE_PHYS_ADDR),
    ("data_page_size", ScriptField::DataPageSize, PERF_SAMPLE_DATA_PAGE_SIZE),
    ("code_page_size", ScriptField::CodePageSize, PERF_SAMPLE_CODE_PAGE_SIZE),
    ("flags", ScriptField::Flags, 0),
    ("misc", ScriptField::Misc, 0),
    ("ins_lat", ScriptField::InsLat, PERF_SAMPLE_WEIGHT_STRUCT),
    ("cgroup", ScriptField::Cgroup, PERF_SAMPLE_CGROUP),
    ("label", ScriptField::Label, PERF_SAMPLE_CALLCHAIN),
];

/// perf's fields that are not there, and what is.
const ABSENT: [(&str, &str); 14] = [
    ("brstackinsn", BRANCH_CODE),
    ("brstackinsnlen", BRANCH_CODE),
    ("callindent", TRACED),
    ("insn", TRACED),
    ("insnlen", TRACED),
    ("ipc", TRACED),
    ("synth", TRACED),
    ("metric", "`tally stat` prints metrics"),
    ("tod", "times are those of the recording's clock: -F time"),
    ("srccode", "-F srcline names the line, `tally annotate` shows it"),
    ("bpf-output", "-F trace shows the payload"),
    ("machine_pid", "guests are not distinguished"),
    ("vcpu", "guests are not distinguished"),
    ("retire_lat", "-F weight and ins_lat show what the sample holds"),
];

const BRANCH_CODE: &str = "-F brstacksym shows the branches with their functions";
const TRACED: &str = "`tally calls` decodes Intel PT";

/// A set of fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FieldSet(u32);

impl FieldSet {
    /// Whether the field is shown.
    pub fn has(self, field: ScriptField) -> bool {
        self.0 >> (field as u32) & 1 != 0
    }

    fn set(&mut self, field: ScriptField, on: bool) {
        let bit = 1 << (field as u32);
        self.0 = if on { self.0 | bit } else { self.0 & !bit };
    }
}

impl FromIterator<ScriptField> for FieldSet {
    fn from_iter<T: IntoIterator<Item = ScriptField>>(fields: T) -> Self {
        fields.into_iter().fold(Self::default(), |mut set, field| {
            set.set(field, true);
            set
        })
    }
}

/// Fields by type of event, as perf groups them.
#[derive(Clone, Debug)]
pub struct Fields {
    /// hw, sw, trace, cache, raw, breakpoint, other.
    by_type: [FieldSet; 7],
    /// Whether the user gave the type.
    user_set: [bool; 7],
    /// Fields that the user asked for: an event must have all of these.
    asked: [FieldSet; 7],
}

const TYPES: [(&str, usize); 9] = [
    ("hw", 0),
    ("sw", 1),
    ("trace", 2),
    ("hw_cache", 3),
    ("hw-cache", 3),
    ("raw", 4),
    ("break", 5),
    ("synth", 6),
    ("other", 6),
];

fn index_of(type_: u32) -> usize {
    (type_ as usize).min(6)
}

impl Default for Fields {
    fn default() -> Self {
        use ScriptField::{
            Addr, CodePageSize, Comm, Cpu, DataPageSize, DataSrc, Dso, InsLat, Ip, Period, PhysAddr,
        };
        use ScriptField::{Sym, Symoff, Tid, Time, Trace, Weight};
        let base = [Comm, Tid, Cpu, Time, ScriptField::Event];
        let code = base.into_iter().chain([Ip, Sym, Symoff, Dso, Period]).collect::<FieldSet>();
        let memory = [Addr, DataSrc, Weight, PhysAddr, DataPageSize, CodePageSize, InsLat];
        let raw = base.into_iter().chain([Ip, Sym, Symoff, Dso, Period]).chain(memory).collect();
        let trace = base.into_iter().chain([Trace]).collect();
        Self {
            by_type: [code, code, trace, code, raw, code, code],
            user_set: [false; 7],
            asked: [FieldSet::default(); 7],
        }
    }
}

impl Fields {
    /// The fields of an event.
    pub fn of(&self, event: &Event) -> FieldSet {
        self.by_type[index_of(event.attr.type_)]
    }

    /// Shows source files with their folders.
    pub fn show_source_folders(&mut self) {
        self.by_type.iter_mut().for_each(|fields| fields.set(ScriptField::SourceFolders, true));
    }

    /// Takes `-F [TYPE:]a,b,c` or `-F +a,-b`.
    ///
    /// # Errors
    /// An unknown type or field.
    pub fn apply(&mut self, text: &str) -> anyhow::Result<()> {
        let (types, list) = match text.split_once(':') {
            Some((name, list)) => match TYPES.iter().find(|(n, _)| *n == name) {
                Some((_, index)) => (vec![*index], list),
                None => bail!("invalid event type in -F: {name} (one of hw, sw, trace, raw, break, other)"),
            },
            None => ((0..7).collect(), text),
        };
        let relative = list.starts_with(['+', '-']);
        for &t in &types {
            if !relative {
                self.by_type[t] = FieldSet::default();
                self.asked[t] = FieldSet::default();
            }
            self.user_set[t] |= !list.starts_with('-');
        }
        for word in list.split(',').filter(|w| !w.is_empty()) {
            let (on, name) = match word.strip_prefix('-') {
                Some(name) => (false, name),
                None => (true, word.strip_prefix('+').unwrap_or(word)),
            };
            let Some((_, field, _)) = NAMES.iter().find(|(n, _, _)| *n == name) else {
                if let Some((_, instead)) = ABSENT.iter().find(|(n, _)| *n == name) {
                    bail!("-F {name} is not for tally: {instead}");
                }
                let known: Vec<_> = NAMES.iter().map(|(n, _, _)| *n).collect();
                bail!("invalid field in -F: {name} (known: {})", known.join(","));
            };
            for &t in &types {
                // Only tracepoints have a payload with a format.
                if *field != ScriptField::Trace || t == 2 {
                    self.by_type[t].set(*field, on);
                    self.asked[t].set(*field, on);
                }
            }
        }
        Ok(())
    }

    /// Leaves out what the events of the file do not carry, and adds the addresses of tracepoints that have call
    /// chains, as perf does.
    ///
    /// # Errors
    /// A field asked for that an event does not carry.
    pub fn fit(&mut self, events: &[Event], callchains: bool) -> anyhow::Result<()> {
        for event in events {
            let t = index_of(event.attr.type_);
            for (name, field, bits) in NAMES {
                if bits == 0 || !self.by_type[t].has(field) || event.attr.sample_type & bits != 0 {
                    continue;
                }
                let dummy =
                    event.attr.type_ == PERF_TYPE_SOFTWARE && event.attr.config == PERF_COUNT_SW_DUMMY;
                if self.asked[t].has(field) && !dummy {
                    let (event, bit) = (&event.name, name.to_uppercase());
                    bail!(
                        "Samples for '{event}' event do not have {bit} attribute set. Cannot print '{name}' field."
                    );
                }
                if !dummy || !self.asked[t].has(field) {
                    self.by_type[t].set(field, false);
                }
            }
        }
        let traced_chain =
            |e: &Event| e.attr.type_ == PERF_TYPE_TRACEPOINT && e.attr.samples(PERF_SAMPLE_CALLCHAIN);
        if callchains && !self.user_set[2] && events.iter().any(traced_chain) {
            for field in [ScriptField::Ip, ScriptField::Sym, ScriptField::Symoff, ScriptField::Dso] {
                self.by_type[2].set(field, true);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(type_: u32, sample_type: u64) -> Event {
        Event { attr: perfdata::Attr { type_, sample_type, ..Default::default() }, ..Event::default() }
    }

    #[test]
    fn fields_an_event_lacks_are_left_out_unless_asked_for() {
        let events = [event(1, PERF_SAMPLE_IP | PERF_SAMPLE_TID)];
        let mut fields = Fields::default();
        fields.fit(&events, true).unwrap();
        assert!(!fields.of(&events[0]).has(ScriptField::Time) && fields.of(&events[0]).has(ScriptField::Tid));
        let mut fields = Fields::default();
        fields.apply("comm,time").unwrap();
        let error = fields.fit(&events, true).unwrap_err().to_string();
        assert!(error.contains("do not have TIME attribute set"), "{error}");
    }

    #[test]
    fn plus_and_minus_change_the_usual_fields() {
        let mut fields = Fields::default();
        fields.apply("sw:+pid,-time").unwrap();
        let (sw, hw) = (event(1, 0), event(0, 0));
        assert!(fields.of(&sw).has(ScriptField::Pid) && !fields.of(&sw).has(ScriptField::Time));
        assert!(!fields.of(&hw).has(ScriptField::Pid) && fields.of(&hw).has(ScriptField::Time));
        assert!(fields.apply("nonsense").is_err());
    }

    #[test]
    fn only_what_was_asked_for_must_be_there() {
        let events = [event(1, PERF_SAMPLE_IP | PERF_SAMPLE_TID)];
        let mut fields = Fields::default();
        fields.apply("+srcline").unwrap();
        fields.apply("-comm").unwrap();
        fields.fit(&events, true).unwrap();
        let shown = fields.of(&events[0]);
        assert!(
            shown.has(ScriptField::Srcline) && !shown.has(ScriptField::Comm) && !shown.has(ScriptField::Cpu)
        );
        let error = fields.apply("comm,brstackinsn").unwrap_err().to_string();
        assert!(error.contains("brstacksym"), "{error}");
    }
}
