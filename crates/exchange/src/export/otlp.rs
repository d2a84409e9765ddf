//! OpenTelemetry's profiles signal: one message of `ProfilesData`, whose bytes a collector takes as an export request.
//
// Source: github.com/open-telemetry/opentelemetry-proto opentelemetry/proto/profiles/v1development/profiles.proto (1.9 and
// later: stacks in a table of their own). Each table begins with an empty entry, for "none".

use super::message::{Message, packed};
use super::pprof::{address_of, build_id_text, program_of, range_of};
use super::samples::{SampleSet, ValueUnit, ValuedStack};
use super::texts::Texts;
use crate::fleet::Ledger;
use profile::profile::TaskId;
use profile::view::wall::Part;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Where a recording comes from.
#[derive(Clone, Copy, Debug, Default)]
pub struct OtlpSource<'a> {
    /// The machine; empty if unknown.
    pub host: &'a str,
    /// When recording began, ns since 1970.
    pub start_unix_ns: u64,
    /// Cost of the agent that recorded, if one did.
    pub agent: Option<&'a Ledger>,
}

/// Fields of a dictionary.
mod dictionary {
    pub const MAPPING: u64 = 1;
    pub const LOCATION: u64 = 2;
    pub const FUNCTION: u64 = 3;
    pub const LINK: u64 = 4;
    pub const STRING: u64 = 5;
    pub const ATTRIBUTE: u64 = 6;
    pub const STACK: u64 = 7;
}

/// Which number of a stack a profile is of: each has one only.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Measure {
    Samples,
    Value,
    /// The part of the wall clock off the CPU.
    OffCpu,
}

/// A kind of value, by its place among the set's, and the number of it that a profile has.
#[derive(Clone, Copy)]
struct MeasuredKind {
    at: usize,
    measure: Measure,
}

/// Writes all of `samples`.
///
/// # Errors
/// If writing fails.
pub fn write(mut out: impl Write, samples: &SampleSet<'_>, source: &OtlpSource<'_>) -> io::Result<()> {
    let mut tables = Tables::default();
    // The service is the program in most stacks: the recorded command may be a script.
    let service = program_of(samples).map_or("", |id| samples.profile.dsos.of(id).short_name.as_str());
    let stacks: Vec<&ValuedStack> = samples.stacks.iter().collect();
    let profiles = profiles_of(samples, &stacks, source, &mut tables);
    let resource = Message::default().message(1, &resource_of(service, source)).message(2, &profiles);
    let dictionary = tables.dictionary(samples);
    let file = Message::default().message(1, &resource).message(2, &dictionary);
    out.write_all(&file.0)?;
    out.flush()
}

/// Writes all of `samples`, with a resource for each service in them. `service_of` is asked once for each thread.
///
/// # Errors
/// If writing fails.
pub fn write_services(
    mut out: impl Write,
    samples: &SampleSet<'_>,
    source: &OtlpSource<'_>,
    mut service_of: impl FnMut(TaskId) -> String,
) -> io::Result<()> {
    let mut services: FxHashMap<TaskId, String> = FxHashMap::default();
    let mut of_services: BTreeMap<String, Vec<&ValuedStack>> = BTreeMap::new();
    for stack in &samples.stacks {
        let service = services.entry(stack.task).or_insert_with(|| service_of(stack.task));
        of_services.entry(service.clone()).or_default().push(stack);
    }
    let (mut tables, mut file) = (Tables::default(), Message::default());
    for (service, stacks) in &of_services {
        let profiles = profiles_of(samples, stacks, source, &mut tables);
        let resource = resource_of(service, source);
        let resource = match source.agent {
            Some(ledger) => with_agent(resource, ledger),
            None => resource,
        };
        file = file.message(1, &Message::default().message(1, &resource).message(2, &profiles));
    }
    out.write_all(&file.message(2, &tables.dictionary(samples)).0)?;
    out.flush()
}

