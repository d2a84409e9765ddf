//! A line of input at the foot of the screen.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Text being typed.
#[derive(Clone, Debug, Default)]
pub struct TextPrompt {
    /// So far.
    pub text: String,
}

/// Effect of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Typed {
    /// Text changed, or nothing did.
    Going,
    /// Enter.
    Done,
    /// Escape.
    Cancelled,
}

impl TextPrompt {
    /// Takes a key.
    pub fn key(&mut self, key: KeyEvent) -> Typed {
        match key.code {
            KeyCode::Enter => return Typed::Done,
            KeyCode::Esc => return Typed::Cancelled,
            KeyCode::Backspace if self.text.is_empty() => return Typed::Cancelled,
            KeyCode::Backspace => {
                self.text.pop();
            }
            KeyCode::Char('u') if key.modifiers.contains(KeyModifiers::CONTROL) => self.text.clear(),
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Typed::Cancelled,
            KeyCode::Char(c) => self.text.push(c),
            _ => {}
        }
        Typed::Going
    }
}
