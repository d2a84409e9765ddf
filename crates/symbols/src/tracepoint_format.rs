//! Payloads of tracepoints as text, by the formats that the file brings along.

use perfdata::PerfData;
use perfdata::abi::PERF_TYPE_TRACEPOINT;
use perfdata::tracepoint::{Format, TracepointFormats};
use profile::session::TraceText;

/// The formats of one file's tracepoints.
pub struct FileFormats {
    formats: TracepointFormats,
    /// Tracepoint id of each event of the file; `None` for other events.
    ids: Vec<Option<u64>>,
    /// Texts are the fields one by one, not what the kernel prints.
    raw: bool,
}

impl FileFormats {
    /// `None` if the file has no formats.
    pub fn of(file: &PerfData<'_>) -> Option<Self> {
        let formats = TracepointFormats::new(file.features().tracing_data.as_ref()?);
        let id = |attr: &perfdata::Attr| (attr.type_ == PERF_TYPE_TRACEPOINT).then_some(attr.config);
        Some(Self { formats, ids: file.events().iter().map(|e| id(&e.attr)).collect(), raw: false })
    }

    /// Texts will be the fields one by one (`--raw-trace`).
    pub fn by_field(self) -> Self {
        Self { raw: true, ..self }
    }

    /// Text that the kernel would print.
    fn printed(&self, event: usize, raw: &[u8]) -> Option<String> {
        let mut text = String::new();
        self.format(event)?.print(raw, &mut text);
        Some(text)
    }

    fn format(&self, event: usize) -> Option<&Format> {
        self.formats.of((*self.ids.get(event)?)?)
    }
}

impl TraceText for FileFormats {
    fn number(&self, event: usize, raw: &[u8], name: &str) -> Option<i64> {
        let format = self.format(event)?;
        let field = format.field(name)?;
        if field.is_count() {
            return Some(format.number(field, raw).cast_signed());
        }
        let value = format.value(field, raw);
        value.parse().ok().or_else(|| value.parse::<u64>().ok().map(u64::cast_signed))
    }

    fn text(&self, event: usize, raw: &[u8]) -> Option<String> {
        if !self.raw {
            return self.printed(event, raw);
        }
        let fields = self.format(event)?.values(raw);
        Some(fields.iter().map(|(name, value)| format!(" {name}={value}")).collect())
    }

    fn field(&self, event: usize, raw: &[u8], name: &str) -> Option<String> {
        let format = self.format(event)?;
        let value = format.value(format.field(name)?, raw);
        if value.parse::<i64>().is_err() {
            return Some(value);
        }
        // A number may have a name in the printed text (`prev_state=S`): that is what perf shows.
        Some(format.print_word(name, raw).unwrap_or(value))
    }
}
