//! Signals that begin or stop recording: `--signal SIGUSR1@trace_on`.

use crate::error::bail;

/// A signal and what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceSwitch {
    number: u32,
    on: bool,
}

/// Names of signals that programs leave to others, as signal(7) has them for x86-64 and aarch64.
const NAMES: [(&str, u32); 12] = [
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("USR1", 10),
    ("USR2", 12),
    ("ALRM", 14),
    ("TERM", 15),
    ("URG", 23),
    ("VTALRM", 26),
    ("PROF", 27),
    ("WINCH", 28),
    ("IO", 29),
];

impl TraceSwitch {
    /// Reads `SIGNAL@WHAT`.
    ///
    /// # Errors
    /// If it is none.
    pub fn parse(text: &str) -> crate::Result<Self> {
        let Some((signal, what)) = text.split_once('@') else {
            bail!("--signal {text}: it is SIGNAL@trace_on or SIGNAL@trace_off");
        };
        let on = match what {
            "trace_on" | "traceon" => true,
            "trace_off" | "traceoff" => false,
            _ => bail!("--signal {text}: a signal does trace_on or trace_off"),
        };
        let short = signal.strip_prefix("SIG").unwrap_or(signal);
        let named = NAMES.iter().find(|(name, _)| *name == short).map(|(_, number)| *number);
        match named.or_else(|| short.parse().ok()).filter(|number| (1..=64).contains(number)) {
            Some(number) => Ok(Self { number, on }),
            None => bail!("--signal {text}: no signal is called so; try SIGUSR1, or its number"),
        }
    }

    /// As the tracer reads it: the number twice, and one more if it begins recording.
    #[must_use]
    pub fn word(&self) -> String {
        (self.number * 2 + u32::from(self.on)).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::TraceSwitch;

    #[test]
    fn signals_are_names_or_numbers() {
        let usr1 = TraceSwitch::parse("SIGUSR1@trace_on").unwrap();
        assert_eq!((usr1, usr1.word()), (TraceSwitch { number: 10, on: true }, "21".to_owned()));
        assert_eq!(TraceSwitch::parse("34@trace_off").unwrap(), TraceSwitch { number: 34, on: false });
        for wrong in ["SIGUSR1", "SIGUSR1@depth=1", "SIGNONE@trace_on", "65@trace_on"] {
            assert!(TraceSwitch::parse(wrong).is_err(), "{wrong}");
        }
    }
}
