//! The letters after an event: `cycles:upp`, `{a,b}:S`.
//
// The rules are perf's: naming one mode (u, k, h) excludes the others, `u` and `p` leave guests out unless G or H is
// given, letters of a group are added to those of its events.

use super::error::Fault;

/// The settings from an event's modifiers and those of its group together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Modifiers {
    pub exclude_user: bool,
    pub exclude_kernel: bool,
    pub exclude_hv: bool,
    pub exclude_host: bool,
    pub exclude_guest: bool,
    pub exclude_idle: bool,
    pub precise: u8,
    pub precise_max: bool,
    pub sample_read: bool,
    pub pinned: bool,
    pub exclusive: bool,
    pub weak: bool,
    pub bpf: bool,
    /// G or H was given, so the guest bits stay as they are.
    guests_said: bool,
}

impl Modifiers {
    /// An event without letters: everything but guests.
    pub(super) fn none() -> Self {
        Self { exclude_guest: true, ..Self::default() }
    }

    /// Takes `letters` in; the error carries the byte offset of the wrong letter.
    pub(super) fn apply(&mut self, letters: &str) -> Result<(), (usize, Fault)> {
        let mut modes_said = self.exclude_user || self.exclude_kernel || self.exclude_hv;
        let mut precise = 0;
        for (at, letter) in letters.char_indices() {
            let repeated = letters[..at].contains(letter);
            if (repeated && letter != 'p') || (letter == 'p' && precise == 3) {
                return Err((at, Fault::RepeatedModifier(letter)));
            }
            match letter {
                'u' | 'k' | 'h' => self.keep_mode(letter, &mut modes_said),
                'G' | 'H' => self.keep_guest(letter),
                'p' => {
                    precise += 1;
                    self.exclude_guest |= !self.guests_said;
                }
                _ => self.flag(letter).ok_or((at, Fault::UnknownModifier(letter)))?,
            }
        }
        self.precise = self.precise.max(precise);
        Ok(())
    }

    fn keep_mode(&mut self, letter: char, modes_said: &mut bool) {
        if !std::mem::replace(modes_said, true) {
            (self.exclude_user, self.exclude_kernel, self.exclude_hv) = (true, true, true);
        }
        match letter {
            'u' => {
                self.exclude_guest |= !self.guests_said;
                self.exclude_user = false;
            }
            'k' => self.exclude_kernel = false,
            _ => self.exclude_hv = false,
        }
    }

    fn keep_guest(&mut self, letter: char) {
        if !std::mem::replace(&mut self.guests_said, true) {
            (self.exclude_guest, self.exclude_host) = (true, true);
        }
        if letter == 'G' { self.exclude_guest = false } else { self.exclude_host = false }
    }

    fn flag(&mut self, letter: char) -> Option<()> {
        let flag = match letter {
            'P' => &mut self.precise_max,
            'S' => &mut self.sample_read,
            'D' => &mut self.pinned,
            'e' => &mut self.exclusive,
            'I' => &mut self.exclude_idle,
            'W' => &mut self.weak,
            'b' => &mut self.bpf,
            _ => return None,
        };
        *flag = true;
        Some(())
    }
}

/// Are these all modifier letters (and at least one)?
pub(super) fn looks_like_modifiers(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| "ukhGHpPSDeIWb".contains(c))
}