/// A profile for each number that stacks have.
fn profiles_of(
    samples: &SampleSet<'_>,
    stacks: &[&ValuedStack],
    source: &OtlpSource<'_>,
    tables: &mut Tables,
) -> Message {
    let mut scope = Message::default().message(1, &scope_of_tally());
    for (at, kind) in samples.kinds.iter().enumerate() {
        let of_kind: Vec<&ValuedStack> = stacks.iter().copied().filter(|stack| stack.kind == at).collect();
        let first = if kind.is_wall { Measure::OffCpu } else { Measure::Samples };
        for measure in [Measure::Value, first] {
            let of = MeasuredKind { at, measure };
            scope = scope.message(2, &profile_of(samples, of, &of_kind, tables).of(source));
        }
    }
    scope
}

/// The cost of the agent since it began, and the rounds it left out.
fn with_agent(resource: Message, ledger: &Ledger) -> Message {
    let numbers = [
        ("tally.agent.cpu_ns", ledger.agent_cpu_ns),
        ("tally.agent.age_ns", ledger.agent_age_ns),
        ("tally.agent.left_out", ledger.left_out),
    ];
    numbers.iter().fold(resource, |resource, (key, number)| {
        let value = Message::default().number(3, *number);
        resource.message(1, &Message::default().bytes(1, key.as_bytes()).message(2, &value))
    })
}

fn scope_of_tally() -> Message {
    Message::default().bytes(1, b"tally").bytes(2, env!("CARGO_PKG_VERSION").as_bytes())
}

fn resource_of(service: &str, source: &OtlpSource<'_>) -> Message {
    let named = [("service.name", service), ("host.name", source.host)];
    named.iter().filter(|(_, text)| !text.is_empty()).fold(Message::default(), |resource, (key, text)| {
        let value = Message::default().bytes(1, text.as_bytes());
        resource.message(1, &Message::default().bytes(1, key.as_bytes()).message(2, &value))
    })
}

/// A profile without the time it was taken.
struct UntimedProfile {
    message: Message,
    duration_ns: u64,
}

impl UntimedProfile {
    fn of(self, source: &OtlpSource<'_>) -> Message {
        let timed = if source.start_unix_ns > 0 {
            self.message.fixed64(3, source.start_unix_ns)
        } else {
            self.message
        };
        timed.number(4, self.duration_ns)
    }
}

fn profile_of(
    samples: &SampleSet<'_>,
    MeasuredKind { at, measure }: MeasuredKind,
    stacks: &[&ValuedStack],
    tables: &mut Tables,
) -> UntimedProfile {
    let kind = &samples.kinds[at];
    let (name, unit) = match measure {
        Measure::Value => (kind.name.clone(), kind.unit),
        Measure::OffCpu => ("off_cpu".to_owned(), ValueUnit::Nanoseconds),
        // Readers know the samples of the processor's time by this name.
        Measure::Samples if kind.name == "cpu" => ("samples".to_owned(), ValueUnit::Count),
        Measure::Samples => (format!("{}_samples", kind.name), ValueUnit::Count),
    };
    let of_type =
        Message::default().number(1, tables.texts.id(&name)).number(2, tables.texts.id(unit.name()));
    let mut message = Message::default().message(1, &of_type);
    for stack in stacks {
        let value = match measure {
            Measure::Samples => stack.samples,
            Measure::Value => stack.value,
            Measure::OffCpu if stack.part == Some(Part::On) => 0,
            Measure::OffCpu => stack.value,
        };
        if value > 0 {
            message = message.message(2, &tables.sample(samples, stack, value));
        }
    }
    let duration_ns = samples.profile.time_span_ns.map_or(0, |(first, last)| last.saturating_sub(first));
    UntimedProfile { message, duration_ns }
}

