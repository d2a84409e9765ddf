//! The program as the loop of keys, updates and pictures sees it.

use super::App;
use crate::terminal::Screen;
use crate::{Error, ViewUpdate};
use crossterm::event::{KeyEvent, MouseEvent};
use ratatui::Frame;

impl Screen for App {
    fn key(&mut self, key: KeyEvent) {
        self.key(key);
    }

    fn mouse(&mut self, event: MouseEvent) {
        self.mouse(event);
    }

    fn draw(&mut self, frame: &mut Frame<'_>) {
        self.draw(frame);
    }

    fn wants_to_quit(&self) -> bool {
        self.wants_to_quit()
    }

    fn take(&mut self, update: ViewUpdate) -> Result<(), Error> {
        self.take(update)
    }

    fn end_of_updates(&mut self) {
        self.end_of_updates();
    }
}
