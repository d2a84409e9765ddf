//! Actions of keys, by the view that has them.

use super::{App, View};
use crate::explorer::ExplorerStep;
use crate::help;
use crate::prompt::{TextPrompt, Typed};
use crate::sandwich::SandwichStep;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use profile::view::report::SortKey;

impl App {
    pub(super) fn explorer_key(&mut self, key: KeyEvent) {
        let Some(explorer) = &mut self.explorer else { return };
        let step = explorer.key(key);
        self.take_step(step);
    }

    pub(super) fn take_step(&mut self, step: ExplorerStep) {
        match step {
            ExplorerStep::Stay => {}
            ExplorerStep::Quit => self.quit = true,
            ExplorerStep::Events => self.is_exploring = false,
            ExplorerStep::Annotate(name) => self.visit(&name),
        }
    }

    pub(super) fn plain_key(&mut self, key: KeyEvent) {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => self.quit = true,
            KeyCode::Char('z' | 'l' | 'd' | 'u') if control => {}
            _ if matches!(self.views.last(), Some(View::Help(_))) => self.help_key(key),
            KeyCode::Char('q') if self.is_reading_first() => self.quit = true,
            KeyCode::Char('q') | KeyCode::Esc => self.back(),
            KeyCode::Char('?') | KeyCode::F(1) => self.views.push(View::Help(0)),
            KeyCode::Char('/') => self.prompt = Some(TextPrompt::default()),
            KeyCode::Char('f') => self.show_flame(),
            KeyCode::Char('s') => self.show_sandwich(),
            KeyCode::Tab => self.next_event(true),
            KeyCode::BackTab => self.next_event(false),
            _ => self.view_key(key),
        }
    }

    fn help_key(&mut self, key: KeyEvent) {
        let Some(View::Help(scroll)) = self.views.last_mut() else { return };
        match key.code {
            KeyCode::Down | KeyCode::Char('j') => *scroll = (*scroll + 1).min(help::len().saturating_sub(1)),
            KeyCode::Up | KeyCode::Char('k') => *scroll = scroll.saturating_sub(1),
            _ => drop(self.views.pop()),
        }
    }

    pub(super) fn prompt_key(&mut self, key: KeyEvent) {
        let Some(prompt) = &mut self.prompt else { return };
        let typed = prompt.key(key);
        let text = if typed == Typed::Cancelled { String::new() } else { prompt.text.clone() };
        if typed != Typed::Going {
            self.prompt = None;
        }
        match self.views.last_mut() {
            None => self.table.find(&text, &self.data),
            Some(View::Flame(flame)) => flame.find(&text),
            Some(_) => self.message = Some("nothing to find here".to_owned()),
        }
    }

    fn view_key(&mut self, key: KeyEvent) {
        match self.views.last_mut() {
            None => self.table_key(key),
            Some(View::Sandwich(sandwich)) => {
                if let SandwichStep::Go(name) = sandwich.key(key, self.data.tree()) {
                    sandwich.go(self.data.tree(), &name);
                }
            }
            Some(View::Flame(flame)) if key.code == KeyCode::Char('F') => {
                self.data.turn_folds();
                flame.replace(self.data.flame_tree());
            }
            Some(View::Flame(flame)) => flame.key(key, self.data.flame_tree()),
            Some(View::Annotate(annotate)) => annotate.key(key),
            Some(View::Help(_)) => {}
        }
    }

    fn table_key(&mut self, key: KeyEvent) {
        if self.table.key(key, &self.data) {
            return;
        }
        match key.code {
            KeyCode::Char('a') | KeyCode::Enter => self.annotate(),
            KeyCode::Char('o') => {
                self.data.turn_order();
                self.table.refresh(&self.data);
            }
            KeyCode::Char('v') => {
                self.data.next_columns();
                self.table.reset(&self.data);
            }
            KeyCode::Char('p') => self.turn_hold(),
            KeyCode::Char('t') => self.zoom(&SortKey::Comm),
            KeyCode::Char('d') => self.zoom(&SortKey::Dso),
            KeyCode::Char('z') => self.zoom(&SortKey::Symbol),
            _ => {}
        }
    }
}
