//! Errors of BPF: the kernel's refusals of programs, maps and links.

use crate::machine::capabilities::{self, Rights};

/// The remedy for missing rights.
pub const BPF_RIGHTS: &str = "run as root or with CAP_BPF and CAP_PERFMON";

/// Why the BPF engine does not run here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A lower tier was requested.
    #[error("as asked")]
    NotWanted,
    /// The kernel does not describe its types.
    #[error(
        "no kernel type information (/sys/kernel/btf/vmlinux): {reason}; needs /sys and CONFIG_DEBUG_INFO_BTF=y"
    )]
    NoBtf {
        /// Error of the kernel or the reader.
        reason: String,
    },
    /// The kernel is too old for data that BPF programs keep per thread.
    #[error("Linux {release} can't keep data of BPF programs per thread; 5.11 and later can")]
    OldKernel {
        /// As `uname -r` prints it.
        release: String,
    },
    /// A program was refused.
    #[error("BPF load of {what}: {reason}{denied}")]
    Load {
        /// The program.
        what: &'static str,
        /// Error of the kernel.
        reason: String,
        /// Whether it was a matter of rights.
        denied: Denied,
    },
    /// A program was loaded but could not be hooked in.
    #[error("BPF attach of {program}: {reason}")]
    Attach {
        /// The program.
        program: &'static str,
        /// Error of the kernel.
        reason: String,
    },
    /// A map refused a value.
    #[error("BPF map {map}: {reason}")]
    Map {
        /// The map.
        map: &'static str,
        /// Error of the kernel.
        reason: String,
    },
}

/// The part of the system that denies a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denied {
    /// Nobody: it was refused for another cause.
    No,
    /// The kernel: rights are missing.
    ForRights,
    /// A seccomp filter, for every user.
    ByFilter,
}

impl std::fmt::Display for Denied {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::No => Ok(()),
            Self::ForRights => write!(f, "; {BPF_RIGHTS}"),
            Self::ByFilter => write!(f, "; {}", capabilities::of_filter("bpf")),
        }
    }
}

impl Error {
    /// The recording user lacks rights.
    #[must_use]
    pub fn is_for_rights(&self) -> bool {
        match self {
            Self::Load { denied, .. } => *denied == Denied::ForRights,
            Self::Map { reason, .. } | Self::Attach { reason, .. } => reason.contains("os error 1)"),
            _ => false,
        }
    }

    /// In one line, without the verifier's log; with the remedy if it is rights that are missing.
    #[must_use]
    pub fn short(&self) -> String {
        let names_rights = matches!(self, Self::Load { .. });
        let text = match self.is_for_rights() && !names_rights {
            true => format!("{self}; {BPF_RIGHTS}"),
            false => self.to_string(),
        };
        let line = text.split(" | ").next().unwrap_or(&text);
        line.split(". Verifier output").next().unwrap_or(line).chars().take(300).collect()
    }
}

/// The error for a map.
pub fn map_error(map: &'static str, error: &dyn std::error::Error) -> Error {
    Error::Map { map, reason: chain(error) }
}

/// The error for a program or map that is missing in the object.
pub fn missing(what: &'static str) -> Error {
    Error::Load { what, reason: "not in the object".to_owned(), denied: Denied::No }
}

/// The error for a program or the whole object. For missing rights, the verifier's log is left out.
pub fn load_error(what: &'static str, error: &dyn std::error::Error) -> Error {
    let mut reason = chain(error);
    if let Some(end) = reason.find(" | ").filter(|_| reason.contains("os error 1)")) {
        reason.truncate(end);
    }
    // The verifier also returns "permission denied" for a program that it does not understand.
    let denied = reason.contains("os error 1)")
        || reason.contains("os error 13)") && !reason.contains("Verifier output");
    let rights = denied.then(Rights::own);
    let denied = match rights {
        None => Denied::No,
        Some(rights) if rights.filters_bpf => Denied::ByFilter,
        // All rights are there: the kernel, or a security module, keeps it from everybody.
        Some(rights) if rights.may_bpf() => Denied::No,
        Some(_) => Denied::ForRights,
    };
    Error::Load { what, reason, denied }
}

/// An error and its causes in one line; a verifier's log is cut to its last lines.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    if text.len() > 1500 {
        let start = text.char_indices().rev().nth(1200).map_or(0, |(i, _)| i);
        text = format!("… {}", &text[start..]);
    }
    text.trim().replace('\n', " | ")
}
