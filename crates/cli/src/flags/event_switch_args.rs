//! `--switch-on` and `--switch-off`: only what is between two events.

use anyhow::Context;
use perfdata::Event;
use profile::session::EventSwitch;

/// For commands that read samples of a file.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct EventSwitchArgs {
    /// Only from this event of the file on
    #[arg(long, value_name = "EVENT")]
    pub switch_on: Option<String>,
    /// Only up to this event of the file
    #[arg(long, value_name = "EVENT")]
    pub switch_off: Option<String>,
    /// The events of --switch-on and --switch-off, too
    #[arg(long)]
    pub show_on_off_events: bool,
}

impl EventSwitchArgs {
    /// For a file with these events.
    ///
    /// # Errors
    /// It has no such event.
    pub fn of(&self, events: &[Event]) -> anyhow::Result<EventSwitch> {
        let index = |flag: &str, name: &Option<String>| -> anyhow::Result<Option<usize>> {
            let Some(name) = name else { return Ok(None) };
            let found = events.iter().position(|event| event.name == *name);
            let known = || events.iter().map(|event| event.name.as_str()).collect::<Vec<_>>().join(" ");
            Ok(Some(found.with_context(|| {
                format!("{flag}: no event '{name}' in the file (its events: {})", known())
            })?))
        };
        let on = index("--switch-on", &self.switch_on)?;
        let off = index("--switch-off", &self.switch_off)?;
        Ok(EventSwitch::new(on, off, self.show_on_off_events))
    }
}