/// Tables that samples refer to.
#[derive(Default)]
struct Tables {
    texts: Texts,
    /// Without the empty first one.
    stacks: Vec<Vec<u64>>,
    stack_ids: FxHashMap<Vec<u64>, u64>,
    attributes: Vec<Message>,
    attribute_ids: FxHashMap<(&'static str, Attribute), u64>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Attribute {
    Text(String),
    Number(i64),
}

impl Tables {
    fn sample(&mut self, samples: &SampleSet<'_>, stack: &ValuedStack, value: u64) -> Message {
        let path: Vec<u64> = samples.path(stack).map(|location| location as u64 + 1).collect();
        let next = self.stacks.len() as u64 + 1;
        let id = *self.stack_ids.entry(path).or_insert_with_key(|path| {
            self.stacks.push(path.clone());
            next
        });
        let task = samples.profile.task(stack.task);
        let mut attributes = vec![
            self.attribute("thread.name", Attribute::Text(samples.comm(stack.task).to_owned())),
            self.attribute("thread.id", Attribute::Number(i64::from(task.tid))),
            self.attribute("process.pid", Attribute::Number(i64::from(task.pid))),
        ];
        if let Some(state) = samples.state(stack) {
            attributes.push(self.attribute("thread.state", Attribute::Text(state.to_owned())));
        }
        Message::default().number(1, id).bytes(2, &packed(attributes)).bytes(4, &packed([value]))
    }

    fn attribute(&mut self, key: &'static str, value: Attribute) -> u64 {
        let next = self.attributes.len() as u64 + 1;
        let known = (key, value);
        if let Some(&id) = self.attribute_ids.get(&known) {
            return id;
        }
        let content = match &known.1 {
            Attribute::Text(text) => Message::default().bytes(1, text.as_bytes()),
            Attribute::Number(number) => Message::default().number(3, number.cast_unsigned()),
        };
        self.attributes.push(Message::default().number(1, self.texts.id(key)).message(2, &content));
        self.attribute_ids.insert(known, next);
        next
    }

    fn dictionary(mut self, samples: &SampleSet<'_>) -> Message {
        let mut file = Message::default().message(dictionary::MAPPING, &Message::default());
        for (id, dso) in samples.profile.dsos.iter() {
            let (start, limit) = range_of(samples.profile, id);
            let path = self.texts.id(&dso.path);
            let mut mapping = Message::default().number(1, start).number(2, limit).number(4, path);
            let build_id = build_id_text(dso);
            if !build_id.is_empty() {
                let id = self.attribute("process.executable.build_id.gnu", Attribute::Text(build_id));
                mapping = mapping.bytes(5, &packed([id]));
            }
            file = file.message(dictionary::MAPPING, &mapping);
        }
        file = file.message(dictionary::LOCATION, &Message::default());
        for location in &samples.locations {
            let mut message = Message::default();
            if let Some(frame) = location.frame {
                let mapping = samples.profile.frames.of(frame).dso.index() as u64 + 1;
                message = message.number(1, mapping).number(2, address_of(samples.profile, frame));
            }
            for line in &location.lines {
                let numbers = Message::default().number(1, line.function as u64 + 1);
                message = message.message(3, &numbers.number(2, u64::from(line.line)));
            }
            file = file.message(dictionary::LOCATION, &message);
        }
        file = file.message(dictionary::FUNCTION, &Message::default());
        for function in &samples.functions {
            let (name, source) = (self.texts.id(&function.name), self.texts.id(&function.file));
            file = file.message(
                dictionary::FUNCTION,
                &Message::default().number(1, name).number(2, name).number(3, source),
            );
        }
        file = file.message(dictionary::LINK, &Message::default());
        file = file.message(dictionary::ATTRIBUTE, &Message::default());
        file = self
            .attributes
            .iter()
            .fold(file, |file, attribute| file.message(dictionary::ATTRIBUTE, attribute));
        file = file.message(dictionary::STACK, &Message::default());
        for path in &self.stacks {
            let stack = Message::default().bytes(1, &packed(path.iter().copied()));
            file = file.message(dictionary::STACK, &stack);
        }
        self.texts.list.iter().fold(file, |file, text| file.bytes(dictionary::STRING, text.as_bytes()))
    }
}
