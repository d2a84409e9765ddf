//! The real terminal: raw mode, the loop of keys and pictures, and an end that leaves it as it was.

use super::App;
use anyhow::Context;
use crossterm::event::{self, Event, KeyEventKind};
use ratatui::DefaultTerminal;
use std::io::IsTerminal;
use std::time::Duration;

/// How often the program looks whether its terminal is still there.
const WATCH: Duration = Duration::from_millis(500);

/// Runs until the user leaves. The terminal is restored on every way out, a panic included.
pub fn run(mut app: App<'_>) -> anyhow::Result<()> {
    let mut terminal = ratatui::try_init().context("can't use the terminal (--stdio prints text)")?;
    watch();
    let result = events(&mut terminal, &mut app);
    ratatui::restore();
    result
}

fn events(terminal: &mut DefaultTerminal, app: &mut App<'_>) -> anyhow::Result<()> {
    while !app.wants_to_quit() {
        terminal.draw(|frame| app.draw(frame))?;
        match event::read()? {
            Event::Key(key) if key.kind != KeyEventKind::Release => app.key(key),
            // A new size is drawn by the next turn, as is anything else.
            _ => {}
        }
    }
    Ok(())
}

/// Ends the program when its terminal has gone: reading from it would return at once, forever. (SIGHUP does the
/// same, unless it is ignored.)
fn watch() {
    std::thread::spawn(|| {
        loop {
            std::thread::sleep(WATCH);
            // isatty fails on a terminal whose other side is closed.
            if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
                std::process::exit(129);
            }
        }
    });
}
