//! The real terminal: raw mode, the loop of keys, updates and pictures, and an end that leaves it as it was.

mod end_signal;

pub use end_signal::EndSignal;

use super::{Error, ViewUpdate};
use crossterm::event::{
    self, DisableMouseCapture, EnableMouseCapture, Event, KeyEvent, KeyEventKind, MouseEvent,
};
use crossterm::execute;
use display::term;
use ratatui::buffer::Buffer;
use ratatui::{DefaultTerminal, Frame};
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

/// Longest wait for a key before updates and signals are looked at.
const TICK: Duration = Duration::from_millis(50);

/// Whether a screen can be shown: input and output are a terminal that isn't dumb.
#[must_use]
pub fn is_usable() -> bool {
    let is_terminal = io::stdout().is_terminal() && io::stdin().is_terminal();
    is_terminal && std::env::var_os("TERM").is_some_and(|term| term != "dumb")
}

/// A program that fills the terminal.
pub trait Screen {
    /// Takes a key.
    fn key(&mut self, key: KeyEvent);
    /// Takes the mouse.
    fn mouse(&mut self, event: MouseEvent);
    /// Draws everything.
    fn draw(&mut self, frame: &mut Frame<'_>);
    /// True when the user has left.
    fn wants_to_quit(&self) -> bool;
    /// Takes an update.
    ///
    /// # Errors
    /// The failure, if the update is one.
    fn take(&mut self, _update: ViewUpdate) -> Result<(), Error> {
        Ok(())
    }
    /// No more updates will come.
    fn end_of_updates(&mut self) {}
}

/// Runs until the user leaves, or a signal ends it: then the code is that of a shell. The terminal is restored on
/// every way out, a panic included.
///
/// # Errors
/// If the terminal can't be used, or their source has failed.
pub fn run(
    app: &mut impl Screen,
    updates: Option<&Receiver<ViewUpdate>>,
    signal: &EndSignal,
) -> Result<ExitCode, Error> {
    let mut terminal = ratatui::try_init().map_err(Error::Unusable)?;
    let mouse = Mouse::capture();
    let result = events(&mut terminal, app, updates, signal);
    drop(mouse);
    ratatui::restore();
    result?;
    let code = signal.came().and_then(|number| u8::try_from(128 + number).ok());
    Ok(code.map_or(ExitCode::SUCCESS, ExitCode::from))
}

/// Restores the terminal of a program that is busy, or blocked by its terminal: raw mode ends at once, and the screen is
/// restored if that takes no longer than `patience`.
pub fn restore_within(patience: Duration) {
    let _ = crossterm::terminal::disable_raw_mode();
    let (done, ended) = std::sync::mpsc::channel();
    let restorer = std::thread::Builder::new().spawn(move || {
        ratatui::restore();
        done.send(())
    });
    if restorer.is_ok() {
        let _ = ended.recv_timeout(patience);
    }
}

/// The terminal reports the mouse until this is dropped.
struct Mouse(());

impl Mouse {
    fn capture() -> Self {
        // A program whose panics end it at once drops nothing.
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            drop(Self(()));
            usual(panic);
        }));
        // A terminal without a mouse ignores it.
        let _ = execute!(io::stdout(), EnableMouseCapture);
        Self(())
    }
}

impl Drop for Mouse {
    fn drop(&mut self) {
        let _ = execute!(io::stdout(), DisableMouseCapture);
    }
}

fn events(
    terminal: &mut DefaultTerminal,
    app: &mut impl Screen,
    mut updates: Option<&Receiver<ViewUpdate>>,
    signal: &EndSignal,
) -> Result<(), Error> {
    let mut changed = true;
    while !app.wants_to_quit() && signal.came().is_none() {
        if std::mem::take(&mut changed) {
            terminal.draw(|frame| {
                app.draw(frame);
                if term::is_ascii() {
                    spell_in_ascii(frame.buffer_mut());
                }
            })?;
        }
        let mut wait = TICK;
        // Keys that wait already are taken before the next picture: a held key doesn't fall back.
        while event::poll(wait)? {
            changed = true;
            wait = Duration::ZERO;
            // A new size is drawn by the next turn, as is anything else.
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => app.key(key),
                Event::Mouse(mouse) => app.mouse(mouse),
                _ => {}
            }
            if app.wants_to_quit() {
                return Ok(());
            }
        }
        while let Some(feed) = updates {
            match feed.try_recv() {
                Ok(item) => app.take(item)?,
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    updates = None;
                    app.end_of_updates();
                }
            }
            changed = true;
        }
    }
    Ok(())
}

/// Our own characters by one of ASCII each.
fn spell_in_ascii(buffer: &mut Buffer) {
    for cell in &mut buffer.content {
        let own = cell.symbol().chars().next().and_then(term::in_ascii);
        if let Some(c) = own.and_then(|ascii| ascii.chars().next_back()) {
            cell.set_char(c);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::layout::Rect;

    #[test]
    fn each_character_of_ours_becomes_one_of_ascii() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 4, 1));
        buffer.set_string(0, 0, "█→…ß", ratatui::style::Style::new());
        spell_in_ascii(&mut buffer);
        let text: String = buffer.content.iter().map(ratatui::buffer::Cell::symbol).collect();
        assert_eq!(text, "#>.ß");
    }
}
